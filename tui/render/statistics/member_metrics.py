"""This module renders the figures that members of a team share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.content import Content

from store.model.team import MemberMetrics, MetricsRow
from store.model.usage import MICRO_DOLLARS
from store.text.sanitize import cell_width, one_line
from tui.render.styles import MUTED, STRONG, build_content

SHOWN_ROWS = 5
"""Limits the folders and tools of each member."""

_NO_FIGURES = "No member shares figures. Set `metrics = true` in [team] of the config file to share yours."
_TITLES = ("sessions", "turns", "calls", "failed", "USD")
_CELLS = 9


def render_metrics(members: Sequence[MemberMetrics], width: int) -> list[Content]:
    """Render each member with the folders and tools that it used most."""
    lines = [line for member in members for line in _render_member(member, width)]
    return lines or [Content.styled(_NO_FIGURES, MUTED)]


def _render_member(member: MemberMetrics, width: int) -> Iterator[Content]:
    room = max(width - len(_TITLES) * _CELLS, 8)
    titles = "".join(f"{title:>{_CELLS}}" for title in _TITLES)
    yield build_content([(_fill(f"{member.member}, {member.day}", room), STRONG), (titles, MUTED)])
    yield _render_row("everything", member.total, room)
    for name, rows in (("folder", member.folders), ("tool", member.tools)):
        for row in rows[:SHOWN_ROWS]:
            yield Content("  ") + _render_row(row.name or f"no {name}", row, room - 2)
    yield Content("")


def _render_row(label: str, row: MetricsRow, room: int) -> Content:
    cost = "" if row.cost is None else f"{row.cost / MICRO_DOLLARS:,.2f}"
    counts = (f"{count:,}" for count in (row.sessions, row.turns, row.tool_calls, row.errors))
    return Content(_fill(label, room) + "".join(f"{text:>{_CELLS}}" for text in (*counts, cost)))


def _fill(text: str, cells: int) -> str:
    shown = one_line(text, cells - 1)
    return shown + " " * (cells - cell_width(shown))
