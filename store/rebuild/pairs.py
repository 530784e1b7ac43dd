"""This module pairs calls with results. Every vendor refuses a conversation in which one is without the other."""

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
    """Pairs every call with its one result, in the order of the conversation."""

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
            self.problems.append(f"{_describe_call(call)} appears twice; the second is left out.")
            return False
        unit.pair = self._pair_count
        self._pair_count += 1
        waiting.append(unit)
        return True

    def _add_result(self, unit: Unit, result: ToolResult) -> bool:
        waiting = self._open_by_id.get(result.call_id)
        if not waiting:
            if result.call_id in self._answered_ids:
                self.problems.append(f"The call {result.call_id!r} has a second result, which is left out.")
            else:
                self.problems.append(f"A result for the unknown call {result.call_id!r} is left out.")
            return False
        unit.pair = waiting.popleft().pair
        self._answered_ids.add(result.call_id)
        return True


def _describe_call(call: ToolCall) -> str:
    return f"The call {call.id!r} of {call.name!r}"


def repair_units(api_format: ApiFormat, units: Sequence[Unit], log: RebuildLog) -> list[Unit]:
    """Return complete pairs with ids that the vendor accepts, without thoughts that nothing follows."""
    pairing = CallPairing([unit for unit in units if not _is_blank(api_format, unit, log)])
    log.repairs += pairing.problems
    open_pairs = {unit.pair for unit in pairing.open_calls}
    repaired: list[Unit] = []
    for unit in pairing.units:
        if not (unit.is_call and unit.pair in open_pairs):
            repaired.append(unit)
            continue
        repaired += _close_call(unit, log)
    _assign_ids(api_format, repaired, log)
    cut_off = _find_cut_off_thoughts(repaired) if api_format == "anthropic" else set()
    return _drop_dangling_thoughts(repaired, cut_off, log)


def _is_blank(api_format: ApiFormat, unit: Unit, log: RebuildLog) -> bool:
    """Return whether a text is blank. Anthropic refuses even its own blank texts; others accept their native items."""
    if not isinstance(unit.part, Text) or unit.part.text.strip() or (unit.is_native and api_format != "anthropic"):
        return False
    log.add("text", "dropped", "it is empty")
    return True


def _close_call(unit: Unit, log: RebuildLog) -> list[Unit]:
    call = unit.part
    if not isinstance(call, ToolCall):
        return [unit]
    if unit.is_server_side or as_dict(unit.native).get("type") in _UNANSWERABLE:
        log.repairs.append(f"{_describe_call(call)} has no result, and only the vendor could give one; it is left out.")
        return []
    log.repairs.append(f"{_describe_call(call)} has no result; it is closed as interrupted.")
    result = ToolResult(call.id, INTERRUPTED, is_error=True, name=call.name)
    return [unit, Unit("tool", result, is_synthetic=True, pair=unit.pair)]


_UNANSWERABLE = ("computer_call", "tool_search_call")


def _find_cut_off_thoughts(units: Sequence[Unit]) -> set[int]:
    """Return the thoughts after the calls of their message. The results come next, so nothing follows the thoughts."""
    calling = (message.units for message in group_messages(units) if message.results)
    return {id(unit) for sent in calling for unit in takewhile(lambda unit: unit.is_thinking, reversed(sent))}


def _drop_dangling_thoughts(units: Sequence[Unit], cut_off: set[int], log: RebuildLog) -> list[Unit]:
    """Leave out native thoughts that nothing follows, because the vendor refuses them."""
    kept: list[Unit] = []
    is_followed = False
    for unit in reversed(units):
        if unit.is_thinking and (not is_followed or id(unit) in cut_off):
            if unit.is_native:
                log.repairs.append("A thought that nothing follows is left out.")
                continue
        elif not unit.is_result or unit.is_server_side:
            is_followed = unit.role == "assistant"
        kept.append(unit)
    return kept[::-1]


# ── ids ───────────────────────────────────────────────────────────────────────────────────────────


def _assign_ids(api_format: ApiFormat, units: Sequence[Unit], log: RebuildLog) -> None:
    taken: set[str] = set()
    ids: dict[int, str] = {}
    for unit in units:
        if isinstance(unit.part, ToolCall):
            ids[unit.pair] = _make_call_id(api_format, unit, taken)
            taken.add(ids[unit.pair])
            if ids[unit.pair] != unit.part.id:
                log.add("tool call id", "mapped", "it was not legal there, or not unique")
    for unit in units:
        if unit.pair >= 0:
            unit.call_id = ids[unit.pair]
            _update_native_id(unit)


def _make_call_id(api_format: ApiFormat, unit: Unit, taken: set[str]) -> str:
    original = unit.original_call_id
    is_legal = bool(_LEGAL_ID.fullmatch(original)) and len(original) <= _MAX_ID_LENGTH[api_format]
    if original and original not in taken and (is_legal or unit.is_native):
        return original
    return "call_" + hashlib.blake2b(f"{original}#{unit.pair}".encode("utf-8", "replace"), digest_size=12).hexdigest()


def _update_native_id(unit: Unit) -> None:
    if unit.original_call_id == unit.call_id or not isinstance(unit.native, Mapping):
        return
    name = next((name for name in ("tool_use_id", "tool_call_id", "call_id") if name in unit.native), "id")
    unit.native = {**unit.native, name: unit.call_id}


# ── checking only ─────────────────────────────────────────────────────────────────────────────────


def find_problems(units: Sequence[Unit]) -> list[str]:
    """Return a sentence for each call or result that does not pair, except calls of the last message, which may run."""
    pairing = CallPairing([replace(unit) for unit in units])
    running = set[int]()
    messages = [unit for unit in pairing.units if not unit.is_result and unit.role != "system"]
    for unit in reversed(messages):
        if not unit.is_call and not (unit.message_key and unit.message_key == messages[-1].message_key):
            break
        running.add(unit.pair)
    unanswered = [unit.part for unit in pairing.open_calls if unit.pair not in running]
    return pairing.problems + [
        f"{_describe_call(call)} has no result." for call in unanswered if isinstance(call, ToolCall)
    ]
