"""This module splits a memory file into its facts: bullets and lines of text. It is pure.

Headings, blank lines, HTML comments, front matter, imports and the marks of fences are no facts.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from store.memory.block import unescape_fact
from store.model.memory import LineKind, MemoryLine

ID_LENGTH = 12
MAX_LINE_CHARACTERS = 100_000
"""Limits the text of one fact, so that a file of one line stays readable."""

_BULLET = re.compile(r"^(\s*)(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?(.*)$")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_RULE = re.compile(r"^\s*(?:[-*_]\s*){3,}$")
_TABLE_RULE = re.compile(r"^\s*\|?[\s:|-]*-[\s:|-]*\|[\s:|-]*$")
_IMPORT_LINE = re.compile(r"^@\S+\s*$")
_EMPHASIS = re.compile(r"[*_`~]+")
_SPACES = re.compile(r"\s+")
_KEY = re.compile(r"^([^\W\d_][\w /.-]{0,39}?):\s+(\S.*)$")


class KeyValue(NamedTuple):
    key: str
    value: str


def normalize(text: str) -> str:
    """Return a text as it is compared: without escapes, emphasis, case, final punctuation and differences of space."""
    text = _EMPHASIS.sub("", unicodedata.normalize("NFKC", unescape_fact(text)))
    return _SPACES.sub(" ", text).strip().rstrip(".;,").casefold()


def line_id(path: str, text: str) -> str:
    data = f"{path}\0{normalize(text)}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:ID_LENGTH]


def find_key(text: str) -> KeyValue | None:
    """Return the key and the value of a fact such as `Database: PostgreSQL 16`, normalised."""
    match = _KEY.match(_EMPHASIS.sub("", text).strip())
    return KeyValue(normalize(match[1]), normalize(match[2])) if match else None


def replace_line(text: str, line: MemoryLine, new: str) -> str:
    """Return a file in which one fact has a new text. Its bullet stays, and lines that were joined become one."""
    lines = text.splitlines(keepends=True)
    first, last = lines[line.number - 1], lines[line.last_number - 1]
    bullet = _BULLET.match(first.rstrip("\r\n"))
    prefix = first[: bullet.start(2)] if bullet else first[: len(first) - len(first.lstrip())]
    ending = last[len(last.rstrip("\r\n")) :]
    return "".join([*lines[: line.number - 1], prefix + new + ending, *lines[line.last_number :]])


def split_lines(path: str, text: str) -> tuple[MemoryLine, ...]:
    """Return the facts of a file, in order."""
    return tuple(_LineReader(path).read(text))


class _LineReader:
    """Reads a file line by line, and remembers the bullet that the next lines may continue."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._heading = ""
        self._fence = ""
        self._is_comment = False
        self._open: MemoryLine | None = None
        self._indent = 0

    def read(self, text: str) -> Iterator[MemoryLine]:
        lines = text.split("\n")
        first = _count_front_matter(lines)
        for number, line in enumerate(lines[first:], first + 1):
            yield from self._read_line(number, line.rstrip("\r"))
        yield from self._close()

    def _read_line(self, number: int, line: str) -> Iterator[MemoryLine]:
        if self._fence:
            yield from self._read_code(number, line)
        elif fence := _FENCE.match(line):
            yield from self._close()
            self._fence = fence[1]
        else:
            line = self._remove_comments(line)
            if not line.strip():
                yield from self._close()
            elif heading := _HEADING.match(line):
                yield from self._close()
                self._heading = heading[1]
            elif not (_RULE.match(line) or _TABLE_RULE.match(line) or _IMPORT_LINE.match(line)):
                yield from self._read_text(number, line)

    def _read_code(self, number: int, line: str) -> Iterator[MemoryLine]:
        fence = _FENCE.match(line)
        if fence and fence[1].startswith(self._fence) and not line.strip().strip(fence[1][0]):
            self._fence = ""
        elif line.strip():
            yield self._make(number, line.strip(), "code")

    def _read_text(self, number: int, line: str) -> Iterator[MemoryLine]:
        bullet = _BULLET.match(line)
        indent = len(line) - len(line.lstrip())
        if bullet is None and self._open is not None and indent > self._indent:
            joined = f"{self._open.text} {line.strip()}"[:MAX_LINE_CHARACTERS]
            self._open = replace(self._open, text=joined, id=line_id(self._path, joined), last_number=number)
            return
        yield from self._close()
        if bullet and bullet[2].strip():
            self._open, self._indent = self._make(number, bullet[2].strip(), "bullet"), len(bullet[1])
        elif bullet is None:
            yield self._make(number, line.strip(), "line")

    def _close(self) -> Iterator[MemoryLine]:
        if self._open is not None:
            yield self._open
        self._open = None

    def _make(self, number: int, text: str, kind: LineKind) -> MemoryLine:
        text = text[:MAX_LINE_CHARACTERS]
        return MemoryLine(line_id(self._path, text), number, text, kind, self._heading, number)

    def _remove_comments(self, line: str) -> str:
        """Return what of a line is in no HTML comment."""
        kept = ""
        while line:
            if self._is_comment:
                _, end, line = line.partition("-->")
                self._is_comment = not end
            else:
                before, begin, line = line.partition("<!--")
                kept += before
                self._is_comment = bool(begin)
        return kept


def _count_front_matter(lines: list[str]) -> int:
    """Return how many lines at the beginning are front matter: between two lines of three dashes."""
    if lines[0].rstrip() != "---":
        return 0
    end = next((number for number, line in enumerate(lines[1:200], 2) if line.rstrip() == "---"), 0)
    return end


def read_front_matter(text: str) -> dict[str, str]:
    """Return the simple values of the front matter. A list is returned as its items, joined with commas."""
    lines = text.split("\n")
    values: dict[str, str] = {}
    name = ""
    for line in lines[1 : max(_count_front_matter(lines) - 1, 1)]:
        key, colon, value = line.partition(":")
        if line.strip().startswith("- ") and name:
            values[name] = ",".join(filter(None, [values[name], line.strip()[2:].strip("\"' ")]))
        elif colon and not line[:1].isspace():
            name = key.strip()
            values[name] = value.strip().strip("\"'")
    return values
