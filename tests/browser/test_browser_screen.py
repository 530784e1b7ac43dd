"""Tests the browser screen: moving, filtering, opening, and an empty store."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from browser_driver import (
    add_session,
    answer_entry,
    following_browser,
    make_browser,
    prompt_entry,
    resize_terminal,
    screen_text,
    selected_id,
    session_list,
    time_ago,
    wait_for_text,
    wait_until,
)
from foreign_databases import RUBICHAN_SCHEMA, add_rubichan_session, make_database
from textual.app import SystemCommand
from textual.css.query import NoMatches
from textual.pilot import Pilot
from textual.widgets import Input

from store.errors import Busy
from store.paths import data_dir
from store.search.list_rows import SessionListLayout, SessionListOptions, SessionRow
from store.search.session_list import build_session_list
from store.store import Store
from tui.palette import all_bindings
from tui.screens.browser.screen import BrowserScreen
from tui.screens.browser.session_list import SessionList
from tui.screens.help import HelpScreen
from tui.widgets.session_list_view import SessionListView
from tui.widgets.timeline.timeline_view import TimelineView

# ── moving ────────────────────────────────────────────────────────────────────────────────────────


async def test_sessions_are_listed_newest_first_with_their_details(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions", "brackets")
        lines = [line.rstrip() for line in screen_text(pilot).splitlines()]
    assert lines[2:8] == [
        " Pinned  1",
        "▌★ Fix the flaky upload test  It still fails on CI. Look at the retry, please.",
        "▌  Claude Code · ◔ alpha · 4m · 1 turn · 1 call · 1 failed  ∑",
        " Today  1",
        "   Rename the config keys to snake_case",
        "   Codex · beta · 2h · 1 turn",
    ]
    assert lines[8:11] == [" Yesterday  1", "   Good morning!", " ▸ Pingu · telegram · 1d · 1 turn  +1"]
    assert lines[14:17] == [
        " Mon 29 Sep 2025  1",
        "   [b]brackets[/b] and [/] stay as they are",
        "   library · Sep 2025 · 1 turn",
    ]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["down"], "codex:0199aa"),
        (["j", "j", "k"], "codex:0199aa"),
        (["up"], "claude:e0741090"),
        (["end"], "library:old"),
        (["end", "down"], "library:old"),
        (["G", "g"], "claude:e0741090"),
        (["end", "home"], "claude:e0741090"),
        (["pagedown"], "telegram:648079060"),
        (["end", "pageup"], "telegram:648079060"),
    ],
)
async def test_keys_move_the_cursor(filled_store: Store, keys: list[str], expected: str) -> None:
    async with make_browser(filled_store).run_test(size=(80, 7)) as pilot:
        await wait_until(pilot, lambda: selected_id(pilot))
        await pilot.press(*keys)
        await wait_until(pilot, lambda: selected_id(pilot) == expected)
        await wait_for_text(pilot, "▌")


async def test_a_click_moves_the_cursor_a_double_click_opens_and_the_wheel_scrolls(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(80, 9)) as pilot:
        await wait_for_text(pilot, "Rename")
        await pilot.click("SessionListView", offset=(10, 4))
        assert selected_id(pilot) == "codex:0199aa"
        await pilot._post_mouse_events([_wheel_down()], "SessionListView", offset=(10, 3))
        await wait_until(pilot, lambda: session_list(pilot).scroll_offset.y > 0)
        assert selected_id(pilot) == "codex:0199aa"
        await pilot.click("SessionListView", offset=(10, 5), times=2)
        await wait_until(pilot, lambda: pilot.app.screen.query_one(TimelineView).has_focus)


def _wheel_down() -> type:
    from textual.events import MouseScrollDown

    return MouseScrollDown


# ── filtering ─────────────────────────────────────────────────────────────────────────────────────


async def test_typing_filters_and_escape_shows_all_again(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("slash", *"closed")
        await wait_for_text(pilot, "1 found", "Fix the flaky upload test")
        assert "Rename" not in screen_text(pilot)
        await pilot.press("escape")
        await wait_for_text(pilot, "6 sessions", "Rename")
        assert session_list(pilot).has_focus


async def test_the_key_hints_show_how_to_leave_the_search(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("slash", *"rename")
        await wait_for_text(pilot, "1 found", "↵ To the list", "esc All sessions")
        await pilot.press("enter")
        await wait_for_text(pilot, "↵ Open", "esc All sessions")
        await pilot.press("enter")
        await wait_for_text(pilot, "9 files changed")
        await pilot.press("escape", "escape")
        await wait_for_text(pilot, "1 found", "esc All sessions")
        await pilot.press("escape")
        await wait_for_text(pilot, "6 sessions", "↵ Open")
        assert "All sessions" not in screen_text(pilot)


async def test_enter_goes_from_the_search_box_to_the_results(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("slash", *"rename", "enter")
        await wait_for_text(pilot, "1 found")
        await wait_until(pilot, lambda: session_list(pilot).has_focus and selected_id(pilot) == "codex:0199aa")
        await pilot.press("escape")
        await wait_for_text(pilot, "6 sessions")
        assert selected_id(pilot) == "codex:0199aa"


async def test_letters_of_keys_are_typed_into_the_search_box(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("slash", *"qdj", "question_mark", "slash")
        assert pilot.app.screen.query_one(Input).value == "qdj?/"


async def test_a_search_without_results_shows_a_message(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("slash", *"zebra")
        await wait_for_text(pilot, "0 found", "No session matches 'zebra'.")
        await pilot.press("escape")
        await wait_for_text(pilot, "6 sessions", "Rename")


async def test_a_late_answer_is_dropped(filled_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first query waits in the store until the second one was answered."""
    let_go = threading.Event()

    def slow(
        store: Store, wanted: SessionListOptions, limit: int = -1, now: datetime | None = None
    ) -> SessionListLayout:
        if wanted.query == "rename":
            let_go.wait()
        return build_session_list(store, wanted, limit, now)

    monkeypatch.setattr("tui.screens.browser.session_list.build_session_list", slow)
    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "6 sessions")
        screen = pilot.app.screen
        assert isinstance(screen, BrowserScreen)
        await pilot.press("slash", *"rename")
        await wait_until(pilot, lambda: screen.session_list.options.query == "rename")
        await pilot.press("ctrl+u", *"morning")
        await wait_for_text(pilot, "1 found", "Good morning!")
        let_go.set()
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        assert "Good morning!" in screen_text(pilot)
        assert "Rename" not in screen_text(pilot)


