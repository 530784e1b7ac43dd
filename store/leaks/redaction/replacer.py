"""This module replaces values in bytes by replacements, and restores them.

A value may be spelled in several ways: JSON escapes quotes and line breaks, once for each level at which a text is
nested, and may write any letter as `\\u0041`. Every spelling is found, and the replacement is the same for all. So a
file, the record that was read from it, and the texts that were derived from the record are changed alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from store.leaks.checks import entropy_bits
from store.leaks.escapes import decode_escapes
from store.leaks.fingerprint import unescape_value
from store.leaks.overlaps import find_longest, group_overlaps
from store.leaks.scanner import Engine, FastEngine, PlainEngine, has_extra

MIN_DISTINCT_CHARS = 12
_DISTINCT_BITS = 2.8
"""A shorter or simpler value, such as the password of a URL, may be an ordinary word. It is only replaced where a rule
finds it."""

_SPACE = rb"(?:\s|\\+[nrt]|\\+u00(?i:0[9ad]|20))*"
"""Matches space and line breaks within a value. The lines of a private key may end in any way."""

_ESCAPED_CONTROLS = {"\b": "b", "\f": "f"}
_ESCAPE_LETTERS = b"nrtbfu"
_LITERAL_RUN = re.compile(r"[0-9A-Za-z_.:=+~@-]+")

Spans = Mapping[str, Sequence[tuple[int, int]]]
"""Maps the fingerprint of a value to where it was: which of the replacements in a text belong to it, each with the
number of the spelling. The others were in the text before."""


class LeakedValue(NamedTuple):
    """Is a value that is to be redacted, as a scan found it."""

    fingerprint: str
    rule: str
    text: str

    @property
    def replacement(self) -> bytes:
        """Return what the value is replaced by."""
        return make_replacement(self.rule, self.fingerprint)

    @property
    def is_distinct(self) -> bool:
        """Return whether the value is so long and random that it means the same thing wherever it occurs."""
        return len(self.text) >= MIN_DISTINCT_CHARS and entropy_bits(self.text) >= _DISTINCT_BITS


def make_replacement(rule: str, fingerprint: str) -> bytes:
    return f"[redacted: {rule} #{fingerprint}]".encode()


class Substitution(NamedTuple):
    """Replaces some bytes of a text by others."""

    start: int
    end: int
    new: bytes


class Occurrence(NamedTuple):
    """Is one value in a text."""

    start: int
    end: int
    value: LeakedValue


@dataclass(slots=True)
class Spellings:
    """Collects the spellings of each value that were found. They are sealed, and a span names them by their number."""

    by_fingerprint: dict[str, list[bytes]] = field(default_factory=dict)

    def number(self, fingerprint: str, spelling: bytes) -> int:
        known = self.by_fingerprint.setdefault(fingerprint, [])
        if spelling not in known:
            known.append(spelling)
        return known.index(spelling)

    def count(self) -> int:
        return sum(map(len, self.by_fingerprint.values()))


FindByRules = Callable[[bytes], Iterable[tuple[str, int]]]
"""Returns what the rules find in a text without escapes: the fingerprint of each value, and where it begins."""


class _SpelledValue:
    """Holds the patterns of one value."""

    def __init__(self, value: LeakedValue) -> None:
        self.value = value
        plain = unescape_value(value.text)[-1]
        self.run = max(_LITERAL_RUN.findall(plain) or [plain], key=len).encode("utf-8", "surrogatepass")
        "Is a part of the value that has only one spelling, once the escapes of letters are decoded."
        words = plain.split()
        self.plain = re.compile(_SPACE.join(_spell_word(word, any_escape=False) for word in words))
        self.escaped = re.compile(_SPACE.join(_spell_word(word, any_escape=True) for word in words))


class Replacer:
    """Finds values in bytes and replaces them."""

    def __init__(self, values: Iterable[LeakedValue], find_by_rules: FindByRules) -> None:
        self._find_by_rules = find_by_rules
        self._values = [_SpelledValue(value) for value in values]
        self._by_run: dict[bytes, list[_SpelledValue]] = {}
        for spelled in self._values:
            self._by_run.setdefault(spelled.run, []).append(spelled)
        self._runs = list(self._by_run)
        self._engine: Engine = (FastEngine if has_extra() else PlainEngine)(self._runs)

    @property
    def replacements(self) -> list[bytes]:
        return [spelled.value.replacement for spelled in self._values]

    def may_contain(self, data: bytes) -> bool:
        """Return False if no value is in the data. It is fast."""
        return bool(self._candidates(data))

    def find(self, data: bytes, *, is_derived: bool = False) -> list[Occurrence]:
        """Return the values in the data, in order and without overlaps.

        A derived text comes from a record that has the value. There, no rule need find it again.
        """
        found: list[Occurrence] = []
        candidates = self._candidates(data)
        if not candidates:
            return []
        by_rules: set[tuple[str, int]] | None = None
        for spelled in candidates:
            pattern = spelled.escaped if b"\\u" in data else spelled.plain
            for match in pattern.finditer(data):
                if _begins_within_escape(data, match.start()):
                    continue
                if not (is_derived or spelled.value.is_distinct):
                    by_rules = by_rules if by_rules is not None else set(self._find_by_rules(decode_escapes(data)))
                    if (spelled.value.fingerprint, len(decode_escapes(data[: match.start()]))) not in by_rules:
                        continue
                found.append(Occurrence(match.start(), match.end(), spelled.value))
        return _join_overlaps(found)

    def _candidates(self, data: bytes) -> list[_SpelledValue]:
        numbers = {number for number, *_ in self._engine.find_keywords(decode_escapes(data))}
        return [spelled for number in sorted(numbers) for spelled in self._by_run[self._runs[number]]]


class ValueRedactor:
    """Replaces the values in one text, part by part from its beginning to its end, and notes where they were."""

    def __init__(self, replacer: Replacer, spellings: Spellings) -> None:
        self._replacer = replacer
        self._spellings = spellings
        self.spans: dict[str, list[tuple[int, int]]] = {}
        self._counts: dict[bytes, int] = {}
        "Counts the replacements before the part that comes next, also those that were there before."

    @property
    def times(self) -> int:
        return sum(map(len, self.spans.values()))

    def redact(self, data: bytes, *, is_derived: bool = False) -> tuple[bytes, list[Substitution]]:
        """Return the next part of the text without the values, and what was replaced."""
        occurrences = self._replacer.find(data, is_derived=is_derived)
        edits = [Substitution(found.start, found.end, found.value.replacement) for found in occurrences]
        position = 0
        for found in occurrences:
            self._count_replacements(data[position : found.start])
            replacement, fingerprint = found.value.replacement, found.value.fingerprint
            ordinal = self._counts.get(replacement, 0)
            spelling = self._spellings.number(fingerprint, data[found.start : found.end])
            self.spans.setdefault(fingerprint, []).append((ordinal, spelling))
            self._counts[replacement] = ordinal + 1
            position = found.end
        self._count_replacements(data[position:])
        return apply_edits(data, edits), edits

    def _count_replacements(self, data: bytes) -> None:
        if b"[redacted: " in data:
            for replacement in self._replacer.replacements:
                self._counts[replacement] = self._counts.get(replacement, 0) + data.count(replacement)


class ValueRestorer:
    """Replaces replacements in the parts of one text by the values for which they stand."""

    def __init__(self, spans: Spans, values: Iterable[LeakedValue], spellings: Spellings) -> None:
        self._spans = {
            value.replacement: {
                ordinal: spellings.by_fingerprint[value.fingerprint][spelling]
                for ordinal, spelling in spans.get(value.fingerprint, ())
            }
            for value in values
            if spans.get(value.fingerprint)
        }
        self._counts: dict[bytes, int] = {}
        self._pattern = re.compile(b"|".join(map(re.escape, self._spans))) if self._spans else None

    @property
    def missing(self) -> int:
        """Count the replacements that were not found."""
        return sum(
            ordinal >= self._counts.get(replacement, 0)
            for replacement, spellings in self._spans.items()
            for ordinal in spellings
        )

    def restore(self, data: bytes) -> tuple[bytes, list[Substitution]]:
        """Return the next part of the text with its values, and what was replaced."""
        edits: list[Substitution] = []
        for match in self._pattern.finditer(data) if self._pattern else ():
            ordinal = self._counts.get(match[0], 0)
            self._counts[match[0]] = ordinal + 1
            if (spelling := self._spans[match[0]].get(ordinal)) is not None:
                edits.append(Substitution(match.start(), match.end(), spelling))
        return apply_edits(data, edits), edits


def apply_edits(data: bytes, edits: Sequence[Substitution]) -> bytes:
    pieces, position = [], 0
    for edit in edits:
        pieces += [data[position : edit.start], edit.new]
        position = edit.end
    return b"".join([*pieces, data[position:]]) if pieces else data


def move_position(position: int, edits: Sequence[Substitution]) -> int:
    """Return where a position of the old text is in the new one. It is not inside of an edit."""
    return position + sum(len(edit.new) - (edit.end - edit.start) for edit in edits if edit.end <= position)


def _spell_word(word: str, *, any_escape: bool) -> bytes:
    return b"".join(_spell(character, any_escape=any_escape) for character in word)


def _spell(character: str, *, any_escape: bool) -> bytes:
    """Return a pattern for the spellings of a character. Without `any_escape`, letters and digits have only one."""
    literal = re.escape(character.encode("utf-8", "surrogatepass"))
    if character in _ESCAPED_CONTROLS:
        return b"(?:%s|\\\\+%s|\\\\+u00(?i:%02x))" % (literal, _ESCAPED_CONTROLS[character].encode(), ord(character))
    if character in '"/':
        return b"(?:\\\\*%s|\\\\+u00(?i:%02x))" % (literal, ord(character))
    if character == "\\":
        return b"(?:\\\\+u00(?i:5c)|\\\\+)"
    if not any_escape and character.isascii() and character.isprintable():
        return literal
    units = character.encode("utf-16-be", "surrogatepass")
    numbers = (units[index : index + 2].hex().encode() for index in range(0, len(units), 2))
    escape = b"".join(b"\\\\+u(?i:%s)" % number for number in numbers)
    return b"(?:%s|%s)" % (literal, escape)


def _begins_within_escape(data: bytes, start: int) -> bool:
    """Return whether the first byte is the letter of an escape, as in `\\npm_…`: a line break before `pm_…`."""
    if data[start] not in _ESCAPE_LETTERS:
        return False
    backslashes = 0
    while backslashes < start and data[start - 1 - backslashes] == 0x5C:
        backslashes += 1
    return backslashes % 2 == 1


def _join_overlaps(found: list[Occurrence]) -> list[Occurrence]:
    """Let the longest of the values that overlap stand for all of them, so that no part of another one stays."""
    return [Occurrence(start, end, find_longest(group).value) for start, end, group in group_overlaps(found)]
