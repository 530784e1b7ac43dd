"""Lists and objects too large to be made into Python values, which take four times the room of what was written.

They know where their pages lie; a page is parsed when somebody looks at it, and soon forgotten.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from store.model.entry import Json
from tui.json_document.values import Number, TooDeep, decoded, plain, quoted

PAGES_KEPT = 4

TOO_DEEP = Number("nested too deep to be shown")


class Page(NamedTuple):
    """Neighbours in a list or an object, as they were written; or one that is large itself."""

    start: int
    end: int
    large: LargeList | LargeObject | None = None


class _Large:
    def __init__(self, record: bytes, pages: list[Page]) -> None:
        self._record = record
        self._pages = pages
        self._kept: dict[int, Json] = {}

    def _page(self, number: int) -> Json:
        """Threads may ask at the same time: what one forgets of the other's is parsed again."""
        values = self._kept.get(number)
        if values is None:
            page = self._pages[number]
            values = self._parsed(number, self._record[page.start : page.end].decode())
            kept = list(self._kept.items())[1 - PAGES_KEPT :]
            self._kept = dict([*kept, (number, values)])
        return values

    def _parsed(self, number: int, written: str) -> Json:
        raise NotImplementedError

    def _may_hold(self, number: int, words: bytes) -> bool:
        """Whether it is worth a look whether these words, in small letters, are on the page."""
        start, end, large = self._pages[number]
        if large is not None or not words:
            return True
        written = self._record[start:end]
        return words in written.lower() or b"\\" in written or not written.isascii()


class LargeList(_Large):
    def __init__(self, record: bytes, pages: list[Page], ends: list[int]) -> None:
        """How many values there are up to the end of each page."""
        super().__init__(record, pages)
        self._ends = ends

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> Json:
        number = bisect_right(self._ends, index)
        return self._values(number)[index - self._first(number)]

    def steps(self) -> Iterator[int]:
        return iter(range(len(self)))

    def items(self, words: bytes = b"") -> Iterator[tuple[int, Json]]:
        """All, but for some that do not hold the words."""
        for number in range(len(self._pages)):
            if self._may_hold(number, words):
                yield from enumerate(self._values(number), self._first(number))

    def _first(self, number: int) -> int:
        return self._ends[number - 1] if number else 0

    def _values(self, number: int) -> list[Json]:
        large = self._pages[number].large
        values: list[Json] = self._page(number) if large is None else [large]
        return values

    def _parsed(self, number: int, written: str) -> Json:
        try:
            return decoded(f"[{written}]")
        except TooDeep:
            return [TOO_DEEP] * (self._ends[number] - self._first(number))


class LargeObject(_Large):
    def __init__(self, record: bytes, pages: list[Page], places: dict[str, int], times: dict[str, int]) -> None:
        """On which page the value of each key is, and how often keys were given that were given more than once."""
        super().__init__(record, pages)
        self._places = places
        self.times = times

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, key: str) -> Json:
        number = self._places[key]
        large = self._pages[number].large
        return self._page(number)[key] if large is None else large

    def steps(self) -> Iterator[str]:
        return iter(self._places)

    def items(self, words: bytes = b"") -> Iterator[tuple[str, Json]]:
        """All, but for some that do not hold the words."""
        looked_at = -1
        may_hold = True
        for key, number in self._places.items():
            if number != looked_at:
                looked_at, may_hold = number, self._may_hold(number, words)
            if may_hold:
                yield key, self[key]

    def _parsed(self, number: int, written: str) -> Json:
        try:
            return decoded(f"{{{written}}}")
        except TooDeep:
            return defaultdict(lambda: TOO_DEEP)


OBJECTS = (dict, LargeObject)
LISTS = (list, LargeList)
CONTAINERS = (*OBJECTS, *LISTS)


def steps(container: Json) -> Iterator[str | int]:
    """The keys of an object, the places in a list."""
    if isinstance(container, LargeList | LargeObject):
        return container.steps()
    return iter(container) if isinstance(container, dict) else iter(range(len(container)))


def items(container: Json, words: str = "") -> Iterator[tuple[str | int, Json]]:
    """With their keys or places; perhaps without some that do not hold the words, in whatever case."""
    if isinstance(container, LargeList | LargeObject):
        return container.items(words.casefold().encode(errors="surrogatepass"))
    return iter(container.items()) if isinstance(container, dict) else enumerate(container)


# ── spelling ──────────────────────────────────────────────────────────────────────────────────────


def spelled(value: Json) -> str:
    """A value of few characters as JSON has it; a container with two spaces a level."""
    return "".join(_spelled(value, "\n"))


def _spelled(value: Json, newline: str) -> Iterator[str]:
    if not isinstance(value, CONTAINERS) or not value:
        yield quoted(value) if type(value) is str else plain(value)
        return
    inner = newline + "  "
    before, after = "{}" if isinstance(value, OBJECTS) else "[]"
    for key, item in items(value):
        yield before + inner + (f"{quoted(key)}: " if isinstance(key, str) else "")
        yield from _spelled(item, inner)
        before = ","
    yield newline + after
