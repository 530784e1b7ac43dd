"""Pingu: turns of a Responses API in SQLite. Only a tool loop's last response is stored, so a reply may be missing."""

from __future__ import annotations

import hashlib
import sqlite3
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from store.blocks import part_of_item, response_tokens
from store.coding import parse
from store.errors import BadValue
from store.model import Json, NewEntry, Part, Session, SessionFields, Text, Thinking, Tokens, parent_of_delegate
from store.sources import reading
from store.sources.reading import Row
from store.sources.shape import (
    Batch,
    Continuing,
    ForeignFact,
    ForeignFile,
    ForeignSecret,
    ForeignSummary,
    Problem,
    Ref,
)
from store.sources.writing import RowChange, Rows, Wanted, WantedFact, WritePlan

NAME = "pingu"
LABEL = "Pingu"
READER = 1
LOCAL_IDS = True
LIVE_WRITES = True

NOT_STORED = "(reply not stored)"

_CONFIG = ".config/pingu/config.toml"
_DEFAULT = "~/.local/share/pingu/pingu.db"

_TURN = ("session_id", "user_message", "response_json", "model", "created_at")
_SIGNATURE = {
    "sessions": "id channel channel_id title model summary summary_up_to created_at updated_at".split(),
    "turns": ("id", *_TURN),
}
_MEMORY = set("id session_id category content created_at updated_at".split())


def roots() -> Iterable[str]:
    """The configured path, else the default one; Pingu looks at neither XDG nor any other variable."""
    path = _DEFAULT
    try:
        configured = tomllib.loads((Path.home() / _CONFIG).read_text("utf-8"))["db"]["path"]
        if isinstance(configured, str) and configured and "\0" not in configured:
            path = configured
    except (OSError, ValueError, LookupError, TypeError):
        pass
    yield str(Path.home() / path[2:]) if path.startswith("~/") else path


def detect(locator: str) -> bool:
    return reading.looks_like(locator, _SIGNATURE)


def stamp(locator: str) -> str:
    return reading.file_stamp(Path(locator))


@contextmanager
def open(locator: str) -> Iterator[Pingu]:  # noqa: A001 the shape's own word
    with reading.snapshot(Path(locator)) as connection:
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
        self._tables = reading.tables(connection)
        self.problems: list[Problem] = []

    def scan(self) -> Iterator[Ref]:
        said: dict[Any, str] = {}
        for number, session, *told in reading.sweep(self._connection, "turns", *_TURN):
            said[session] = reading.digest(said.get(session), number, *told)
        for row in reading.rows(self._connection, "sessions", self.problems):
            if isinstance(row["id"], str):
                content = reading.digest(*_lasting(row), said.get(row["id"]))
                yield Ref(row["id"], content, reading.utc(row["updated_at"]))
            else:
                self.problems.append(Problem("sessions", f"The session {row['id']!r} is not named by text."))

    def read(self, ref: Ref) -> Iterator[Batch]:
        met: list[Problem] = []
        session = next(reading.rows(self._connection, "sessions", met, "where id = ?", ref.native_id), None)
        if session is None:
            return
        order = "where session_id = ? order by created_at, rowid"
        numbers = [row[0] for row in self._connection.execute(f"select rowid from turns {order}", (ref.native_id,))]
        about = _about(session, numbers)
        yield about
        made = (about.fields or {}).get("created_at", "")
        turns = reading.rows(self._connection, "turns", met, order, ref.native_id)
        yield from reading.batches((_entries(row, made, met) for row in turns), met)

    def facts(self) -> Iterable[ForeignFact]:
        if not self._tables.get("memories", frozenset()) >= _MEMORY:
            return
        for row in reading.rows(self._connection, "memories", self.problems):
            session = reading.text(row["session_id"])
            yield ForeignFact(
                f"memories:{row['id']}",
                reading.text(row["content"]),
                scope="session" if session else "source",
                category=reading.text(row["category"]),
                native_session=session,
                created_at=reading.utc(row["created_at"]),
                updated_at=reading.utc(row["updated_at"]),
            )

    def secrets(self) -> Iterable[ForeignSecret]:
        return ()

    def published(self) -> Iterable[ForeignFile]:
        return ()


def _lasting(row: Row) -> list[Any]:
    """What of a session's row is content; `updated_at` moves whenever Pingu so much as looks."""
    return [row[name] for name in row.keys() if name != "updated_at"]  # noqa: SIM118 sqlite3.Row


