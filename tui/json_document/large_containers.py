"""Lists and objects too large to be made into Python values, which take four times the room of what was written.

They know where their pages lie; a page is parsed when somebody looks at it, and soon forgotten.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from store.model.entry import Json
from tui.json_document.values import TooDeep, VerbatimNumber, decode_json, encode_scalar, encode_string

MAX_CACHED_PAGES = 4

TOO_DEEP = VerbatimNumber("nested too deep to be shown")


class JsonPage(NamedTuple):
    """Neighbours in a list or an object, as they were written; or one that is large itself."""

    start: int
    end: int
    large: LargeList | LargeObject | None = None


class _PagedContainer:
    def __init__(self, record: bytes, pages: list[JsonPage]) -> None:
        self._record = record
        self._pages = pages
        self._cached_pages: dict[int, Json] = {}

    def _load_page(self, number: int) -> Json:
        """Threads may ask at the same time: what one forgets of the other's is parsed again."""
        values = self._cached_pages.get(number)
        if values is None:
            page = self._pages[number]
            values = self._parse_page(number, self._record[page.start : page.end].decode())
            kept = list(self._cached_pages.items())[1 - MAX_CACHED_PAGES :]
            self._cached_pages = dict([*kept, (number, values)])
        return values

    def _parse_page(self, number: int, written: str) -> Json:
        raise NotImplementedError

    def _may_contain(self, number: int, words: bytes) -> bool:
        """Whether it is worth a look whether these words, in small letters, are on the page."""
        start, end, large = self._pages[number]
        if large is not None or not words:
            return True
        written = self._record[start:end]
        return words in written.lower() or b"\\" in written or not written.isascii()


class LargeList(_PagedContainer):
    def __init__(self, record: bytes, pages: list[JsonPage], ends: list[int]) -> None:
        """How many values there are up to the end of each page."""
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

    def _parse_page(self, number: int, written: str) -> Json:
        try:
            return decode_json(f"[{written}]")
        except TooDeep:
            return [TOO_DEEP] * (self._ends[number] - self._first_index(number))


class LargeObject(_PagedContainer):
    def __init__(self, record: bytes, pages: list[JsonPage], places: dict[str, int], times: dict[str, int]) -> None:
        """On which page the value of each key is, and how often keys were given that were given more than once."""
        super().__init__(record, pages)
        self._page_numbers = places
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
        looked_at = -1
        may_hold = True
        for key, number in self._page_numbers.items():
            if number != looked_at:
                looked_at, may_hold = number, self._may_contain(number, words)
            if may_hold:
                yield key, self[key]

    def _parse_page(self, number: int, written: str) -> Json:
        try:
            return decode_json(f"{{{written}}}")
        except TooDeep:
            return defaultdict(lambda: TOO_DEEP)


OBJECT_TYPES = (dict, LargeObject)
LIST_TYPES = (list, LargeList)
CONTAINER_TYPES = (*OBJECT_TYPES, *LIST_TYPES)


def iter_keys(container: Json) -> Iterator[str | int]:
    """The keys of an object, the places in a list."""
    if isinstance(container, LargeList | LargeObject):
        return container.iter_keys()
    return iter(container) if isinstance(container, dict) else iter(range(len(container)))


def iter_items(container: Json, words: str = "") -> Iterator[tuple[str | int, Json]]:
    """With their keys or places; perhaps without some that do not hold the words, in whatever case."""
    if isinstance(container, LargeList | LargeObject):
        return container.items(words.casefold().encode(errors="surrogatepass"))
    return iter(container.items()) if isinstance(container, dict) else enumerate(container)


# ── spelling ──────────────────────────────────────────────────────────────────────────────────────


def format_json(value: Json) -> str:
    """A value of few characters as JSON has it; a container with two spaces a level."""
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
