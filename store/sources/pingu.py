"""Pingu: turns of a Responses API in SQLite. Only a tool loop's last response is stored, so a reply may be missing."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from store.errors import BadValue
from store.formats.content_blocks import part_of_item, response_tokens
from store.model.entry import Json, NewEntry, Part, Text, Thinking, Tokens
from store.model.session import Session, SessionFields, parent_of_delegate
from store.sources.contract import (
    Batch,
    Continuing,
    ForeignFact,
    ForeignFile,
    ForeignSecret,
    ForeignSummary,
    Problem,
    Ref,
)
from store.sources.kit import homes, sqlite
from store.sources.kit.sqlite import Row
from store.sources.kit.write_plan import RowChange, Rows, Wanted, WritePlan, as_read
from store.text.validate import parse

NAME = "pingu"
LABEL = "Pingu"
READER = 1
LOCAL_IDS = True
LIVE_WRITES = True

NOT_STORED = "(reply not stored)"


_TURN = ("session_id", "user_message", "response_json", "model", "created_at")
_SIGNATURE = {
    "sessions": "id channel channel_id title model summary summary_up_to created_at updated_at".split(),
    "turns": ("id", *_TURN),
}
_MEMORY = set("id session_id category content created_at updated_at".split())

roots = homes.pingu


def detect(locator: str) -> bool:
    return sqlite.looks_like(locator, _SIGNATURE)


def stamp(locator: str) -> str:
    return sqlite.file_stamp(Path(locator))


@contextmanager
def open(locator: str) -> Iterator[Pingu]:  # noqa: A001 the shape's own word
    with sqlite.snapshot(Path(locator)) as connection:
        yield Pingu(connection)


def resume(session: Session) -> Continuing:
    chat = session.native_id.removeprefix("telegram:")
    if chat != session.native_id and ":" not in chat:
        return Continuing(None, hint=f"Write in the Telegram chat {chat}.")
    return Continuing(
        None, hint=f"Run `pingu gateway` and send the chat request with session_id {session.native_id!r}."
    )


class Pingu:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._tables = sqlite.tables(connection)
        self.problems: list[Problem] = []

    def scan(self) -> Iterator[Ref]:
        said: dict[Any, str] = {}
        for number, session, *told in sqlite.sweep(self._connection, "turns", *_TURN):
            said[session] = sqlite.digest(said.get(session), number, *told)
        for row in sqlite.rows(self._connection, "sessions", self.problems):
            if isinstance(row["id"], str):
                content = sqlite.digest(*_lasting(row), said.get(row["id"]))
                yield Ref(row["id"], content, sqlite.utc(row["updated_at"]))
            else:
                self.problems.append(Problem("sessions", f"The session {row['id']!r} is not named by text."))
        self.problems += sqlite.strays(self._connection, "turns")

    def read(self, ref: Ref) -> Iterator[Batch]:
        met: list[Problem] = []
        session = next(sqlite.rows(self._connection, "sessions", met, "where id = ?", ref.native_id), None)
        if session is None:
            return
        order = "where session_id = ? order by created_at, rowid"
        numbers = [row[0] for row in self._connection.execute(f"select rowid from turns {order}", (ref.native_id,))]
        about = _about(session, numbers)
        yield about
        made = (about.fields or {}).get("created_at", "")
        turns = sqlite.rows(self._connection, "turns", met, order, ref.native_id)
        yield from sqlite.batches((_entries(row, made, met) for row in turns), met)

    def facts(self) -> Iterable[ForeignFact]:
        if not self._tables.get("memories", frozenset()) >= _MEMORY:
            return
        for row in sqlite.rows(self._connection, "memories", self.problems):
            session = sqlite.text(row["session_id"])
            yield ForeignFact(
                f"memories:{row['id']}",
                sqlite.text(row["content"]),
                scope="session" if session else "source",
                category=sqlite.text(row["category"]),
                native_session=session,
                created_at=sqlite.utc(row["created_at"]),
                updated_at=sqlite.utc(row["updated_at"]),
            )

    def secrets(self) -> Iterable[ForeignSecret]:
        return ()

    def published(self) -> Iterable[ForeignFile]:
        return ()


def _lasting(row: Row) -> list[Any]:
    """What of a session's row is content; `updated_at` moves whenever Pingu so much as looks."""
    return [row[name] for name in row if name != "updated_at"]


def _about(row: Row, numbers: list[int]) -> Batch:
    fields: SessionFields = {
        "channel": sqlite.text(row["channel"]),
        "channel_id": sqlite.text(row["channel_id"]),
        "agent_title": sqlite.text(row["title"]),
        "model": sqlite.text(row["model"]),
    }
    fields |= sqlite.lifetime(row["created_at"], row["updated_at"])
    if parent := parent_of_delegate(row["id"]):
        fields |= {"parent_id": parent, "relation": "delegate"}
    record = sqlite.row_record(row, "sessions", row["id"], without=("updated_at",))
    summary = sqlite.text(row["summary"])
    return Batch(
        header=NewEntry(kind="header", record=record),
        fields=fields,
        summary=ForeignSummary(summary, _covered(row["summary_up_to"], numbers)) if summary else None,
    )


