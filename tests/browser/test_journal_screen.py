"""Tests the journal screen: looking at edits, undoing any of them, and edits that depend on others."""

from __future__ import annotations

import pytest
from browser_driver import fixed_clock
from screen_driver import NARROW, WIDE, open_screen

from store.model.session import Session
from store.store import Store
from tui.dialogs.confirm import ConfirmDialog
from tui.screens import journal
from tui.screens.journal import NOTHING_TO_UNDO, JournalScreen, undo_newest


@pytest.fixture
def session(filled_store: Store) -> Session:
    return filled_store.sessions.get("claude:e0741090")


def title(store: Store, session: Session) -> str:
    return store.sessions.by_key(session.key).own_title


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_edits_are_listed_newest_first_with_before_and_after(
    filled_store: Store, session: Session, size: tuple[int, int]
) -> None:
    filled_store.sessions.set_title(session, "Mine")
    filled_store.sessions.set_title(session, "Better")
    async with open_screen(filled_store, JournalScreen(filled_store, fixed_clock), size) as one:
        await one.wait_for_text("Journal · 4 edits", "title: Mine → Better")
        assert one.text.index("Better") < one.text.index("summary written")
        await one.press("down")
        await one.wait_for_text("title: Mine", "Edit 4 depends on it.")


async def test_an_empty_journal_shows_a_message(store: Store) -> None:
    async with open_screen(store, JournalScreen(store, fixed_clock)) as one:
        await one.wait_for_text("No edits yet.")
        await one.press("u", "g", "enter", "escape")
        await one.wait_until(lambda: one.results == [None])


async def test_a_filter_applies_while_typing(filled_store: Store) -> None:
    filled_store.facts.learn("Uses FastAPI")
    async with open_screen(filled_store, JournalScreen(filled_store, fixed_clock)) as one:
        await one.wait_for_text("3 edits")
        await one.press("slash", *"fastapi added")
        await one.wait_for_text("1 of 3 edits", "Uses FastAPI")
        await one.press("x")
        await one.wait_for_text("No edits match.")
        await one.press("backspace", "enter")
        await one.wait_for_text("1 of 3 edits")
        await one.press("escape")
        await one.wait_for_text("Journal · 3 edits")
        assert not one.results


async def test_a_long_journal_is_loaded_while_scrolling(
    filled_store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "PAGE_SIZE", 20)
    for number in range(70):
        filled_store.sessions.set_title(session, f"title {number}")
    screen = JournalScreen(filled_store, fixed_clock)
    screen._requested_count = 20
    async with open_screen(filled_store, screen, (80, 24)) as one:
        await one.wait_for_text("20+ edits")
        await one.press("end")
        await one.wait_for_text("40+ edits")
        await one.press("slash", *"summary written")
        await one.wait_for_text("1 of 72 edits")


async def test_an_edit_made_elsewhere_appears(filled_store: Store, session: Session) -> None:
    async with open_screen(filled_store, JournalScreen(filled_store, fixed_clock)) as one:
        await one.wait_for_text("2 edits")
        with Store.open(filled_store.path) as other:
            other.sessions.set_title(session, "from elsewhere")
        await one.wait_for_text("3 edits", "from elsewhere")


async def test_a_key_opens_the_session_of_an_edit(filled_store: Store) -> None:
    filled_store.sessions.set_title(filled_store.sessions.get("codex:0199aa"), "Mine")
    async with open_screen(filled_store, JournalScreen(filled_store, fixed_clock)) as one:
        await one.wait_for_text("3 edits", "title: Mine")
        await one.press("g")
        await one.wait_until(lambda: one.results == ["codex:0199aa#0"])


async def test_the_difference_scrolls_on_its_own(filled_store: Store, session: Session) -> None:
    filled_store.notes.add_note(session, "\n".join(f"line {number}" for number in range(100)))
    async with open_screen(filled_store, JournalScreen(filled_store, fixed_clock), NARROW) as one:
        await one.wait_for_text("+ line 0")
        await one.press("tab", "end")
        await one.wait_for_text("+ line 99")
        await one.press("tab", "down")
        await one.wait_for_text("summary written", "The upload test was flaky.")


# ── undoing ───────────────────────────────────────────────────────────────────────────────────────


async def test_the_current_edit_is_undone_and_dimmed(filled_store: Store, session: Session) -> None:
    filled_store.sessions.set_title(session, "Mine")
    filled_store.facts.learn("Uses FastAPI")
    async with open_screen(filled_store, JournalScreen(filled_store, fixed_clock)) as one:
        await one.wait_for_text("4 edits", "Uses FastAPI")
        await one.press("down")
        await one.wait_for_text("title: Mine")
        await one.press("u")
        await one.wait_for_text("5 edits", "undone · Mine", "undone: title changed", "Undone: title “Mine” of “Fix the")
        assert title(filled_store, session) == ""
        await one.press("u")
        await one.wait_for_text("Edit 3 is already undone. Undo edit 5")
        await one.press("home", "u")
        await one.wait_for_text("6 edits", "redone: title changed", "Done again: title of “Mine”")
        assert title(filled_store, session) == "Mine"


