"""From what was written to what is looked at.

What fits on a page is parsed. What is larger is only measured: page after page is parsed to see where it ends and that
it is JSON, and forgotten. So no more than a page is ever parsed before other threads have their turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import orjson

from store.model.entry import Json
from tui.json_document.large_containers import LargeList, LargeObject, Page
from tui.json_document.values import Lines, NotJson, TooDeep, decoded

PAGE = 64_000
"""Bytes."""

_SPACE = re.compile(r"[ \t\n\r]*+")
_SPACE_WRITTEN = re.compile(rb"[ \t\n\r]*+")
_HEAD = re.compile(rb'(?:\{[ \t\n\r]*+(?:"[^"\\]{0,40}"[ \t\n\r]*+:)?+|\[|")?+')
"""How values of a list begin that are of one kind."""

_AFTER_A_VALUE = frozenset(" \t\n\r,:]}")
"""Where a number was cut off, something else may follow: the `e` of 1.5e300."""

_MEASURE = json.JSONDecoder(parse_int=str, parse_float=str)
"""Makes no numbers, since nobody will look at them."""


def parse(record: bytes, page: int = PAGE) -> Json:
    """The value, or the Lines of what is no JSON."""
    try:
        if not record.isascii():
            record.decode()
        return _value(record, page)
    except UnicodeDecodeError:
        return Lines(record.decode(errors="replace"))
    except TooDeep:
        return Lines(record.decode(), "This JSON is nested too deep to be folded; it is shown as it was written.")
    except NotJson:
        return Lines(record.decode())


def json_in(text: Json, page: int = PAGE) -> Json:
    """The object or list that a string spells, else None."""
    if not looks_like_json(text):
        return None
    try:
        written = text.encode() if len(text) > page else b""
    except UnicodeEncodeError:  # half of a character, which can be in memory only
        written = b""
    try:
        return _value(written, page) if written else decoded(text)
    except NotJson:
        return None


def looks_like_json(text: Json) -> bool:
    if type(text) is not str:
        return False
    ends = text[:100].lstrip()[:1] + text[-100:].rstrip()[-1:]
    return len(text) > 1 and ends in ("{}", "[]")


def _value(record: bytes, page: int) -> Json:
    if len(record) <= page:
        return decoded(record.decode())
    measure = _Measure(record, page)
    start = measure.past_space(0)
    if record[start : start + 1] not in (b"{", b"["):
        return decoded(record.decode())
    try:
        value, end = measure.container(start)
    except json.JSONDecodeError as reason:
        raise NotJson(reason.msg) from None
    except RecursionError:
        raise TooDeep("It is nested too deep.") from None
    if measure.past_space(end) != len(record):
        raise NotJson("Something follows it.")
    return value


class _Measure:
    """Where in a record the pages of its containers are; every place is a number of bytes."""

    def __init__(self, record: bytes, page: int) -> None:
        self._record = record
        self._page = page

    def past_space(self, at: int) -> int:
        found = _SPACE_WRITTEN.match(self._record, at)
        return found.end() if found else at

    def container(self, start: int) -> tuple[Json, int]:
        """The list or object that begins there, and where it ends."""
        pages: list[Page] = []
        value = self._object(start, pages) if self._record[start] == ord("{") else self._list(start, pages)
        return value, self.past_space(pages[-1].end if pages else start + 1) + 1

    def _list(self, start: int, pages: list[Page]) -> Json:
        ends: list[int] = []
        count = 0
        for page, some in self._pages(start, b"]"):
            count += len(some)
            pages.append(page)
            ends.append(count)
        return LargeList(self._record, pages, ends) if pages else []

    def _object(self, start: int, pages: list[Page]) -> Json:
        places: dict[str, int] = {}
        times: dict[str, int] = {}
        for page, names in self._pages(start, b"}"):
            for name in names:
                if name in places:
                    times[name] = times.get(name, 1) + 1
                places[name] = len(pages)
            pages.append(page)
        return LargeObject(self._record, pages, places, times) if pages else {}

    def _pages(self, start: int, closing: bytes) -> Iterator[tuple[Page, Sequence[str]]]:
        """With the names of what is on each; in a list they are empty, but as many."""
        mark = b""
        is_object = closing == b"}"
        at = self.past_space(start + 1)
        if self._at(at) == closing:
            return
        while True:
            page, names = self._guessed(at, mark) or self._fitting(at, is_object) or self._single(at, is_object)
            yield page, names
            delimiter = self.past_space(page.end)
            if self._at(delimiter) == closing:
                return
            at = self._past(b",", delimiter)
            head = _HEAD.match(self._record, at)
            mark = self._record[delimiter:at] + head[0] if head and not is_object else b""

    def _guessed(self, at: int, mark: bytes) -> tuple[Page, Sequence[str]] | None:
        """Up to the last value of the list that seems to begin as this one does. What stands before it is a page if it
        can be parsed, for then no bracket and no quotation mark is left open; that is three times as quick."""
        end = self._record.rfind(mark, at + 1, at + self._page) if mark else -1
        if end < 0:
            return None
        try:
            values = orjson.loads(b"[%b]" % self._record[at:end])
        except orjson.JSONDecodeError:
            return None
        return Page(at, end), [""] * len(values)

    def _fitting(self, at: int, is_object: bool) -> tuple[Page, Sequence[str]] | None:
        """As many as lie whole within a page's length."""
        written = self._record[at : at + self._page].decode(errors="ignore")
        names, end = _whole(written, is_object)
        return (Page(at, at + _size(written, end)), names) if names else None

    def _single(self, start: int, is_object: bool) -> tuple[Page, Sequence[str]]:
        """One that is longer than a page."""
        at = start
        name = ""
        large: Json = None
        if is_object:
            name, at = self._scalar(at)
            if type(name) is not str:
                raise NotJson("The key of an object is no string.")
            at = self._past(b":", self.past_space(at))
        if self._at(at) in (b"{", b"["):
            large, end = self.container(at)
        else:
            _, end = self._scalar(at)
        return Page(start, end, large), [name]

    def _scalar(self, at: int) -> tuple[Json, int]:
        """However long it is."""
        size = self._page
        while True:
            written = self._record[at : at + size].decode(errors="ignore")
            is_all = at + size >= len(self._record)
            try:
                value, end = _MEASURE.raw_decode(written)
                if is_all or written[end : end + 1] in _AFTER_A_VALUE:
                    return value, at + _size(written, end)
            except json.JSONDecodeError:
                if is_all:
                    raise
            size *= 4

    def _at(self, at: int) -> bytes:
        return self._record[at : at + 1]

    def _past(self, expected: bytes, at: int) -> int:
        if self._at(at) != expected:
            raise NotJson(f"There is no {expected.decode()} where one should be.")
        return self.past_space(at + 1)


def _whole(written: str, is_object: bool) -> tuple[list[str], int]:
    """The names of those that are there whole, with what shows that they end; and where the last one ends."""
    names: list[str] = []
    closing = "}" if is_object else "]"
    at = end = 0
    name = ""
    try:
        while True:
            if is_object:
                name, at = _MEASURE.raw_decode(written, at)
                at = _past_space(written, at)
                if type(name) is not str or written[at] != ":":
                    break
                at = _past_space(written, at + 1)
            _, at = _MEASURE.raw_decode(written, at)
            delimiter = _past_space(written, at)
            if written[delimiter] not in (",", closing):
                break
            names.append(name)
            end = at
            if written[delimiter] == closing:
                break
            at = _past_space(written, delimiter + 1)
    except (json.JSONDecodeError, IndexError):
        pass  # the last one goes on beyond, or is no JSON, which will be found when it is looked at alone
    return names, end


def _past_space(written: str, at: int) -> int:
    found = _SPACE.match(written, at)
    return found.end() if found else at


def _size(written: str, end: int) -> int:
    """In bytes."""
    return end if written.isascii() else len(written[:end].encode())
