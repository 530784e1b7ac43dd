"""Tests the charts of statistics: what they show, where a cell is, and that they can be read without colours."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from textual.content import Content

from tui.render.charts.bars import SERIES_COLORS, Bar, BarChart, render_legend, round_up
from tui.render.charts.calendar import CalendarChart, find_streaks
from tui.render.charts.hours import HoursChart, HourSlot
from tui.render.charts.inline import draw_share, draw_sparkline
from tui.render.charts.levels import LevelScale, Shading
from tui.render.charts.measures import ACTIVE, COST, ERRORS, TOKENS, Measure
from tui.render.styles import plain_text

TODAY = date(2026, 11, 3)
"""Is a Tuesday."""


def texts(lines: list[Content]) -> list[str]:
    return [line.plain for line in lines]


# ── amounts ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("measure", "amount", "text"),
    [
        (COST, 0, "$0"),
        (COST, 12, "<$0.0001"),
        (COST, 4_200, "$0.0042"),
        (COST, 1_234_567, "$1.23"),
        (COST, 1_234_567_890, "$1,235"),
        (COST, -2_500_000, "-$2.50"),
        (COST, None, "unpriced"),
        (TOKENS, 999, "999"),
        (TOKENS, 1_234, "1.2k"),
        (TOKENS, 999_960, "1M"),
        (TOKENS, 250_000_000, "250M"),
        (ERRORS, 1_204, "1,204"),
        (ACTIVE, 59_000, "1m"),
        (ACTIVE, 1_500, "1.5 s"),
        (ACTIVE, 51_600_000, "14h 20m"),
    ],
)
def test_amounts_are_written_for_people(measure: Measure, amount: int | None, text: str) -> None:
    assert measure.write(amount) == text


def test_an_estimate_is_marked() -> None:
    assert COST.write(1_500_000, is_estimate=True) == "~$1.50"
    assert COST.write(None, is_estimate=True) == "unpriced"


# ── levels ────────────────────────────────────────────────────────────────────────────────────────


def test_levels_are_the_quarters_of_what_is_not_zero() -> None:
    scale = LevelScale([0, 1, 2, 3, 1_000_000, None])
    assert [scale.find_level(amount) for amount in (0, None, 1, 2, 3, 1_000_000)] == [0, 0, 1, 2, 3, 4]
    assert LevelScale([]).find_level(5) == 1


def test_levels_differ_in_shape_without_colours() -> None:
    signs = [Shading(has_color=False).shade(level, 1)[0] for level in range(5)]
    assert len(set(signs)) == 5
    styles = [Shading().shade(level, 1)[1] for level in range(5)]
    assert len(set(styles)) == 5


def test_an_amount_without_a_price_is_not_nothing() -> None:
    text, _ = Shading().shade_amount(LevelScale([1]), None, 2)
    assert text == "? "


# ── calendar ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("width", "weeks", "cells"), [(30, 26, 1), (80, 53, 1), (140, 53, 2), (200, 53, 3)])
def test_a_calendar_fits_its_room(width: int, weeks: int, cells: int) -> None:
    chart = CalendarChart.fit({TODAY: 5}, TODAY, width)
    assert (chart.weeks, chart.week_cells) == (weeks, cells)
    assert all(line.cell_length <= width for line in chart.render(Shading()))


def test_every_day_of_a_calendar_is_found_at_its_cell() -> None:
    chart = CalendarChart.fit({}, TODAY, 80)
    assert chart.first_day == date(2025, 11, 3)
    found = {chart.day_at(x, y) for x in range(80) for y in range(9)} - {None}
    assert found == {chart.first_day + timedelta(days=n) for n in range(366)}
    assert chart.day_at(4, 1) == chart.first_day
    assert chart.day_at(56, 2) == TODAY
    assert chart.day_at(56, 3) is None


def test_a_calendar_names_months_and_shades_days() -> None:
    yesterday = TODAY - timedelta(days=1)
    lines = texts(CalendarChart.fit({yesterday: 7, TODAY: None}, TODAY, 60).render(Shading(has_color=False)))
    assert lines[0].split() == "Nov Dec Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov".split()[: len(lines[0].split())]
    assert lines[1].startswith("Mon ·")
    assert lines[1][56] == "░"
    assert lines[2][56] == "?"
    assert len(lines[3]) == 56, "The days to come are left out."


def test_the_cursor_of_a_calendar_has_a_sign_without_colours() -> None:
    lines = texts(CalendarChart.fit({TODAY: 7}, TODAY, 60).render(Shading(has_color=False), TODAY))
    assert lines[2][56] == "╋"


def test_streaks() -> None:
    days = [TODAY - timedelta(days=n) for n in (1, 2, 3, 10, 11, 12, 13, 20)]
    amounts: dict[date, int | None] = dict.fromkeys(days, 5) | {TODAY - timedelta(days=4): None, TODAY: 0}
    assert find_streaks(amounts, TODAY) == (4, 4, 9)
    assert find_streaks(amounts, TODAY + timedelta(days=1)).current == 0
    assert find_streaks({}, TODAY) == (0, 0, 0)


# ── hours ─────────────────────────────────────────────────────────────────────────────────────────


def test_every_hour_is_found_at_its_cell() -> None:
    chart = HoursChart.fit({HourSlot(2, 14): 9}, 60)
    assert chart.width == 52
    assert {chart.slot_at(x, y) for x in range(60) for y in range(9)} - {None} == {
        HourSlot(weekday, hour) for weekday in range(7) for hour in range(24)
    }
    lines = texts(chart.render(Shading(has_color=False)))
    assert lines[3].startswith("Wed ")
    assert lines[3][4 + 28 : 4 + 30] == "░░"
    assert HoursChart.fit({}, 30).hour_cells == 1


# ── bars ──────────────────────────────────────────────────────────────────────────────────────────


def test_bars_are_stacked_with_an_axis_and_labels() -> None:
    chart = BarChart([Bar("1 Nov", [4, 4]), Bar("2 Nov", [0, 0]), Bar("3 Nov", [1, 0])], ERRORS, 32, 4)
    assert [line.rstrip() for line in texts(chart.render(has_color=False))] == [
        "     8 ┤▓▓▓▓▓▓▓",
        "       │▓▓▓▓▓▓▓",
        "     4 ┤███████",
        "       │███████         ███████",
        "     0 ┼────────────────────────",
        "        1 Nov   2 Nov   3 Nov",
    ]


def test_little_is_not_nothing() -> None:
    lines = texts(BarChart([Bar("a", [1_000_000]), Bar("b", [1])], ERRORS, 20, 4).render())
    assert lines[3].rstrip().endswith("▁▁▁▁▁")
    assert "█" in lines[0]


def test_series_meet_inside_a_cell() -> None:
    (line, *_) = BarChart([Bar("a", [5, 1, 2])], ERRORS, 12, 1).render()
    styles = {str(span.style) for span in line.spans}
    assert f"{SERIES_COLORS[0]} on {SERIES_COLORS[2]}" in styles
    assert "▅" in line.plain


def test_a_bar_without_a_price_is_marked() -> None:
    lines = texts(BarChart([Bar("a", [0], is_unpriced=True)], COST, 20, 3).render())
    assert "?" in lines[2]


def test_the_bar_under_the_cursor_is_labelled() -> None:
    bars = [Bar(f"{n} Oct", [n]) for n in range(1, 31)]
    chart = BarChart(bars, ERRORS, 80, 6)
    *_, baseline, labels = texts(chart.render(16))
    assert "━" in baseline
    assert "17 Oct" in labels
    assert "16 Oct" not in labels
    assert chart.bar_at(8 + 16 * chart.slot_cells) == 16
    assert chart.bar_at(3) is chart.bar_at(79) is None


@pytest.mark.parametrize("width", [80, 140, 200])
@pytest.mark.parametrize("count", [0, 1, 24, 30, 53])
def test_bars_fit_their_room(width: int, count: int) -> None:
    lines = BarChart([Bar(f"{n} Oct", [n, 3]) for n in range(count)], TOKENS, width, 6).render(0 if count else None)
    assert len(lines) == 8
    assert all(line.cell_length <= width for line in lines)


@pytest.mark.parametrize(("amount", "end"), [(0, 0), (1, 1), (7, 8), (11, 15), (23_456_789, 30_000_000), (99, 100)])
def test_an_axis_ends_at_a_round_number(amount: int, end: int) -> None:
    assert round_up(amount) == end


def test_a_legend_names_series_by_pattern_without_colours() -> None:
    assert render_legend(["opus", "haiku"], 40, has_color=False).plain.split() == ["██", "opus", "▓▓", "haiku"]


# ── charts in a line ──────────────────────────────────────────────────────────────────────────────


def test_a_sparkline_has_a_cell_for_each_amount() -> None:
    assert draw_sparkline([0, 1, 4, 8], 4) == " ▁▄▇"
    assert draw_sparkline([1, 1, 4, 4], 2) == "▂▇"
    assert draw_sparkline([0, 0], 2) == draw_sparkline([], 2) == "  "


def test_a_share_is_a_line() -> None:
    assert plain_text(draw_share(0.5, 10)) == "━━━━━─────"
    assert plain_text(draw_share(0.0001, 4)) == "╸───"
    assert plain_text(draw_share(0, 4)) == "────"
    assert plain_text(draw_share(2, 4)) == "━━━━"
