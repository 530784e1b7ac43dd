"""This module holds lists and objects that are too large for Python values, which take four times the memory.

They know where their pages are in the record. A page is parsed when it is needed, and only a few stay in memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from store.model.entry import Json
from tui.json_document.values import TooDeep, VerbatimNumber, decode_json, encode_scalar, encode_string

MAX_CACHED_PAGES = 4

TOO_DEEP = VerbatimNumber("nested too deeply to show")


class JsonPage(NamedTuple):
    """Locates consecutive items of a list or an object in the record, or one item that is itself large."""

    start: int
    end: int
    large: LargeList | LargeObject | None = None


class _PagedContainer:
    def __init__(self, record: bytes, pages: list[JsonPage]) -> None:
        self._record = record
        self._pages = pages
        self._cached_pages: dict[int, Json] = {}

    def _load_page(self, number: int) -> Json:
        """Return the values of a page. Threads may evict each other's pages, which are then parsed again."""
        values = self._cached_pages.get(number)
        if values is None:
            page = self._pages[number]
            values = self._parse_page(number, self._record[page.start : page.end].decode())
            cached = list(self._cached_pages.items())[1 - MAX_CACHED_PAGES :]
            self._cached_pages = dict([*cached, (number, values)])
        return values

    def _parse_page(self, number: int, text: str) -> Json:
        raise NotImplementedError

    def _may_contain(self, number: int, words: bytes) -> bool:
        """Return False if the page certainly does not contain the words, which are in lower case."""
        start, end, large = self._pages[number]
        if large is not None or not words:
            return True
        page = self._record[start:end]
        return words in page.lower() or b"\\" in page or not page.isascii()


class LargeList(_PagedContainer):
    def __init__(self, record: bytes, pages: list[JsonPage], ends: list[int]) -> None:
        """Take the pages, and the number of values up to the end of each page."""
        super().__init__(record, pages)
        self._ends = ends

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> Json:
        number = bisect_right(self._ends, index)
        return self._page_values(number)[index - self._first_index(number)]

    def iter_keys(self) -> Iterator[int]:
        return iter(range(len(self)))

    def items(self, words: bytes = b"") -> Iterator[tuple[int, Json]]:
        """All, but for some that do not hold the words."""
        for number in range(len(self._pages)):
            if self._may_contain(number, words):
                yield from enumerate(self._page_values(number), self._first_index(number))

    def _first_index(self, number: int) -> int:
        return self._ends[number - 1] if number else 0

    def _page_values(self, number: int) -> list[Json]:
        large = self._pages[number].large
        values: list[Json] = self._load_page(number) if large is None else [large]
        return values

    def _parse_page(self, number: int, text: str) -> Json:
        try:
            return decode_json(f"[{text}]")
        except TooDeep:
            return [TOO_DEEP] * (self._ends[number] - self._first_index(number))


class LargeObject(_PagedContainer):
    def __init__(
        self, record: bytes, pages: list[JsonPage], page_numbers: dict[str, int], times: dict[str, int]
    ) -> None:
        """Take the page number of each key, and how often each duplicate key occurs."""
        super().__init__(record, pages)
        self._page_numbers = page_numbers
        self.times = times

    def __len__(self) -> int:
        return len(self._page_numbers)

    def __getitem__(self, key: str) -> Json:
        number = self._page_numbers[key]
        large = self._pages[number].large
        return self._load_page(number)[key] if large is None else large

    def iter_keys(self) -> Iterator[str]:
        return iter(self._page_numbers)

    def items(self, words: bytes = b"") -> Iterator[tuple[str, Json]]:
        """All, but for some that do not hold the words."""
        checked_page = -1
        may_contain = True
        for key, number in self._page_numbers.items():
            if number != checked_page:
                checked_page, may_contain = number, self._may_contain(number, words)
            if may_contain:
                yield key, self[key]

    def _parse_page(self, number: int, text: str) -> Json:
        try:
            return decode_json(f"{{{text}}}")
        except TooDeep:
            return defaultdict(lambda: TOO_DEEP)


OBJECT_TYPES = (dict, LargeObject)
LIST_TYPES = (list, LargeList)
CONTAINER_TYPES = (*OBJECT_TYPES, *LIST_TYPES)


def iter_keys(container: Json) -> Iterator[str | int]:
    """Yield the keys of an object, or the indexes of a list."""
    if isinstance(container, LargeList | LargeObject):
        return container.iter_keys()
    return iter(container) if isinstance(container, dict) else iter(range(len(container)))


def iter_items(container: Json, words: str = "") -> Iterator[tuple[str | int, Json]]:
    """Yield the items with their keys or indexes. Items that do not contain the words may be skipped."""
    if isinstance(container, LargeList | LargeObject):
        return container.items(words.casefold().encode(errors="surrogatepass"))
    return iter(container.items()) if isinstance(container, dict) else enumerate(container)


# ── formatting ────────────────────────────────────────────────────────────────────────────────────


def format_json(value: Json) -> str:
    """Return a value as JSON, indented by two spaces per level."""
    return "".join(_format_parts(value, "\n"))


def _format_parts(value: Json, newline: str) -> Iterator[str]:
    if not isinstance(value, CONTAINER_TYPES) or not value:
        yield encode_string(value) if type(value) is str else encode_scalar(value)
        return
    inner = newline + "  "
    before, after = "{}" if isinstance(value, OBJECT_TYPES) else "[]"
    for key, item in iter_items(value):
        yield before + inner + (f"{encode_string(key)}: " if isinstance(key, str) else "")
        yield from _format_parts(item, inner)
        before = ","
    yield newline + after
