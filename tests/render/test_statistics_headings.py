"""Tests the lines around the charts of the statistics screen."""

from __future__ import annotations

import pytest

from store.model.statistics import Figures, TokenCounts
from tui.render.charts.measures import MEASURES, Measure
from tui.render.statistics.headings import render_totals

BUSY_YEAR = Figures(289, 850, 1_892, 189, 11 * 3600 + 240, 900, TokenCounts(63_700_000), cost=65_290_000)


@pytest.mark.parametrize("measure", MEASURES)
def test_the_totals_of_a_busy_year_fit_into_eighty_columns(measure: Measure) -> None:
    line = render_totals(BUSY_YEAR, measure, 78).plain
    assert line.strip().startswith("$65.29 API value")
    assert line.rstrip().endswith("11h 04m active")


def test_totals_stand_apart_where_there_is_room() -> None:
    assert "63.7M tokens    850 turns    1,892 calls" in render_totals(BUSY_YEAR, MEASURES[0], 138).plain
