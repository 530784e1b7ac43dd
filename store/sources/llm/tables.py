"""This module reads what all versions of llm's tables share: attachments, fragments and tool calls."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from store.errors import BadValue
from store.model.entry import Attachment, Json
from store.sources.contract import Problem
from store.sources.kit import sqlite
from store.sources.kit.sqlite import RowLike
from store.text.validate import parse

LARGEST_ATTACHMENT = 16 * 1024 * 1024
"""Limits the bytes that are kept with a message. A larger attachment stays in llm's own file."""

# Selects the content only if it is small enough, but always its size.
_ATTACHMENT_SQL = f"""
    select id, type, path, url, length(content) as size,
        case when length(content) <= {LARGEST_ATTACHMENT} then content end as content
    from attachments where id = ?
"""


class LlmTables:
    """Reads tables by name. A table that an older llm does not have has no rows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._columns = sqlite.read_tables(connection)

    def has_table(self, table: str, *columns: str) -> bool:
        return table in self._columns and self._columns[table].issuperset(columns)

    def has_signature(self, signature: Mapping[str, Iterable[str]]) -> bool:
        return sqlite.has_columns(self._columns, signature)

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

    def read_attachment(self, attachment_id: object) -> dict[str, Any]:
        if not self.has_table("attachments", "id", "type", "path", "url", "content"):
            return {}
        try:
            row = self.connection.execute(_ATTACHMENT_SQL, (attachment_id,)).fetchone()
        except sqlite3.DataError:
            return {}
        return row_to_dict(row) if row else {}

    def read_fragment(self, fragment_id: object) -> dict[str, Any]:
        row = self.first_row("fragments", [], "where id = ?", fragment_id)
        return row_to_dict(row) if row else {}


def row_to_dict(row: RowLike) -> dict[str, Any]:
    return dict(row)


def parse_attachment(row: Mapping[str, Any]) -> Attachment:
    path = sqlite.as_text(row.get("path")) or sqlite.as_text(row.get("url"))
    return Attachment(sqlite.as_text(row.get("type")), path.rpartition("/")[2], row.get("size"), path)


def parse_fragment(row: Mapping[str, Any]) -> Attachment:
    """Return a fragment as an attachment. A fragment is a text that is given to the model in addition to the prompt."""
    content = sqlite.as_text(row.get("content"))
    source = sqlite.as_text(row.get("source")) or sqlite.as_text(row.get("hash"))
    return Attachment("text/plain", source, len(content.encode("utf-8", "replace")))


class ToolCallPairing:
    """Pairs calls and results by id. Those without an id are paired in order, by the tool's name."""

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
        open_calls = self._open_calls.get(name)
        return open_calls.pop(0) if open_calls else ""


def parse_json_column(value: object) -> Json:
    """Return the value of a JSON column, or None when it is not valid JSON."""
    try:
        return parse(value) if isinstance(value, str) else None
    except BadValue:
        return None
