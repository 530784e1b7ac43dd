"""Tests editing sessions in the list: one, or all selected ones, and undo."""

from __future__ import annotations

import pytest
from browser_driver import add_session, make_browser, session_list, time_ago, wait_for_text, wait_until
from textual.pilot import Pilot
from textual.widgets import Input, Static

from store.store import Store
from tui.dialogs.text import SingleLineDialog
from tui.render.styles import MAX_MESSAGE_CHARACTERS, MAX_MESSAGE_LINES, render_message
from tui.widgets.line_input import MAX_INPUT_BLANKS, MAX_INPUT_CHARACTERS, LineInput

UPLOAD, CONFIG = "claude:e0741090", "codex:0199aa"


async def ready(pilot: Pilot[None]) -> None:
    await wait_until(pilot, lambda: session_list(pilot).selected)


async def test_a_new_title_is_shown_and_found(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 30)) as pilot:
        await ready(pilot)
        await pilot.press("t")
        await wait_for_text(pilot, "Title", "Cancel")
        field = pilot.app.screen.query_one(Input)
        assert field.value == "Fix the flaky upload test"
        field.value = "The zebra of uploads"
        await pilot.press("enter")
        await wait_for_text(pilot, "★ The zebra of uploads")
        await pilot.press("slash", *"zebra")
        await wait_for_text(pilot, "1 found")
    assert filled_store.sessions.get(UPLOAD).own_title == "The zebra of uploads"
    assert filled_store.sessions.get(UPLOAD).agent_title == "Fix the flaky upload test"


async def test_of_a_very_long_title_the_dialog_shows_the_beginning(store: Store) -> None:
    """Textual wraps all that a dialog shows around its field, which would take seconds."""
    session = add_session(store, "long", time_ago(hours=1), agent_title="漢字 \n" * 1_000_000)
    store.sessions.set_title(session, "x\ny " * 1_000_000)
    async with make_browser(store).run_test(size=(100, 30)) as pilot:
        await wait_until(pilot, lambda: session_list(pilot).selected is not None)
        await pilot.press("t")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, SingleLineDialog))
        texts = [str(static.content) for static in pilot.app.screen.query(Static)]
        assert "The agent's title is '漢字" in texts[1]
        assert max(map(len, texts)) <= MAX_MESSAGE_CHARACTERS + 1
        shown = pilot.app.screen.query_one(Input).value
        assert len(shown) == MAX_INPUT_CHARACTERS
        assert shown.startswith("x y x y")


@pytest.mark.parametrize("blank", ["\n", "\t"])
def test_many_blanks_in_an_input_become_spaces(blank: str) -> None:
    few, many = f"a{blank}b" * MAX_INPUT_BLANKS, f"a{blank}b" * (MAX_INPUT_BLANKS + 1)
    assert LineInput().validate_value(few) == few
    assert LineInput().validate_value(many) == many.replace(blank, " ")


def test_a_message_that_quotes_a_long_text_is_cut() -> None:
    assert render_message("\x1b" * 2_000_000).plain == "␛" * MAX_MESSAGE_CHARACTERS + "…"
    assert render_message("x\n" * 400).plain == "x\n" * (MAX_MESSAGE_LINES - 1) + "x…"
    assert render_message("All of it\nis shown.").plain == "All of it\nis shown."


async def test_an_empty_title_is_refused_and_the_text_stays(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 30)) as pilot:
        await ready(pilot)
        await pilot.press("t")
        await wait_for_text(pilot, "Title")
        pilot.app.screen.query_one(Input).value = "   "
        await pilot.press("enter")
        await wait_for_text(pilot, "The title is empty.")
        assert pilot.app.screen.query_one(Input).value == "   "
        await pilot.press("escape")
        await wait_for_text(pilot, "★ Fix the flaky upload test")


async def test_a_title_that_was_changed_elsewhere_is_not_overwritten(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 30)) as pilot:
        await ready(pilot)
        await pilot.press("t")
        await wait_for_text(pilot, "Title")
        with Store.open(filled_store.path) as other:
            other.sessions.set_title(other.sessions.get(UPLOAD), "Theirs")
        pilot.app.screen.query_one(Input).value = "Mine"
        await pilot.press("enter")
        await wait_for_text(pilot, "changed elsewhere", "Theirs")
        assert pilot.app.screen.query_one(Input).value == "Mine"
        assert filled_store.sessions.get(UPLOAD).title == "Theirs"
        await pilot.press("enter")  # having seen it
        await wait_until(pilot, lambda: filled_store.sessions.get(UPLOAD).title == "Mine")


