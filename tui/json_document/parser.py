"""This module parses records.

A record that fits on a page is parsed. A larger one is scanned page by page, to find where each page ends and to check
that it is JSON, and the values are dropped. So other threads never wait for more than a page.
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

_SPACE = re.compile(r"[ \t\n\r]*+")
_SPACE_BYTES = re.compile(rb"[ \t\n\r]*+")
_ITEM_HEAD = re.compile(rb'(?:\{[ \t\n\r]*+(?:"[^"\\]{0,40}"[ \t\n\r]*+:)?+|\[|")?+')
"""Matches the start of a list item. Items of one kind start alike."""

_VALUE_DELIMITERS = frozenset(" \t\n\r,:]}")
"""Lists what may follow a value. Anything else means that a number was cut off, e.g. before the `e` of 1.5e300."""

_SCAN_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)
"""Does not convert numbers, because the scanned values are dropped."""


def parse_record(record: bytes, page_bytes: int = PAGE_BYTES) -> Json:
    """Return the value of a record, or its `TextLines` if it is not JSON."""
    try:
        if not record.isascii():
            record.decode()
        return _parse_value(record, page_bytes)
    except UnicodeDecodeError:
        return TextLines(record.decode(errors="replace"))
    except TooDeep:
        return TextLines(record.decode(), "This JSON is nested too deeply to fold. It is shown as text.")
    except NotJson:
        return TextLines(record.decode())


def parse_embedded_json(text: Json, page_bytes: int = PAGE_BYTES) -> Json:
    """Return the object or list in a string that contains JSON, else None."""
    if not looks_like_json(text):
        return None
    try:
        record = text.encode() if len(text) > page_bytes else b""
    except UnicodeEncodeError:  # a lone surrogate cannot be encoded
        record = b""
    try:
        return _parse_value(record, page_bytes) if record else decode_json(text)
    except NotJson:
        return None


def looks_like_json(text: Json) -> bool:
    if type(text) is not str:
        return False
    ends = text[:100].lstrip()[:1] + text[-100:].rstrip()[-1:]
    return len(text) > 1 and ends in ("{}", "[]")


def _parse_value(record: bytes, page_bytes: int) -> Json:
    if len(record) <= page_bytes:
        return decode_json(record.decode())
    scanner = _JsonScanner(record, page_bytes)
    start = scanner.skip_space(0)
    if record[start : start + 1] not in (b"{", b"["):
        return decode_json(record.decode())
    try:
        value, end = scanner.scan_container(start)
    except json.JSONDecodeError as error:
        raise NotJson(error.msg) from None
    except RecursionError:
        raise TooDeep("The JSON is nested too deeply.") from None
    if scanner.skip_space(end) != len(record):
        raise NotJson("There is text after the JSON value.")
    return value


class _JsonScanner:
    """Finds the pages of the containers in a record. Every position is a byte offset."""

    def __init__(self, record: bytes, page_bytes: int) -> None:
        self._record = record
        self._page_bytes = page_bytes

    def skip_space(self, position: int) -> int:
        match = _SPACE_BYTES.match(self._record, position)
        return match.end() if match else position

    def scan_container(self, start: int) -> tuple[Json, int]:
        """Scan the list or object at a position. Return it, and its end."""
        pages: list[JsonPage] = []
        value = self._scan_object(start, pages) if self._record[start] == ord("{") else self._scan_list(start, pages)
        return value, self.skip_space(pages[-1].end if pages else start + 1) + 1

    def _scan_list(self, start: int, pages: list[JsonPage]) -> Json:
        ends: list[int] = []
        count = 0
        for page, names in self._scan_pages(start, b"]"):
            count += len(names)
            pages.append(page)
            ends.append(count)
        return LargeList(self._record, pages, ends) if pages else []

    def _scan_object(self, start: int, pages: list[JsonPage]) -> Json:
        page_numbers: dict[str, int] = {}
        times: dict[str, int] = {}
        for page, names in self._scan_pages(start, b"}"):
            for name in names:
                if name in page_numbers:
                    times[name] = times.get(name, 1) + 1
                page_numbers[name] = len(pages)
            pages.append(page)
        return LargeObject(self._record, pages, page_numbers, times) if pages else {}

    def _scan_pages(self, start: int, closing: bytes) -> Iterator[tuple[JsonPage, Sequence[str]]]:
        """Yield each page with the keys on it. A list yields an empty key for each item."""
        item_start = b""
        is_object = closing == b"}"
        position = self.skip_space(start + 1)
        if self._byte_at(position) == closing:
            return
        while True:
            page, names = (
                self._guess_page(position, item_start)
                or self._fit_page(position, is_object)
                or self._single_item_page(position, is_object)
            )
            yield page, names
            delimiter = self.skip_space(page.end)
            if self._byte_at(delimiter) == closing:
                return
            position = self._expect(b",", delimiter)
            head = _ITEM_HEAD.match(self._record, position)
            item_start = self._record[delimiter:position] + head[0] if head and not is_object else b""

    def _guess_page(self, position: int, item_start: bytes) -> tuple[JsonPage, Sequence[str]] | None:
        """Guess a page that ends before the last item that starts like this one.

        The guess is right if the page can be parsed, because then no bracket and no quotation mark is left open. This
        is three times faster than scanning.
        """
        end = self._record.rfind(item_start, position + 1, position + self._page_bytes) if item_start else -1
        if end < 0:
            return None
        try:
            values = orjson.loads(b"[%b]" % self._record[position:end])
        except orjson.JSONDecodeError:
            return None
        return JsonPage(position, end), [""] * len(values)

    def _fit_page(self, position: int, is_object: bool) -> tuple[JsonPage, Sequence[str]] | None:
        """Return a page of the items that fit completely into the size of a page, or None if there are none."""
        text = self._record[position : position + self._page_bytes].decode(errors="ignore")
        names, end = _scan_complete_items(text, is_object)
        return (JsonPage(position, position + _byte_length(text, end)), names) if names else None

    def _single_item_page(self, start: int, is_object: bool) -> tuple[JsonPage, Sequence[str]]:
        """Return a page of one item that is longer than a page."""
        position = start
        name = ""
        large: Json = None
        if is_object:
            name, position = self._scan_scalar(position)
            if type(name) is not str:
                raise NotJson("A key of an object is not a string.")
            position = self._expect(b":", self.skip_space(position))
        if self._byte_at(position) in (b"{", b"["):
            large, end = self.scan_container(position)
        else:
            _, end = self._scan_scalar(position)
        return JsonPage(start, end, large), [name]

    def _scan_scalar(self, position: int) -> tuple[Json, int]:
        """Scan a value of any length that is not a container. Return it, and its end."""
        size = self._page_bytes
        while True:
            text = self._record[position : position + size].decode(errors="ignore")
            is_complete = position + size >= len(self._record)
            try:
                value, end = _SCAN_DECODER.raw_decode(text)
                if is_complete or text[end : end + 1] in _VALUE_DELIMITERS:
                    return value, position + _byte_length(text, end)
            except json.JSONDecodeError:
                if is_complete:
                    raise
            size *= 4

    def _byte_at(self, position: int) -> bytes:
        return self._record[position : position + 1]

    def _expect(self, expected: bytes, position: int) -> int:
        if self._byte_at(position) != expected:
            raise NotJson(f"Expected {expected.decode()}.")
        return self.skip_space(position + 1)


def _scan_complete_items(text: str, is_object: bool) -> tuple[list[str], int]:
    """Return the keys of the items that are complete in the text, and where the last one ends."""
    names: list[str] = []
    closing = "}" if is_object else "]"
    position = end = 0
    name = ""
    try:
        while True:
            if is_object:
                name, position = _SCAN_DECODER.raw_decode(text, position)
                position = _skip_space(text, position)
                if type(name) is not str or text[position] != ":":
                    break
                position = _skip_space(text, position + 1)
            _, position = _SCAN_DECODER.raw_decode(text, position)
            delimiter = _skip_space(text, position)
            if text[delimiter] not in (",", closing):
                break
            names.append(name)
            end = position
            if text[delimiter] == closing:
                break
            position = _skip_space(text, delimiter + 1)
    except (json.JSONDecodeError, IndexError):
        pass  # the last item continues after this text, or is not JSON, which its own scan will detect
    return names, end


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _byte_length(text: str, end: int) -> int:
    """Return the length of the text up to `end` in bytes."""
    return end if text.isascii() else len(text[:end].encode())
