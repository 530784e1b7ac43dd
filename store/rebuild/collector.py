"""Entries and their records into units, in order: the wanted API's own words where a record has them, ours else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from store.model.entry import Attachment, Entry, Json, Part, Thinking, ToolCall, ToolResult, part_to_json
from store.rebuild.attachments import find_payloads, iter_dicts
from store.rebuild.native import decode_or_none, find_vendor_fields, read_native, read_other_native
from store.rebuild.unit import (
    ABSENT,
    VENDORS,
    ApiFormat,
    NativeRecord,
    Payload,
    RebuildLog,
    Unit,
    UnitRole,
    as_dict,
    as_str,
)
from store.text.validate import encode_derived

_ROLES: dict[str, UnitRole] = {"assistant": "assistant", "system": "system"}
_METADATA_REASON = "it was said of what is kept, and is no part of it"


class UnitReader:
    """One conversation while its entries are read in order."""

    def __init__(self, shape: ApiFormat, records: Mapping[int, Json], account: RebuildLog) -> None:
        self._api_format = shape
        self._records = records
        self._log = account
        self._entries_read: dict[int, int] = {}
        self._natives: dict[int, NativeRecord | None] = {}
        self._seen_units: dict[str, set[bytes]] = {}

    def read_units(self, entry: Entry) -> list[Unit]:
        place = self._entries_read.get(entry.record, 0) if entry.record is not None else 0
        record = self._records.get(entry.record) if entry.record is not None else None
        if entry.record is not None:
            self._entries_read[entry.record] = place + 1
        if entry.kind not in ("message", "compaction") and not _is_compaction_item(record):
            return self._skip_entry(entry)
        if entry.record is not None and entry.record not in self._natives:
            self._natives[entry.record] = read_native(record, self._api_format)
        own = self._natives.get(entry.record) if entry.record is not None else None
        if own is None:
            return self._translate_entry(entry, record, place)
        for name in own.metadata_fields if place == 0 else ():
            whole = "response" if self._api_format == "responses" else "message"
            self._log.add(f"{whole}.{name}", "dropped", _METADATA_REASON)
        units = own.units_by_entry[place] if place < len(own.units_by_entry) else []
        return [unit for unit in units if not self._is_duplicate(unit)]

    def _skip_entry(self, entry: Entry) -> list[Unit]:
        if entry.kind == "event":
            self._log.add("event", "dropped", "the model never read it")
        elif entry.kind != "header":
            self._log.add(f"entry of kind {entry.kind}", "dropped", "nobody knows what it means")
        return []

    def _is_duplicate(self, unit: Unit) -> bool:
        """Some records of a message add to those before, others tell everything anew."""
        if not unit.message_key:
            return False
        shown = self._seen_units.setdefault(unit.message_key, set())
        told = unit.native if unit.is_native else part_to_json(unit.part)
        mark = as_str(as_dict(told).get("id")).encode("utf-8", "replace") or encode_derived(told)
        if mark in shown:
            return True
        shown.add(mark)
        return False

    # ── from elsewhere ────────────────────────────────────────────────────────────────────────────

    def _translate_entry(self, entry: Entry, record: Json, place: int) -> list[Unit]:
        told = read_other_native(record, self._api_format)
        speaker, message = _ROLES.get(entry.role, "user"), ""
        if told is not None:
            if not told.units_by_entry:
                self._log.add("message", "dropped", "the program said it, not the model")
                return []
            self._log_vendor_fields(told, place)
            if len(told.units_by_entry) == 1 and told.units_by_entry[0]:
                # The model read as the user's what a reader, rightly, does not show as a person's.
                speaker, message = told.units_by_entry[0][0].role, told.units_by_entry[0][0].message_key
        if entry.kind == "compaction":
            speaker = "user"
        found = tuple(find_payloads(record)) if _needs_payloads(entry.parts) else ()
        units = list(_units_from_parts(entry.parts, speaker, message, found))
        for unit in units if self._api_format == "responses" else ():
            if isinstance(unit.part, Thinking) and unit.part.signature:
                unit.native = _find_reasoning_item(unit.part.signature, record)
        return units

    def _log_vendor_fields(self, told: NativeRecord, place: int) -> None:
        for unit in told.units_by_entry[place] if place < len(told.units_by_entry) else ():
            for name in find_vendor_fields(unit.native):
                self._log.add(name, "dropped", f"only {VENDORS[told.api_format]} knows it")


def _find_reasoning_item(signature: str, record: Json) -> Json:
    """Reasoning that a program kept as the Responses API gave it, within a message of its own kind."""
    candidates = [decode_or_none(signature)] if signature.startswith("{") else iter_dicts(record)
    for told in candidates:
        item = as_dict(told)
        is_item = item.get("type") == "reasoning" and as_str(item.get("id")) and isinstance(item.get("summary"), list)
        if is_item and (signature.startswith("{") or item.get("encrypted_content") == signature):
            return dict(item)
    return ABSENT


def _is_compaction_item(record: Json) -> bool:
    """An item in which the vendor itself keeps, sealed, what came before."""
    payload = as_dict(as_dict(record).get("payload"))
    return as_dict(record).get("type") == "response_item" and payload.get("type") == "compaction"


def _needs_payloads(parts: Sequence[Part]) -> bool:
    return any(
        isinstance(part, Attachment) or (isinstance(part, ToolResult) and isinstance(part.output, list))
        for part in parts
    )


def _units_from_parts(
    parts: Sequence[Part], speaker: UnitRole, message: str, found: tuple[Payload, ...]
) -> Iterator[Unit]:
    """What stands beside a tool's result, a picture say, is shown by the user, who alone can."""
    otherwise: UnitRole = "user" if speaker == "tool" else speaker
    for part in parts:
        match part:
            case ToolResult():
                yield Unit("tool", part, payloads=found)
            case ToolCall() | Thinking():
                yield Unit("assistant", part, message_key=message)
            case _:
                yield Unit(otherwise, part, message_key=message, payloads=found)
