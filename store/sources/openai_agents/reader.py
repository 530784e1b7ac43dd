"""This module reads databases of the OpenAI Agents SDK. Every message is an item of the Responses API."""

from __future__ import annotations

from collections.abc import Iterator

from store.errors import BadValue
from store.formats.content_blocks import parse_item
from store.model.entry import Json, NewEntry, Opaque, ToolResult
from store.sources.contract import Batch, Problem, SessionRef
from store.sources.kit import sqlite
from store.sources.kit.jsonl import as_dict, as_str
from store.sources.kit.sqlite import RowLike, SqliteReader
from store.text.validate import parse

_MESSAGE_COLUMNS = ("session_id", "cast(message_data as blob)", "created_at")
_PROGRAM_ROLES = ("system", "developer")


class OpenAIAgentsReader(SqliteReader):
    """Reads the sessions of a database."""

    def scan(self) -> Iterator[SessionRef]:
        digests: dict[object, str] = {}
        for rowid, session, *values in sqlite.scan_columns(self._connection, "agent_messages", *_MESSAGE_COLUMNS):
            digests[session] = sqlite.digest(digests.get(session), rowid, *values)
        for row in sqlite.read_rows(self._connection, "agent_sessions", self.problems):
            session = row["session_id"]
            if isinstance(session, str) and session:
                stamp = sqlite.digest(row["created_at"], digests.pop(session, None))
                yield SessionRef(session, stamp, sqlite.normalize_time(row["updated_at"]))
            else:
                self.problems.append(Problem("agent_sessions", f"The id of session {session!r} is not text."))
        for session in digests:
            self.problems.append(Problem("agent_messages", f"There is no session {session!r}."))

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        problems: list[Problem] = []
        sessions = sqlite.read_rows(self._connection, "agent_sessions", problems, "where session_id = ?", ref.native_id)
        session = next(sessions, None)
        if session is None:
            return
        record = sqlite.record_from_row(session, "agent_sessions", ref.native_id, exclude=("updated_at",))
        fields = sqlite.time_fields(session["created_at"], session["updated_at"])
        yield Batch(header=NewEntry(kind="header", record=record), fields=fields)
        default_time = sqlite.normalize_time(session["created_at"])
        messages = sqlite.read_rows(
            self._connection, "agent_messages", problems, "where session_id = ? order by id", ref.native_id
        )
        yield from sqlite.build_batches(([_parse_message(row, default_time, problems)] for row in messages), problems)


def _parse_message(row: RowLike, default_time: str, problems: list[Problem]) -> NewEntry:
    text = sqlite.as_text(row["message_data"])
    try:
        entry = _parse_entry(parse(text))
    except BadValue as reason:
        problems.append(Problem(f"agent_messages:{row['id']}", str(reason)))
        entry = NewEntry(kind="unknown", parts=(Opaque("", text),))
    entry.record = sqlite.record_from_row(row, "agent_messages", row["id"])
    entry.created_at = sqlite.normalize_time(row["created_at"]) or default_time
    return entry


def _parse_entry(item: Json) -> NewEntry:
    parts, fields = parse_item(item), as_dict(item)
    if not fields:
        return NewEntry(kind="unknown", parts=parts)
    role = as_str(fields.get("role"))
    if any(isinstance(part, ToolResult) for part in parts) and len(parts) == 1:
        role = "tool"
    elif role in _PROGRAM_ROLES:
        role = "system"
    elif role != "user":
        role = "assistant"
    model = as_str(as_dict(fields.get("provider_data")).get("model")) if role == "assistant" else ""
    return NewEntry(role=role, parts=parts, model=model, is_prompt=role == "user")
