"""Tests the statistics screen: figures, periods, measures, charts, tables, and what can be opened from it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from browser_driver import add_session, make_browser, screen_text, session_list, time_ago, wait_for_text, wait_until
from textual.pilot import Pilot
from usage_sessions import add_repeated_reads

from store.model.entry import NewEntry, Text
from store.model.statistics import Figures
from store.model.usage import Usage
from store.store import Store
from tui.render.charts.measures import CALLS, MEASURES
from tui.render.statistics.figures import StatsRow
from tui.render.statistics.rows import TableLayout
from tui.screens.browser.screen import BrowserScreen
from tui.screens.inspector import InspectorScreen
from tui.screens.stats.screen import LOADING, StatsScreen
from tui.screens.tool_calls import ToolCallsScreen

WIDE = (140, 45)
# Today: 100,000 x $10 + 20,000 x $12 + 4,000 x $50, then 10 x $10 + 120,000 x $1 + 6,000 x $12 + 2,000 x $50,
# and the sub-agent 40,000 x $1 + 1,000 x $5, all per million.
TODAY = MONTH = "$1.78"


def stats(pilot: Pilot[Any]) -> StatsScreen:
    screen = pilot.app.screen
    assert isinstance(screen, StatsScreen)
    return screen


async def wait_until_counted(pilot: Pilot[Any], *texts: str) -> None:
    """Wait until all figures are shown, and these texts with them."""
    await wait_for_text(pilot, *texts)
    await wait_until(pilot, lambda: LOADING not in screen_text(pilot))


@asynccontextmanager
async def open_stats(store: Store, size: tuple[int, int] = WIDE) -> AsyncIterator[Pilot[Any]]:
    app = make_browser(store)
    async with app.run_test(size=size, notifications=True) as pilot:
        await wait_for_text(pilot, "4 sessions")
        await pilot.press("percent_sign")
        await wait_until_counted(pilot, "statistics", "API value")
        yield pilot


async def test_the_totals_of_thirty_days_with_their_prices(used_store: Store) -> None:
    async with open_stats(used_store) as pilot:
        await wait_for_text(pilot, f"{MONTH} API value", "344k tokens", "4 turns", "2 calls")
        await wait_for_text(pilot, "1 error ", "5 Oct – 3 Nov 2026")
        await wait_for_text(pilot, "51k tokens unpriced", "prices test prices 7, 2999-01-01")
        await pilot.press("escape")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen))


async def test_periods_are_chosen_and_moved(used_store: Store) -> None:
    async with open_stats(used_store) as pilot:
        await pilot.press("1")
        await wait_until_counted(pilot, "‹ today ›", f"{TODAY} API value", "By hour")
        stats(pilot).table.focus()
        await pilot.press("left")
        await wait_until_counted(pilot, "Mon 2 Nov 2026", "$0 API value")
        await pilot.press("right", "right")
        await wait_until_counted(pilot, "‹ today ›")
        await pilot.press("5")
        await wait_until_counted(pilot, "all time", "By month", "$2.88 API value")
        await pilot.press("4")
        await wait_until_counted(pilot, "4 Nov 2025 – 3 Nov 2026", "By week")


async def test_a_measure_is_shown_everywhere(used_store: Store) -> None:
    async with open_stats(used_store) as pilot:
        await pilot.press("v")
        await wait_for_text(pilot, "Tue 3 Nov 2026: 293k")
        await pilot.press("v")
        await wait_for_text(pilot, "Tue 3 Nov 2026: 3")
        await pilot.press("V", "V")
        await wait_for_text(pilot, f"Tue 3 Nov 2026: {TODAY}")


async def test_a_model_without_a_price_is_unpriced_and_not_free(used_store: Store) -> None:
    async with open_stats(used_store) as pilot:
        row = next(line for line in screen_text(pilot).splitlines() if line.startswith(" local-llama"))
        assert "unpriced" in row
        assert "$0" not in row


async def test_tables(used_store: Store) -> None:
    async with open_stats(used_store) as pilot:
        await pilot.press("b")
        await wait_until_counted(pilot, "Claude Code", "Codex")
        await pilot.press("b")
        await wait_until_counted(pilot, "/home/ada/code/alpha", "/home/ada/code/beta")
        await pilot.press("b")
        await wait_until_counted(pilot, "median", "p95", "100.0%", "2.0 s")
        await pilot.press("b")
        await wait_until_counted(pilot, "Fix the test", "Rename the keys")
        assert "Look around" not in screen_text(pilot), "A sub-agent is a part of its session."


# ── opening ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_day_opens_its_sessions_and_escape_leads_back(used_store: Store) -> None:
    async with open_stats(used_store) as pilot:
        stats(pilot).calendar.focus()
        await pilot.press("up", "up", "down", "down", "left", "right", "up", "up")
        await wait_for_text(pilot, "Sun 1 Nov 2026: unpriced")
        await pilot.press("enter")
        await wait_for_text(pilot, "1 found", "day:2026-11-01", "Rename the keys")
        await wait_until(pilot, lambda: pilot.app.focused is session_list(pilot))
        await pilot.press("escape")
        await wait_until_counted(pilot, "Sun 1 Nov 2026: unpriced")
        await wait_until(pilot, lambda: pilot.app.focused is stats(pilot).calendar)
        await pilot.press("escape")
        await wait_for_text(pilot, "4 sessions")


async def test_a_bar_and_its_series_open_their_sessions(used_store: Store) -> None:
    async with open_stats(used_store) as pilot:
        await wait_until(pilot, lambda: pilot.app.focused is stats(pilot).bars)
        await pilot.press("up", "up")
        await wait_for_text(pilot, "3 Nov, quick-1: $0.04")
        await pilot.press("down")
        await wait_for_text(pilot, "3 Nov, big-1: $1.73")
        await pilot.press("enter")
        await wait_for_text(pilot, 'model:"big-1" day:2026-11-03', "1 found")


async def test_an_hour_of_the_week_opens_its_sessions(used_store: Store) -> None:
    async with open_stats(used_store) as pilot:
        stats(pilot).hours.focus()
        await wait_for_text(pilot, "Tue 10:00: $1.49")
        await pilot.press("right", "down")
        await wait_for_text(pilot, "Wed 11:00: $0 ")
        await pilot.press("up", "left", "enter")
        await wait_for_text(pilot, "hour:tue-10", "2 found", "Fix the test", "Look around")


@pytest.mark.parametrize("measure", ["turns", "calls", "errors"])
async def test_bars_of_every_measure_are_stacked(used_store: Store, measure: str) -> None:
    async with open_stats(used_store) as pilot:
        await wait_until_counted(pilot, f"{MONTH} API value")
        presses = [key.key for key in MEASURES].index(measure)
        await pilot.press(*["v"] * presses)
        await wait_until(pilot, lambda: stats(pilot).bars.measure.key == measure)
        await pilot.press("up")
        await wait_for_text(pilot, "3 Nov, big-1:")


async def test_a_model_a_tool_and_a_session_are_opened_from_their_rows(used_store: Store) -> None:
    async with open_stats(used_store) as pilot:
        stats(pilot).table.focus()
        await pilot.press(*"bbbb")
        await wait_until_counted(pilot, "Fix the test", "Rename the keys")
        await pilot.press("enter")
        await wait_for_text(pilot, "And the docs", "Fix the test")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen) and pilot.app.screen.is_reading)
        await pilot.press("escape")
        await wait_until_counted(pilot, "Rename the keys", "statistics")
        await pilot.press("B")
        await wait_until_counted(pilot, "p95", "Bash")
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, ToolCallsScreen))
        await wait_for_text(pilot, "1 call", "pytest")
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, InspectorScreen))


async def test_the_search_box_filters_everything(used_store: Store) -> None:
    async with open_stats(used_store) as pilot:
        await pilot.press("slash", *"agent:codex", "enter")
        await wait_until_counted(pilot, "1 session", "unpriced API value", "51k tokens")
        await wait_until(pilot, lambda: pilot.app.focused is stats(pilot).bars)
        await pilot.press("escape")
        await wait_until_counted(pilot, f"{MONTH} API value")


async def test_words_in_tool_output_are_counted_like_in_the_list(used_store: Store) -> None:
    async with open_stats(used_store) as pilot:
        await pilot.press("slash", *"pytest", "enter")
        await wait_until_counted(pilot, "1 session", "$1.73 API value")
        await pilot.press("t")
        await wait_for_text(pilot, "Total, 5 Oct – 3 Nov 2026: how it adds up", "$1.732100")
        await pilot.press("escape", "slash", "ctrl+u", *"pytset ")
        await wait_until_counted(pilot, "Showing “pytest”; nothing for “pytset”.", "$1.73 API value")
        await pilot.press("enter", "equals_sign")
        await wait_for_text(pilot, "3 Nov: how it adds up", "$1.732100")


async def test_a_change_of_the_store_is_counted(used_store: Store) -> None:
    async with open_stats(used_store) as pilot:
        await wait_until_counted(pilot, f"{MONTH} API value")
        usage = Usage(100_000, model="big-1", provider="acme")
        entry = NewEntry(role="assistant", parts=(Text("More."),), created_at=time_ago(minutes=5), usage=usage)
        with Store.open(used_store.path) as other_program:
            other_program.chains.append(other_program.sessions.get("claude:alpha").key, [entry])
        await wait_until_counted(pilot, "$2.78 API value")


# ── the sum behind a figure ───────────────────────────────────────────────────────────────────────


async def test_changes_do_not_keep_figures_from_being_shown(used_store: Store) -> None:
    """A worker may write several times while the figures of a large store are added up."""
    async with open_stats(used_store) as pilot:
        screen = stats(pilot)
        screen.load()
        before = screen._generation
        for number in range(3):
            answer = NewEntry(role="user", parts=(Text("hi"),), created_at=time_ago(hours=number + 1))
            add_session(used_store, f"claude:late{number}", time_ago(hours=1), answer)
            screen.handle_store_change()
        assert screen._generation == before
        await wait_until_counted(pilot, "6 sessions", "7 turns")


async def test_a_figure_is_explained(used_store: Store) -> None:
    async with open_stats(used_store) as pilot:
        await wait_until(pilot, lambda: pilot.app.focused is stats(pilot).bars)
        await pilot.press("equals_sign")
        await wait_for_text(pilot, "3 Nov: how it adds up", "big-1 · acme · 2 responses", "rates of acme/big")
        await wait_for_text(pilot, "cache write 5 min", "26,000", "× $12.00 /M", "$0.312000", "$1.732100")
        await wait_for_text(pilot, "the agent reported", "$1.000000", "+$0.732100")
        await wait_for_text(pilot, "$1.777100", "digest", "with a subscription")
        await pilot.press("escape")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, StatsScreen))


@pytest.mark.parametrize(("steps", "title", "cost"), [(0, "big-1", "$1.732100"), (4, "Fix the test", "$1.777100")])
async def test_rows_are_explained(used_store: Store, steps: int, title: str, cost: str) -> None:
    async with open_stats(used_store) as pilot:
        stats(pilot).table.focus()
        await pilot.press(*["b"] * steps)
        await wait_until_counted(pilot, f"▌{title}")
        await pilot.press("equals_sign")
        await wait_for_text(pilot, f"{title}: how it adds up", cost)


async def test_an_hour_of_the_week_is_explained(used_store: Store) -> None:
    async with open_stats(used_store) as pilot:
        stats(pilot).hours.focus()
        await wait_for_text(pilot, "Tue 10:00: $1.49")
        await pilot.press("equals_sign")
        await wait_for_text(pilot, "Tue 10:00: how it adds up", "$1.485000")


async def test_a_tool_cannot_be_explained_but_sessions_without_a_folder_can(used_store: Store) -> None:
    usage = Usage(1_000_000, model="big-1", provider="acme")
    at = time_ago(hours=3)
    add_session(
        used_store, "library:x", at, NewEntry(role="assistant", parts=(Text("Hi"),), created_at=at, usage=usage)
    )
    app = make_browser(used_store)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await wait_for_text(pilot, "5 sessions")
        await pilot.press("percent_sign")
        await wait_until_counted(pilot, "$11.78 API value")
        stats(pilot).table.focus()
        await pilot.press("b", "b")
        await wait_until_counted(pilot, "▌no folder")
        await pilot.press("equals_sign")
        await wait_for_text(pilot, "no folder: how it adds up", "$10.000000")
        await pilot.press("escape")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, StatsScreen))
        await pilot.press("b")
        await wait_until_counted(pilot, "▌Bash")
        await pilot.press("equals_sign")
        await wait_for_text(pilot, "Tool calls have no tokens")


async def test_only_what_has_the_focus_shows_a_cursor(used_store: Store) -> None:
    async with open_stats(used_store) as pilot:
        await wait_until(pilot, lambda: pilot.app.focused is stats(pilot).bars)
        await wait_for_text(pilot, " big-1")
        assert "▌big-1" not in screen_text(pilot)
        await pilot.press("tab")
        await wait_for_text(pilot, "▌big-1")


async def test_the_cursor_begins_where_something_happened(used_store: Store) -> None:
    used_store.sessions.delete([used_store.sessions.get(name) for name in ("claude:alpha", "claude:alpha:explore")])
    app = make_browser(used_store)
    async with app.run_test(size=WIDE) as pilot:
        await wait_for_text(pilot, "2 sessions")
        await pilot.press("percent_sign")
        await wait_until_counted(pilot, "1 Nov: unpriced", "Sun 1 Nov 2026: unpriced", "? unpriced")


# ── a narrow terminal ─────────────────────────────────────────────────────────────────────────────


async def test_more_bars_than_there_is_room_for_end_with_the_newest(used_store: Store) -> None:
    """A session with a wrong clock must not push today out of the chart."""
    usage = Usage(10, output=5, model="big-1", provider="acme")
    async with open_stats(used_store) as pilot:
        for days in (9_000, 20_000):
            at = time_ago(days=days)
            answer = NewEntry(role="assistant", parts=(Text("hi"),), created_at=at, usage=usage)
            add_session(used_store, f"claude:{days}", at, answer)
        await pilot.press("5")
        await wait_until_counted(pilot, "all time", "6 sessions", "Nov 2026: $1.78")
        bars = stats(pilot).bars
        assert bars.selected is not None
        assert bars.selected.title == "Nov 2026"
        await pilot.press(*["left"] * 200)
        await wait_for_text(pilot, "Mar 2010: $0")


async def test_a_narrow_terminal_shows_one_chart_at_a_time(used_store: Store) -> None:
    async with open_stats(used_store, (80, 24)) as pilot:
        await wait_until_counted(pilot, "By day and model", "big-1")
        assert "Calendar" not in screen_text(pilot)
        await pilot.press("tab", "tab")
        await wait_for_text(pilot, "Calendar", "active days")
        assert "By day" not in screen_text(pilot)
        await pilot.press("tab")
        await wait_for_text(pilot, "Hours of the week")


# ── waste ─────────────────────────────────────────────────────────────────────────────────────────


async def test_waste_is_listed_and_opens_its_turn(used_store: Store) -> None:
    add_repeated_reads(used_store)
    async with open_stats(used_store) as pilot:
        stats(pilot).table.focus()
        await pilot.press("B")
        await wait_until_counted(pilot, "file read again", "/src/big.py", "Draw a logo, 2, 3, 4")
        await wait_until(pilot, lambda: pilot.app.focused is stats(pilot).tables.waste_table)
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen) and pilot.app.screen.is_reading)
        await wait_for_text(pilot, "▌ Look again, 0")
        await pilot.press("escape")
        await wait_until_counted(pilot, "file read again")
        await wait_until(pilot, lambda: pilot.app.focused is stats(pilot).tables.waste_table)


async def test_no_waste(used_store: Store) -> None:
    async with open_stats(used_store) as pilot:
        await pilot.press("1", "B")
        await wait_until_counted(pilot, "Nothing was found in the most expensive sessions")


@pytest.mark.parametrize("width", range(58, 130))
def test_the_columns_of_tools_fit(width: int) -> None:
    layout = TableLayout.fit("tool", CALLS, width)
    row = StatsRow("Bash", "Bash", Figures(tool_calls=1), median_ms=2000.0, p95_ms=2500.0)
    assert layout.render_head().cell_length <= width
    assert layout.render_row(row, 1, width).plain.endswith("2.5 s")
