"""This module splits a Markdown text at its fenced code blocks. It is pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})")
_BACKTICKS = re.compile(r"`+")


class ProseOrCode(NamedTuple):
    """Holds a part of a text: prose, or the content of a fenced code block."""

    text: str
    is_code: bool = False
    language: str = ""


def split_fences(text: str) -> Iterator[ProseOrCode]:
    """Yield the parts of a text in order. A block that is never closed ends with the text."""
    if "```" not in text and "~~~" not in text:
        yield ProseOrCode(text)
        return
    lines: list[str] = []
    fence = language = ""
    for line in text.split("\n"):
        marker, info = _read_fence(line)
        if not marker or (fence and (info or not marker.startswith(fence))):
            lines.append(line)
        elif fence:
            yield ProseOrCode("\n".join(lines), True, language)
            lines, fence = [], ""
        else:
            if any(lines):
                yield ProseOrCode("\n".join(lines))
            lines, fence, language = [], marker, info.partition(" ")[0]
    if fence or any(lines):
        yield ProseOrCode("\n".join(lines), bool(fence), language if fence else "")


def _read_fence(line: str) -> tuple[str, str]:
    """Return the marks of a line that opens or closes a code block, and what follows them. Both may be empty."""
    match = _FENCE.match(line)
    info = line[match.end() :].strip() if match else ""
    return ("", "") if match is None or (match[1][0] == "`" and "`" in info) else (match[1], info)


def make_fence(text: str) -> str:
    """Return a fence that is longer than any row of backticks in the text."""
    return "`" * max(3, 1 + max((len(run) for run in _BACKTICKS.findall(text)), default=0))
