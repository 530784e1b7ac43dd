"""This module renders the statistics of a tool: its calls, failures and durations."""

from __future__ import annotations

from textual.content import Content

from store.model.tool_stats import ToolStats
from store.text.sanitize import cell_width, one_line
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, build_content
from tui.render.tool_call import format_duration

_COLUMN_TITLES = ("calls", "failed", "share", "median", "slowest")
_COLUMN_CELLS = 10
_MAX_NAME_CELLS = 40


def _name_width(width: int) -> int:
    return max(min(width - _COLUMN_CELLS * len(_COLUMN_TITLES), _MAX_NAME_CELLS), 4)


def render_tool_stats_head(width: int) -> Content:
    return build_content(
        [("tool".ljust(_name_width(width)) + "".join(head.rjust(_COLUMN_CELLS) for head in _COLUMN_TITLES), FAINT)]
    )


def render_tool_stats_row(stats: ToolStats, width: int) -> Content:
    name = one_line(stats.name, _name_width(width)) or "unnamed tool"
    failure_style = ERROR if stats.failed else FAINT
    return build_content(
        [
            (name + " " * (_name_width(width) - cell_width(name)), STRONG),
            (f"{stats.calls:,}".rjust(_COLUMN_CELLS), ""),
            (f"{stats.failed:,}".rjust(_COLUMN_CELLS), failure_style),
            (f"{stats.failure_rate:.1%}".rjust(_COLUMN_CELLS), failure_style),
            (_format_optional_duration(stats.median_ms).rjust(_COLUMN_CELLS), MUTED),
            (_format_optional_duration(stats.slowest_ms).rjust(_COLUMN_CELLS), MUTED),
        ]
    ).truncate(width)


def _format_optional_duration(milliseconds: float | None) -> str:
    return "" if milliseconds is None else format_duration(milliseconds)
