"""Tests the panes: the focused one is marked, and a person resizes them with keys and the mouse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browser_driver import make_browser, screen_text, session_list, wait_for_text, wait_until
from textual.pilot import Pilot
from textual.widget import Widget

from store.paths import state_file
from store.store import Store
from tui.screens.browser.screen import arrange_browser
from tui.widgets.json.json_view import JsonPane
from tui.widgets.timeline.timeline_pane import TimelinePane
from tui.widgets.tool_call_pane import ToolCallPane

WIDE, MEDIUM, NARROW, HUGE = (140, 45), (110, 30), (80, 24), (200, 55)


async def open_conversation(pilot: Pilot[Any]) -> None:
    await wait_for_text(pilot, "6 sessions", "brackets")
    await pilot.press("enter")
    await wait_for_text(pilot, "tells how often")


def pane_widths(pilot: Pilot[Any]) -> tuple[int, int, int]:
    """Return the widths of the list, the conversation and the record."""
    panes = (find_pane(pilot, selector) for selector in ("#sessions", TimelinePane, JsonPane))
    return tuple(pane.outer_size.width for pane in panes)  # type: ignore[return-value]


def find_pane(pilot: Pilot[Any], selector: str | type[Widget]) -> Widget:
    return pilot.app.screen.query_one(selector)  # type: ignore[arg-type, return-value]


def edge(pilot: Pilot[Any], selector: str | type[Widget]) -> tuple[str, Any]:
    return find_pane(pilot, selector).styles.border_top


# ── the focused pane ──────────────────────────────────────────────────────────────────────────────


async def test_every_pane_has_a_title_and_the_focused_one_another_edge(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=WIDE) as pilot:
        await open_conversation(pilot)
        await wait_for_text(pilot, "─ 1 Sessions ─", "─ 2 Conversation ─", "─ 3 Record ─")
        focused, other = edge(pilot, TimelinePane), edge(pilot, "#sessions")
        assert focused != other
        await pilot.press("1")
        await wait_until(pilot, lambda: edge(pilot, "#sessions") == focused)
        assert edge(pilot, TimelinePane) == other


async def test_the_focused_pane_is_marked_without_colours(filled_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with make_browser(filled_store).run_test(size=WIDE) as pilot:
        await open_conversation(pilot)
        await wait_for_text(pilot, "━ 2 Conversation ━", "─ 1 Sessions ─")
        await pilot.press("3")
        await wait_for_text(pilot, "━ 3 Record ━", "─ 2 Conversation ─")


async def test_the_panes_of_the_inspector_have_titles(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=WIDE) as pilot:
        await open_conversation(pilot)
        await pilot.press("X", "i")
        await wait_for_text(pilot, "─ arguments ─", "─ result, 6 lines ─")


async def test_a_narrow_terminal_spends_no_room_on_edges(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=NARROW) as pilot:
        await wait_for_text(pilot, "6 sessions", "brackets")
        assert session_list(pilot).size.width == NARROW[0]
        assert not set("╭╮╰╯") & set(screen_text(pilot))


# ── sizes ─────────────────────────────────────────────────────────────────────────────────────────


async def test_keys_resize_the_focused_pane(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=WIDE) as pilot:
        await open_conversation(pilot)
        before = pane_widths(pilot)
        assert sum(before) == WIDE[0]
        await pilot.press("greater_than_sign")  # the conversation takes from the record
        await wait_until(pilot, lambda: pane_widths(pilot) == (before[0], before[1] + 4, before[2] - 4))
        await pilot.press("1", "less_than_sign", "less_than_sign")
        await wait_until(pilot, lambda: pane_widths(pilot) == (before[0] - 8, before[1] + 12, before[2] - 4))
        await pilot.press("0")
        await wait_until(pilot, lambda: pane_widths(pilot) == before)


async def test_panes_keep_a_least_width(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=WIDE) as pilot:
        await open_conversation(pilot)
        await pilot.press("1", *["greater_than_sign"] * 30)
        await wait_until(pilot, lambda: pane_widths(pilot)[1] == 30)
        await pilot.press(*["less_than_sign"] * 40)
        await wait_until(pilot, lambda: pane_widths(pilot)[0] == 24)


async def test_dragging_an_edge_resizes_two_panes(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=WIDE) as pilot:
        await open_conversation(pilot)
        before = pane_widths(pilot)
        await drag(pilot, before[0] - 1, before[0] + 9)
        await wait_until(pilot, lambda: pane_widths(pilot) == (before[0] + 10, before[1] - 10, before[2]))
        start_of_record = WIDE[0] - before[2]
        await drag(pilot, start_of_record, start_of_record - 5)
        await wait_until(pilot, lambda: pane_widths(pilot) == (before[0] + 10, before[1] - 15, before[2] + 5))


async def drag(pilot: Pilot[Any], start: int, end: int) -> None:
    """Press the mouse on the edge, move it and release it."""
    row = pilot.app.screen.query_one("#panes")
    await pilot.mouse_down(row, offset=(start, 10))
    await pilot.hover(row, offset=(end, 10))
    await pilot.mouse_up(row, offset=(end, 10))


async def test_sizes_are_remembered(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=WIDE) as pilot:
        await open_conversation(pilot)
        await pilot.press("greater_than_sign", "1", "greater_than_sign")
        chosen = pane_widths(pilot)
        await wait_until(pilot, lambda: pane_widths(pilot)[0] != 38)
        chosen = pane_widths(pilot)
        await pilot.press("2", "X", "i")
        await wait_for_text(pilot, "─ arguments ─", "see the log")
        call = find_pane(pilot, "#asked").outer_size.width
        await pilot.press("less_than_sign")
        await wait_until(pilot, lambda: find_pane(pilot, "#asked").outer_size.width == call + 4)
    async with make_browser(filled_store).run_test(size=WIDE) as pilot:
        await open_conversation(pilot)
        assert pane_widths(pilot) == chosen
        await pilot.press("X", "i")
        await wait_for_text(pilot, "─ arguments ─", "see the log")
        assert pilot.app.screen.query_one("#asked", ToolCallPane).outer_size.width == call + 4


async def test_a_damaged_state_file_sizes_nothing(filled_store: Store) -> None:
    state_file().parent.mkdir(parents=True, exist_ok=True)
    sizes = {"panes.wide.sessions": 7.5, "panes.wide.record": "wide", "panes.wide": None}
    state_file().write_text(json.dumps({"pane_sizes": sizes}))
    async with make_browser(filled_store).run_test(size=WIDE) as pilot:
        await open_conversation(pilot)
        assert pane_widths(pilot)[0] == 38


async def test_two_panes_are_resized_in_a_medium_terminal(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=MEDIUM) as pilot:
        await open_conversation(pilot)
        before = find_pane(pilot, "#sessions").outer_size.width
        await pilot.press("less_than_sign")  # the conversation gives to the list
        await wait_until(pilot, lambda: find_pane(pilot, "#sessions").outer_size.width == before + 4)
        await pilot.press("3", "greater_than_sign")
        await wait_until(pilot, lambda: find_pane(pilot, JsonPane).outer_size.width == 48)
        await pilot.press("1")
        await wait_until(pilot, lambda: find_pane(pilot, "#sessions").outer_size.width == before + 4)


async def test_zoom_ignores_the_widths(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=WIDE) as pilot:
        await open_conversation(pilot)
        before = pane_widths(pilot)
        await pilot.press("3", "z")
        await wait_until(pilot, lambda: find_pane(pilot, JsonPane).outer_size.width == WIDE[0])
        await pilot.press("z")
        await wait_until(pilot, lambda: pane_widths(pilot) == before)


# ── widths that nobody chose ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("width", "title_cells", "list_cells"),
    [(140, 90, 38), (160, 20, 38), (200, 20, 48), (200, 60, 60), (200, 300, 68)],
)
def test_a_wide_list_takes_what_titles_need(width: int, title_cells: int, list_cells: int) -> None:
    name, panes = arrange_browser(width, title_cells, 0, is_zoomed=False)
    assert name == "wide"
    assert [pane.size for pane in panes] == [list_cells, width * 24 // 100]


async def test_a_huge_terminal_shows_whole_titles_names_and_words(filled_store: Store) -> None:
    title = "A title that is quite long, and that a huge terminal shows"
    filled_store.sessions.set_title(filled_store.sessions.get("codex:0199aa"), title)
    async with make_browser(filled_store).run_test(size=HUGE) as pilot:
        await open_conversation(pilot)
        await wait_for_text(pilot, f"{title} ", "Codex · beta · 2h · 1 turn", "1 turn · 1 call · 1 failed")
        assert session_list(pilot).outer_size.width >= len(title) + 4


async def test_a_narrow_list_keeps_letters_and_marks(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=WIDE) as pilot:
        await wait_for_text(pilot, "6 sessions", " cc ", "alpha · 4m · 1⟲ 1⚙ 1✗")


# ── the panes of other screens ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("key", "titles", "pane", "resize"),
    [
        ("U", ("─ Edits ─", "─ Change ─"), "#edits", "greater_than_sign"),
        ("f", ("─ Facts kept here ─", "─ History ─"), "#fact-table", "less_than_sign"),
        ("S", ("─ Turns covered ─", "─ Text ─", "─ Versions ─"), "#text", ""),
    ],
)
async def test_other_screens_have_panes_too(
    filled_store: Store, key: str, titles: tuple[str, ...], pane: str, resize: str
) -> None:
    filled_store.facts.learn("Tabs, not spaces.")
    async with make_browser(filled_store).run_test(size=WIDE) as pilot:
        await wait_for_text(pilot, "6 sessions", "brackets")
        await pilot.press(key)
        await wait_for_text(pilot, *titles)
        before = find_pane(pilot, pane).outer_size
        if resize:
            await pilot.press(resize)
            await wait_until(pilot, lambda: find_pane(pilot, pane).outer_size != before)


async def test_a_session_without_secrets_says_so_in_the_middle(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=NARROW) as pilot:
        await wait_for_text(pilot, "6 sessions", "brackets")
        await pilot.press("dollar_sign")
        await wait_for_text(pilot, "No secrets in this session.", "Press a to add one.")
        assert "•••" not in screen_text(pilot)
        await pilot.press("a")
        await wait_for_text(pilot, "New secret")
