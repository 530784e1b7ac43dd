"""This module renders findings of waste, one per line."""

from __future__ import annotations

from typing import NamedTuple

from textual.content import Content

from store.model.statistics import Waste
from store.text.sanitize import cell_width, one_line
from tui.render.charts.measures import COST, TOKENS
from tui.render.styles import FAINT, MUTED, STRONG, WARNING, StyledText, build_content

_KIND_CELLS, _TIMES_CELLS, _TOKENS_CELLS, _COST_CELLS = 27, 8, 10, 11
_FIXED_CELLS = _KIND_CELLS + _TIMES_CELLS + _TOKENS_CELLS + _COST_CELLS + 2
MIN_SESSION_CELLS = 24
"""The width from which the session of a finding is shown beside its subject."""


class WasteRow(NamedTuple):
    waste: Waste
    session_title: str


def render_waste_head(width: int) -> Content:
    subject, session = _divide(width)
    columns = (("times", _TIMES_CELLS), ("tokens", _TOKENS_CELLS), (COST.label, _COST_CELLS))
    titles = "".join(title.rjust(cells) for title, cells in columns)
    text = "finding".ljust(_KIND_CELLS) + "what".ljust(subject) + ("session, turns".ljust(session) if session else "")
    return build_content([(text + titles, FAINT)]).truncate(width)


def render_waste_row(row: WasteRow, width: int) -> Content:
    subject_cells, session_cells = _divide(width)
    waste = row.waste
    mark = "~" if waste.is_estimated else ""
    pieces: list[StyledText] = [
        (waste.kind.ljust(_KIND_CELLS), WARNING),
        (_pad(one_line(waste.subject, subject_cells - 2), subject_cells), STRONG),
    ]
    if session_cells:
        turns = ", ".join(map(str, waste.turns[:6])) + (" …" if len(waste.turns) > 6 else "")
        place = f"{one_line(row.session_title, max(session_cells - cell_width(turns) - 4, 8))}, {turns}"
        pieces.append((_pad(one_line(place, session_cells - 2), session_cells), MUTED))
    pieces += [
        (f"{waste.times:,}".rjust(_TIMES_CELLS), ""),
        (f"{mark}{TOKENS.format(waste.tokens)}".rjust(_TOKENS_CELLS), ""),
        (COST.write(waste.cost, is_estimate=waste.is_estimated).rjust(_COST_CELLS), ""),
    ]
    return build_content(pieces).truncate(width)


def _divide(width: int) -> tuple[int, int]:
    """Return the cells of the subject and of the session."""
    room = max(width - _FIXED_CELLS, 8)
    return (room // 2, room - room // 2) if room >= 2 * MIN_SESSION_CELLS else (room, 0)


def _pad(text: str, cells: int) -> str:
    return text + " " * (cells - cell_width(text))
