"""Tests the lines around figures: the headings of the statistics screen, and that of a session."""

from __future__ import annotations

import pytest

from store.model.statistics import Figures, SessionCost, TableInfo, TokenCounts
from tui.render.charts.measures import CALLS, MEASURES, Measure
from tui.render.statistics.figures import StatsRow
from tui.render.statistics.headings import render_totals
from tui.render.statistics.rows import TableLayout
from tui.render.timeline_card import render_session_cost

BUSY_YEAR = Figures(289, 850, 1_892, 189, 11 * 3600 + 240, 900, TokenCounts(63_700_000), cost=65_290_000)


@pytest.mark.parametrize("measure", MEASURES)
def test_the_totals_of_a_busy_year_fit_into_eighty_columns(measure: Measure) -> None:
    line = render_totals(BUSY_YEAR, measure, 78).plain
    assert line.strip().startswith("$65.29 API value")
    assert line.rstrip().endswith("11h 04m active")


@pytest.mark.parametrize("width", [60, 76, 78, 138])
def test_all_columns_of_the_tool_table_fit(width: int) -> None:
    layout = TableLayout.fit("tool", CALLS, width)
    row = StatsRow("bash", "bash", Figures(tool_calls=1_234, errors=5), median_ms=1_500, p95_ms=2_500)
    for line in (layout.render_head().plain, layout.render_row(row, 1_234, width).plain):
        assert len(line) <= width
        assert line.split()[-1] in ("p95", "s")


def test_totals_stand_apart_where_there_is_room() -> None:
    assert "63.7M tokens    850 turns    1,892 calls" in render_totals(BUSY_YEAR, MEASURES[0], 138).plain


def test_the_heading_of_a_session_says_how_many_of_its_tokens_have_no_price() -> None:
    prices = TableInfo("test prices", "7", "2026-11-01", "0123456789ab")
    own = Figures(tokens=TokenCounts(input=50_000), cost=120_000, unpriced_tokens=40_000)
    assert render_session_cost(SessionCost(own, own, prices)) == "$0.12 API value, 50k tokens, 40k of them unpriced"
    total = own._replace(unpriced_tokens=0)
    assert render_session_cost(SessionCost(own, total, prices)) == "$0.12 API value, 50k tokens with sub-agents"
    unpriced = own._replace(cost=None, unpriced_tokens=50_000)
    assert render_session_cost(SessionCost(unpriced, unpriced, prices)) == "50k tokens, unpriced"
