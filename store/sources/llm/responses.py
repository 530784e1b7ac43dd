"""This module reads conversations of llm before 0.32, in which a row holds a prompt and its reply.

The oldest rows are in the table `logs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from store.model.entry import NewEntry, NewRecord, Part, Text, Thinking, ToolCall, ToolResult
from store.sources.contract import Problem
from store.sources.kit import sqlite
from store.sources.kit.sqlite import RowLike
from store.sources.kit.usage import tokens_from_usage
from store.sources.llm.tables import (
    LlmTables,
    ToolCallPairing,
    parse_attachment,
    parse_fragment,
    parse_json_column,
    row_to_dict,
)
from store.sources.llm.usage import read_calls

Columns = dict[str, Any]
_CHILD_TABLES = ("tool_calls", "tool_results", "prompt_attachments", "prompt_fragments", "system_fragments")


class ResponseEntryReader:
    """Turns the rows of a conversation into entries. Tool calls, results and attachments are in tables of their own."""

    def __init__(self, tables: LlmTables) -> None:
        self._tables = tables
        self._child_rowids = {name: self._find_rowids(name) for name in _CHILD_TABLES}
        self._attachment_rowids = self._find_rowids("tool_results_attachments", "tool_result_id")

    def _find_rowids(self, table: str, column: str = "response_id") -> dict[Any, list[int]]:
        """Return the rowids of a table, grouped by the row that they belong to. llm has no index for this."""
        rowids: dict[Any, list[int]] = {}
        for rowid, owner in self._tables.scan_columns(table, column):
            rowids.setdefault(owner, []).append(rowid)
        return rowids

    def digest(self, response_id: object) -> str:
        return sqlite.digest(*(self._child_rowids[table].get(response_id) for table in _CHILD_TABLES))

    def read_entries(
        self, row: RowLike, pairing: ToolCallPairing, problems: list[Problem], previous_system: str
    ) -> list[NewEntry]:
        """Return the entries of one response.

        llm repeats the system prompt in every row. It becomes an entry only where it differs from `previous_system`.
        """
        children = {
            name: self._read_rows(name, self._child_rowids[name].get(row["id"], []), problems) for name in _CHILD_TABLES
        }
        attachments = self._read_attachments(children["prompt_attachments"])
        fragments, system_fragments = (
            self._read_fragments(children[name]) for name in ("prompt_fragments", "system_fragments")
        )
        result_attachments = [self._read_result_attachments(result, problems) for result in children["tool_results"]]
        replacements = children | {
            "attachments": [*attachments, *chain.from_iterable(result_attachments)],
            "fragments": fragments + system_fragments,
        }
        record = sqlite.record_from_row(
            row, "responses", row["id"], replacements={name: rows for name, rows in replacements.items() if rows}
        )
        prompt_parts: list[Part] = [*map(parse_fragment, fragments), *map(parse_attachment, attachments)]
        entries = [
            _parse_result(*pair, pairing) for pair in zip(children["tool_results"], result_attachments, strict=True)
        ]
        entries += _parse_prompt(row, prompt_parts, system_fragments, previous_system)
        return _complete_entries(row, [*entries, _parse_reply(row, children["tool_calls"], pairing)], record)

    def _read_rows(self, table: str, rowids: list[int], problems: list[Problem]) -> list[Columns]:
        rows = (self._tables.first_row(table, problems, "where rowid = ?", rowid) for rowid in rowids)
        return [row_to_dict(row) for row in rows if row is not None]

    def _read_attachments(self, references: list[Columns]) -> list[Columns]:
        return list(
            filter(None, (self._tables.read_attachment(reference.get("attachment_id")) for reference in references))
        )

    def _read_fragments(self, references: list[Columns]) -> list[Columns]:
        return list(
            filter(None, (self._tables.read_fragment(reference.get("fragment_id")) for reference in references))
        )

    def _read_result_attachments(self, result: Columns, problems: list[Problem]) -> list[Columns]:
        rowids = self._attachment_rowids.get(result.get("id"), [])
        return self._read_attachments(self._read_rows("tool_results_attachments", rowids, problems))


def _parse_result(columns: Columns, attachments: list[Columns], pairing: ToolCallPairing) -> NewEntry:
    name = sqlite.as_text(columns.get("name"))
    exception = columns.get("exception")
    output = sqlite.as_text(columns.get("output")) or sqlite.as_text(exception)
    result = ToolResult(pairing.match_result(name, columns.get("tool_call_id")), output, exception is not None, name)
    return NewEntry(role="tool", parts=(result, *map(parse_attachment, attachments)))


def _parse_prompt(
    row: RowLike, other_parts: list[Part], system_fragments: list[Columns], previous_system: str
) -> Iterator[NewEntry]:
    """Yield the system prompt and the prompt of a row. In a chain of tool calls only the first row has a prompt."""
    system, prompt = sqlite.as_text(row["system"]), sqlite.as_text(row["prompt"])
    if (system or system_fragments) and system != previous_system:
        yield NewEntry(role="system", parts=(*map(parse_fragment, system_fragments), Text(system)))
    if prompt or other_parts:
        text_parts = (Text(prompt),) if prompt else ()
        yield NewEntry(role="user", parts=(*other_parts, *text_parts), is_prompt=True)


def _parse_reply(row: RowLike, calls: list[Columns], pairing: ToolCallPairing) -> NewEntry:
    columns = row_to_dict(row)
    parts: list[Part] = []
    if thinking := sqlite.as_text(columns.get("reasoning")):
        parts.append(Thinking(thinking))
    if answer := sqlite.as_text(row["response"]):
        parts.append(Text(answer))
    for call in calls:
        name, text = sqlite.as_text(call.get("name")), sqlite.as_text(call.get("arguments"))
        call_id = pairing.add_call(name, call.get("tool_call_id"))
        arguments = parse_json_column(text)
        parts.append(ToolCall(call_id, name, text if arguments is None else arguments))
    usage = read_calls([columns])
    return NewEntry(role="assistant", parts=tuple(parts), tokens=tokens_from_usage(usage), usage=usage)


def _complete_entries(row: RowLike, entries: list[NewEntry], record: NewRecord) -> list[NewEntry]:
    columns = row_to_dict(row)
    model = sqlite.as_text(columns.get("resolved_model")) or sqlite.as_text(columns.get("model"))
    for entry in entries:
        entry.record = record
        entry.created_at = sqlite.normalize_time(columns.get("datetime_utc") or columns.get("timestamp"))
        if entry.role == "assistant":
            entry.model, entry.message_key = model, f"{record.place}:{record.position}"
    return entries


def parse_log_row(row: RowLike, table: str, rowid: object) -> list[NewEntry]:
    """Return the entries of a row in the logs of 2023."""
    record = sqlite.record_from_row(row, table, rowid)
    return _complete_entries(row, [*_parse_prompt(row, [], [], ""), _parse_reply(row, [], ToolCallPairing())], record)
