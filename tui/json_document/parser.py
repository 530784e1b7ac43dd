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
from tui.json_document.large_containers import JsonPage, LargeList, LargeObject
from tui.json_document.values import NotJson, TextLines, TooDeep, decode_json

PAGE_BYTES = 64_000
"""Bytes."""

_SPACE = re.compile(r"[ \t\n\r]*+")
_SPACE_BYTES = re.compile(rb"[ \t\n\r]*+")
_ITEM_HEAD = re.compile(rb'(?:\{[ \t\n\r]*+(?:"[^"\\]{0,40}"[ \t\n\r]*+:)?+|\[|")?+')
"""How values of a list begin that are of one kind."""

_VALUE_DELIMITERS = frozenset(" \t\n\r,:]}")
"""Where a number was cut off, something else may follow: the `e` of 1.5e300."""

_SCAN_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)
"""Makes no numbers, since nobody will look at them."""


def parse_record(record: bytes, page_bytes: int = PAGE_BYTES) -> Json:
    """The value, or the Lines of what is no JSON."""
    try:
        if not record.isascii():
            record.decode()
        return _parse_value(record, page_bytes)
    except UnicodeDecodeError:
        return TextLines(record.decode(errors="replace"))
    except TooDeep:
        return TextLines(record.decode(), "This JSON is nested too deep to be folded; it is shown as it was written.")
    except NotJson:
        return TextLines(record.decode())


def parse_embedded_json(text: Json, page_bytes: int = PAGE_BYTES) -> Json:
    """The object or list that a string spells, else None."""
    if not looks_like_json(text):
        return None
    try:
        written = text.encode() if len(text) > page_bytes else b""
    except UnicodeEncodeError:  # half of a character, which can be in memory only
        written = b""
    try:
        return _parse_value(written, page_bytes) if written else decode_json(text)
    except NotJson:
        return None


def looks_like_json(text: Json) -> bool:
    if type(text) is not str:
        return False
    ends = text[:100].lstrip()[:1] + text[-100:].rstrip()[-1:]
    return len(text) > 1 and ends in ("{}", "[]")


def _parse_value(record: bytes, page: int) -> Json:
    if len(record) <= page:
        return decode_json(record.decode())
    measure = _JsonScanner(record, page)
    start = measure.skip_space(0)
    if record[start : start + 1] not in (b"{", b"["):
        return decode_json(record.decode())
    try:
        value, end = measure.scan_container(start)
    except json.JSONDecodeError as reason:
        raise NotJson(reason.msg) from None
    except RecursionError:
        raise TooDeep("It is nested too deep.") from None
    if measure.skip_space(end) != len(record):
        raise NotJson("Something follows it.")
    return value


