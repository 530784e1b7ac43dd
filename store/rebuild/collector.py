"""Entries and their records into units, in order: the wanted API's own words where a record has them, ours else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from store.model.entry import Attachment, Entry, Json, Part, Thinking, ToolCall, ToolResult, part_to_json
from store.rebuild.attachments import mappings_in, payloads
from store.rebuild.native import fields_of_its_own, lenient, native, native_elsewhere
from store.rebuild.unit import ABSENT, VENDORS, Account, Native, Payload, Shape, Speaker, Unit, mapping, words
from store.text.validate import encode_derived

_SPEAKERS: dict[str, Speaker] = {"assistant": "assistant", "system": "system"}
_BESIDE = "it was said of what is kept, and is no part of it"


class Gathering:
    """One conversation while its entries are read in order."""

    def __init__(self, shape: Shape, records: Mapping[int, Json], account: Account) -> None:
        self._shape = shape
        self._records = records
        self._account = account
        self._nth: dict[int, int] = {}
        self._natives: dict[int, Native | None] = {}
        self._shown: dict[str, set[bytes]] = {}

    def units(self, entry: Entry) -> list[Unit]:
        place = self._nth.get(entry.record, 0) if entry.record is not None else 0
        record = self._records.get(entry.record) if entry.record is not None else None
        if entry.record is not None:
            self._nth[entry.record] = place + 1
        if entry.kind not in ("message", "compaction") and not _is_compacted(record):
            return self._left_out(entry)
        if entry.record is not None and entry.record not in self._natives:
            self._natives[entry.record] = native(record, self._shape)
        own = self._natives.get(entry.record) if entry.record is not None else None
        if own is None:
            return self._translated(entry, record, place)
        for name in own.beside if place == 0 else ():
            whole = "response" if self._shape == "responses" else "message"
            self._account.note(f"{whole}.{name}", "dropped", _BESIDE)
        units = own.groups[place] if place < len(own.groups) else []
        return [unit for unit in units if not self._is_shown_already(unit)]

    def _left_out(self, entry: Entry) -> list[Unit]:
        if entry.kind == "event":
            self._account.note("event", "dropped", "the model never read it")
        elif entry.kind != "header":
            self._account.note(f"entry of kind {entry.kind}", "dropped", "nobody knows what it means")
        return []

    def _is_shown_already(self, unit: Unit) -> bool:
        """Some records of a message add to those before, others tell everything anew."""
        if not unit.message:
            return False
        shown = self._shown.setdefault(unit.message, set())
        told = unit.native if unit.is_native else part_to_json(unit.part)
        mark = words(mapping(told).get("id")).encode("utf-8", "replace") or encode_derived(told)
        if mark in shown:
            return True
        shown.add(mark)
        return False

    # ── from elsewhere ────────────────────────────────────────────────────────────────────────────

    def _translated(self, entry: Entry, record: Json, place: int) -> list[Unit]:
        told = native_elsewhere(record, self._shape)
        speaker, message = _SPEAKERS.get(entry.role, "user"), ""
        if told is not None:
            if not told.groups:
                self._account.note("message", "dropped", "the program said it, not the model")
                return []
            self._list_what_stays(told, place)
            if len(told.groups) == 1 and told.groups[0]:
                # The model read as the user's what a reader, rightly, does not show as a person's.
                speaker, message = told.groups[0][0].role, told.groups[0][0].message
        if entry.kind == "compaction":
            speaker = "user"
        found = tuple(payloads(record)) if _needs_payloads(entry.parts) else ()
        units = list(_from_parts(entry.parts, speaker, message, found))
        for unit in units if self._shape == "responses" else ():
            if isinstance(unit.part, Thinking) and unit.part.signature:
                unit.native = _sealed(unit.part.signature, record)
        return units

    def _list_what_stays(self, told: Native, place: int) -> None:
        for unit in told.groups[place] if place < len(told.groups) else ():
            for name in fields_of_its_own(unit.native):
                self._account.note(name, "dropped", f"only {VENDORS[told.shape]} knows it")


def _sealed(signature: str, record: Json) -> Json:
    """Reasoning that a program kept as the Responses API gave it, within a message of its own kind."""
    candidates = [lenient(signature)] if signature.startswith("{") else mappings_in(record)
    for told in candidates:
        item = mapping(told)
        is_item = item.get("type") == "reasoning" and words(item.get("id")) and isinstance(item.get("summary"), list)
        if is_item and (signature.startswith("{") or item.get("encrypted_content") == signature):
            return dict(item)
    return ABSENT


def _is_compacted(record: Json) -> bool:
    """An item in which the vendor itself keeps, sealed, what came before."""
    payload = mapping(mapping(record).get("payload"))
    return mapping(record).get("type") == "response_item" and payload.get("type") == "compaction"


def _needs_payloads(parts: Sequence[Part]) -> bool:
    return any(
        isinstance(part, Attachment) or (isinstance(part, ToolResult) and isinstance(part.output, list))
        for part in parts
    )


def _from_parts(parts: Sequence[Part], speaker: Speaker, message: str, found: tuple[Payload, ...]) -> Iterator[Unit]:
    """What stands beside a tool's result, a picture say, is shown by the user, who alone can."""
    otherwise: Speaker = "user" if speaker == "tool" else speaker
    for part in parts:
        match part:
            case ToolResult():
                yield Unit("tool", part, payloads=found)
            case ToolCall() | Thinking():
                yield Unit("assistant", part, message=message)
            case _:
                yield Unit(otherwise, part, message=message, payloads=found)
