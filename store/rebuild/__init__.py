"""This package rebuilds a conversation as the input of an LLM's API, so that it can continue there.

Messages that came from the same API are returned exactly as they came, including unknown fields, if the API accepts
them; what an agent left out is added. Others are translated by the vendor's rules. Calls and results that do not pair
are repaired, and whatever was added or cannot be carried over is listed.
Everything here is pure, except that `rebuild_session` reads from the store that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import groupby
from typing import Protocol

from store.errors import NotFound
from store.model.entry import Entry, Json, Text
from store.model.knowledge import Summary
from store.model.session import Session
from store.rebuild import anthropic, openai_chat, openai_responses
from store.rebuild.collector import UnitReader
from store.rebuild.native import decode_or_none
from store.rebuild.pairs import find_problems, repair_units
from store.rebuild.responses_items import complete_units
from store.rebuild.unit import ApiFormat, CarriedField, RebuildLog, RebuildResult, Unit

__all__ = [
    "API_FORMATS",
    "ApiFormat",
    "CarriedField",
    "RebuildResult",
    "build_responses_input",
    "decode_or_none",
    "find_unpaired_calls",
    "rebuild_entries",
    "rebuild_session",
]

_BUILDERS: dict[ApiFormat, Callable[[Sequence[Unit], str, RebuildLog], dict[str, Json]]] = {
    "responses": openai_responses.build_body,
    "chat": openai_chat.build_body,
    "anthropic": anthropic.build_body,
}
API_FORMATS: tuple[ApiFormat, ...] = tuple(_BUILDERS)

SUMMARY_PREFIX = "What was said before, in short:\n\n"

EntryUnits = list[tuple[Entry, list[Unit]]]


def rebuild_entries(
    api_format: ApiFormat,
    entries: Sequence[Entry],
    records: Mapping[int, Json],
    *,
    system: str = "",
    summary: str | None = None,
    up_to_turn: int | None = None,
) -> RebuildResult:
    """Rebuild entries. `summary` replaces the turns up to `up_to_turn`; without one the last compaction does this."""
    log = RebuildLog()
    reader = UnitReader(api_format, records, log)
    entry_units = [(entry, reader.read_units(entry)) for entry in entries]
    units = _replace_past_with_summary(entry_units, summary, up_to_turn, log)
    if api_format == "responses":
        units = complete_units(units, log)
    if system.strip():
        log.add("system prompt", "kept")
        if units and units[0].role == "system" and units[0].part == Text(system):
            del units[0]
    body = _BUILDERS[api_format](repair_units(api_format, units, log), system.strip() and system, log)
    return RebuildResult(body, log.list_carried(), tuple(log.repairs))


def _replace_past_with_summary(
    entries: EntryUnits, summary: str | None, covered: int | None, log: RebuildLog
) -> list[Unit]:
    """Return the units after the summary. A compaction within the last covered turn ends the past at itself."""
    last = max((index for index, (entry, units) in enumerate(entries) if _is_summary(entry, units)), default=-1)
    ends_within = last >= 0 and entries[last][0].turn == covered
    if not (summary and summary.strip()) or covered is None:
        if summary and covered is None:
            log.add("summary", "dropped", "it does not say what it covers")
        return _start_at_compaction(entries, last, log)
    if ends_within and summary.strip() == entries[last][0].text.strip():
        return _start_at_compaction(entries, last, log)
    past, rest = EntryUnits(), EntryUnits()
    for index, (entry, units) in enumerate(entries):
        is_past = entry.turn <= covered and (index <= last or not ends_within)
        (past if is_past else rest).append((entry, units))
    _log_replaced(past, log)
    log.add("summary", "mapped", "it replaces the turns that it covers, as a message of the user")
    return [Unit("user", Text(SUMMARY_PREFIX + summary)), *_flatten(_drop_compactions(rest, log))]


def _is_summary(entry: Entry, units: Sequence[Unit]) -> bool:
    """Return whether an entry is a compaction with content. Some agents record only that they made one."""
    has_content = any(not isinstance(unit.part, Text) or unit.part.text.strip() or unit.is_native for unit in units)
    return entry.kind == "compaction" and has_content


def _start_at_compaction(entries: EntryUnits, last: int, log: RebuildLog) -> list[Unit]:
    """Return the units from the agent's last compaction on, or all of them if there is none."""
    if last >= 0:
        log.add("summary", "kept")
        _log_replaced(entries[:last], log)
    return _flatten(entries[max(last, 0) :])


