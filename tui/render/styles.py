"""What all pictures share: styles, the marks of agents, ages, counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from pathlib import PurePath
from typing import NamedTuple

from textual.content import Content

from store.model.session import Session
from store.text.sanitize import cells, cut, one_line

MUTED = "$foreground 65%"
FAINT = "$foreground 45%"
STRONG = "bold"
ERROR = "$text-error"
STAR = "$text-warning"

Piece = tuple[str, str]
"""Text and its style."""

Line = list[Piece]
"""One line of a list: much sooner on the screen than Content, which a list of many lines would be made of anew at every
key."""


def content(pieces: Iterable[Piece]) -> Content:
    return Content.assemble(*pieces)


def plain(line: Iterable[Piece]) -> str:
    return "".join(text for text, _ in line)


def fitted(line: Line, width: int) -> Line:
    """So much of it as has room."""
    room = width
    for at, (text, style) in enumerate(line):
        left = room - cells(text)
        if left < 0 or (not left and plain(line[at + 1 :])):
            return [*line[:at], (cut(plain(line[at:]), room), style)]
        room = left
    return line


def marked(line: Iterable[Piece], words: re.Pattern[str], style: str) -> Iterator[Piece]:
    """The words set off, wherever they stand."""
    line = list(line)
    found = [match.span() for match in words.finditer(plain(line)) if match.group()]
    at = 0
    for text, own in line:
        begin, end = at, at + len(text)
        for start, stop in found:
            if begin < stop and start < end:
                yield text[begin - at : start - at] if start > begin else "", own
                begin, start = min(stop, end), max(start, begin)
                yield text[start - at : begin - at], style
        yield text[begin - at :], own
        at = end


def count(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}" if n else ""


class Mark(NamedTuple):
    """How an agent is told from the others: two letters first, a colour besides."""

    letters: str
    style: str


MARKS = {
    "adk": Mark("ad", "$text-primary"),
    "chatgpt": Mark("gp", "$text-success"),
    "claude": Mark("cc", "$text-warning"),
    "claude-ai": Mark("ca", "$text-warning"),
    "codex": Mark("cx", "$text-success"),
    "copilot": Mark("cp", "$text-primary"),
    "crush": Mark("cr", "$text-error"),
    "gemini": Mark("gm", "$text-primary"),
    "goose": Mark("go", "$text-secondary"),
    "kiso": Mark("ki", "$text-accent"),
    "library": Mark("li", "$text-secondary"),
    "llm": Mark("lm", "$text-secondary"),
    "opencode": Mark("oc", "$text-accent"),
    "pi": Mark("pi", "$text-success"),
    "pingu": Mark("pg", "$text-primary"),
    "qwen": Mark("qw", "$text-accent"),
    "rubichan": Mark("ru", "$text-error"),
    "wuhu": Mark("wu", "$text-success"),
}


def mark_of(source: str) -> Mark:
    return MARKS.get(source) or Mark(one_line(source, 2).ljust(2), "$text-secondary")


def title_of(session: Session) -> str:
    return session.title or session.id


def place_of(session: Session) -> str:
    """Where it happened: the folder's name, else the channel's, else whatever else names a place."""
    folder = PurePath(session.cwd).name
    return folder or session.channel or session.environment_name or session.user


def age(at: str, now: datetime) -> str:
    """How long ago, as short as it can be said; a date when it is long ago."""
    then = moment(at)
    if then is None:
        return ""
    minutes = int((now - then).total_seconds()) // 60
    if minutes < 1:
        return "now"
    if minutes < 60:
        return f"{minutes}m"
    if minutes < 24 * 60:
        return f"{minutes // 60}h"
    if minutes < 30 * 24 * 60:
        return f"{minutes // (24 * 60)}d"
    return f"{then:%b %Y}" if then.year != now.year else f"{then.day} {then:%b}"


@lru_cache(maxsize=1024)
def moment(at: str) -> datetime | None:
    """None for a time that a foreign program spelled in a way of its own."""
    try:
        then = datetime.fromisoformat(at)
    except ValueError:
        return None
    return then.astimezone()
