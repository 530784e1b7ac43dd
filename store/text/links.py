"""This module finds web addresses and file paths in a text. It opens nothing and asks no file system."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

MAX_SEARCHED_CHARACTERS = 400_000
"""Limits the text that is searched. It is as much of a text as the browser shows."""

_ADDRESS = re.compile(r"(?<![\w+.-])(?:https?|file)://(?:(?!\]\()[^\s<>\"`|\\^{}。，、；）】」』》])+", re.IGNORECASE)
_TRAILING_PUNCTUATION = ".,;:!?'*"
_CLOSING_BRACKETS = {")": "(", "]": "["}

_NAME = r"[\w.@+-]+"
_PATH = re.compile(
    rf"(?<![\w./~:@+-])(?P<path>(?:~?/)?(?:{_NAME}/)+{_NAME}|~?/{_NAME}|{_NAME}\.\w+)"
    r"(?::(?P<line>\d{1,7})(?::(?P<column>\d{1,5}))?|\#L(?P<anchor>\d{1,7})|\((?P<call>\d{1,7})(?:,[ ]?\d{1,5})?\)"
    r"|[\"'],[ ]line[ ](?P<traced>\d{1,7}))?"
)
_EXTENSION = re.compile(r"[^./]\.[A-Za-z]\w{0,9}$")


class Link(NamedTuple):
    """Is a path or a web address, as a text names it."""

    target: str
    line: int | None = None
    column: int | None = None
    is_address: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether this is meant as a path even if no such file exists. `and/or` and `example.com` are not."""
        if self.is_address or self.line is not None or self.target.startswith(("/", "~/", "./", "../")):
            return True
        return "/" in self.target and bool(_EXTENSION.search(self.target))


def find_links(text: str) -> Iterator[Link]:
    """Yield the addresses of a text, then its paths. A `file://` address is a path."""
    text = text[:MAX_SEARCHED_CHARACTERS]
    for start, end in find_address_spans(text):
        address = text[start:end]
        if address[:5].lower() != "file:":
            yield Link(address, is_address=True)
        elif path := path_of_file_address(address):
            yield Link(path)
    for match in _PATH.finditer(_ADDRESS.sub(lambda found: " " * len(found[0]), text)):
        if path := match["path"].rstrip("."):
            line = match["line"] or match["anchor"] or match["call"] or match["traced"]
            yield Link(path, int(line) if line else None, int(match["column"]) if match["column"] else None)


def find_address_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where addresses begin and end, without the punctuation of the sentence around them."""
    for match in _ADDRESS.finditer(text):
        yield match.start(), match.start() + _length_without_punctuation(match[0])


def _length_without_punctuation(address: str) -> int:
    """Return the length without what ends a sentence, and without brackets that were opened before the address."""
    surplus = {close: address.count(close) - address.count(open_) for close, open_ in _CLOSING_BRACKETS.items()}
    end = len(address)
    while end and (address[end - 1] in _TRAILING_PUNCTUATION or surplus.get(address[end - 1], 0) > 0):
        if address[end - 1] in surplus:
            surplus[address[end - 1]] -= 1
        end -= 1
    return end


def path_of_file_address(address: str) -> str:
    """Return the path of a `file://` address. It is empty if the address names another computer."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    return unquote(parts.path) if parts.netloc.lower() in ("", "localhost") else ""
