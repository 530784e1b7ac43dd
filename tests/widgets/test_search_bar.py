"""Tests the search bar: the query, its explanation and its completions."""

from __future__ import annotations

from typing import Any

import pytest
from browser_driver import screen_text, wait_for_text, wait_until
from textual import on
from textual.app import App, ComposeResult
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Static

import tui.app
from store.search.complete import Vocabulary
from store.search.query import FILTERS
from tui.widgets.top_bar import QueryInput, TopBar

VOCABULARY = Vocabulary(
    agents=("claude", "codex", "claude-ai"),
    folders=(
        "/home/ada/my notes",
        "/evil/\x1b[2J",
        "/bidi/\u202e",
        "/[b]bold[/b]",
        "/wide/日本語👩‍👩‍👧",
        "/long/" + "x" * 500,
    ),
    tools=tuple(f"tool{n}" for n in range(20)),
)


class SearchBarApp(App[None]):
    """Shows the search bar above a line that can have the focus."""

    CSS_PATH = tui.app.Backscroll.CSS_PATH

    def __init__(self) -> None:
        super().__init__()
        self.queries: list[str] = []
        self.exits: list[bool] = []
        self.focus_count = 0

    def compose(self) -> ComposeResult:
        yield TopBar("backscroll")
        line = Static(Content("a line below the bar"))
        line.can_focus = True
        yield line

    @on(TopBar.QueryChanged)
    def _record_query(self, message: TopBar.QueryChanged) -> None:
        self.queries.append(message.query)

    @on(TopBar.Exited)
    def _record_exit(self, message: TopBar.Exited) -> None:
        self.exits.append(message.entered)

    @on(TopBar.Focused)
    def _set_vocabulary(self) -> None:
        self.focus_count += 1
        self.query_one(TopBar).set_vocabulary(VOCABULARY)


def query_input(pilot: Pilot[Any]) -> QueryInput:
    return pilot.app.query_one(QueryInput)


def shown_completions(pilot: Pilot[Any]) -> list[str]:
    completion_list = pilot.app.query_one(TopBar).completion_list
    return list(completion_list.completions) if completion_list.display else []


# ── the query ─────────────────────────────────────────────────────────────────────────────────────


async def test_every_key_posts_the_query() -> None:
    app = SearchBarApp()
    async with app.run_test() as pilot:
        query_input(pilot).focus()
        await pilot.press(*"ret")
        await wait_until(pilot, lambda: app.queries == ["r", "re", "ret"])
        app.query_one(TopBar).clear()
        await wait_until(pilot, lambda: app.queries == ["r", "re", "ret", ""])


async def test_the_end_of_a_long_query_is_visible() -> None:
    app = SearchBarApp()
    async with app.run_test() as pilot:
        query_input(pilot).focus()
        await pilot.press(*"word " * 40, *"end")
        await wait_for_text(pilot, "word word end")
        await pilot.press("home")
        await wait_until(pilot, lambda: query_input(pilot).scroll_offset.x == 0)
        assert "end" not in screen_text(pilot)


async def test_enter_leaves_without_posting_the_query_again() -> None:
    app = SearchBarApp()
    async with app.run_test() as pilot:
        query_input(pilot).focus()
        await pilot.press(*"up", "enter")
        await wait_until(pilot, lambda: app.exits == [True])
        assert app.queries == ["u", "up"]
        await pilot.press("down", "tab")
        await wait_until(pilot, lambda: app.exits == [True, False])


async def test_the_focus_of_the_bar_is_posted() -> None:
    app = SearchBarApp()
    async with app.run_test() as pilot:
        assert app.focus_count == 0
        query_input(pilot).focus()
        await wait_until(pilot, lambda: app.focus_count == 1)


@pytest.mark.parametrize("typed", ["is:broken", "after:soon", "tag:"])
async def test_a_warning_is_shown_below_the_query(typed: str) -> None:
    async with SearchBarApp().run_test(size=(120, 10)) as pilot:
        query_input(pilot).focus()
        query_input(pilot).value = typed
        await wait_for_text(pilot, f"{typed.partition(':')[0]}: ")
        await wait_until(pilot, lambda: len(screen_text(pilot).splitlines()[1].strip()) > 10)
        query_input(pilot).value = ""
        await wait_until(pilot, lambda: not screen_text(pilot).splitlines()[1].strip())


async def test_an_explanation_is_shown_below_the_query() -> None:
    async with SearchBarApp().run_test(size=(120, 10)) as pilot:
        query_input(pilot).focus()
        query_input(pilot).value = 'upload OR "a phrase" -is:pinned agent:claude retr'
        await wait_for_text(pilot, "“upload” or “a phrase”, not pinned, agent claude…, “retr…”")


# ── completions ───────────────────────────────────────────────────────────────────────────────────


