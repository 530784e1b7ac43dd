"""This module holds what all renderers share: styles, agent badges, ages, counts and sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from pathlib import PurePath

from textual.content import Content
from textual.theme import Theme

from store import sources
from store.model.session import LIBRARY_SOURCE, Session
from store.sources import Badge
from store.text.sanitize import ELLIPSIS, cell_width, one_line, sanitize, truncate
from tui.render import glyphs

MUTED = "$foreground 75%"
FAINT = "$foreground 60%"
STRONG = "bold"
ERROR = "$text-error"
WARNING = "$text-warning"
SUCCESS = "$text-success"

THEME = Theme(
    name="backscroll",
    dark=True,
    primary="#7AA2F7",
    secondary="#BB9AF7",
    accent="#FF9E64",
    warning="#E0AF68",
    error="#F7768E",
    success="#9ECE6A",
    foreground="#C8D3F5",
    background="#16161E",
    surface="#1E2030",
    panel="#2A2E42",
    variables={
        "primary-muted": "#28304E",
        "footer-background": "#1E2030",
        "footer-key-foreground": "#FF9E64",
        "footer-description-foreground": "#A9B1D6",
        "input-selection-background": "#7AA2F7 35%",
    },
)
"""The theme of the browser until a person chooses another one. A test checks its contrasts."""

StyledText = tuple[str, str]
"""Holds a text and its style."""

StyledLine = list[StyledText]
"""Holds one line of a list. It is much faster than Content, which a long list would have to rebuild at every key."""


def build_content(pieces: Iterable[StyledText]) -> Content:
    return Content.assemble(*pieces)


MAX_MESSAGE_CHARACTERS = 1_000
MAX_MESSAGE_LINES = 20
"""Limit the texts around the field of a dialog, and notices. Textual wraps all of such a text at once, and again
whenever it lays out the screen."""


def shorten_message(text: str) -> str:
    """Return a text for a place that shows a few lines, sanitized. It may quote a title or a path of any length."""
    shown = "\n".join(text[:MAX_MESSAGE_CHARACTERS].split("\n", MAX_MESSAGE_LINES)[:MAX_MESSAGE_LINES])
    return sanitize(shown) + (ELLIPSIS if len(text) > len(shown) else "")


def render_message(text: str, style: str = "") -> Content:
    """Return a heading, a note or a refusal of a dialog."""
    return Content.styled(shorten_message(text), style)


def plain_text(line: Iterable[StyledText]) -> str:
    return "".join(text for text, _ in line)


def fill_cells(text: str, cells: int) -> str:
    """Return a text on one line that is exactly this wide."""
    line = one_line(text, cells) if cells else ""
    return line + " " * (cells - cell_width(line))


def share_room(room: int, needed: int, other: int) -> int:
    """Return the width of a column beside another one: what it needs, but at most two fifths of the room, unless the
    other one needs less than the rest."""
    return max(min(needed, max(room * 2 // 5, room - other)), 0)


def fit_line(line: StyledLine, width: int) -> StyledLine:
    """Truncate a line to a width in cells."""
    room = width
    for index, (text, style) in enumerate(line):
        left = room - cell_width(text)
        if left < 0 or (not left and plain_text(line[index + 1 :])):
            return [*line[:index], (truncate(plain_text(line[index:]), room), style)]
        room = left
    return line


def highlight_matches(line: Iterable[StyledText], words: re.Pattern[str], style: str) -> Iterator[StyledText]:
    """Restyle every match of the pattern in a line."""
    line = list(line)
    spans = [match.span() for match in words.finditer(plain_text(line)) if match.group()]
    offset = 0
    for text, text_style in line:
        begin, end = offset, offset + len(text)
        for start, stop in spans:
            if begin < stop and start < end:
                yield text[begin - offset : start - offset] if start > begin else "", text_style
                begin, start = min(stop, end), max(start, begin)
                yield text[start - offset : begin - offset], style
        yield text[begin - offset :], text_style
        offset = end


def format_count(n: int, thing: str) -> str:
    """Return e.g. `1 turn` or `12 turns`. Zero is an empty string, so that callers can leave it out."""
    return f"{n:,} {thing}{'' if n == 1 else 's'}" if n else ""


def format_counts(turns: int, calls: int, failures: int, *, in_words: bool) -> tuple[str, str]:
    """Return `3 turns · 8 calls` and ` · 2 failed`, or the same with marks: `3⟲ 8⚙` and ` 2✗`. Zeros are left out."""
    if in_words:
        counts = filter(None, [format_count(turns, "turn"), format_count(calls, "call")])
        return " · ".join(counts), f" · {failures:,} failed" if failures else ""
    marked = [f"{n:,}{mark}" for n, mark in ((turns, glyphs.TURNS), (calls, glyphs.CALLS)) if n]
    return " ".join(marked), f" {failures:,}{glyphs.FAILED}" if failures else ""


def format_size(size: int) -> str:
    """Return a number of bytes as a person reads it, e.g. `1.5 kB`."""
    for unit, unit_size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= unit_size:
            return f"{size / unit_size:.1f} {unit}"
    return format_count(size, "byte") or "empty"


_LIBRARY_BADGE = Badge("li", "$text-secondary")


def agent_badge(source: str) -> Badge:
    """Return the two letters and the colour that tell an agent apart from others in a list."""
    if source in sources.REGISTRY:
        return sources.REGISTRY[source].badge
    return _LIBRARY_BADGE if source == LIBRARY_SOURCE else Badge(one_line(source, 2).ljust(2), "$text-secondary")


MAX_TITLE_CHARACTERS = 10_000
"""Limits what is shown of a title, because every key may show it again."""


def session_title(session: Session) -> str:
    return (session.describe(sources.source_label(session.source)) or session.id)[:MAX_TITLE_CHARACTERS]


def session_location(session: Session) -> str:
    """Return where a session happened: its folder, else its user and channel, or its environment.

    A user who is only known by the id of the channel is left out.
    """
    folder = PurePath(session.cwd).name
    user = session.user if session.user != session.channel_id else ""
    return folder or " · ".join(filter(None, [user, session.channel])) or session.environment_name


def format_age(at: str, now: datetime) -> str:
    """Return how long ago a time was, e.g. `5m`, `3h` or `2d`. After 30 days, or if it is to come, it is a date."""
    time = parse_time(at)
    if time is None:
        return ""
    minutes = int((now - time).total_seconds()) // 60
    if -24 * 60 < minutes < 1:
        return "now"
    if 0 < minutes < 60:
        return f"{minutes}m"
    if 0 < minutes < 24 * 60:
        return f"{minutes // 60}h"
    if 0 < minutes < 30 * 24 * 60:
        return f"{minutes // (24 * 60)}d"
    return f"{time:%b %Y}" if time.year != now.year else f"{time.day} {time:%b}"


def format_moment(at: str, now: datetime) -> str:
    """Return a time with its age, e.g. `2026-11-03 11:56, 4m`, or the text itself if it is no time."""
    time = parse_time(at)
    return f"{time:%Y-%m-%d %H:%M}, {format_age(at, now)}" if time else one_line(at, 60)


@lru_cache(maxsize=1024)
def parse_time(at: str) -> datetime | None:
    """Parse an ISO time of a foreign program. Return None if it has another format."""
    try:
        time = datetime.fromisoformat(at)
    except ValueError:
        return None
    return time.astimezone()
