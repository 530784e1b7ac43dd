"""This module reads Pingu databases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from store.errors import BadValue
from store.formats.content_blocks import parse_item, parse_response_tokens
from store.model.entry import Json, NewEntry, Part, Text, Thinking, Tokens
from store.model.session import SessionFields, delegate_parent_id
from store.sources.contract import (
    Batch,
    ForeignFact,
    ForeignSummary,
    Problem,
    SessionRef,
)
from store.sources.kit import sqlite
from store.sources.kit.sqlite import RowLike, SqliteReader
from store.text.validate import parse

REPLY_NOT_STORED = "(reply not stored)"
_TURN_COLUMNS = ("session_id", "user_message", "response_json", "model", "created_at")
_MEMORY_COLUMNS = set("id session_id category content created_at updated_at".split())


class PinguReader(SqliteReader):
    """Reads the sessions, turns and memories of a Pingu database."""

    def scan(self) -> Iterator[SessionRef]:
        turn_digests: dict[Any, str] = {}
        for rowid, session, *values in sqlite.scan_columns(self._connection, "turns", *_TURN_COLUMNS):
            turn_digests[session] = sqlite.digest(turn_digests.get(session), rowid, *values)
        for row in sqlite.read_session_rows(self._connection, self.problems, "turns"):
            stamp = sqlite.digest(*_stable_values(row), turn_digests.get(row["id"]))
            yield SessionRef(row["id"], stamp, sqlite.normalize_time(row["updated_at"]))

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        problems: list[Problem] = []
        session = next(sqlite.read_rows(self._connection, "sessions", problems, "where id = ?", ref.native_id), None)
        if session is None:
            return
        order = "where session_id = ? order by created_at, rowid"
        turn_ids = [row[0] for row in self._connection.execute(f"select rowid from turns {order}", (ref.native_id,))]
        header = _build_header_batch(session, turn_ids)
        yield header
        created_at = (header.fields or {}).get("created_at", "")
        turns = sqlite.read_rows(self._connection, "turns", problems, order, ref.native_id)
        yield from sqlite.build_batches((_parse_turn(row, created_at, problems) for row in turns), problems)

    def facts(self) -> Iterable[ForeignFact]:
        if not self._tables.get("memories", frozenset()) >= _MEMORY_COLUMNS:
            return
        for row in sqlite.read_rows(self._connection, "memories", self.problems):
            session = sqlite.as_text(row["session_id"])
            yield ForeignFact(
                f"memories:{row['id']}",
                sqlite.as_text(row["content"]),
                scope="session" if session else "source",
                category=sqlite.as_text(row["category"]),
                native_session=session,
                created_at=sqlite.normalize_time(row["created_at"]),
                updated_at=sqlite.normalize_time(row["updated_at"]),
            )


def _stable_values(row: RowLike) -> list[Any]:
    """Return the columns of a session that change with its content. `updated_at` changes even when Pingu only reads."""
    return [row[name] for name in row if name != "updated_at"]


def _build_header_batch(row: RowLike, turn_ids: list[int]) -> Batch:
    fields: SessionFields = {
        "channel": sqlite.as_text(row["channel"]),
        "channel_id": sqlite.as_text(row["channel_id"]),
        "agent_title": sqlite.as_text(row["title"]),
        "model": sqlite.as_text(row["model"]),
    }
    fields |= sqlite.time_fields(row["created_at"], row["updated_at"])
    if parent := delegate_parent_id(row["id"]):
        fields |= {"parent_id": parent, "relation": "delegate"}
    record = sqlite.record_from_row(row, "sessions", row["id"], exclude=("updated_at",))
    summary = sqlite.as_text(row["summary"])
    return Batch(
        header=NewEntry(kind="header", record=record),
        fields=fields,
        summary=ForeignSummary(summary, count_covered_turns(row["summary_up_to"], turn_ids)) if summary else None,
    )


def count_covered_turns(up_to: object, turn_ids: list[int]) -> int | None:
    """Return how many turns of the session a summary covers. Pingu stores the row id of the last of them."""
    try:
        last_id = int(up_to if isinstance(up_to, float) else sqlite.as_text(up_to))
    except (ValueError, OverflowError):
        return None
    return sum(turn_id <= last_id for turn_id in turn_ids)


def _parse_turn(row: RowLike, default_time: str, problems: list[Problem]) -> list[NewEntry]:
    record = sqlite.record_from_row(row, "turns", row["id"])
    at = sqlite.normalize_time(row["created_at"]) or default_time
    text = Text(sqlite.as_text(row["user_message"]))
    prompt = NewEntry(role="user", parts=(text,), is_prompt=True, record=record, created_at=at)
    try:
        response = parse(sqlite.as_text(row["response_json"]))
        if not isinstance(response, Mapping):
            raise BadValue("It is not a JSON object.")
    except BadValue as reason:
        problems.append(Problem(f"turns:{row['id']}", f"The reply cannot be read: {reason}"))
        return [prompt]
    replies = [
        NewEntry(parts=parts)
        for item in _output_items(response)
        if _has_content(parts := parse_item(_unwrap_item(item)))
    ]
    if not any(not isinstance(part, Thinking) for reply in replies for part in reply.parts):
        replies.append(NewEntry(text=REPLY_NOT_STORED))
    for reply in replies:
        reply.role = "assistant"
        reply.model = sqlite.as_text(row["model"]) or _as_str(response.get("model"))
        reply.message_key = f"turns:{row['id']}"
        reply.record, reply.created_at = record, at
    replies[-1].tokens = _parse_tokens(response)
    return [prompt, *replies]


def _has_content(parts: tuple[Part, ...]) -> bool:
    """Return whether a message says anything. Pingu stores an empty message when the model answered through a tool."""
    return any(not isinstance(part, Text) or part.text.strip() for part in parts)


def _output_items(response: Mapping[str, Json]) -> list[Json]:
    output = response.get("output")
    return output if isinstance(output, list) else []


def _unwrap_item(item: Json) -> Json:
    """Return the item itself. Since March 2026 Pingu stores items that it does not interpret under `raw`."""
    raw = item.get("raw") if isinstance(item, Mapping) else None
    return raw if isinstance(raw, Mapping) else item


def _parse_tokens(response: Mapping[str, Json]) -> Tokens | None:
    tokens = parse_response_tokens(response)
    if tokens is None and "input_tokens" in response:
        tokens = parse_response_tokens({"usage": response})
    return tokens


def _as_str(value: Json) -> str:
    return value if isinstance(value, str) else ""
