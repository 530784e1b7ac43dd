"""This module renders the statistics of a tool: its calls, failures and durations."""

from __future__ import annotations

from textual.content import Content

from store.model.tool_stats import ToolStats
from store.text.sanitize import cell_width, one_line
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, build_content
from tui.render.tool_call import format_duration

_COLUMN_TITLES = ("calls", "failed", "failure rate", "median", "slowest")
_COLUMN_CELLS = (8, 8, 14, 10, 10)
_MAX_NAME_CELLS = 40


def _name_width(width: int) -> int:
    return max(min(width - sum(_COLUMN_CELLS), _MAX_NAME_CELLS), 4)


def render_tool_stats_head(width: int) -> Content:
    columns = (title.rjust(cells) for title, cells in zip(_COLUMN_TITLES, _COLUMN_CELLS, strict=True))
    return build_content([("tool".ljust(_name_width(width)) + "".join(columns), FAINT)])


def render_tool_stats_row(stats: ToolStats, width: int) -> Content:
    name = one_line(stats.name, _name_width(width)) or "unnamed tool"
    failure_style = ERROR if stats.failed else FAINT
    columns = (
        (f"{stats.calls:,}", ""),
        (f"{stats.failed:,}", failure_style),
        (f"{stats.failure_rate:.1%}", failure_style),
        (_format_optional_duration(stats.median_ms), MUTED),
        (_format_optional_duration(stats.slowest_ms), MUTED),
    )
    pieces = [(name + " " * (_name_width(width) - cell_width(name)), STRONG)]
    pieces += [(text.rjust(cells), style) for (text, style), cells in zip(columns, _COLUMN_CELLS, strict=True)]
    return build_content(pieces).truncate(width)


def _format_optional_duration(milliseconds: float | None) -> str:
    return "" if milliseconds is None else format_duration(milliseconds)
