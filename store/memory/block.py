"""This module reads and writes the fenced block that holds our facts in a memory file. It is pure.

Text outside the block belongs to others, and is returned as it was. In the block, each fact is a bullet on one line.
Whatever would end the block or import a file is escaped, because a fact can come from an agent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from store.errors import Refused

BEGIN = "<!-- backscroll:begin"
END = "<!-- backscroll:end -->"
_BEGIN_LINE = re.compile(r"<!-- backscroll:begin [^\n]*-->")
_MARKER = re.compile(r"^[ \t]*<!-- backscroll:(?:begin|end)\b[^\n]*$", re.M)
_BULLET = re.compile(r"^\s*[-*+]\s+")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]+|[\r\n\t]+")

# A comment mark in a fact is written as an entity. An entity that was there before gets an `amp;` more.
_OPENING, _CLOSING, _IMPORT = (
    re.compile(r"&((?:amp;)*)lt;!--"),
    re.compile(r"--&((?:amp;)*)gt;"),
    re.compile(r"(^|\s)(\\*)@"),
)
_ESCAPED_IMPORT = re.compile(r"(^|\s)\\(\\*)@")


class FencedBlock(NamedTuple):
    """Is a memory file, split at our block."""

    before: str
    lines: tuple[str, ...]
    "Holds the bullets of the block as they are in the file, without their marks."
    after: str
    has_block: bool


def escape_fact(text: str) -> str:
    """Return a fact as the text of one bullet."""
    text = _CONTROLS.sub(" ", text)
    text = _OPENING.sub(r"&amp;\1lt;!--", text).replace("<!--", "&lt;!--")
    text = _CLOSING.sub(r"--&amp;\1gt;", text).replace("-->", "--&gt;")
    return _IMPORT.sub(r"\1\\\2@", text).strip()


def unescape_fact(line: str) -> str:
    """Return the fact that a bullet holds."""
    text = _ESCAPED_IMPORT.sub(r"\1\2@", line)
    text = text.replace("&lt;!--", "<!--").replace("--&gt;", "-->")
    text = re.sub(r"&amp;((?:amp;)*)lt;!--", r"&\1lt;!--", text)
    return re.sub(r"--&amp;((?:amp;)*)gt;", r"--&\1gt;", text)


def split_block(text: str, path: str) -> FencedBlock:
    """Split a file at our block. Refuse a file in which our marks are doubled, cut or in the wrong order."""
    marks = [match[0].strip() for match in _MARKER.finditer(text)]
    if not marks:
        return FencedBlock(text, (), "", False)
    begin = _BEGIN_LINE.fullmatch(marks[0])
    if len(marks) != 2 or begin is None or marks[1] != END:
        raise Refused(f"The marks of Backscroll in {path} are doubled or cut. Remove them, or undo the change there.")
    first, last = (match.span() for match in _MARKER.finditer(text))
    inner = text[first[1] : last[0]]
    lines = tuple(_BULLET.sub("", line).strip() for line in inner.splitlines() if line.strip())
    return FencedBlock(text[: first[0]], lines, text[last[1] :], True)


def join_block(block: FencedBlock, lines: Sequence[str]) -> str:
    """Return the file with these bullets in its block. Without any, the block is removed."""
    newline = "\r\n" if "\r\n" in block.before + block.after else "\n"
    if not lines:
        return block.before + block.after.removeprefix("\r\n").removeprefix("\n") if block.has_block else block.before
    before, after = block.before, block.after
    if before and not before.endswith("\n"):
        before += newline
    if not block.has_block:
        after = newline
    return before + newline.join([format_begin(lines), *(f"- {line}" for line in lines), END]) + after


def format_begin(lines: Sequence[str]) -> str:
    count = f"{len(lines)} fact{'s'[: len(lines) != 1]}"
    return f"{BEGIN} {count} sha256:{digest_lines(lines)} -->"


def digest_lines(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:16]
