"""What both generations of llm's tables share: attachments, fragments, calls of tools, tokens as each vendor counts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from store.errors import BadValue
from store.model.entry import Attachment, Json, Tokens
from store.sources.contract import Problem
from store.sources.kit import sqlite
from store.sources.kit.jsonl import as_count, as_dict
from store.sources.kit.sqlite import RowLike
from store.text.validate import parse

LARGEST_ATTACHMENT = 16 * 1024 * 1024
"""Of bytes that are kept with the message; a larger one stays in llm's own file."""

# The bytes of a picture, unless they are too many: then only how many.
_ATTACHMENT_SQL = f"""
    select id, type, path, url, length(content) as size,
        case when length(content) <= {LARGEST_ATTACHMENT} then content end as content
    from attachments where id = ?
"""


class LlmTables:
    """Read by name, and only where they are; a table that an older llm never made has no rows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._columns = sqlite.read_tables(connection)

    def has_table(self, table: str, *columns: str) -> bool:
        return table in self._columns and self._columns[table].issuperset(columns)

    def has_signature(self, wanted: Mapping[str, Iterable[str]]) -> bool:
        return sqlite.has_columns(self._columns, wanted)

    def rows(
        self, table: str, problems: list[Problem], clause: str = "order by rowid", *values: object
    ) -> Iterator[RowLike]:
        if self.has_table(table):
            yield from sqlite.read_rows(self.connection, table, problems, clause, *values)

    def first_row(self, table: str, problems: list[Problem], clause: str, *values: object) -> RowLike | None:
        return next(self.rows(table, problems, clause, *values), None)

    def scan_columns(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        if self.has_table(table, *columns):
            yield from sqlite.scan_columns(self.connection, table, *columns)

    def read_attachment(self, name: object) -> dict[str, Any]:
        if not self.has_table("attachments", "id", "type", "path", "url", "content"):
            return {}
        try:
            row = self.connection.execute(_ATTACHMENT_SQL, (name,)).fetchone()
        except sqlite3.DataError:
            return {}
        return row_to_dict(row) if row else {}

    def read_fragment(self, number: object) -> dict[str, Any]:
        row = self.first_row("fragments", [], "where id = ?", number)
        return row_to_dict(row) if row else {}


def row_to_dict(row: RowLike) -> dict[str, Any]:
    return dict(row)


def parse_attachment(row: Mapping[str, Any]) -> Attachment:
    where = sqlite.as_text(row.get("path")) or sqlite.as_text(row.get("url"))
    return Attachment(sqlite.as_text(row.get("type")), where.rpartition("/")[2], row.get("size"), where)


def parse_fragment(row: Mapping[str, Any]) -> Attachment:
    """A fragment: a text that is handed to the model beside the prompt."""
    content = sqlite.as_text(row.get("content"))
    source = sqlite.as_text(row.get("source")) or sqlite.as_text(row.get("hash"))
    return Attachment("text/plain", source, len(content.encode("utf-8", "replace")))


class ToolCallPairing:
    """Calls and results by their ids; those without one in their order, by the tool's name."""

    def __init__(self) -> None:
        self._generated = 0
        self._open_calls: dict[str, list[str]] = {}

    def add_call(self, name: str, call_id: object) -> str:
        if isinstance(call_id, str) and call_id:
            return call_id
        self._generated += 1
        self._open_calls.setdefault(name, []).append(f"{name}:{self._generated}")
        return f"{name}:{self._generated}"

    def match_result(self, name: str, call_id: object) -> str:
        if isinstance(call_id, str) and call_id:
            return call_id
        waiting = self._open_calls.get(name)
        return waiting.pop(0) if waiting else ""


def parse_json_column(value: object) -> Json:
    """Of a column that should hold JSON; None when it does not."""
    try:
        return parse(value) if isinstance(value, str) else None
    except BadValue:
        return None


def sum_tokens(rows: Iterable[Mapping[str, Any]]) -> Tokens | None:
    told = [made for made in map(_parse_tokens, rows) if made]
    return Tokens(*map(sum, zip(*told, strict=True))) if told else None


def _parse_tokens(row: Mapping[str, Any]) -> Tokens | None:
    """OpenAI and Google count what came from a cache within the input, Anthropic beside it."""
    given, made = as_count(row.get("input_tokens")), as_count(row.get("output_tokens"))
    details = as_dict(parse_json_column(row.get("token_details")))
    within = as_count(details.get("cachedContentTokenCount"))
    for name in ("prompt_tokens_details", "input_tokens_details"):
        within += as_count(as_dict(details.get(name)).get("cached_tokens"))
    beside = as_count(details.get("cache_read_input_tokens"))
    written = as_count(details.get("cache_creation_input_tokens"))
    if not (given or made or beside or written):
        return None
    return Tokens(max(given - within, 0) + written, made, within + beside)