async def test_a_quick_answer_is_shown_once(filled_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown together with its letter. The message that follows shows nothing new."""
    monkeypatch.setattr("tui.screens.browser.session_list.INLINE_ANSWER_SECONDS", 10.0)
    shown: list[bool] = []
    show = SessionListView.show

    def noting(self: SessionListView, listing: SessionListLayout, rows: Iterable[SessionRow] = (), **how: bool) -> None:
        shown.append(how["whole"])
        show(self, listing, rows, **how)

    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("slash", *"ren")
        await wait_for_text(pilot, "found")
        await pilot.app.workers.wait_for_complete()
        monkeypatch.setattr(SessionListView, "show", noting)
        await pilot.press("a")
        await wait_until(pilot, lambda: len(shown) == 2)
        await pilot.app.workers.wait_for_complete()
        assert shown == [True, True], "the first answer has all matches, because they are few"


async def test_a_search_result_is_opened_without_another_delay(
    filled_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_browser(filled_store).run_test(size=(140, 45)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        screen = pilot.app.screen
        assert isinstance(screen, BrowserScreen)
        await wait_until(
            pilot, lambda: screen.has_conversation and screen.conversation.session and screen._open_timer is None
        )
        monkeypatch.setattr("tui.screens.browser.screen.OPEN_DELAY_SECONDS", 600.0)
        await pilot.press("slash", *"morning")
        await wait_for_text(pilot, "1 found")
        await wait_until(
            pilot, lambda: screen.conversation.session and screen.conversation.session.id == selected_id(pilot)
        )


async def wait_for_conversation(pilot: Pilot[Any]) -> BrowserScreen:
    """Return the browser when it shows the conversation of the first session."""
    screen = pilot.app.screen
    assert isinstance(screen, BrowserScreen)
    await wait_until(pilot, lambda: screen.has_conversation and not screen.is_opening and screen.conversation.session)
    return screen


async def test_the_first_answer_to_the_last_letter_is_opened_at_its_hit(
    filled_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.screens.browser.session_list.wait_for_typing_pause", lambda is_stale: False)
    async with make_browser(filled_store).run_test(size=(140, 45)) as pilot:
        screen = await wait_for_conversation(pilot)
        monkeypatch.setattr("tui.screens.browser.screen.OPEN_DELAY_SECONDS", 600.0)
        await pilot.press("slash", *"mornin")
        await wait_until(
            pilot, lambda: screen.conversation.session and "Good morning" in screen.conversation.session.title
        )
        await pilot.press("g")
        cards = screen.conversation.timeline_pane.timeline_view.cards
        await wait_until(pilot, lambda: cards.highlight and cards.highlight.findall("a morning") == ["morning"])


async def test_the_best_of_a_few_matches_is_the_first_answer(
    filled_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.screens.browser.session_list.wait_for_typing_pause", lambda is_stale: False)
    add_session(filled_store, "new", time_ago(), prompt_entry("say whale among many other words", time_ago()))
    add_session(filled_store, "best", time_ago(days=3), prompt_entry("whale", time_ago(days=3)), agent_title="Whale")
    async with make_browser(filled_store).run_test(size=(140, 45)) as pilot:
        await wait_for_text(pilot, "8 sessions")
        await pilot.press("slash", *"whale")
        await wait_until(pilot, lambda: len(session_list(pilot).keys) == 2 and selected_id(pilot) == "best")


async def test_a_change_of_the_store_waits_until_the_person_has_typed(
    filled_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[bool] = []
    load = SessionList.load

    def noting(self: SessionList, *, keep_cursor: bool) -> None:
        loads.append(keep_cursor)
        load(self, keep_cursor=keep_cursor)

    async with make_browser(filled_store).run_test(size=(90, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        screen = pilot.app.screen
        assert isinstance(screen, BrowserScreen)
        monkeypatch.setattr("tui.screens.browser.session_list.TYPING_SECONDS", 600.0)
        await pilot.press("slash", *"morning")
        await wait_for_text(pilot, "1 found")
        monkeypatch.setattr(SessionList, "load", noting)
        add_session(filled_store, "new", time_ago(), prompt_entry("another morning", time_ago()))
        screen.handle_store_change()
        assert not loads
        monkeypatch.setattr("tui.screens.browser.session_list.TYPING_SECONDS", 0.0)
        screen.handle_store_change()
        await wait_for_text(pilot, "2 found")
        assert loads


async def test_a_session_is_not_shown_if_its_opening_is_cancelled(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(140, 45)) as pilot:
        screen = await wait_for_conversation(pilot)
        shown = screen.conversation.session
        other = filled_store.sessions.by_key(screen.sessions.keys[-1])
        assert shown is not None
        assert shown.key != other.key
        screen.conversation.open(other)
        screen.conversation.cancel_opening()
        await wait_until(pilot, lambda: all(worker.is_finished for worker in pilot.app.workers))
        await pilot.pause()
        assert screen.conversation.session == shown
        assert screen.conversation.is_open(shown.key)
        assert not screen.conversation.is_open(other.key)


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


async def test_enter_opens_the_conversation_and_escape_goes_back(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 30)) as pilot:
        await wait_until(pilot, lambda: selected_id(pilot))
        await pilot.press("enter")
        await wait_for_text(
            pilot, "It still fails on CI.", "⚙ Bash  pytest -q", "2.1 s  ✗ failed", "• it now reopens it"
        )
        await pilot.press("escape")
        await wait_for_text(pilot, "6 sessions")


async def test_a_long_conversation_scrolls_to_its_end(store: Store) -> None:
    at = time_ago()
    add_session(store, "long", at, *(prompt_entry(f"question number {n}", at) for n in range(300)))
    async with make_browser(store).run_test() as pilot:
        await wait_until(pilot, lambda: selected_id(pilot))
        await pilot.press("enter")
        await wait_for_text(pilot, "question number 299")
        await pilot.press("home")
        await wait_for_text(pilot, "question number 0")
        await pilot.press("end")
        await wait_for_text(pilot, "question number 299")
        await pilot.press("home")
        await wait_for_text(pilot, "question number 0")
        await pilot.press("pagedown", "down", "up", "pageup")
        await wait_for_text(pilot, "question number 0")


async def test_a_conversation_is_laid_out_again_for_another_width(store: Store) -> None:
    at = time_ago()
    add_session(store, "wide", at, prompt_entry("word " * 40 + "last", at))
    async with make_browser(store).run_test(size=(60, 24)) as pilot:
        await wait_until(pilot, lambda: selected_id(pilot))
        await pilot.press("enter")
        await wait_for_text(pilot, "last")
        assert screen_text(pilot).count("▌") == 5
        await resize_terminal(pilot, 99, 24)
        await wait_until(pilot, lambda: screen_text(pilot).count("▌") == 4)


# ── changes from elsewhere ────────────────────────────────────────────────────────────────────────


async def test_a_session_added_by_another_connection_appears(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("down")
        with Store.open(filled_store.path) as other:
            add_session(other, "brand:new", time_ago(), prompt_entry("Just now, from elsewhere", time_ago()))
        await wait_for_text(pilot, "7 sessions", "Just now, from elsewhere")
        assert selected_id(pilot) == "codex:0199aa"


async def test_a_changed_row_is_repainted(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "Fix the flaky upload test")
        with Store.open(filled_store.path) as other:
            other.sessions.set_title(other.sessions.get("claude:e0741090"), "Another title")
        await wait_for_text(pilot, "Another title")


async def test_an_error_of_the_store_is_shown_and_does_not_end_the_browser(
    filled_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> Iterator[None]:
        raise Busy("Another program is writing [b]here[/b]\x1b[2J; try again.")

    async with make_browser(filled_store).run_test(size=(120, 24), notifications=True) as pilot:
        await wait_until(pilot, lambda: selected_id(pilot))
        monkeypatch.setattr(type(filled_store.chains), "entries", busy)
        await pilot.press("enter")
        await wait_for_text(pilot, "[b]here[/b]␛[2J")
        await pilot.press("escape", "down")
        await wait_until(pilot, lambda: selected_id(pilot) == "codex:0199aa")


# ── an empty store ────────────────────────────────────────────────────────────────────────────────


async def test_an_empty_store_shows_a_welcome_and_its_path(home: Path) -> None:
    with Store.open() as store:
        async with make_browser(store).run_test() as pilot:
            await wait_for_text(pilot, "No sessions yet", "~/.local/share/backscroll/store.db")
            await wait_for_text(pilot, "Press d", "Show a demo")
            await pilot.press("slash")
            assert pilot.app.focused is None


async def test_the_first_session_replaces_the_welcome(store: Store) -> None:
    async with make_browser(store).run_test() as pilot:
        await wait_for_text(pilot, "No sessions yet")
        with Store.open(store.path) as other:
            add_session(other, "first", time_ago(), prompt_entry("The very first", time_ago()))
        await wait_for_text(pilot, "1 session", "The very first")
        await wait_until(pilot, lambda: session_list(pilot).has_focus)


async def test_the_demo_has_a_store_of_its_own(store: Store) -> None:
    app = make_browser(store)
    async with app.run_test() as pilot:
        await wait_for_text(pilot, "Press d")
        await pilot.press("d")
        await wait_for_text(pilot, "backscroll demo", "sessions")
        assert len(session_list(pilot).keys) > 5
    assert store.sessions.newest() == []
    assert (data_dir() / "demo.db").exists()
    app.close_stores()


async def test_a_failed_demo_shows_an_error_and_can_be_tried_again(store: Store) -> None:
    (data_dir() / "demo.db").mkdir(parents=True)
    app = make_browser(store)
    async with app.run_test(size=(120, 24), notifications=True) as pilot:
        await wait_for_text(pilot, "Press d")
        await pilot.press("d")
        await wait_for_text(pilot, "is a folder, not a store", "Press d")
        (data_dir() / "demo.db").rmdir()
        await pilot.press("d")
        await wait_for_text(pilot, "backscroll demo")
    app.close_stores()


async def test_the_demo_key_does_nothing_on_a_store_with_sessions(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("d")
        assert not (data_dir() / "demo.db").exists()
        assert "demo" not in screen_text(pilot)


# ── help, palette, quitting ───────────────────────────────────────────────────────────────────────


async def test_help_shows_every_key_of_the_screen(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(100, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("question_mark")
        await wait_for_text(pilot, "Open the session", "Next session", "Search sessions by words")
        await pilot.press("escape")
        assert not isinstance(pilot.app.screen, HelpScreen)


def test_every_binding_has_an_id_and_a_tooltip() -> None:
    # The keys of a conversation only say in the list where they work.
    found = [binding for binding in all_bindings() if binding.action != "explain_item_key"]
    assert len(found) > 60
    for binding in found:
        assert binding.id
        assert binding.tooltip


async def test_the_palette_offers_no_screenshot(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test() as pilot:
        commands: list[SystemCommand] = [*pilot.app.get_system_commands(pilot.app.screen)]
    assert commands
    assert "Screenshot" not in [command.title for command in commands]


async def test_q_quits(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("q")
        await pilot.pause()
    assert pilot.app.return_code == 0


async def test_new_sessions_of_agents_are_read_while_the_browser_is_open(store: Store, home: Path) -> None:
    (home / ".config/rubichan").mkdir(parents=True)
    path = make_database(home / ".config/rubichan/rubichan.db", RUBICHAN_SCHEMA)
    add_rubichan_session(path, "a", ("user", "found at the start"))
    with following_browser(store) as app:
        async with app.run_test() as pilot:
            await wait_until(pilot, lambda: store.sessions.matching("")[1] == 1)
            add_rubichan_session(path, "b", ("user", "written later"))
            await wait_until(pilot, lambda: len(session_list(pilot).keys) == 2)


async def test_the_first_run_shows_what_was_found_until_it_is_hidden(store: Store, home: Path) -> None:
    data = Path(__file__).parents[1] / "data"
    for source in ("claude", "codex", "gemini", "qwen", "copilot"):
        shutil.copytree(data / source, home / f".{source}")
    shutil.copytree(data / "pi", home / ".pi/agent")
    with following_browser(store) as app:
        async with app.run_test(size=(80, 24)) as pilot:
            names = ("Claude\N{NO-BREAK SPACE}Code", "pi", "Qwen\N{NO-BREAK SPACE}Code")
            await wait_for_text(pilot, "on this machine   Esc to hide", *names, "Found")
            lines = screen_text(pilot).splitlines()
            counts = " ".join(" ".join(lines[3:6]).split())
            assert re.fullmatch(r"([\w ]+ \d+ · ){5}[\w ]+ \d+", counts), "each with its number, none cut off"
            await pilot.press("escape")
            await wait_until(pilot, lambda: "Esc to hide" not in screen_text(pilot))


@pytest.mark.parametrize("keys", [["enter"], ["slash", "e"]], ids=["open", "search"])
async def test_the_first_session_or_search_hides_what_was_found(store: Store, home: Path, keys: list[str]) -> None:
    shutil.copytree(Path(__file__).parents[1] / "data/claude", home / ".claude")
    with following_browser(store) as app:
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_for_text(pilot, "Found", "Esc to hide")
            await wait_until(pilot, lambda: session_list(pilot).selected)
            await pilot.press(*keys)
            await wait_until(pilot, lambda: "Esc to hide" not in screen_text(pilot))


async def test_a_timer_that_fires_after_quitting_is_no_error(filled_store: Store) -> None:
    app = make_browser(filled_store)
    async with app.run_test(size=(140, 45)) as pilot:
        await wait_for_text(pilot, "6 sessions", "brackets")
        screen = app.screen
        await pilot.press("q")
    assert isinstance(screen, BrowserScreen)
    with pytest.raises(NoMatches) as late:
        screen._open_selected()  # as a timer would
    app._handle_exception(late.value)
    assert (app._exception, app.return_code) == (None, 0)


async def test_the_edge_of_the_conversation_shows_the_turn(store: Store) -> None:
    at = time_ago(minutes=4)
    add_session(
        store,
        "s",
        at,
        *(entry for n in (1, 2) for entry in (prompt_entry(f"Prompt {n}", at), answer_entry("Done.", at))),
    )
    async with make_browser(store).run_test(size=(140, 45)) as pilot:
        await wait_for_text(pilot, "1 session", "turn 2 of 2")
        await pilot.press("enter", "home")
        await wait_for_text(pilot, "turn 1 of 2")
