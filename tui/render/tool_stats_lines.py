"""A tool by its name: how often it was called, how often in vain, and how long it took."""

from __future__ import annotations

from textual.content import Content

from store.model.tool_stats import Tally
from store.text.sanitize import cells, one_line
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, content
from tui.render.tool_call import duration

_HEADS = ("calls", "failed", "share", "median", "slowest")
_CELLS = 10
_NAME = 40


def _room(width: int) -> int:
    return max(min(width - _CELLS * len(_HEADS), _NAME), 4)


def tally_head(width: int) -> Content:
    return content([("tool".ljust(_room(width)) + "".join(head.rjust(_CELLS) for head in _HEADS), FAINT)])


def tally_line(one: Tally, width: int) -> Content:
    name = one_line(one.name, _room(width)) or "a tool"
    failing = ERROR if one.failed else FAINT
    return content(
        [
            (name + " " * (_room(width) - cells(name)), STRONG),
            (f"{one.calls:,}".rjust(_CELLS), ""),
            (f"{one.failed:,}".rjust(_CELLS), failing),
            (f"{one.share:.1%}".rjust(_CELLS), failing),
            (_took(one.median_ms).rjust(_CELLS), MUTED),
            (_took(one.slowest_ms).rjust(_CELLS), MUTED),
        ]
    ).truncate(width)


def _took(milliseconds: float | None) -> str:
    return "" if milliseconds is None else duration(milliseconds)
