"""Tests what is shown where a text is empty, short, or ends with a full stop."""

from __future__ import annotations

from browser_driver import make_browser, screen_text, wait_for_text, wait_until
from textual.widgets import TextArea

from store.store import Store
from tui.privacy.secret_value import MASK


async def test_an_undone_edit_ends_with_one_full_stop(filled_store: Store) -> None:
    session = filled_store.sessions.get("claude:e0741090")
    filled_store.sessions.set_title(session, "Mend it.")
    filled_store.sessions.archive([session])
    async with make_browser(filled_store).run_test(notifications=True) as pilot:
        await wait_for_text(pilot, "5 sessions", "1 archived")
        await pilot.press("u")
        await wait_until(pilot, lambda: pilot.app._notifications)
        (notice,) = [str(one.message) for one in pilot.app._notifications]
        assert notice == "Undone: archiving “Mend it.”"
        assert ".." not in notice


async def test_an_empty_secret_is_called_empty(filled_store: Store) -> None:
    session = filled_store.sessions.get("claude:e0741090")
    filled_store.secrets.set(session, "NOTHING", "")
    async with make_browser(filled_store).run_test(size=(100, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        await pilot.press("dollar_sign")
        await wait_for_text(pilot, "NOTHING", MASK)
        await pilot.press("r")
        await wait_for_text(pilot, "(empty)", "hides in")
        assert MASK not in screen_text(pilot)


async def test_an_editor_is_as_high_as_its_text(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(140, 45)) as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        await pilot.press("m")
        await wait_for_text(pilot, "Cancel")
        area = pilot.app.screen.query_one(TextArea)
        assert area.size.height == 3
        await pilot.press(*["a", "enter"] * 6)
        await wait_until(pilot, lambda: area.size.height == 7)
        await pilot.press(*["a", "enter"] * 20)
        await wait_until(pilot, lambda: area.size.height == 16)


async def test_an_editor_leaves_room_in_a_low_terminal(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        await pilot.press("m")
        await wait_for_text(pilot, "Cancel")
        area = pilot.app.screen.query_one(TextArea)
        await pilot.press(*["a", "enter"] * 20)
        await wait_until(pilot, lambda: area.size.height == 10)


async def test_the_columns_of_the_journal_have_titles(filled_store: Store) -> None:
    session = filled_store.sessions.get("claude:e0741090")
    filled_store.notes.add_note(session, "Ask Ada.")
    filled_store.sessions.pin([session])
    async with make_browser(filled_store).run_test(size=(140, 45)) as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        await pilot.press("U")
        await wait_for_text(pilot, "note added", "Ask Ada.")
        lines = screen_text(pilot).splitlines()
        titles = next(line for line in lines if "session" in line and "text" in line and "age" in line)
        note = next(line for line in lines if "note added" in line and "Ask Ada" in line)
        pinned = next(line for line in lines if "  pinned  " in line)
        assert titles.index("change") == note.index("note added") == pinned.index("pinned")
        assert titles.index("session") == note.index("Fix the") == pinned.index("Fix the")
        assert titles.index("text") == note.index("Ask Ada")
