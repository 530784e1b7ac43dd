"""This module checks texts before they leave the store. Every export goes through a gate.

A gate scans each text of a document by itself, before a format escapes it. With the policy `refuse`, a certain leak
ends the export; with `redact`, leaks are masked in the exported copy; with `allow`, they are only counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from store.errors import LeaksFound, ScanFailed, ScanLocked, SecretLocked, StoreError
from store.leaks.overlaps import group_overlaps
from store.leaks.rules import Tier
from store.leaks.scanner import MAX_SECRET_BYTES, Match, Scanner, drop_overlaps, load_scanner, mask
from store.model.entry import Json

if TYPE_CHECKING:
    from store.store import Store

LeakPolicy = Literal["refuse", "redact", "allow"]

MASKED_TIERS = (Tier.CERTAIN, Tier.LIKELY)
"""Are masked in a redacted copy. What is only possible is mostly an ordinary text."""

MAX_PLACES = 5

_CHUNK_BYTES = 2 * 1024 * 1024
_BEGINNING_BYTES = 8192


@dataclass(slots=True)
class FoundLeak:
    "Describes one value that was found, without the value."

    rule: str
    tier: Tier
    number: int
    "Numbers the values in a document, so that a reader sees which masks hide the same one."
    count: int = 0
    places: dict[str, None] = field(default_factory=dict)

    def describe(self) -> str:
        places = list(self.places)
        more = f" and {len(places) - MAX_PLACES} more" if len(places) > MAX_PLACES else ""
        where = f": {', '.join(places[:MAX_PLACES])}{more}" if any(places) else ""
        return f"{self.rule} {mask(self.rule)}{where}"


class LeakGate:
    """Scans the texts of one export and remembers what it found."""

    def __init__(self, scanner: Scanner, policy: LeakPolicy, *, unknown: str = "") -> None:
        self.place = ""
        "Names where the next texts are from, such as a turn."
        self.policy = policy
        self._scanner = scanner
        self._unknown = unknown
        "Says what could not be looked for."
        self._found: dict[tuple[str, str], FoundLeak] = {}
        self._texts = 0
        self._characters = 0

    def check(self, text: str, name: str = "") -> str:
        """Return the text as it may leave the store. Raise ScanFailed if it cannot be scanned.

        `name` is that of the field with the text, if it has one. It may be what tells that the text is a secret.
        """
        self._texts += 1
        self._characters += len(text)
        context = _context_of(name)  # what is in the name is found when that is checked by itself
        matches = self._scanner.scan(context + text, with_overlaps=True) if text else []
        in_text = [match.move(-len(context)) for match in matches if match.start >= len(context)]
        pieces, position = [], 0
        for start, end, group in group_overlaps(in_text):
            leaks = [self._remember(match, text[match.start : match.end]) for match in drop_overlaps(group)]
            surest = min(leaks, key=lambda leak: leak.tier.rank)
            if self.policy == "redact" and surest.tier in MASKED_TIERS:
                pieces += [text[position:start], f"[redacted: {surest.rule} #{surest.number}]"]
                position = end
        return "".join([*pieces, text[position:]])

    def check_beginning(self, text: str, whole: str) -> str:
        """Return the beginning of a longer text as it may leave the store. A secret with which it ends is completed."""
        found = self._scanner.scan(whole[: len(text) + MAX_SECRET_BYTES], with_overlaps=True)
        ends = [match.end for match in found if match.start < len(text) < match.end]
        return self.check(whole[: max(ends)] if ends else text)

    def check_json(self, value: Json, name: str = "") -> Json:
        """Return a JSON value with every text in it checked, also the names of fields.

        Most values hold no secret, so all texts are first scanned together, as lines of one text.
        """
        texts: list[str] = []
        characters = _collect_texts(value, name, texts)
        if self._scanner.scan("\n".join(texts)):
            return self._check_each(value, name)
        self._texts += len(texts)
        self._characters += characters
        return value

    def _check_each(self, value: Json, name: str) -> Json:
        match value:
            case str():
                return self.check(value, name)
            case dict():
                return {self.check(key): self._check_each(item, key) for key, item in value.items()}
            case list():
                return [self._check_each(item, name) for item in value]
        return value

    def check_file(self, file: BinaryIO) -> None:
        """Scan a file that leaves the store as it is, in pieces that overlap."""
        rest = file.read(_CHUNK_BYTES)
        if b"\0" in rest[:_BEGINNING_BYTES]:
            self._unknown = "The file is not text, so it was not looked into."
            return
        while rest:
            for match in self._scanner.scan_bytes(rest):
                self._remember(match, rest[match.start : match.end].decode("utf-8", "replace"))
            more = file.read(_CHUNK_BYTES)
            rest = rest[-MAX_SECRET_BYTES:] + more if more else b""

    def _remember(self, match: Match, value: str) -> FoundLeak:
        leak = self._found.get((match.rule, value))
        if leak is None:
            leak = self._found[match.rule, value] = FoundLeak(match.rule, match.tier, len(self._found) + 1)
        leak.count += 1
        leak.places[self.place] = None
        return leak

    def finish(self) -> None:
        """Raise LeaksFound if the policy refuses what was found."""
        certain = [leak for leak in self._found.values() if leak.tier is Tier.CERTAIN]
        if self.policy == "refuse" and certain:
            raise LeaksFound([leak.describe() for leak in certain])

    @property
    def limits(self) -> str:
        """Say what was not looked for, or nothing."""
        return " ".join(filter(None, [self._scanner.limits, self._unknown]))

    def to_json(self) -> dict[str, Any]:
        """Return what a receipt says about leaks."""
        found = sorted(self._found.values(), key=lambda leak: leak.number)
        return {
            "policy": self.policy,
            "texts": self._texts,
            "characters": self._characters,
            "limits": self.limits,
            "found": [
                {
                    "rule": leak.rule,
                    "tier": str(leak.tier),
                    "number": leak.number,
                    "count": leak.count,
                    "masked": self.policy == "redact" and leak.tier in MASKED_TIERS,
                }
                for leak in found
            ],
        }


def _context_of(name: str) -> str:
    return f"{name}: " if name else ""


def _collect_texts(value: Json, name: str, texts: list[str]) -> int:
    """Add each text of a JSON value to a list as it is scanned, and return how many characters they have."""
    if isinstance(value, str):
        texts.append(_context_of(name) + value)
        return len(value)
    if isinstance(value, dict):
        texts += value
        return sum(map(len, value)) + sum(_collect_texts(item, key, texts) for key, item in value.items())
    return sum(_collect_texts(item, name, texts) for item in value) if isinstance(value, list) else 0


def open_gate(store: Store, policy: LeakPolicy) -> LeakGate:
    """Return a gate that also finds the values of the store's own secrets.

    If they are locked, the export is refused, unless leaks are allowed.
    """
    try:
        values: Iterable[str] = list(store.secrets.all_values())
        unknown = ""
    except StoreError as error:
        if policy != "allow":
            refusal = ScanLocked if isinstance(error, SecretLocked) else ScanFailed
            raise refusal(
                f"{error} So the values of your secrets cannot be looked for. Unlock them, or allow leaks."
            ) from None
        values, unknown = (), "The values of your secrets were not looked for, because they are locked."
    return LeakGate(load_scanner(values), policy, unknown=unknown)