async def test_dependent_edits_are_shown_before_an_undo(filled_store: Store, session: Session) -> None:
    for text in ("one", "two", "three"):
        filled_store.sessions.set_title(session, text)
    async with open_screen(filled_store, JournalScreen(filled_store, fixed_clock)) as one:
        await one.wait_for_text("5 edits", "title: two → three")
        await one.press("down", "down")
        await one.wait_for_text("Edits 4 and 5 depend on it.")
        await one.press("u")
        await one.wait_until(lambda: isinstance(one.pilot.app.screen, ConfirmDialog))
        await one.wait_for_text("Undo all of these, newest first?", "4  title “two” of “three”", "5  title of “three”")
        await one.press("n")
        assert title(filled_store, session) == "three"
        await one.press("u")
        await one.wait_for_text("Undo all of these")
        await one.press("y")
        await one.wait_for_text("8 edits")
        assert title(filled_store, session) == ""


async def test_a_double_click_undoes(filled_store: Store, session: Session) -> None:
    filled_store.sessions.set_title(session, "Mine")
    async with open_screen(filled_store, JournalScreen(filled_store, fixed_clock)) as one:
        await one.wait_for_text("3 edits", "title: Mine")
        await one.pilot.click("EditTable", offset=(10, 0), times=2)
        await one.wait_for_text("4 edits")
        assert title(filled_store, session) == ""


async def test_a_failed_undo_shows_the_reason(filled_store: Store, session: Session) -> None:
    filled_store.sessions.set_title(session, "Mine")
    async with open_screen(filled_store, JournalScreen(filled_store, fixed_clock)) as one:
        await one.wait_for_text("3 edits", "title: Mine")
        filled_store.connection.execute("update sessions set own_title = 'by nobody' where key = ?", (session.key,))
        filled_store.connection.commit()
        await one.press("u")
        await one.wait_for_text("Edit 3 cannot be undone: the same data was changed later.")
        assert title(filled_store, session) == "by nobody"


async def test_a_purged_edit_cannot_be_undone(filled_store: Store, session: Session) -> None:
    filled_store.sessions.set_title(session, "Mine")
    filled_store.sessions.delete([session])
    filled_store.sessions.purge([session])
    async with open_screen(filled_store, JournalScreen(filled_store, fixed_clock)) as one:
        await one.wait_for_text("Its data was purged")
        await one.press("u")
        await one.wait_for_text("cannot be undone: its data was purged.")


def test_undoing_the_newest_edit_describes_it(filled_store: Store, session: Session) -> None:
    filled_store.sessions.set_title(session, "Mine")
    assert undo_newest(filled_store) == "Undone: title “Mine” of “Fix the flaky upload test”."
    assert undo_newest(filled_store) == "Undone: summary of “Fix the flaky upload test”."
    assert undo_newest(filled_store) == "Undone: pinning “Fix the flaky upload test”."
    assert undo_newest(filled_store) == NOTHING_TO_UNDO


def test_undoing_an_edit_of_a_saved_search_names_it(store: Store) -> None:
    saved = store.saved_searches
    saved.save("bash", "is:error tool:bash")
    saved.pin("bash")
    saved.rename("bash", "bash-errors")
    saved.delete(["bash-errors"])
    assert [undo_newest(store) for _ in range(4)] == [
        "Undone: deleting the search @bash-errors.",
        "Undone: renaming the search @bash → @bash-errors.",
        "Undone: pinning the search @bash.",
        "Undone: saving the search @bash.",
    ]


async def test_an_edit_of_a_saved_search_is_shown_without_its_json(store: Store) -> None:
    store.saved_searches.save("bash-errors", "is:error tool:bash")
    store.saved_searches.pin("bash-errors")
    async with open_screen(store, JournalScreen(store, fixed_clock), WIDE) as one:
        await one.wait_for_text("search pinned", "@bash-errors", "pinned: no → yes")
        await one.press("down")
        await one.wait_for_text("+ search @bash-errors", "query: is:error tool:bash")
        assert '{"' not in one.text


async def test_hostile_text_does_not_reach_the_screen(filled_store: Store, session: Session) -> None:
    filled_store.sessions.set_title(session, "\x1b]0;owned\x07[b]x[/b] \u202eabc " + "日本" * 60)
    filled_store.facts.learn("\x1b[2J" + "y" * 5_000)
    for size in (WIDE, NARROW):
        async with open_screen(filled_store, JournalScreen(filled_store, fixed_clock), size) as one:
            await one.wait_for_text("4 edits", "␛[2J")
            assert not {"\x1b", "\x07", "\u202e"} & set(one.text)
            await one.press("down")
            await one.wait_for_text("[b]x[/b]")
            assert not {"\x1b", "\x07", "\u202e"} & set(one.text)
