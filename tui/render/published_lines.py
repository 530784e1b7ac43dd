"""This module renders published files: their names, sessions, ids and ages, and everything about one of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from textual.content import Content

from store.model.knowledge import PublishedFile
from store.text.sanitize import cell_width, one_line
from tui.render.session_lines import abbreviate_home
from tui.render.styles import (
    FAINT,
    MUTED,
    STRONG,
    WARNING,
    StyledText,
    build_content,
    format_age,
    format_moment,
    format_size,
)

MAX_NAME_CELLS = 40
MAX_TEXT_CHARACTERS = 4_000
_ID_CELLS, _AGE_CELLS, _LABEL_CELLS = 22, 8, 9


class PublishedRow(NamedTuple):
    file: PublishedFile
    session_title: str

    def matches(self, words: Sequence[str]) -> bool:
        text = f"{self.file.id} {self.file.path} {self.file.filename} {self.session_title}".casefold()
        return all(word in text for word in words)


class PublishedState(NamedTuple):
    """Says how large a published file is, or why it cannot be read."""

    size: int = 0
    problem: str = ""


def render_published_heading(shown: int, known: int, session_title: str) -> Content:
    """Render `Published files · 2 of 5 · Fix the flaky upload test`. Without a title, all sessions are meant."""
    count = f"{shown:,} of {known:,}" if shown != known else f"{known:,}"
    where = one_line(session_title, MAX_NAME_CELLS) or "all sessions"
    return build_content([("Published files", STRONG), (f" · {count} · {where}", MUTED)])


def render_published_row(row: PublishedRow, now: datetime, width: int, *, with_session: bool) -> Content:
    """Render `report.txt  ~/code/alpha   b0uMaJ…   3d`, or the session's title instead of the folder."""
    age = f"{format_age(row.file.created_at, now):>{_AGE_CELLS}}"
    end = f"  {one_line(row.file.id, _ID_CELLS):<{_ID_CELLS}}{age}" if width > 2 * _ID_CELLS + _AGE_CELLS else age
    room = max(width - cell_width(end), 1)
    name = one_line(row.file.filename, min(MAX_NAME_CELLS, room))
    where = row.session_title if with_session else abbreviate_home(os.path.dirname(row.file.path))
    where = one_line(where, max(room - cell_width(name) - 2, 0))
    gap = " " * max(room - cell_width(name) - cell_width(where) - 2, 0)
    return build_content([(name, ""), ("  ", ""), (where, MUTED), (gap, ""), (end, FAINT)]).truncate(width)


def render_published_page(row: PublishedRow, state: PublishedState, now: datetime) -> list[Content]:
    """Render everything about one file. Its path is complete, because it is shown before the file is opened."""
    file = row.file
    content: StyledText = (state.problem, WARNING) if state.problem else (format_size(state.size), "")
    lines: list[tuple[str, StyledText]] = [
        ("file", (file.filename, STRONG)),
        ("path", (abbreviate_home(file.path), "")),
        ("id", (file.id, "")),
        ("session", (row.session_title, "")),
        ("since", (format_moment(file.created_at, now), "")),
        ("content", content),
    ]
    return [
        build_content([(f"{label:<{_LABEL_CELLS}}", MUTED), (one_line(text, MAX_TEXT_CHARACTERS), style)])
        for label, (text, style) in lines
    ]
