"""This module renders the tables of statistics: one line for each model, agent, folder, tool or session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content

from store.model.statistics import Figures
from store.text.sanitize import cell_width, one_line
from tui.render.charts.inline import draw_share, draw_sparkline
from tui.render.charts.measures import ACTIVE, CALLS, COST, ERRORS, MEASURES, TOKENS, TURNS, Measure
from tui.render.session_lines import shorten_path
from tui.render.statistics.figures import StatsRow, TableName, read_amount, write_amount
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, StyledText, build_content
from tui.render.tool_call import format_duration

SHARE_CELLS, SHARE_GAP_CELLS, TREND_CELLS = 12, 2, 20
MIN_LABEL_CELLS, WISHED_LABEL_CELLS, MAX_LABEL_CELLS = 18, 32, 48
NUMBER_CELLS = {COST.key: 11, TOKENS.key: 9, TURNS.key: 8, CALLS.key: 8, ERRORS.key: 8, ACTIVE.key: 13}
_TOOL_TITLES = ("calls", "failed", "rate", "median", "p95")
_TOOL_CELLS = (8, 8, 8, 10, 10)


class TableLayout(NamedTuple):
    """Says which columns fit. The column of the current measure comes first; the others follow as there is room."""

    table: TableName
    measure: Measure
    label_cells: int
    share_cells: int
    trend_cells: int
    measures: Sequence[Measure]

    @classmethod
    def fit(
        cls, table: TableName, measure: Measure, width: int, *, has_trend: bool = True, longest_label: int = 0
    ) -> TableLayout:
        """Return the columns for a width. Long labels may take the room of the last measures."""
        min_label = min(max(longest_label + 1, MIN_LABEL_CELLS), WISHED_LABEL_CELLS)
        if table == "tool":
            room = width - sum(_TOOL_CELLS)
            share = SHARE_CELLS if room >= MIN_LABEL_CELLS + SHARE_CELLS + SHARE_GAP_CELLS else 0
            label = max(min(room - (share + SHARE_GAP_CELLS if share else 0), MAX_LABEL_CELLS), 4)
            return cls(table, measure, label, share, 0, ())
        # The active time of a model is not known, because a turn may use several.
        others = [other for other in MEASURES if other != measure and not (table == "model" and other is ACTIVE)]
        shown, room = [measure], width - min_label - NUMBER_CELLS[measure.key] - SHARE_CELLS - SHARE_GAP_CELLS
        for other in others:
            if room >= NUMBER_CELLS[other.key]:
                shown.append(other)
                room -= NUMBER_CELLS[other.key]
        trend = TREND_CELLS if has_trend and room >= TREND_CELLS + 2 else 0
        room -= trend + 2 if trend else 0
        label = min(min_label + max(room, 0), MAX_LABEL_CELLS)
        return cls(table, measure, label, SHARE_CELLS if room >= 0 else 0, trend, shown)

    def render_head(self) -> Content:
        pieces: list[StyledText] = [(self.table.ljust(self.label_cells), FAINT)]
        pieces.append((" " * (self.share_cells + SHARE_GAP_CELLS) if self.share_cells else "", ""))
        if self.table == "tool":
            titles = zip(_TOOL_TITLES, _TOOL_CELLS, strict=True)
            return build_content([*pieces, ("".join(title.rjust(cells) for title, cells in titles), FAINT)])
        for shown in self.measures:
            style = "bold $text-accent" if shown == self.measure else FAINT
            pieces.append((shown.label.rjust(NUMBER_CELLS[shown.key]), style))
        if self.trend_cells:
            pieces.append(("  " + "trend".rjust(self.trend_cells), FAINT))
        return build_content(pieces)

    def render_row(self, row: StatsRow, highest: int, width: int) -> Content:
        shorten = shorten_path if self.table == "folder" else one_line
        label = shorten(row.label, self.label_cells - 1) or "unknown"
        pieces: list[StyledText] = [(label + " " * (self.label_cells - cell_width(label)), STRONG)]
        measure = CALLS if self.table == "tool" else self.measure
        if self.share_cells:
            share = (read_amount(row.figures, measure) or 0) / highest if highest else 0
            pieces += [*draw_share(share, self.share_cells), (" " * SHARE_GAP_CELLS, "")]
        pieces += _render_tool_columns(row) if self.table == "tool" else self._render_columns(row)
        return build_content(pieces).truncate(width)

    def _is_known(self, figures: Figures, measure: Measure) -> bool:
        """Return whether a row has this measure: some agents report no tokens, and a model has no time of its own."""
        if measure in (COST, TOKENS):
            return figures.responses > 0
        return self.table != "model" or measure is not ACTIVE

    def _render_columns(self, row: StatsRow) -> list[StyledText]:
        pieces: list[StyledText] = []
        for shown in self.measures:
            has_failed = shown is ERRORS and row.figures.errors
            style = "" if shown == self.measure else ERROR if has_failed else MUTED
            amount = write_amount(row.figures, shown) if self._is_known(row.figures, shown) else "–"
            pieces.append((amount.rjust(NUMBER_CELLS[shown.key]), style))
        if self.trend_cells:
            trend = [read_amount(figures, self.measure) or 0 for figures in row.trend]
            pieces.append(("  " + draw_sparkline(trend, self.trend_cells), "$text-secondary"))
        return pieces


def _render_tool_columns(row: StatsRow) -> list[StyledText]:
    calls, errors = row.figures.tool_calls, row.figures.errors
    failure_style = ERROR if errors else FAINT
    columns = (
        (f"{calls:,}", ""),
        (f"{errors:,}", failure_style),
        (f"{errors / calls:.1%}" if calls else "", failure_style),
        ("" if row.median_ms is None else format_duration(row.median_ms), MUTED),
        ("" if row.p95_ms is None else format_duration(row.p95_ms), MUTED),
    )
    return [(text.rjust(cells), style) for (text, style), cells in zip(columns, _TOOL_CELLS, strict=True)]