class _JsonScanner:
    """Where in a record the pages of its containers are; every place is a number of bytes."""

    def __init__(self, record: bytes, page: int) -> None:
        self._record = record
        self._page_bytes = page

    def skip_space(self, at: int) -> int:
        found = _SPACE_BYTES.match(self._record, at)
        return found.end() if found else at

    def scan_container(self, start: int) -> tuple[Json, int]:
        """The list or object that begins there, and where it ends."""
        pages: list[JsonPage] = []
        value = self._scan_object(start, pages) if self._record[start] == ord("{") else self._scan_list(start, pages)
        return value, self.skip_space(pages[-1].end if pages else start + 1) + 1

    def _scan_list(self, start: int, pages: list[JsonPage]) -> Json:
        ends: list[int] = []
        count = 0
        for page, some in self._scan_pages(start, b"]"):
            count += len(some)
            pages.append(page)
            ends.append(count)
        return LargeList(self._record, pages, ends) if pages else []

    def _scan_object(self, start: int, pages: list[JsonPage]) -> Json:
        places: dict[str, int] = {}
        times: dict[str, int] = {}
        for page, names in self._scan_pages(start, b"}"):
            for name in names:
                if name in places:
                    times[name] = times.get(name, 1) + 1
                places[name] = len(pages)
            pages.append(page)
        return LargeObject(self._record, pages, places, times) if pages else {}

    def _scan_pages(self, start: int, closing: bytes) -> Iterator[tuple[JsonPage, Sequence[str]]]:
        """With the names of what is on each; in a list they are empty, but as many."""
        mark = b""
        is_object = closing == b"}"
        at = self.skip_space(start + 1)
        if self._byte_at(at) == closing:
            return
        while True:
            page, names = (
                self._guess_page(at, mark) or self._fit_page(at, is_object) or self._single_item_page(at, is_object)
            )
            yield page, names
            delimiter = self.skip_space(page.end)
            if self._byte_at(delimiter) == closing:
                return
            at = self._expect(b",", delimiter)
            head = _ITEM_HEAD.match(self._record, at)
            mark = self._record[delimiter:at] + head[0] if head and not is_object else b""

    def _guess_page(self, at: int, mark: bytes) -> tuple[JsonPage, Sequence[str]] | None:
        """Up to the last value of the list that seems to begin as this one does. What stands before it is a page if it
        can be parsed, for then no bracket and no quotation mark is left open; that is three times as quick."""
        end = self._record.rfind(mark, at + 1, at + self._page_bytes) if mark else -1
        if end < 0:
            return None
        try:
            values = orjson.loads(b"[%b]" % self._record[at:end])
        except orjson.JSONDecodeError:
            return None
        return JsonPage(at, end), [""] * len(values)

    def _fit_page(self, at: int, is_object: bool) -> tuple[JsonPage, Sequence[str]] | None:
        """As many as lie whole within a page's length."""
        written = self._record[at : at + self._page_bytes].decode(errors="ignore")
        names, end = _scan_complete_items(written, is_object)
        return (JsonPage(at, at + _byte_length(written, end)), names) if names else None

    def _single_item_page(self, start: int, is_object: bool) -> tuple[JsonPage, Sequence[str]]:
        """One that is longer than a page."""
        at = start
        name = ""
        large: Json = None
        if is_object:
            name, at = self._scan_scalar(at)
            if type(name) is not str:
                raise NotJson("The key of an object is no string.")
            at = self._expect(b":", self.skip_space(at))
        if self._byte_at(at) in (b"{", b"["):
            large, end = self.scan_container(at)
        else:
            _, end = self._scan_scalar(at)
        return JsonPage(start, end, large), [name]

    def _scan_scalar(self, at: int) -> tuple[Json, int]:
        """However long it is."""
        size = self._page_bytes
        while True:
            written = self._record[at : at + size].decode(errors="ignore")
            is_all = at + size >= len(self._record)
            try:
                value, end = _SCAN_DECODER.raw_decode(written)
                if is_all or written[end : end + 1] in _VALUE_DELIMITERS:
                    return value, at + _byte_length(written, end)
            except json.JSONDecodeError:
                if is_all:
                    raise
            size *= 4

    def _byte_at(self, at: int) -> bytes:
        return self._record[at : at + 1]

    def _expect(self, expected: bytes, at: int) -> int:
        if self._byte_at(at) != expected:
            raise NotJson(f"There is no {expected.decode()} where one should be.")
        return self.skip_space(at + 1)


def _scan_complete_items(written: str, is_object: bool) -> tuple[list[str], int]:
    """The names of those that are there whole, with what shows that they end; and where the last one ends."""
    names: list[str] = []
    closing = "}" if is_object else "]"
    at = end = 0
    name = ""
    try:
        while True:
            if is_object:
                name, at = _SCAN_DECODER.raw_decode(written, at)
                at = _skip_space(written, at)
                if type(name) is not str or written[at] != ":":
                    break
                at = _skip_space(written, at + 1)
            _, at = _SCAN_DECODER.raw_decode(written, at)
            delimiter = _skip_space(written, at)
            if written[delimiter] not in (",", closing):
                break
            names.append(name)
            end = at
            if written[delimiter] == closing:
                break
            at = _skip_space(written, delimiter + 1)
    except (json.JSONDecodeError, IndexError):
        pass  # the last one goes on beyond, or is no JSON, which will be found when it is looked at alone
    return names, end


def _skip_space(written: str, at: int) -> int:
    found = _SPACE.match(written, at)
    return found.end() if found else at


def _byte_length(written: str, end: int) -> int:
    """In bytes."""
    return end if written.isascii() else len(written[:end].encode())