async def test_selected_sessions_are_tagged_together_and_undone_together(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 30)) as pilot:
        await ready(pilot)
        await pilot.press("space", "space", "T")
        await wait_for_text(pilot, "Tags", "Applies to 2 sessions")
        pilot.app.screen.query_one(Input).value = "ci, later"
        await pilot.press("enter")
        await wait_until(pilot, lambda: filled_store.notes.tags(filled_store.sessions.get(CONFIG)) == ["ci", "later"])
        assert filled_store.notes.tags(filled_store.sessions.get(UPLOAD)) == ["ci", "later"]
        await pilot.press("T")
        await wait_for_text(pilot, "Tags")
        assert pilot.app.screen.query_one(Input).value == "ci, later"
        pilot.app.screen.query_one(Input).value = "ci"
        await pilot.press("enter")
        await wait_until(pilot, lambda: filled_store.notes.tags(filled_store.sessions.get(UPLOAD)) == ["ci"])
        await pilot.press("u")
        await wait_until(pilot, lambda: filled_store.notes.tags(filled_store.sessions.get(UPLOAD)) == ["ci", "later"])
        await pilot.press("u")
        await wait_until(pilot, lambda: filled_store.notes.tags(filled_store.sessions.get(CONFIG)) == [])


async def test_selected_sessions_are_pinned_together_and_unpinned_together(filled_store: Store) -> None:
    def flags() -> list[int]:
        return [filled_store.sessions.get(one).pinned for one in (UPLOAD, CONFIG)]

    async with make_browser(filled_store).run_test(size=(90, 30), notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("space", "space", "p")
        await wait_until(pilot, lambda: flags() == [1, 1])
        await wait_for_text(pilot, "ed 2 sessions.")
        await pilot.press("p")
        await wait_until(pilot, lambda: flags() == [0, 0])
        await pilot.press("u")
        await wait_until(pilot, lambda: flags() == [1, 1])


async def test_undo_restores_a_session_from_the_trash(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 30), notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("d")
        await wait_for_text(pilot, "5 sessions", "Moved “Fix the flaky upload test” to the")
        assert [row.id for row in filled_store.sessions.trash()] == ["claude:e0741090"]
        await pilot.press("u")
        await wait_for_text(pilot, "6 sessions", "Fix the flaky upload test")


async def test_a_note_is_saved(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 30)) as pilot:
        await ready(pilot)
        await pilot.press("m")
        await wait_for_text(pilot, "Note", "Your editor")
        await pilot.press(*"ask", "enter", *"again", "ctrl+s")
        await wait_until(pilot, lambda: filled_store.notes.notes(filled_store.sessions.get(UPLOAD)))
    (note,) = filled_store.notes.notes(filled_store.sessions.get(UPLOAD))
    assert note.text == "ask\nagain"


async def test_a_terminal_that_cannot_open_an_editor_is_reported_and_the_text_stays(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("m")
        await wait_for_text(pilot, "Note", "Your editor")
        await pilot.press(*"ask", "f4")
        await wait_for_text(pilot, "This terminal cannot open an editor. Edit the text here.", "ask")


async def test_an_item_becomes_a_fact_with_its_entry(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 30), notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, "it now reopens it")
        await pilot.press("end", "plus")
        await wait_for_text(pilot, "Save as a fact", "The retry ran after the file was closed.")
        await pilot.press("ctrl+s")
        await wait_for_text(pilot, "Added the fact")
    (fact,) = filled_store.facts.current()
    assert (fact.text, fact.entry) == ("The retry ran after the file was closed.", f"{UPLOAD}#3")


async def test_keys_that_edit_the_list_do_nothing_in_a_conversation(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 30)) as pilot:
        await ready(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, "it now reopens it")
        await pilot.press("d", "p")
        await pilot.pause()
    assert not filled_store.sessions.get(UPLOAD).deleted
    assert filled_store.sessions.get(UPLOAD).pinned


async def test_selected_sessions_get_the_same_note_and_title(filled_store: Store) -> None:
    chosen = [filled_store.sessions.get(one) for one in (UPLOAD, CONFIG)]
    async with make_browser(filled_store).run_test(size=(90, 30)) as pilot:
        await ready(pilot)
        await pilot.press("space", "space", "m")
        await wait_for_text(pilot, "Applies to 2 sessions.")
        await pilot.press(*"both", "ctrl+s")
        await wait_until(pilot, lambda: all(filled_store.notes.notes(session) for session in chosen))
        await pilot.press("u")
        await wait_until(pilot, lambda: not any(filled_store.notes.notes(session) for session in chosen))
        await pilot.press("t")
        await wait_for_text(pilot, "Applies to 2 sessions.")
        await pilot.press(*"Twins", "enter")
        await wait_until(
            pilot, lambda: [filled_store.sessions.by_key(one.key).own_title for one in chosen] == ["Twins"] * 2
        )
        await pilot.press("u")
        await wait_until(pilot, lambda: [filled_store.sessions.by_key(one.key).own_title for one in chosen] == ["", ""])