async def test_typing_shows_completions_and_tab_inserts_the_first() -> None:
    app = SearchBarApp()
    async with app.run_test() as pilot:
        query_input(pilot).focus()
        await pilot.press("a")
        assert shown_completions(pilot) == []
        await pilot.press("g")
        assert shown_completions(pilot) == ["agent:"]
        await wait_for_text(pilot, "agent:")
        await pilot.press("tab")
        assert query_input(pilot).value == "agent:"
        assert shown_completions(pilot) == ["agent:claude", "agent:codex", "agent:claude-ai"]
        await pilot.press(*"co", "tab")
        assert query_input(pilot).value == "agent:codex "
        assert shown_completions(pilot) == []
        assert query_input(pilot).has_focus
        await wait_until(pilot, lambda: app.queries[-1:] == ["agent:codex "])


async def test_arrows_select_and_enter_inserts_a_completion() -> None:
    app = SearchBarApp()
    async with app.run_test() as pilot:
        query_input(pilot).focus()
        await pilot.press(*"agent:c", "down", "down", "enter")
        assert query_input(pilot).value == "agent:codex "
        assert app.exits == []
        await pilot.press(*"is:", "down", "up", "down", "down", "down", "up", "enter")
        assert query_input(pilot).value == "agent:codex is:pinned "


async def test_enter_leaves_if_no_completion_is_selected() -> None:
    app = SearchBarApp()
    async with app.run_test() as pilot:
        query_input(pilot).focus()
        await pilot.press(*"to")
        assert shown_completions(pilot) == ["tool:"]
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.exits == [True])
        assert query_input(pilot).value == "to"
        assert shown_completions(pilot) == []
        await pilot.press("tab")
        assert not query_input(pilot).has_focus


async def test_an_incomplete_filter_causes_no_warning() -> None:
    app = SearchBarApp()
    async with app.run_test(size=(120, 12)) as pilot:
        query_input(pilot).focus()
        await pilot.press(*"is:")
        await wait_until(pilot, lambda: app.queries[-1:] == ["is:"])
        await wait_for_text(pilot, "is:error")
        assert "followed by" not in screen_text(pilot)


async def test_escape_closes_only_the_completions() -> None:
    async with SearchBarApp().run_test() as pilot:
        query_input(pilot).focus()
        await pilot.press(*"words is:")
        assert shown_completions(pilot)
        await pilot.press("escape")
        assert shown_completions(pilot) == []
        assert query_input(pilot).value == "words is:"
        await pilot.press("e")
        assert shown_completions(pilot)[:3] == ["is:error", "is:ended", "is:expiring"]


async def test_a_key_shows_the_filters_eight_at_a_time() -> None:
    async with SearchBarApp().run_test() as pilot:
        query_input(pilot).focus()
        await pilot.press("ctrl+@")
        assert shown_completions(pilot) == [f"{name}:" for name in FILTERS]
        await wait_for_text(pilot, "tag:", f"↓ {len(FILTERS) - 8} more")
        assert "has:" not in screen_text(pilot)
        await pilot.press(*["down"] * len(FILTERS))
        await wait_for_text(pilot, "has:", "after:")
        assert "model:" not in screen_text(pilot)
        assert " more" not in screen_text(pilot)


async def test_a_click_inserts_a_completion_and_keeps_the_focus() -> None:
    async with SearchBarApp().run_test() as pilot:
        query_input(pilot).focus()
        await pilot.press(*"agent:c")
        await wait_for_text(pilot, "agent:codex")
        row = next(n for n, line in enumerate(screen_text(pilot).splitlines()) if "agent:codex" in line)
        await pilot.click(offset=(screen_text(pilot).splitlines()[row].index("agent:codex") + 2, row))
        await wait_until(pilot, lambda: query_input(pilot).value == "agent:codex ")
        assert query_input(pilot).has_focus


async def test_leaving_the_bar_closes_the_completions() -> None:
    async with SearchBarApp().run_test() as pilot:
        query_input(pilot).focus()
        await pilot.press(*"ag")
        assert shown_completions(pilot)
        pilot.app.set_focus(None)
        await wait_until(pilot, lambda: not shown_completions(pilot))


async def test_completions_with_hostile_names_are_plain_text_or_left_out() -> None:
    async with SearchBarApp().run_test(size=(100, 20)) as pilot:
        query_input(pilot).focus()
        await pilot.press(*"cwd:")
        await wait_for_text(pilot, "/home/ada/my notes", "/[b]bold[/b]", "日本語")
        shown = screen_text(pilot)
    assert not {"\x1b", "\u202e"} & set(shown)
    assert "evil" not in shown
    assert max(map(len, shown.splitlines())) <= 100


async def test_a_quoted_value_is_completed() -> None:
    async with SearchBarApp().run_test() as pilot:
        query_input(pilot).focus()
        await pilot.press(*'cwd:"/home/ada/my', "tab")
        assert query_input(pilot).value == 'cwd:"/home/ada/my notes" '
