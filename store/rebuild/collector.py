"""This module reads entries as units: from the record if it has the format of the API, otherwise from the parts."""

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
_METADATA_REASON = "it describes the message and is not part of it"


class UnitReader:
    """Reads the entries of one conversation in order."""

    def __init__(self, api_format: ApiFormat, records: Mapping[int, Json], log: RebuildLog) -> None:
        self._api_format = api_format
        self._records = records
        self._log = log
        self._entries_read: dict[int, int] = {}
        self._natives: dict[int, NativeRecord | None] = {}
        self._seen_units: dict[str, set[bytes]] = {}

    def read_units(self, entry: Entry) -> list[Unit]:
        index = self._entries_read.get(entry.record, 0) if entry.record is not None else 0
        record = self._records.get(entry.record) if entry.record is not None else None
        if entry.record is not None:
            self._entries_read[entry.record] = index + 1
        if entry.kind not in ("message", "compaction") and not _is_compaction_item(record):
            return self._skip_entry(entry)
        if entry.record is not None and entry.record not in self._natives:
            self._natives[entry.record] = read_native(record, self._api_format)
        native = self._natives.get(entry.record) if entry.record is not None else None
        if native is None:
            return self._translate_entry(entry, record, index)
        for name in native.metadata_fields if index == 0 else ():
            container = "response" if self._api_format == "responses" else "message"
            self._log.add(f"{container}.{name}", "dropped", _METADATA_REASON)
        units = native.units_by_entry[index] if index < len(native.units_by_entry) else []
        return [unit for unit in units if not self._is_duplicate(unit)]

    def _skip_entry(self, entry: Entry) -> list[Unit]:
        if entry.kind == "event":
            self._log.add("event", "dropped", "the model did not see it")
        elif entry.kind != "header":
            self._log.add(f"entry of kind {entry.kind}", "dropped", "its meaning is not known")
        return []

    def _is_duplicate(self, unit: Unit) -> bool:
        """Return whether a unit was read before. Some records of a message repeat earlier ones, others add to them."""
        if not unit.message_key:
            return False
        seen = self._seen_units.setdefault(unit.message_key, set())
        value = unit.native if unit.is_native else part_to_json(unit.part)
        identity = as_str(as_dict(value).get("id")).encode("utf-8", "replace") or encode_derived(value)
        if identity in seen:
            return True
        seen.add(identity)
        return False

    # ── records in another format ─────────────────────────────────────────────────────────────────

    def _translate_entry(self, entry: Entry, record: Json, index: int) -> list[Unit]:
        other = read_other_native(record, self._api_format)
        role, message_key = _ROLES.get(entry.role, "user"), ""
        if other is not None:
            if not other.units_by_entry:
                self._log.add("message", "dropped", "it comes from the agent program, not from the model")
                return []
            self._log_vendor_fields(other, index)
            if len(other.units_by_entry) == 1 and other.units_by_entry[0]:
                # The model saw this as a message of the user, although a reader does not show it as a person's.
                role, message_key = other.units_by_entry[0][0].role, other.units_by_entry[0][0].message_key
        if entry.kind == "compaction":
            role = "user"
        payloads = tuple(find_payloads(record)) if _needs_payloads(entry.parts) else ()
        units = list(_units_from_parts(entry.parts, role, message_key, payloads))
        for unit in units if self._api_format == "responses" else ():
            if isinstance(unit.part, Thinking) and unit.part.signature:
                unit.native = _find_reasoning_item(unit.part.signature, record)
        return units

    def _log_vendor_fields(self, record: NativeRecord, index: int) -> None:
        for unit in record.units_by_entry[index] if index < len(record.units_by_entry) else ():
            for name in find_vendor_fields(unit.native):
                self._log.add(name, "dropped", f"only {VENDORS[record.api_format]} has this field")


def _find_reasoning_item(signature: str, record: Json) -> Json:
    """Find a reasoning item of the Responses API that an agent stored within its own format."""
    candidates = [decode_or_none(signature)] if signature.startswith("{") else iter_dicts(record)
    for candidate in candidates:
        item = as_dict(candidate)
        is_item = item.get("type") == "reasoning" and as_str(item.get("id")) and isinstance(item.get("summary"), list)
        if is_item and (signature.startswith("{") or item.get("encrypted_content") == signature):
            return dict(item)
    return ABSENT


def _is_compaction_item(record: Json) -> bool:
    """Return whether a record is an item in which the vendor keeps the earlier conversation, encrypted."""
    payload = as_dict(as_dict(record).get("payload"))
    return as_dict(record).get("type") == "response_item" and payload.get("type") == "compaction"


def _needs_payloads(parts: Sequence[Part]) -> bool:
    return any(
        isinstance(part, Attachment) or (isinstance(part, ToolResult) and isinstance(part.output, list))
        for part in parts
    )


def _units_from_parts(
    parts: Sequence[Part], role: UnitRole, message_key: str, payloads: tuple[Payload, ...]
) -> Iterator[Unit]:
    """Yield a unit for each part. Other parts of a tool's message, such as an image, become the user's."""
    default_role: UnitRole = "user" if role == "tool" else role
    for part in parts:
        match part:
            case ToolResult():
                yield Unit("tool", part, payloads=payloads)
            case ToolCall() | Thinking():
                yield Unit("assistant", part, message_key=message_key)
            case _:
                yield Unit(default_role, part, message_key=message_key, payloads=payloads)
