"""This module hides values in what a screen shows of a session. The store stays as it is."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from store.errors import BadValue
from store.leaks.overlaps import find_longest, group_overlaps
from store.leaks.rules import MASK
from store.leaks.scanner import mask
from store.text.validate import decode, serialize

_LEAST_CHARS = 4
"""Is how much of a value at the end of a text that was cut off gives it away."""

_CUT_MARK = "…"

_NAMES = frozenset({"id", "session_id", "native_id", "parent_id", "call_id", "entry", "result_entry"})
"""Are fields by which other data is found. They stay as they are."""

_CUT_FIELDS = frozenset({"agent_title", "first_prompt", "left", "own_title", "prompt", "right", "session_title"})
"""Are fields with titles and the beginnings of prompts, which may end within a value."""

T = TypeVar("T")


class _HiddenSpan(NamedTuple):
    start: int
    end: int
    mask: str


class LeakMask:
    """Replaces values by the masks of their rules, in every text of a session."""

    def __init__(self, rules: Mapping[str, str]) -> None:
        """`rules` holds the rule of each value."""
        self._masks = {value: mask(rule) for value, rule in rules.items()}

    def __bool__(self) -> bool:
        return bool(self._masks)

    @property
    def pattern(self) -> re.Pattern[str]:
        """Return a pattern that matches the masks, to highlight them."""
        masks = sorted(set(self._masks.values()), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, masks)))

    def find_hidden(self, pattern: re.Pattern[str]) -> re.Pattern[str]:
        """Return what a search for a pattern looks for in the text of the store: for the masks, what they hide."""
        return re.compile("|".join(map(re.escape, self._masks))) if pattern == self.pattern else pattern

    def mask(self, value: T) -> T:
        """Return a value of any type with every text in it masked, except the names of sessions, entries and calls."""
        masked: T = self._mask_any(value)
        return masked

    def _mask_any(self, value: Any) -> Any:
        if hasattr(value, "_replace"):  # a named tuple
            return value._replace(**self._mask_fields(value, value._fields))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return dataclasses.replace(value, **self._mask_fields(value, names))
        match value:
            case str():
                return self.mask_text(value)
            case dict():
                return {self._mask_any(name): self._mask_any(item) for name, item in value.items()}
            case list() | tuple():
                return type(value)(map(self._mask_any, value))
        return value

    def _mask_fields(self, value: object, names: Iterable[str]) -> dict[str, Any]:
        return {name: self._mask_field(name, getattr(value, name)) for name in names if name not in _NAMES}

    def _mask_field(self, name: str, value: Any) -> Any:
        is_cut = name in _CUT_FIELDS and isinstance(value, str)
        return self.mask_beginning(value) if is_cut else self._mask_any(value)

    def mask_text(self, text: str) -> str:
        return _hide(text, self._find_values(text))

    def mask_beginning(self, text: str) -> str:
        """Mask the beginning of a longer text, which may end within a value."""
        beginning = text.removesuffix(_CUT_MARK)
        spans = [*self._find_values(beginning), *self._find_cut_values(beginning)]
        return _hide(beginning, spans) + text[len(beginning) :]

    def mask_record(self, data: bytes) -> bytes:
        """Mask a record. One without anything to mask is returned unchanged, byte for byte."""
        try:
            value = decode(data)
        except BadValue:
            return self.mask_text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        masked = self.mask(value)
        return data if masked == value else serialize(masked)

    def _find_values(self, text: str) -> Iterator[_HiddenSpan]:
        for value, masked in self._masks.items():
            start = text.find(value)
            while start >= 0:
                yield _HiddenSpan(start, start + len(value), masked)
                start = text.find(value, start + 1)

    def _find_cut_values(self, text: str) -> Iterator[_HiddenSpan]:
        """Yield the beginnings of values with which a text ends, as far as they are more than how their kind begins."""
        for value, masked in self._masks.items():
            least = _LEAST_CHARS + (len(masked) - len(MASK) if value.startswith(masked.removesuffix(MASK)) else 0)
            for length in range(min(len(value), len(text)), least - 1, -1):
                if text.endswith(value[:length]):
                    yield _HiddenSpan(len(text) - length, len(text), masked)
                    break


def _hide(text: str, spans: Iterable[_HiddenSpan]) -> str:
    """Replace spans by their masks. Of those that overlap, everything is hidden by the mask of the longest."""
    pieces, position = [], 0
    for start, end, group in group_overlaps(spans):
        pieces += [text[position:start], find_longest(group).mask]
        position = end
    return "".join([*pieces, text[position:]])