def _about(row: Row, numbers: list[int]) -> Batch:
    fields: SessionFields = {
        "channel": reading.text(row["channel"]),
        "channel_id": reading.text(row["channel_id"]),
        "agent_title": reading.text(row["title"]),
        "model": reading.text(row["model"]),
    }
    fields |= reading.lifetime(row["created_at"], row["updated_at"])
    if parent := parent_of_delegate(row["id"]):
        fields |= {"parent_id": parent, "relation": "delegate"}
    record = reading.row_record(row, "sessions", row["id"], without=("updated_at",))
    summary = reading.text(row["summary"])
    return Batch(
        header=NewEntry(kind="header", record=record),
        fields=fields,
        summary=ForeignSummary(summary, _covered(row["summary_up_to"], numbers)) if summary else None,
    )


def _covered(up_to: object, numbers: list[int]) -> int | None:
    """Pingu names the last turn covered by its row's id; we count the session's own turns."""
    try:
        last = int(reading.text(up_to))
    except ValueError:
        return None
    return sum(number <= last for number in numbers)


def _entries(row: Row, made: str, met: list[Problem]) -> list[NewEntry]:
    record = reading.row_record(row, "turns", row["id"])
    at = reading.utc(row["created_at"]) or made
    words = Text(reading.text(row["user_message"]))
    prompt = NewEntry(role="user", parts=(words,), prompt=True, record=record, created_at=at)
    try:
        response = parse(reading.text(row["response_json"]))
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
        reply.model = reading.text(row["model"]) or _text(response.get("model"))
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
    found = rows.select("select * from sessions where id = ?", wanted.native_id)
    if not found:
        made.conflicts.append(f"Pingu does not have the session {wanted.native_id!r} any more.")
        return made
    if wanted.delete:
        _plan_delete(rows, wanted.native_id, made)
        return made
    key = {"id": wanted.native_id}
    if wanted.title:
        made.swap_title("sessions", key, "title", found[0]["title"], wanted.title)
    if wanted.summary:
        _plan_summary(rows, found[0], wanted, made)
    for fact in wanted.facts:
        _plan_memory(rows, fact, made)
    if wanted.secrets:
        made.unplaced.append("Pingu has no place for secrets; they stay here.")
    return made


def _plan_summary(rows: Rows, row: Mapping[str, Any], wanted: Wanted, made: WritePlan) -> None:
    if (row["summary"] or "") != wanted.summary_seen:
        made.conflicts.append("Pingu has written a newer summary.")
        return
    if wanted.summary is None:
        return
    turns = rows.select("select id from turns where session_id = ? order by created_at, id", wanted.native_id)
    covered = turns[: wanted.summary.up_to_turn] if wanted.summary.up_to_turn else []
    before = {"summary": row["summary"], "summary_up_to": row["summary_up_to"]}
    # Pingu keeps the id of the last turn covered as text.
    up_to = str(covered[-1]["id"]) if covered else row["summary_up_to"]
    after = {"summary": wanted.summary.text, "summary_up_to": up_to}
    made.changes.append(RowChange("sessions", {"id": wanted.native_id}, before, after))


def _plan_memory(rows: Rows, fact: WantedFact, made: WritePlan) -> None:
    number = int(fact.place.removeprefix("memories:"))
    found = rows.select("select * from memories where id = ?", number)
    if not found:
        return
    row = found[0]
    if row["content"] != fact.seen:
        made.conflicts.append(f"Pingu has changed its memory {number}.")
    elif fact.text is None:
        made.delete_rows(rows, "memories", "id = ?", number)
    else:
        # The embedding belongs to the old words; without one Pingu makes it anew.
        before = {"content": row["content"], "embedding": row["embedding"], "content_hash": row["content_hash"]}
        digest = hashlib.sha256(fact.text.encode()).hexdigest() if row["content_hash"] else row["content_hash"]
        after = {"content": fact.text, "embedding": None, "content_hash": digest}
        made.changes.append(RowChange("memories", {"id": number}, before, after))


def _plan_delete(rows: Rows, native_id: str, made: WritePlan) -> None:
    """Memories too: they are no foreign key's affair and would stay behind."""
    for table in ("memories", "messages", "turns"):
        made.delete_rows(rows, table, "session_id = ? order by id desc", native_id)
    made.delete_rows(rows, "sessions", "id = ?", native_id)
