"""Calls and results, paired. Every vendor refuses a conversation in which one stands without the other."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from store.model.entry import Text, ToolCall, ToolResult
from store.rebuild.messages import messages
from store.rebuild.unit import Account, Shape, Unit, mapping

INTERRUPTED = "The call was interrupted; it has no result."

_LONGEST_ID: dict[Shape, int] = {"responses": 64, "chat": 40, "anthropic": 64}
_LEGAL = re.compile(r"[a-zA-Z0-9_-]+")


class Pairing:
    """Every call with its one result, in the order of the conversation."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.faults: list[str] = []
        self.open: list[Unit] = []
        self._pairs = 0
        self._waiting: dict[str, deque[Unit]] = {}
        self._answered: set[str] = set()
        self.units = [unit for unit in units if self._belongs(unit)]
        self.open += [unit for waiting in self._waiting.values() for unit in waiting]

    def _belongs(self, unit: Unit) -> bool:
        if isinstance(unit.part, ToolCall):
            return self._ask(unit, unit.part)
        if isinstance(unit.part, ToolResult):
            return self._answer(unit, unit.part)
        return True

    def _ask(self, unit: Unit, call: ToolCall) -> bool:
        waiting = self._waiting.setdefault(call.id, deque())
        if any(other.part == call for other in waiting):
            self.faults.append(f"{_named(call)} stands there twice: the second is left out.")
            return False
        unit.pair = self._pairs
        self._pairs += 1
        waiting.append(unit)
        return True

    def _answer(self, unit: Unit, result: ToolResult) -> bool:
        waiting = self._waiting.get(result.call_id)
        if not waiting:
            again = "a second result" if result.call_id in self._answered else "a result that nobody asked for"
            self.faults.append(f"The call {result.call_id!r} has {again}: it is left out.")
            return False
        unit.pair = waiting.popleft().pair
        self._answered.add(result.call_id)
        return True


def _named(call: ToolCall) -> str:
    return f"The call {call.id!r} of {call.name!r}"


def mended(shape: Shape, units: Sequence[Unit], account: Account) -> list[Unit]:
    """Whole pairs, each with an id that the vendor takes, and no thought that leads nowhere."""
    pairing = Pairing([unit for unit in units if not _is_blank(shape, unit, account)])
    account.mended += pairing.faults
    open_pairs = {unit.pair for unit in pairing.open}
    whole: list[Unit] = []
    for unit in pairing.units:
        if not (unit.is_call and unit.pair in open_pairs):
            whole.append(unit)
            continue
        whole += _closed(unit, account)
    _give_ids(shape, whole, account)
    cut_off = _cut_off(whole) if shape == "anthropic" else set()
    return _without_dangling_thoughts(whole, cut_off, account)


def _is_blank(shape: Shape, unit: Unit, account: Account) -> bool:
    """Anthropic refuses a text without words even where it was said there; of an item elsewhere there is more."""
    if not isinstance(unit.part, Text) or unit.part.text.strip() or (unit.is_native and shape != "anthropic"):
        return False
    account.note("text", "dropped", "it is empty")
    return True


def _closed(unit: Unit, account: Account) -> list[Unit]:
    call = unit.part
    if not isinstance(call, ToolCall):
        return [unit]
    if unit.served or mapping(unit.native).get("type") in _UNANSWERABLE:
        account.mended.append(f"{_named(call)} was never answered, and only the vendor can: it is left out.")
        return []
    account.mended.append(f"{_named(call)} was never answered: it is closed as interrupted.")
    answer = ToolResult(call.id, INTERRUPTED, is_error=True, name=call.name)
    return [unit, Unit("tool", answer, made_up=True, pair=unit.pair)]


_UNANSWERABLE = ("computer_call", "tool_search_call")


def _cut_off(units: Sequence[Unit]) -> set[int]:
    """Thoughts behind the calls of their message: what stands next are the results, which lead elsewhere."""
    asking = (message.units for message in messages(units) if message.answers)
    return {id(unit) for spoken in asking for unit in takewhile(lambda unit: unit.is_thought, reversed(spoken))}


def _without_dangling_thoughts(units: Sequence[Unit], cut_off: set[int], account: Account) -> list[Unit]:
    """A thought that the vendor signed is refused where nothing follows it."""
    kept: list[Unit] = []
    leads = False
    for unit in reversed(units):
        if unit.is_thought and (not leads or id(unit) in cut_off):
            if unit.is_native:
                account.mended.append("A thought that nothing came of is left out.")
                continue
        elif not unit.is_result or unit.served:
            leads = unit.role == "assistant"
        kept.append(unit)
    return kept[::-1]


# ── ids ───────────────────────────────────────────────────────────────────────────────────────────


def _give_ids(shape: Shape, units: Sequence[Unit], account: Account) -> None:
    taken: set[str] = set()
    given: dict[int, str] = {}
    for unit in units:
        if isinstance(unit.part, ToolCall):
            given[unit.pair] = _fresh(shape, unit, taken)
            taken.add(given[unit.pair])
            if given[unit.pair] != unit.part.id:
                account.note("tool call id", "mapped", "it was not legal there, or not the only one of its name")
    for unit in units:
        if unit.pair >= 0:
            unit.call_id = given[unit.pair]
            _rename(unit)


def _fresh(shape: Shape, unit: Unit, taken: set[str]) -> str:
    called = unit.called
    legal = bool(_LEGAL.fullmatch(called)) and len(called) <= _LONGEST_ID[shape]
    if called and called not in taken and (legal or unit.is_native):
        return called
    return "call_" + hashlib.blake2b(f"{called}#{unit.pair}".encode("utf-8", "replace"), digest_size=12).hexdigest()


def _rename(unit: Unit) -> None:
    if unit.called == unit.call_id or not isinstance(unit.native, Mapping):
        return
    name = next((name for name in ("tool_use_id", "tool_call_id", "call_id") if name in unit.native), "id")
    unit.native = {**unit.native, name: unit.call_id}


# ── looking only ──────────────────────────────────────────────────────────────────────────────────


def faults(units: Sequence[Unit]) -> list[str]:
    """What does not pair; but for the calls of the last message, which may still run."""
    pairing = Pairing([replace(unit) for unit in units])
    running = set[int]()
    said = [unit for unit in pairing.units if not unit.is_result and unit.role != "system"]
    for unit in reversed(said):
        if not unit.is_call and not (unit.message and unit.message == said[-1].message):
            break
        running.add(unit.pair)
    left = [unit.part for unit in pairing.open if unit.pair not in running]
    return pairing.faults + [f"{_named(call)} was never answered." for call in left if isinstance(call, ToolCall)]
