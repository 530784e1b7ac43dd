"""A person at the search bar: what is asked, offered, not understood; and that nothing is taken unasked."""

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

KNOWN = Vocabulary(
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


class Bar(App[None]):
    """The bar alone, over a line that can have the focus."""

    CSS_PATH = tui.app.Backscroll.CSS_PATH

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.left: list[bool] = []
        self.entered = 0

    def compose(self) -> ComposeResult:
        yield TopBar("backscroll")
        beneath = Static(Content("what lies beneath"))
        beneath.can_focus = True
        yield beneath

    @on(TopBar.QueryChanged)
    def _ask(self, asked: TopBar.QueryChanged) -> None:
        self.asked.append(asked.query)

    @on(TopBar.Exited)
    def _leave(self, left: TopBar.Exited) -> None:
        self.left.append(left.entered)

    @on(TopBar.Focused)
    def _offer(self) -> None:
        self.entered += 1
        self.query_one(TopBar).set_vocabulary(KNOWN)


def words(pilot: Pilot[Any]) -> QueryInput:
    return pilot.app.query_one(QueryInput)


def offered(pilot: Pilot[Any]) -> list[str]:
    """The lines of the offers that are on the screen."""
    offers = pilot.app.query_one(TopBar).completion_list
    return list(offers.completions) if offers.display else []


# ── asking ────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_typed_is_asked_at_every_key() -> None:
    app = Bar()
    async with app.run_test() as pilot:
        words(pilot).focus()
        await pilot.press(*"ret")
        await wait_until(pilot, lambda: app.asked == ["r", "re", "ret"])
        app.query_one(TopBar).clear()
        await wait_until(pilot, lambda: app.asked == ["r", "re", "ret", ""])


async def test_the_end_of_long_words_is_in_sight() -> None:
    app = Bar()
    async with app.run_test() as pilot:
        words(pilot).focus()
        await pilot.press(*"word " * 40, *"end")
        await wait_for_text(pilot, "word word end")
        await pilot.press("home")
        await wait_until(pilot, lambda: words(pilot).scroll_offset.x == 0)
        assert "end" not in screen_text(pilot)


async def test_enter_leaves_and_asks_nothing_twice() -> None:
    app = Bar()
    async with app.run_test() as pilot:
        words(pilot).focus()
        await pilot.press(*"up", "enter")
        await wait_until(pilot, lambda: app.left == [True])
        assert app.asked == ["u", "up"]
        await pilot.press("down")
        await wait_until(pilot, lambda: app.left == [True, False])


async def test_whoever_is_about_to_type_is_told_to_the_screen() -> None:
    app = Bar()
    async with app.run_test() as pilot:
        assert app.entered == 0
        words(pilot).focus()
        await wait_until(pilot, lambda: app.entered == 1)


@pytest.mark.parametrize("typed", ["is:broken", "after:soon", "tag:"])
async def test_what_is_not_understood_is_said_under_the_words(typed: str) -> None:
    async with Bar().run_test(size=(120, 10)) as pilot:
        words(pilot).focus()
        words(pilot).value = typed
        await wait_for_text(pilot, f"{typed.partition(':')[0]}: ")
        await wait_until(pilot, lambda: len(screen_text(pilot).splitlines()[1].strip()) > 10)
        words(pilot).value = ""
        await wait_until(pilot, lambda: not screen_text(pilot).splitlines()[1].strip())


async def test_what_is_understood_is_said_under_the_words() -> None:
    async with Bar().run_test(size=(120, 10)) as pilot:
        words(pilot).focus()
        words(pilot).value = 'upload OR "a phrase" -is:pinned agent:claude retr'
        await wait_for_text(pilot, "“upload” or “a phrase”, not pinned, agent claude…, “retr…”")


# ── offers ────────────────────────────────────────────────────────────────────────────────────────


async def test_offers_come_as_one_types_and_tab_takes_the_first() -> None:
    app = Bar()
    async with app.run_test() as pilot:
        words(pilot).focus()
        await pilot.press("a")
        assert offered(pilot) == []
        await pilot.press("g")
        assert offered(pilot) == ["agent:"]
        await wait_for_text(pilot, "agent:")
        await pilot.press("tab")
        assert words(pilot).value == "agent:"
        assert offered(pilot) == ["agent:claude", "agent:codex", "agent:claude-ai"]
        await pilot.press(*"co", "tab")
        assert words(pilot).value == "agent:codex "
        assert offered(pilot) == []
        assert words(pilot).has_focus
        await wait_until(pilot, lambda: app.asked[-1:] == ["agent:codex "])


async def test_arrows_choose_and_enter_takes_what_was_chosen() -> None:
    app = Bar()
    async with app.run_test() as pilot:
        words(pilot).focus()
        await pilot.press(*"agent:c", "down", "down", "enter")
        assert words(pilot).value == "agent:codex "
        assert app.left == []
        await pilot.press(*"is:", "down", "up", "down", "down", "down", "up", "enter")
        assert words(pilot).value == "agent:codex is:pinned "


async def test_enter_is_not_stolen_where_nothing_was_chosen() -> None:
    app = Bar()
    async with app.run_test() as pilot:
        words(pilot).focus()
        await pilot.press(*"to")
        assert offered(pilot) == ["tool:"]
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.left == [True])
        assert words(pilot).value == "to"
        assert offered(pilot) == []
        await pilot.press("tab")
        assert not words(pilot).has_focus


