"""A conversation into what an LLM's API takes as input, so that it can go on there.

What came from that API is given back as it came, unknown fields and all. What came from elsewhere is spelled by the
vendor's rules. What does not pair is mended, and what cannot be carried is listed. Pure: values in, values out; only
`rebuilt` reads, and only through the shelves it is handed.
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
    shape: ApiFormat,
    entries: Sequence[Entry],
    records: Mapping[int, Json],
    *,
    system: str = "",
    summary: str | None = None,
    up_to_turn: int | None = None,
) -> RebuildResult:
    """`summary` stands for the turns up to `covered`; else the last compaction stands for what came before it."""
    account = RebuildLog()
    gathering = UnitReader(shape, records, account)
    told = [(entry, gathering.read_units(entry)) for entry in entries]
    units = _replace_past_with_summary(told, summary, up_to_turn, account)
    if system.strip():
        account.add("system prompt", "kept")
        if units and units[0].role == "system" and units[0].part == Text(system):
            del units[0]
    body = _BUILDERS[shape](repair_units(shape, units, account), system.strip() and system, account)
    return RebuildResult(body, account.list_carried(), tuple(account.repairs))


def _replace_past_with_summary(
    told: EntryUnits, summary: str | None, covered: int | None, account: RebuildLog
) -> list[Unit]:
    """A summary says up to which turn it goes. A compaction made within that turn goes no further than itself."""
    last = max((place for place, one in enumerate(told) if _is_summary(*one)), default=-1)
    ends_within = last >= 0 and told[last][0].turn == covered
    if not (summary and summary.strip()) or covered is None:
        if summary and covered is None:
            account.add("summary", "dropped", "it does not say what it covers")
        return _start_at_compaction(told, last, account)
    if ends_within and summary.strip() == told[last][0].text.strip():
        return _start_at_compaction(told, last, account)
    past = [one for place, one in enumerate(told) if one[0].turn <= covered and (place <= last or not ends_within)]
    rest = [one for place, one in enumerate(told) if one[0].turn > covered or (place > last and ends_within)]
    _log_replaced(past, account)
    account.add("summary", "mapped", "it stands for what it covers, in the user's name")
    return [Unit("user", Text(SUMMARY_PREFIX + summary)), *_flatten(_drop_compactions(rest, account))]


def _is_summary(entry: Entry, units: Sequence[Unit]) -> bool:
    """Where an agent noted only that it made one, there is nothing that could stand for the past."""
    says = any(not isinstance(unit.part, Text) or unit.part.text.strip() or unit.is_native for unit in units)
    return entry.kind == "compaction" and says


def _start_at_compaction(told: EntryUnits, last: int, account: RebuildLog) -> list[Unit]:
    """What the agent itself made of all that came before, where it did."""
    if last >= 0:
        account.add("summary", "kept")
        _log_replaced(told[:last], account)
    return _flatten(told[max(last, 0) :])


def _drop_compactions(told: EntryUnits, account: RebuildLog) -> EntryUnits:
    """Where what they stand for is told itself."""
    kept = [one for one in told if one[0].kind != "compaction"]
    account.add("compaction", "dropped", "what it stands for is told itself", len(told) - len(kept))
    return kept


def _log_replaced(told: EntryUnits, account: RebuildLog) -> None:
    account.add("entry", "dropped", "a summary stands for it", sum(bool(units) for _, units in told))


def _flatten(told: EntryUnits) -> list[Unit]:
    return [unit for _, units in told for unit in units]


def find_unpaired_calls(entries: Sequence[Entry]) -> tuple[str, ...]:
    """What is wrong with calls and results, a sentence each; nothing when they pair, or the last ones may still run."""
    gathering = UnitReader("responses", {}, RebuildLog())
    told = [(entry, gathering.read_units(entry)) for entry in entries]
    return tuple(
        find_problems([replace(unit, message_key=_message_key(entry)) for entry, units in told for unit in units])
    )


def _message_key(entry: Entry) -> str:
    """By what the entries of one message know each other."""
    return entry.message_key or (f"record {entry.record}" if entry.record is not None else "")


def build_responses_input(entries: Sequence[Entry], records: Mapping[int, Json]) -> list[Json]:
    """Input items of the Responses API, nothing mended and nothing left out: what came is given back."""
    gathering = UnitReader("responses", records, RebuildLog())
    return [item for entry in entries for item in _units_to_items(gathering.read_units(entry))]


def _units_to_items(units: Sequence[Unit]) -> Iterator[Json]:
    for is_native, run in groupby(units, lambda unit: unit.is_native):
        if is_native:
            yield from (unit.native for unit in run)
        else:
            told = [replace(unit, call_id=unit.original_call_id) for unit in run]
            yield from openai_responses.build_body(told, "", RebuildLog())["input"]


# ── from the store ────────────────────────────────────────────────────────────────────────────────


class _Chains(Protocol):
    def entries(self, session: int) -> list[Entry]: ...


class _Records(Protocol):
    def iter_session(self, session: int) -> Iterator[tuple[int, bytes]]: ...


class _Summaries(Protocol):
    def current(self, session: Session) -> Summary | None: ...


class RebuildStore(Protocol):
    "The part of Store that is read here."

    @property
    def chains(self) -> _Chains: ...
    @property
    def records(self) -> _Records: ...
    @property
    def summaries(self) -> _Summaries: ...
    def snapshot(self) -> AbstractContextManager[None]: ...


def rebuild_session(
    store: RebuildStore, session: Session, shape: ApiFormat, *, turn: int | None = None, with_summary: bool = True
) -> RebuildResult:
    """The whole session, or up to the end of a turn."""
    with store.snapshot():
        entries = store.chains.entries(session.key)
        records = {key: decode_or_none(data) for key, data in store.records.iter_session(session.key)}
        summary = store.summaries.current(session) if with_summary else None
    if turn is not None:
        last = max((entry.turn for entry in entries), default=0)
        if not 0 <= turn <= last:
            raise NotFound(f"That session has no turn {turn}; its last is {last}.")
        entries = [entry for entry in entries if entry.turn <= turn]
    if not with_summary:
        entries = [entry for entry in entries if entry.kind != "compaction"]
    if summary and turn is not None and (summary.up_to_turn or 0) > turn:
        summary = None
    system = session.system_prompt or next((entry.text for entry in entries if entry.kind == "header"), "")
    said, covered = (summary.text, summary.up_to_turn) if summary else (None, None)
    return rebuild_entries(shape, entries, records, system=system, summary=said, up_to_turn=covered)
