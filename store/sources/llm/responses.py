"""Conversations of llm before 0.32: a row is what was asked and what was answered; the oldest stand in `logs`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from store.model.entry import NewEntry, NewRecord, Part, Text, Thinking, ToolCall, ToolResult
from store.sources.contract import Problem
from store.sources.kit import sqlite
from store.sources.kit.sqlite import Row
from store.sources.llm.tables import Pairing, Tables, attached, borrowed, columns_of, json_of, tokens

SIGNATURE = {
    "conversations": ("id", "name", "model"),
    "responses": ("id", "model", "prompt", "system", "response", "conversation_id", "datetime_utc"),
}
_LOG = ("model", "timestamp", "prompt", "system", "response", "chat_id")
LOG_SIGNATURES = ({"logs": _LOG}, {"log": _LOG})

Columns = dict[str, Any]
_SATELLITES = ("tool_calls", "tool_results", "prompt_attachments", "prompt_fragments", "system_fragments")


class Responses:
    """The rows of one conversation as entries; what hangs on them stands in tables of its own."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._hanging = {name: self._rowids(name) for name in _SATELLITES}
        self._shown = self._rowids("tool_results_attachments", "tool_result_id")

    def _rowids(self, table: str, column: str = "response_id") -> dict[Any, list[int]]:
        """By what they hang on, since llm has no index for it."""
        found: dict[Any, list[int]] = {}
        for number, owner in self._tables.sweep(table, column):
            found.setdefault(owner, []).append(number)
        return found

    def digest(self, response: object) -> str:
        return sqlite.digest(*(self._hanging[name].get(response) for name in _SATELLITES))

    def told(self, row: Row, pairing: Pairing, problems: list[Problem], before: str) -> list[NewEntry]:
        """`before` is what the system prompt was until then: llm repeats it in every row."""
        hanging = {name: self._rows(name, self._hanging[name].get(row["id"], []), problems) for name in _SATELLITES}
        pictures = self._attachments(hanging["prompt_attachments"])
        texts, systems = (self._fragments(hanging[name]) for name in ("prompt_fragments", "system_fragments"))
        shown = [self._shown_by(result, problems) for result in hanging["tool_results"]]
        kept = hanging | {"attachments": [*pictures, *chain.from_iterable(shown)], "fragments": texts + systems}
        record = sqlite.row_record(
            row, "responses", row["id"], instead={name: rows for name, rows in kept.items() if rows}
        )
        asked: list[Part] = [*map(borrowed, texts), *map(attached, pictures)]
        entries = [_result(*one, pairing) for one in zip(hanging["tool_results"], shown, strict=True)]
        entries += _asked(row, asked, systems, before)
        return _finished(row, [*entries, _reply(row, hanging["tool_calls"], pairing)], record)

    def _rows(self, table: str, numbers: list[int], problems: list[Problem]) -> list[Columns]:
        rows = (self._tables.one(table, problems, "where rowid = ?", number) for number in numbers)
        return [columns_of(row) for row in rows if row is not None]

    def _attachments(self, pointing: list[Columns]) -> list[Columns]:
        return list(filter(None, (self._tables.attachment(one.get("attachment_id")) for one in pointing)))

    def _fragments(self, pointing: list[Columns]) -> list[Columns]:
        return list(filter(None, (self._tables.fragment(one.get("fragment_id")) for one in pointing)))

    def _shown_by(self, result: Columns, problems: list[Problem]) -> list[Columns]:
        numbers = self._shown.get(result.get("id"), [])
        return self._attachments(self._rows("tool_results_attachments", numbers, problems))


def _result(told: Columns, pictures: list[Columns], pairing: Pairing) -> NewEntry:
    name = sqlite.text(told.get("name"))
    failure = told.get("exception")
    output = sqlite.text(told.get("output")) or sqlite.text(failure)
    result = ToolResult(pairing.answered(name, told.get("tool_call_id")), output, failure is not None, name)
    return NewEntry(role="tool", parts=(result, *map(attached, pictures)))


def _asked(row: Row, beside: list[Part], more: list[Columns], before: str) -> Iterator[NewEntry]:
    """In a chain of tools only the first row has a prompt."""
    system, prompt = sqlite.text(row["system"]), sqlite.text(row["prompt"])
    if (system or more) and system != before:
        yield NewEntry(role="system", parts=(*map(borrowed, more), Text(system)))
    if prompt or beside:
        said = (Text(prompt),) if prompt else ()
        yield NewEntry(role="user", parts=(*beside, *said), prompt=True)


def _reply(row: Row, called: list[Columns], pairing: Pairing) -> NewEntry:
    told = columns_of(row)
    parts: list[Part] = []
    if thought := sqlite.text(told.get("reasoning")):
        parts.append(Thinking(thought))
    if answer := sqlite.text(row["response"]):
        parts.append(Text(answer))
    for one in called:
        name, given = sqlite.text(one.get("name")), sqlite.text(one.get("arguments"))
        call_id = pairing.called(name, one.get("tool_call_id"))
        arguments = json_of(given)
        parts.append(ToolCall(call_id, name, given if arguments is None else arguments))
    return NewEntry(role="assistant", parts=tuple(parts), tokens=tokens([told]))


def _finished(row: Row, entries: list[NewEntry], record: NewRecord) -> list[NewEntry]:
    told = columns_of(row)
    model = sqlite.text(told.get("resolved_model")) or sqlite.text(told.get("model"))
    for entry in entries:
        entry.record = record
        entry.created_at = sqlite.utc(told.get("datetime_utc") or told.get("timestamp"))
        if entry.role == "assistant":
            entry.model, entry.message_key = model, f"{record.place}:{record.position}"
    return entries


def told_of_log(row: Row, table: str, number: object) -> list[NewEntry]:
    """A row of 2023."""
    record = sqlite.row_record(row, table, number)
    return _finished(row, [*_asked(row, [], [], ""), _reply(row, [], Pairing())], record)
