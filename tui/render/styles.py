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
from store.text.sanitize import cell_width, one_line, truncate

MUTED = "$foreground 65%"
FAINT = "$foreground 45%"
STRONG = "bold"
ERROR = "$text-error"
WARNING = "$text-warning"

StyledText = tuple[str, str]
"""Text and its style."""

StyledLine = list[StyledText]
"""One line of a list: much sooner on the screen than Content, which a list of many lines would be made of anew at every
key."""


def build_content(pieces: Iterable[StyledText]) -> Content:
    return Content.assemble(*pieces)


def plain_text(line: Iterable[StyledText]) -> str:
    return "".join(text for text, _ in line)


def fit_line(line: StyledLine, width: int) -> StyledLine:
    """So much of it as has room."""
    room = width
    for at, (text, style) in enumerate(line):
        left = room - cell_width(text)
        if left < 0 or (not left and plain_text(line[at + 1 :])):
            return [*line[:at], (truncate(plain_text(line[at:]), room), style)]
        room = left
    return line


def highlight_matches(line: Iterable[StyledText], words: re.Pattern[str], style: str) -> Iterator[StyledText]:
    """The words set off, wherever they stand."""
    line = list(line)
    found = [match.span() for match in words.finditer(plain_text(line)) if match.group()]
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


def format_count(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}" if n else ""


class AgentBadge(NamedTuple):
    """How an agent is told from the others: two letters first, a colour besides."""

    letters: str
    style: str


AGENT_BADGES = {
    "adk": AgentBadge("ad", "$text-primary"),
    "chatgpt": AgentBadge("gp", "$text-success"),
    "claude": AgentBadge("cc", "$text-warning"),
    "claude-ai": AgentBadge("ca", "$text-warning"),
    "codex": AgentBadge("cx", "$text-success"),
    "copilot": AgentBadge("cp", "$text-primary"),
    "crush": AgentBadge("cr", "$text-error"),
    "gemini": AgentBadge("gm", "$text-primary"),
    "goose": AgentBadge("go", "$text-secondary"),
    "kiso": AgentBadge("ki", "$text-accent"),
    "library": AgentBadge("li", "$text-secondary"),
    "llm": AgentBadge("lm", "$text-secondary"),
    "opencode": AgentBadge("oc", "$text-accent"),
    "pi": AgentBadge("pi", "$text-success"),
    "pingu": AgentBadge("pg", "$text-primary"),
    "qwen": AgentBadge("qw", "$text-accent"),
    "rubichan": AgentBadge("ru", "$text-error"),
    "wuhu": AgentBadge("wu", "$text-success"),
}


def agent_badge(source: str) -> AgentBadge:
    return AGENT_BADGES.get(source) or AgentBadge(one_line(source, 2).ljust(2), "$text-secondary")


def session_title(session: Session) -> str:
    return session.title or session.id


def session_location(session: Session) -> str:
    """Where it happened: the folder's name, else the channel's, else whatever else names a place."""
    folder = PurePath(session.cwd).name
    return folder or session.channel or session.environment_name or session.user


def format_age(at: str, now: datetime) -> str:
    """How long ago, as short as it can be said; a date when it is long ago."""
    then = parse_time(at)
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
def parse_time(at: str) -> datetime | None:
    """None for a time that a foreign program spelled in a way of its own."""
    try:
        then = datetime.fromisoformat(at)
    except ValueError:
        return None
    return then.astimezone()