async def test_a_filter_that_is_still_being_chosen_puzzles_nobody() -> None:
    app = Bar()
    async with app.run_test(size=(120, 12)) as pilot:
        words(pilot).focus()
        await pilot.press(*"is:")
        await wait_until(pilot, lambda: app.asked[-1:] == ["is:"])
        await wait_for_text(pilot, "is:error")
        assert "followed by" not in screen_text(pilot)


async def test_escape_closes_the_offers_and_only_them() -> None:
    async with Bar().run_test() as pilot:
        words(pilot).focus()
        await pilot.press(*"words is:")
        assert offered(pilot)
        await pilot.press("escape")
        assert offered(pilot) == []
        assert words(pilot).value == "words is:"
        await pilot.press("e")
        assert offered(pilot)[:3] == ["is:error", "is:expiring", "is:pinned"]


async def test_all_filters_are_one_key_away_and_never_more_than_eight_lines() -> None:
    async with Bar().run_test() as pilot:
        words(pilot).focus()
        await pilot.press("ctrl+@")
        assert offered(pilot) == [f"{name}:" for name in FILTERS][:8]
        await pilot.press("escape", *"tool:tool")
        assert len(offered(pilot)) == 8
        await wait_for_text(pilot, "tool:tool7")
        assert "tool:tool8" not in screen_text(pilot)


async def test_a_click_takes_an_offer_and_leaves_the_focus_where_it_was() -> None:
    async with Bar().run_test() as pilot:
        words(pilot).focus()
        await pilot.press(*"agent:c")
        await wait_for_text(pilot, "agent:codex")
        row = next(n for n, line in enumerate(screen_text(pilot).splitlines()) if "agent:codex" in line)
        await pilot.click(offset=(screen_text(pilot).splitlines()[row].index("agent:codex") + 2, row))
        await wait_until(pilot, lambda: words(pilot).value == "agent:codex ")
        assert words(pilot).has_focus


async def test_leaving_the_bar_closes_the_offers() -> None:
    async with Bar().run_test() as pilot:
        words(pilot).focus()
        await pilot.press(*"ag")
        assert offered(pilot)
        pilot.app.set_focus(None)
        await wait_until(pilot, lambda: not offered(pilot))


async def test_offers_of_hostile_names_are_shown_as_text_or_not_at_all() -> None:
    async with Bar().run_test(size=(100, 20)) as pilot:
        words(pilot).focus()
        await pilot.press(*"cwd:")
        await wait_for_text(pilot, "/home/ada/my notes", "/[b]bold[/b]", "日本語")
        shown = screen_text(pilot)
    assert not {"\x1b", "\u202e"} & set(shown)
    assert "evil" not in shown
    assert max(map(len, shown.splitlines())) <= 100


async def test_a_word_within_quotes_is_completed_as_a_whole() -> None:
    async with Bar().run_test() as pilot:
        words(pilot).focus()
        await pilot.press(*'cwd:"/home/ada/my', "tab")
        assert words(pilot).value == 'cwd:"/home/ada/my notes" '
