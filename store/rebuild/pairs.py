"""Calls and results, paired. Every vendor refuses a conversation in which one stands without the other."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from store.model.entry import Text, ToolCall, ToolResult
from store.rebuild.messages import group_messages
from store.rebuild.unit import ApiFormat, RebuildLog, Unit, as_dict

INTERRUPTED = "The call was interrupted; it has no result."

_MAX_ID_LENGTH: dict[ApiFormat, int] = {"responses": 64, "chat": 40, "anthropic": 64}
_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]+")


class CallPairing:
    """Every call with its one result, in the order of the conversation."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.problems: list[str] = []
        self.open_calls: list[Unit] = []
        self._pair_count = 0
        self._open_by_id: dict[str, deque[Unit]] = {}
        self._answered_ids: set[str] = set()
        self.units = [unit for unit in units if self._add_unit(unit)]
        self.open_calls += [unit for waiting in self._open_by_id.values() for unit in waiting]

    def _add_unit(self, unit: Unit) -> bool:
        if isinstance(unit.part, ToolCall):
            return self._add_call(unit, unit.part)
        if isinstance(unit.part, ToolResult):
            return self._add_result(unit, unit.part)
        return True

    def _add_call(self, unit: Unit, call: ToolCall) -> bool:
        waiting = self._open_by_id.setdefault(call.id, deque())
        if any(other.part == call for other in waiting):
            self.problems.append(f"{_describe_call(call)} stands there twice: the second is left out.")
            return False
        unit.pair = self._pair_count
        self._pair_count += 1
        waiting.append(unit)
        return True

    def _add_result(self, unit: Unit, result: ToolResult) -> bool:
        waiting = self._open_by_id.get(result.call_id)
        if not waiting:
            again = "a second result" if result.call_id in self._answered_ids else "a result that nobody asked for"
            self.problems.append(f"The call {result.call_id!r} has {again}: it is left out.")
            return False
        unit.pair = waiting.popleft().pair
        self._answered_ids.add(result.call_id)
        return True


def _describe_call(call: ToolCall) -> str:
    return f"The call {call.id!r} of {call.name!r}"


def repair_units(shape: ApiFormat, units: Sequence[Unit], account: RebuildLog) -> list[Unit]:
    """Whole pairs, each with an id that the vendor takes, and no thought that leads nowhere."""
    pairing = CallPairing([unit for unit in units if not _is_blank(shape, unit, account)])
    account.repairs += pairing.problems
    open_pairs = {unit.pair for unit in pairing.open_calls}
    whole: list[Unit] = []
    for unit in pairing.units:
        if not (unit.is_call and unit.pair in open_pairs):
            whole.append(unit)
            continue
        whole += _close_call(unit, account)
    _assign_ids(shape, whole, account)
    cut_off = _find_cut_off_thoughts(whole) if shape == "anthropic" else set()
    return _drop_dangling_thoughts(whole, cut_off, account)


def _is_blank(shape: ApiFormat, unit: Unit, account: RebuildLog) -> bool:
    """Anthropic refuses a text without words even where it was said there; of an item elsewhere there is more."""
    if not isinstance(unit.part, Text) or unit.part.text.strip() or (unit.is_native and shape != "anthropic"):
        return False
    account.add("text", "dropped", "it is empty")
    return True


def _close_call(unit: Unit, account: RebuildLog) -> list[Unit]:
    call = unit.part
    if not isinstance(call, ToolCall):
        return [unit]
    if unit.is_server_side or as_dict(unit.native).get("type") in _UNANSWERABLE:
        account.repairs.append(f"{_describe_call(call)} was never answered, and only the vendor can: it is left out.")
        return []
    account.repairs.append(f"{_describe_call(call)} was never answered: it is closed as interrupted.")
    answer = ToolResult(call.id, INTERRUPTED, is_error=True, name=call.name)
    return [unit, Unit("tool", answer, is_synthetic=True, pair=unit.pair)]


_UNANSWERABLE = ("computer_call", "tool_search_call")


def _find_cut_off_thoughts(units: Sequence[Unit]) -> set[int]:
    """Thoughts behind the calls of their message: what stands next are the results, which lead elsewhere."""
    asking = (message.units for message in group_messages(units) if message.results)
    return {id(unit) for spoken in asking for unit in takewhile(lambda unit: unit.is_thinking, reversed(spoken))}


def _drop_dangling_thoughts(units: Sequence[Unit], cut_off: set[int], account: RebuildLog) -> list[Unit]:
    """A thought that the vendor signed is refused where nothing follows it."""
    kept: list[Unit] = []
    leads = False
    for unit in reversed(units):
        if unit.is_thinking and (not leads or id(unit) in cut_off):
            if unit.is_native:
                account.repairs.append("A thought that nothing came of is left out.")
                continue
        elif not unit.is_result or unit.is_server_side:
            leads = unit.role == "assistant"
        kept.append(unit)
    return kept[::-1]


# ── ids ───────────────────────────────────────────────────────────────────────────────────────────


def _assign_ids(shape: ApiFormat, units: Sequence[Unit], account: RebuildLog) -> None:
    taken: set[str] = set()
    given: dict[int, str] = {}
    for unit in units:
        if isinstance(unit.part, ToolCall):
            given[unit.pair] = _make_call_id(shape, unit, taken)
            taken.add(given[unit.pair])
            if given[unit.pair] != unit.part.id:
                account.add("tool call id", "mapped", "it was not legal there, or not the only one of its name")
    for unit in units:
        if unit.pair >= 0:
            unit.call_id = given[unit.pair]
            _update_native_id(unit)


def _make_call_id(shape: ApiFormat, unit: Unit, taken: set[str]) -> str:
    called = unit.original_call_id
    legal = bool(_LEGAL_ID.fullmatch(called)) and len(called) <= _MAX_ID_LENGTH[shape]
    if called and called not in taken and (legal or unit.is_native):
        return called
    return "call_" + hashlib.blake2b(f"{called}#{unit.pair}".encode("utf-8", "replace"), digest_size=12).hexdigest()


def _update_native_id(unit: Unit) -> None:
    if unit.original_call_id == unit.call_id or not isinstance(unit.native, Mapping):
        return
    name = next((name for name in ("tool_use_id", "tool_call_id", "call_id") if name in unit.native), "id")
    unit.native = {**unit.native, name: unit.call_id}


# ── looking only ──────────────────────────────────────────────────────────────────────────────────


def find_problems(units: Sequence[Unit]) -> list[str]:
    """What does not pair; but for the calls of the last message, which may still run."""
    pairing = CallPairing([replace(unit) for unit in units])
    running = set[int]()
    said = [unit for unit in pairing.units if not unit.is_result and unit.role != "system"]
    for unit in reversed(said):
        if not unit.is_call and not (unit.message_key and unit.message_key == said[-1].message_key):
            break
        running.add(unit.pair)
    left = [unit.part for unit in pairing.open_calls if unit.pair not in running]
    return pairing.problems + [
        f"{_describe_call(call)} was never answered." for call in left if isinstance(call, ToolCall)
    ]
