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
from store.rebuild.collector import Gathering
from store.rebuild.native import lenient
from store.rebuild.pairs import faults, mended
from store.rebuild.unit import Account, Carried, Rebuilt, Shape, Unit

__all__ = ["SHAPES", "Carried", "Rebuilt", "Shape", "lenient", "rebuild", "rebuilt", "responses_input", "unpaired"]

_SPELLINGS: dict[Shape, Callable[[Sequence[Unit], str, Account], dict[str, Json]]] = {
    "responses": openai_responses.spelled,
    "chat": openai_chat.spelled,
    "anthropic": anthropic.spelled,
}
SHAPES: tuple[Shape, ...] = tuple(_SPELLINGS)

SUMMARY = "What was said before, in short:\n\n"

Told = list[tuple[Entry, list[Unit]]]


def rebuild(
    shape: Shape,
    entries: Sequence[Entry],
    records: Mapping[int, Json],
    *,
    system: str = "",
    summary: str | None = None,
    covered: int | None = None,
) -> Rebuilt:
    """`summary` stands for the turns up to `covered`; else the last compaction stands for what came before it."""
    account = Account()
    gathering = Gathering(shape, records, account)
    told = [(entry, gathering.units(entry)) for entry in entries]
    units = _standing_for_the_past(told, summary, covered, account)
    if system.strip():
        account.note("system prompt", "kept")
        if units and units[0].role == "system" and units[0].part == Text(system):
            del units[0]
    body = _SPELLINGS[shape](mended(shape, units, account), system.strip() and system, account)
    return Rebuilt(body, account.carried(), tuple(account.mended))


def _standing_for_the_past(told: Told, summary: str | None, covered: int | None, account: Account) -> list[Unit]:
    """A summary says up to which turn it goes. A compaction made within that turn goes no further than itself."""
    last = max((place for place, one in enumerate(told) if _is_a_summary(*one)), default=-1)
    ends_within = last >= 0 and told[last][0].turn == covered
    if not (summary and summary.strip()) or covered is None:
        if summary and covered is None:
            account.note("summary", "dropped", "it does not say what it covers")
        return _from_compaction(told, last, account)
    if ends_within and summary.strip() == told[last][0].text.strip():
        return _from_compaction(told, last, account)
    past = [one for place, one in enumerate(told) if one[0].turn <= covered and (place <= last or not ends_within)]
    rest = [one for place, one in enumerate(told) if one[0].turn > covered or (place > last and ends_within)]
    _leave_out(past, account)
    account.note("summary", "mapped", "it stands for what it covers, in the user's name")
    return [Unit("user", Text(SUMMARY + summary)), *_flat(_without_compactions(rest, account))]


def _is_a_summary(entry: Entry, units: Sequence[Unit]) -> bool:
    """Where an agent noted only that it made one, there is nothing that could stand for the past."""
    says = any(not isinstance(unit.part, Text) or unit.part.text.strip() or unit.is_native for unit in units)
    return entry.kind == "compaction" and says


def _from_compaction(told: Told, last: int, account: Account) -> list[Unit]:
    """What the agent itself made of all that came before, where it did."""
    if last >= 0:
        account.note("summary", "kept")
        _leave_out(told[:last], account)
    return _flat(told[max(last, 0) :])


def _without_compactions(told: Told, account: Account) -> Told:
    """Where what they stand for is told itself."""
    kept = [one for one in told if one[0].kind != "compaction"]
    account.note("compaction", "dropped", "what it stands for is told itself", len(told) - len(kept))
    return kept


def _leave_out(told: Told, account: Account) -> None:
    account.note("entry", "dropped", "a summary stands for it", sum(bool(units) for _, units in told))


def _flat(told: Told) -> list[Unit]:
    return [unit for _, units in told for unit in units]


def unpaired(entries: Sequence[Entry]) -> tuple[str, ...]:
    """What is wrong with calls and results, a sentence each; nothing when they pair, or the last ones may still run."""
    gathering = Gathering("responses", {}, Account())
    told = [(entry, gathering.units(entry)) for entry in entries]
    return tuple(faults([replace(unit, message=_said_with(entry)) for entry, units in told for unit in units]))


def _said_with(entry: Entry) -> str:
    """By what the entries of one message know each other."""
    return entry.message_key or (f"record {entry.record}" if entry.record is not None else "")


def responses_input(entries: Sequence[Entry], records: Mapping[int, Json]) -> list[Json]:
    """Input items of the Responses API, nothing mended and nothing left out: what came is given back."""
    gathering = Gathering("responses", records, Account())
    return [item for entry in entries for item in _as_items(gathering.units(entry))]


def _as_items(units: Sequence[Unit]) -> Iterator[Json]:
    for is_native, run in groupby(units, lambda unit: unit.is_native):
        if is_native:
            yield from (unit.native for unit in run)
        else:
            told = [replace(unit, call_id=unit.called) for unit in run]
            yield from openai_responses.spelled(told, "", Account())["input"]


# ── from the store ────────────────────────────────────────────────────────────────────────────────


class _Chains(Protocol):
    def entries(self, session: int) -> list[Entry]: ...


class _Records(Protocol):
    def of_session(self, session: int) -> Iterator[tuple[int, bytes]]: ...


class _Summaries(Protocol):
    def current(self, session: Session) -> Summary | None: ...


class Shelves(Protocol):
    "The part of Store that is read here."

    @property
    def chains(self) -> _Chains: ...
    @property
    def records(self) -> _Records: ...
    @property
    def summaries(self) -> _Summaries: ...
    def snapshot(self) -> AbstractContextManager[None]: ...


def rebuilt(
    store: Shelves, session: Session, shape: Shape, *, turn: int | None = None, with_summary: bool = True
) -> Rebuilt:
    """The whole session, or up to the end of a turn."""
    with store.snapshot():
        entries = store.chains.entries(session.key)
        records = {key: lenient(data) for key, data in store.records.of_session(session.key)}
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
    return rebuild(shape, entries, records, system=system, summary=said, covered=covered)
