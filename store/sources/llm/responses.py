"""Conversations of llm before 0.32: a row is what was asked and what was answered; the oldest stand in `logs`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from store.model.entry import NewEntry, NewRecord, Part, Text, Thinking, ToolCall, ToolResult
from store.sources.contract import Problem
from store.sources.kit import sqlite
from store.sources.kit.sqlite import RowLike
from store.sources.llm.tables import (
    LlmTables,
    ToolCallPairing,
    parse_attachment,
    parse_fragment,
    parse_json_column,
    row_to_dict,
    sum_tokens,
)

Columns = dict[str, Any]
_CHILD_TABLES = ("tool_calls", "tool_results", "prompt_attachments", "prompt_fragments", "system_fragments")


class ResponseEntryReader:
    """The rows of one conversation as entries; what hangs on them stands in tables of its own."""

    def __init__(self, tables: LlmTables) -> None:
        self._tables = tables
        self._child_rowids = {name: self._find_rowids(name) for name in _CHILD_TABLES}
        self._attachment_rowids = self._find_rowids("tool_results_attachments", "tool_result_id")

    def _find_rowids(self, table: str, column: str = "response_id") -> dict[Any, list[int]]:
        """By what they hang on, since llm has no index for it."""
        found: dict[Any, list[int]] = {}
        for number, owner in self._tables.scan_columns(table, column):
            found.setdefault(owner, []).append(number)
        return found

    def digest(self, response: object) -> str:
        return sqlite.digest(*(self._child_rowids[name].get(response) for name in _CHILD_TABLES))

    def read_entries(
        self, row: RowLike, pairing: ToolCallPairing, problems: list[Problem], before: str
    ) -> list[NewEntry]:
        """`before` is what the system prompt was until then: llm repeats it in every row."""
        hanging = {
            name: self._read_rows(name, self._child_rowids[name].get(row["id"], []), problems) for name in _CHILD_TABLES
        }
        pictures = self._read_attachments(hanging["prompt_attachments"])
        texts, systems = (self._read_fragments(hanging[name]) for name in ("prompt_fragments", "system_fragments"))
        shown = [self._read_result_attachments(result, problems) for result in hanging["tool_results"]]
        kept = hanging | {"attachments": [*pictures, *chain.from_iterable(shown)], "fragments": texts + systems}
        record = sqlite.record_from_row(
            row, "responses", row["id"], replacements={name: rows for name, rows in kept.items() if rows}
        )
        asked: list[Part] = [*map(parse_fragment, texts), *map(parse_attachment, pictures)]
        entries = [_parse_result(*one, pairing) for one in zip(hanging["tool_results"], shown, strict=True)]
        entries += _parse_prompt(row, asked, systems, before)
        return _complete_entries(row, [*entries, _parse_reply(row, hanging["tool_calls"], pairing)], record)

    def _read_rows(self, table: str, numbers: list[int], problems: list[Problem]) -> list[Columns]:
        rows = (self._tables.first_row(table, problems, "where rowid = ?", number) for number in numbers)
        return [row_to_dict(row) for row in rows if row is not None]

    def _read_attachments(self, pointing: list[Columns]) -> list[Columns]:
        return list(filter(None, (self._tables.read_attachment(one.get("attachment_id")) for one in pointing)))

    def _read_fragments(self, pointing: list[Columns]) -> list[Columns]:
        return list(filter(None, (self._tables.read_fragment(one.get("fragment_id")) for one in pointing)))

    def _read_result_attachments(self, result: Columns, problems: list[Problem]) -> list[Columns]:
        numbers = self._attachment_rowids.get(result.get("id"), [])
        return self._read_attachments(self._read_rows("tool_results_attachments", numbers, problems))


def _parse_result(told: Columns, pictures: list[Columns], pairing: ToolCallPairing) -> NewEntry:
    name = sqlite.as_text(told.get("name"))
    failure = told.get("exception")
    output = sqlite.as_text(told.get("output")) or sqlite.as_text(failure)
    result = ToolResult(pairing.match_result(name, told.get("tool_call_id")), output, failure is not None, name)
    return NewEntry(role="tool", parts=(result, *map(parse_attachment, pictures)))


def _parse_prompt(row: RowLike, beside: list[Part], more: list[Columns], before: str) -> Iterator[NewEntry]:
    """In a chain of tools only the first row has a prompt."""
    system, prompt = sqlite.as_text(row["system"]), sqlite.as_text(row["prompt"])
    if (system or more) and system != before:
        yield NewEntry(role="system", parts=(*map(parse_fragment, more), Text(system)))
    if prompt or beside:
        said = (Text(prompt),) if prompt else ()
        yield NewEntry(role="user", parts=(*beside, *said), is_prompt=True)


def _parse_reply(row: RowLike, called: list[Columns], pairing: ToolCallPairing) -> NewEntry:
    told = row_to_dict(row)
    parts: list[Part] = []
    if thought := sqlite.as_text(told.get("reasoning")):
        parts.append(Thinking(thought))
    if answer := sqlite.as_text(row["response"]):
        parts.append(Text(answer))
    for one in called:
        name, given = sqlite.as_text(one.get("name")), sqlite.as_text(one.get("arguments"))
        call_id = pairing.add_call(name, one.get("tool_call_id"))
        arguments = parse_json_column(given)
        parts.append(ToolCall(call_id, name, given if arguments is None else arguments))
    return NewEntry(role="assistant", parts=tuple(parts), tokens=sum_tokens([told]))


def _complete_entries(row: RowLike, entries: list[NewEntry], record: NewRecord) -> list[NewEntry]:
    told = row_to_dict(row)
    model = sqlite.as_text(told.get("resolved_model")) or sqlite.as_text(told.get("model"))
    for entry in entries:
        entry.record = record
        entry.created_at = sqlite.normalize_time(told.get("datetime_utc") or told.get("timestamp"))
        if entry.role == "assistant":
            entry.model, entry.message_key = model, f"{record.place}:{record.position}"
    return entries


def parse_log_row(row: RowLike, table: str, number: object) -> list[NewEntry]:
    """A row of 2023."""
    record = sqlite.record_from_row(row, table, number)
    return _complete_entries(row, [*_parse_prompt(row, [], [], ""), _parse_reply(row, [], ToolCallPairing())], record)
