"""Pingu: turns of a Responses API in SQLite. Only a tool loop's last response is stored, so a reply may be missing."""

from __future__ import annotations

import sqlite3
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from store.blocks import part_of_item, response_tokens
from store.coding import parse
from store.errors import BadValue
from store.model import Json, NewEntry, Session, Text, Tokens, parent_of_delegate
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

NAME = "pingu"
LABEL = "Pingu"
READER = 1
LOCAL_IDS = True

NOT_STORED = "(reply not stored)"

_CONFIG = Path(".config/pingu/config.toml")
_DEFAULT = Path(".local/share/pingu/pingu.db")


def roots() -> Iterable[str]:
    """The configured path, else the default one; Pingu looks at neither XDG nor any other variable."""
    try:
        config = tomllib.loads((Path.home() / _CONFIG).read_text("utf-8"))
        yield str(Path(config["db"]["path"]).expanduser())
    except (OSError, ValueError, LookupError, TypeError):
        yield str(Path.home() / _DEFAULT)


def detect(locator: str) -> bool:
    return reading.looks_like(locator, {"sessions": ("id",), "turns": ("session_id", "user_message", "response_json")})


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
        turns: dict[str, list[str]] = {}
        for row in self._connection.execute("select * from turns order by session_id, created_at, id"):
            turns.setdefault(row["session_id"], []).append(reading.digest(*row))
        for row in self._connection.execute("select * from sessions"):
            said = turns.get(row["id"], [])
            yield Ref(row["id"], reading.digest(*_lasting(row), *said), reading.utc(row["updated_at"]))

    def read(self, ref: Ref) -> Iterator[Batch]:
        session = self._connection.execute("select * from sessions where id = ?", (ref.native_id,)).fetchone()
        rows = self._connection.execute(
            "select * from turns where session_id = ? order by created_at, id", (ref.native_id,)
        ).fetchall()
        yield _about(session, [row["id"] for row in rows])
        for chunk in reading.chunked(rows):
            batch = Batch()
            for row in chunk:
                entries, problems = _entries(row)
                batch.entries += entries
                batch.problems += problems
            yield batch

    def facts(self) -> Iterable[ForeignFact]:
        if "memories" not in self._tables:
            return
        for row in self._connection.execute("select * from memories order by id"):
            session = row["session_id"] or ""
            yield ForeignFact(
                f"memories:{row['id']}",
                row["content"],
                scope="session" if session else "source",
                category=row["category"] or "",
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


def _about(row: Row, turn_ids: list[int]) -> Batch:
    made = reading.utc(row["created_at"])
    record = reading.row_record(row, "sessions", row["id"], without=("updated_at",))
    batch = Batch(
        header=NewEntry(kind="header", record=record, created_at=made),
        fields={
            "channel": row["channel"] or "",
            "channel_id": row["channel_id"] or "",
            "agent_title": row["title"] or "",
            "model": row["model"] or "",
            "created_at": made,
            "updated_at": reading.utc(row["updated_at"]) or made,
        },
    )
    if (parent := parent_of_delegate(row["id"])) and batch.fields is not None:
        batch.fields["parent_id"] = parent
        batch.fields["relation"] = "delegate"
    if row["summary"]:
        batch.summary = ForeignSummary(row["summary"], _covered(row["summary_up_to"], turn_ids))
    return batch


def _covered(up_to: object, turn_ids: list[int]) -> int | None:
    """Pingu names the last turn covered by its row's id; we count the session's own turns."""
    try:
        last = int(str(up_to))
    except ValueError:
        return None
    return sum(number <= last for number in turn_ids)


def _entries(row: Row) -> tuple[list[NewEntry], list[Problem]]:
    record = reading.row_record(row, "turns", row["id"])
    at = reading.utc(row["created_at"])
    prompt = NewEntry(role="user", parts=(Text(row["user_message"]),), prompt=True, record=record, created_at=at)
    try:
        response = parse(row["response_json"])
        if not isinstance(response, Mapping):
            raise BadValue("not a JSON object")
    except BadValue as reason:
        return [prompt], [Problem(f"turns:{row['id']}", f"The reply cannot be read: {reason}")]
    model = row["model"] or _text(response.get("model"))
    replies = [
        NewEntry(
            role="assistant",
            parts=part_of_item(_item(item)),
            model=model,
            message_key=f"turns:{row['id']}",
            record=record,
            created_at=at,
        )
        for item in _output(response)
    ]
    if not any(reply.parts for reply in replies):
        replies = [NewEntry(role="assistant", text=NOT_STORED, model=model, record=record, created_at=at)]
    replies[-1].tokens = _tokens(response)
    return [prompt, *replies], []


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
