"""What both generations of llm's tables share: attachments, fragments, calls of tools, tokens as each vendor counts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from store.errors import BadValue
from store.model.entry import Attachment, Json, Tokens
from store.sources.contract import Problem
from store.sources.kit import sqlite
from store.sources.kit.jsonl import count, mapping
from store.sources.kit.sqlite import Row
from store.text.validate import parse

LARGEST_ATTACHMENT = 16 * 1024 * 1024
"""Of bytes that are kept with the message; a larger one stays in llm's own file."""

# The bytes of a picture, unless they are too many: then only how many.
_ATTACHMENT = f"""
    select id, type, path, url, length(content) as size,
        case when length(content) <= {LARGEST_ATTACHMENT} then content end as content
    from attachments where id = ?
"""


class Tables:
    """Read by name, and only where they are; a table that an older llm never made has no rows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._known = sqlite.tables(connection)

    def has(self, table: str, *columns: str) -> bool:
        return table in self._known and self._known[table].issuperset(columns)

    def fit(self, wanted: Mapping[str, Iterable[str]]) -> bool:
        return sqlite.fits(self._known, wanted)

    def rows(
        self, table: str, problems: list[Problem], clause: str = "order by rowid", *values: object
    ) -> Iterator[Row]:
        if self.has(table):
            yield from sqlite.rows(self.connection, table, problems, clause, *values)

    def one(self, table: str, problems: list[Problem], clause: str, *values: object) -> Row | None:
        return next(self.rows(table, problems, clause, *values), None)

    def sweep(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        if self.has(table, *columns):
            yield from sqlite.sweep(self.connection, table, *columns)

    def attachment(self, name: object) -> dict[str, Any]:
        if not self.has("attachments", "id", "type", "path", "url", "content"):
            return {}
        try:
            row = self.connection.execute(_ATTACHMENT, (name,)).fetchone()
        except sqlite3.DataError:
            return {}
        return columns_of(row) if row else {}

    def fragment(self, number: object) -> dict[str, Any]:
        row = self.one("fragments", [], "where id = ?", number)
        return columns_of(row) if row else {}


def columns_of(row: Row) -> dict[str, Any]:
    return dict(row)


def attached(row: Mapping[str, Any]) -> Attachment:
    where = sqlite.text(row.get("path")) or sqlite.text(row.get("url"))
    return Attachment(sqlite.text(row.get("type")), where.rpartition("/")[2], row.get("size"), where)


def borrowed(row: Mapping[str, Any]) -> Attachment:
    """A fragment: a text that is handed to the model beside the prompt."""
    content = sqlite.text(row.get("content"))
    source = sqlite.text(row.get("source")) or sqlite.text(row.get("hash"))
    return Attachment("text/plain", source, len(content.encode("utf-8", "replace")))


class Pairing:
    """Calls and results by their ids; those without one in their order, by the tool's name."""

    def __init__(self) -> None:
        self._made = 0
        self._open: dict[str, list[str]] = {}

    def called(self, name: str, call_id: object) -> str:
        if isinstance(call_id, str) and call_id:
            return call_id
        self._made += 1
        self._open.setdefault(name, []).append(f"{name}:{self._made}")
        return f"{name}:{self._made}"

    def answered(self, name: str, call_id: object) -> str:
        if isinstance(call_id, str) and call_id:
            return call_id
        waiting = self._open.get(name)
        return waiting.pop(0) if waiting else ""


def json_of(value: object) -> Json:
    """Of a column that should hold JSON; None when it does not."""
    try:
        return parse(value) if isinstance(value, str) else None
    except BadValue:
        return None


def tokens(rows: Iterable[Mapping[str, Any]]) -> Tokens | None:
    told = [made for made in map(_tokens, rows) if made]
    return Tokens(*map(sum, zip(*told, strict=True))) if told else None


def _tokens(row: Mapping[str, Any]) -> Tokens | None:
    """OpenAI and Google count what came from a cache within the input, Anthropic beside it."""
    given, made = count(row.get("input_tokens")), count(row.get("output_tokens"))
    details = mapping(json_of(row.get("token_details")))
    within = count(details.get("cachedContentTokenCount"))
    for name in ("prompt_tokens_details", "input_tokens_details"):
        within += count(mapping(details.get(name)).get("cached_tokens"))
    beside = count(details.get("cache_read_input_tokens"))
    written = count(details.get("cache_creation_input_tokens"))
    if not (given or made or beside or written):
        return None
    return Tokens(max(given - within, 0) + written, made, within + beside)