def _drop_compactions(entries: EntryUnits, log: RebuildLog) -> EntryUnits:
    """Leave out compactions whose turns are in the conversation themselves."""
    kept = [(entry, units) for entry, units in entries if entry.kind != "compaction"]
    log.add("compaction", "dropped", "the turns that it covers are there themselves", len(entries) - len(kept))
    return kept


def _log_replaced(entries: EntryUnits, log: RebuildLog) -> None:
    log.add("entry", "dropped", "a summary replaces it", sum(bool(units) for _, units in entries))


def _flatten(entries: EntryUnits) -> list[Unit]:
    return [unit for _, units in entries for unit in units]


def find_unpaired_calls(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return a sentence for each call or result that does not pair. The last calls may still run and are not listed."""
    reader = UnitReader("responses", {}, RebuildLog())
    units = [replace(unit, message_key=_message_key(entry)) for entry in entries for unit in reader.read_units(entry)]
    return tuple(find_problems(units))


def _message_key(entry: Entry) -> str:
    """Return a key that the entries of one message share."""
    return entry.message_key or (f"record {entry.record}" if entry.record is not None else "")


def build_responses_input(entries: Sequence[Entry], records: Mapping[int, Json]) -> list[Json]:
    """Return input items of the Responses API, with nothing repaired and nothing left out."""
    reader = UnitReader("responses", records, RebuildLog())
    return [item for entry in entries for item in _units_to_items(reader.read_units(entry))]


def _units_to_items(units: Sequence[Unit]) -> Iterator[Json]:
    for is_native, run in groupby(units, lambda unit: unit.is_native):
        if is_native:
            yield from (unit.native for unit in run)
        else:
            translated = [replace(unit, call_id=unit.original_call_id) for unit in run]
            yield from openai_responses.build_body(translated, "", RebuildLog())["input"]


# ── from the store ────────────────────────────────────────────────────────────────────────────────


class _Chains(Protocol):
    def entries(self, session: int) -> list[Entry]: ...


class _Records(Protocol):
    def iter_session(self, session: int) -> Iterator[tuple[int, bytes]]: ...


class _Summaries(Protocol):
    def current(self, session: Session) -> Summary | None: ...


class RebuildStore(Protocol):
    "Describes the part of Store that is read here."

    @property
    def chains(self) -> _Chains: ...
    @property
    def records(self) -> _Records: ...
    @property
    def summaries(self) -> _Summaries: ...
    def snapshot(self) -> AbstractContextManager[None]: ...


def rebuild_session(
    store: RebuildStore, session: Session, api_format: ApiFormat, *, turn: int | None = None, with_summary: bool = True
) -> RebuildResult:
    """Rebuild a whole session, or a session up to the end of a turn."""
    with store.snapshot():
        entries = store.chains.entries(session.key)
        records = {key: decode_or_none(data) for key, data in store.records.iter_session(session.key)}
        summary = store.summaries.current(session) if with_summary else None
    if turn is not None:
        last = max((entry.turn for entry in entries), default=0)
        if not 0 <= turn <= last:
            raise NotFound(f"No such turn: {turn}. The last turn is {last}.")
        entries = [entry for entry in entries if entry.turn <= turn]
    if not with_summary:
        entries = [entry for entry in entries if entry.kind != "compaction"]
    if summary and turn is not None and (summary.up_to_turn or 0) > turn:
        summary = None
    system = session.system_prompt or next((entry.text for entry in entries if entry.kind == "header"), "")
    summary_text, covered = (summary.text, summary.up_to_turn) if summary else (None, None)
    return rebuild_entries(api_format, entries, records, system=system, summary=summary_text, up_to_turn=covered)