def _covered(up_to: object, numbers: list[int]) -> int | None:
    """Pingu names the last turn covered by its row's id; we count the session's own turns."""
    try:
        last = int(sqlite.text(up_to))
    except ValueError:
        return None
    return sum(number <= last for number in numbers)


def _entries(row: Row, made: str, met: list[Problem]) -> list[NewEntry]:
    record = sqlite.row_record(row, "turns", row["id"])
    at = sqlite.utc(row["created_at"]) or made
    words = Text(sqlite.text(row["user_message"]))
    prompt = NewEntry(role="user", parts=(words,), prompt=True, record=record, created_at=at)
    try:
        response = parse(sqlite.text(row["response_json"]))
        if not isinstance(response, Mapping):
            raise BadValue("It is not a JSON object.")
    except BadValue as reason:
        met.append(Problem(f"turns:{row['id']}", f"The reply cannot be read: {reason}"))
        return [prompt]
    replies = [NewEntry(parts=parts) for item in _output(response) if _is_told(parts := part_of_item(_item(item)))]
    if not any(not isinstance(part, Thinking) for reply in replies for part in reply.parts):
        replies.append(NewEntry(text=NOT_STORED))
    for reply in replies:
        reply.role = "assistant"
        reply.model = sqlite.text(row["model"]) or _text(response.get("model"))
        reply.message_key = f"turns:{row['id']}"
        reply.record, reply.created_at = record, at
    replies[-1].tokens = _tokens(response)
    return [prompt, *replies]


def _is_told(parts: tuple[Part, ...]) -> bool:
    """Where the model answered through a tool, Pingu stores a message without words."""
    return any(not isinstance(part, Text) or part.text.strip() for part in parts)


def _output(response: Mapping[str, Json]) -> list[Json]:
    output = response.get("output")
    return output if isinstance(output, list) else []


def _item(item: Json) -> Json:
    """Since March 2026 Pingu keeps an item it does not need to understand whole, under `raw`."""
    raw = item.get("raw") if isinstance(item, Mapping) else None
    return raw if isinstance(raw, Mapping) else item


def _tokens(response: Mapping[str, Json]) -> Tokens | None:
    told = response_tokens(response)
    if told is None and "input_tokens" in response:
        told = response_tokens({"usage": response})
    return told


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


# ── writing back ──────────────────────────────────────────────────────────────────────────────────


def plan(rows: Rows, wanted: Wanted) -> WritePlan:
    """Title, summary with its coverage, memories, and the whole session."""
    made = WritePlan()
    session = made.find_session(rows, LABEL, "id", wanted)
    if session is None:
        return made
    if wanted.delete:
        # A memory points to its session by no foreign key, and would stay behind; nor need a message.
        for table in ("memories", "messages", "turns"):
            made.delete_rows(rows, table, "session_id = ?", wanted.native_id)
        made.delete_row(rows, "sessions", session)
        return made
    if wanted.title:
        made.swap_title("sessions", {"id": wanted.native_id}, "title", session["title"], wanted.title)
    if wanted.summary:
        _plan_summary(rows, session, wanted.summary, wanted.summary_seen, made)
    for fact in wanted.facts:
        # The embedding belongs to the old words; without one Pingu makes it anew.
        digest = hashlib.sha256(fact.text.encode()).hexdigest() if fact.text is not None else None
        made.swap_fact(rows, fact, {"embedding": None, "content_hash": digest})
    if wanted.secrets:
        made.unplaced.append("Pingu has no place for secrets; they stay here.")
    return made


def _plan_summary(rows: Rows, session: Mapping[str, Any], wanted: ForeignSummary, seen: str, made: WritePlan) -> None:
    if as_read(session["summary"]) not in (seen, wanted.text):
        made.conflicts.append("Pingu has written a newer summary since it was read; sync first.")
        return
    turns = rows.select("turns", "session_id = ?", session["id"])
    numbers = [turn["id"] for turn in sorted(turns, key=lambda turn: (sqlite.text(turn["created_at"]), turn["id"]))]
    before = {name: session[name] for name in ("summary", "summary_up_to")}
    after = {"summary": wanted.text or None, "summary_up_to": _up_to(wanted, numbers, before["summary_up_to"])}
    if before != after:
        made.changes.append(RowChange("sessions", {"id": session["id"]}, before, after))
    made.summary = ForeignSummary(wanted.text, _covered(after["summary_up_to"], numbers))


def _up_to(wanted: ForeignSummary, numbers: list[int], before: Any) -> Any:
    """The id of the last turn covered, as text. Where nobody says how far it goes, as far as the one before."""
    if not wanted.text:
        return None
    if wanted.up_to_turn is None:
        return before
    return str(numbers[: wanted.up_to_turn][-1]) if numbers and wanted.up_to_turn else "0"
