"""Tests notes in the browser: where they are shown, and how they are written, edited, deleted and found."""

from __future__ import annotations

from typing import Any

from browser_driver import (
    answer_entry,
    make_browser,
    screen_text,
    session_list,
    time_ago,
    wait_for_text,
    wait_until,
)
from textual.pilot import Pilot
from textual.widgets import TextArea

from store.model.knowledge import Note
from store.store import Store
from tui.render import glyphs
from tui.screens.conversation import ConversationPane

UPLOAD, CONFIG = "claude:e0741090", "codex:0199aa"
SIZE = (140, 45)


def notes(store: Store, session_id: str = UPLOAD) -> list[Note]:
    return store.notes.notes(store.sessions.get(session_id))


def note_texts(store: Store, session_id: str = UPLOAD) -> list[tuple[int | None, str]]:
    return [(note.entry_seq, note.text) for note in notes(store, session_id)]


async def ready(pilot: Pilot[Any]) -> None:
    await wait_until(pilot, lambda: session_list(pilot).selected)


async def write(pilot: Pilot[Any], text: str) -> None:
    """Replace the text of the dialog and save it."""
    await wait_until(pilot, lambda: pilot.app.screen.query(TextArea))
    pilot.app.screen.query_one(TextArea).text = text
    await pilot.press("ctrl+s")


async def read_upload(pilot: Pilot[Any]) -> None:
    await ready(pilot)
    await pilot.press("enter")
    await wait_for_text(pilot, "tells how often")


async def test_a_note_of_a_session_has_a_mark_in_the_list_and_stands_under_the_title(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=SIZE, notifications=True) as pilot:
        await ready(pilot)
        assert glyphs.NOTE not in screen_text(pilot)
        await pilot.press("m")
        await write(pilot, "Ask Ada.\nThen merge.")
        await wait_for_text(pilot, "Added the note. Press u to undo.")
        await wait_for_text(pilot, f"{glyphs.NOTE} Ask Ada.", "Then merge.")
        await wait_until(pilot, lambda: screen_text(pilot).count(glyphs.NOTE) == 2)
        await pilot.press("u")
        await wait_until(pilot, lambda: glyphs.NOTE not in screen_text(pilot))
    assert notes(filled_store) == []


async def test_a_long_note_does_not_take_the_place_of_the_conversation(filled_store: Store) -> None:
    filled_store.notes.add_note(filled_store.sessions.get(UPLOAD), "\n".join(f"line {n}" for n in range(30)))
    async with make_browser(filled_store).run_test(size=SIZE) as pilot:
        await ready(pilot)
        await wait_for_text(pilot, "line 2", "… 27 more lines · I to read", "tells how often")


async def test_an_emptied_note_is_deleted_and_undo_restores_it(filled_store: Store) -> None:
    filled_store.notes.add_note(filled_store.sessions.get(UPLOAD), "older")
    filled_store.notes.add_note(filled_store.sessions.get(UPLOAD), "newer")
    async with make_browser(filled_store).run_test(size=SIZE, notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("m")
        await wait_for_text(pilot, "Edit note", "The newest of 2 notes.", "Save an empty text to delete the note.")
        assert pilot.app.screen.query_one(TextArea).text == "newer"
        await write(pilot, "  ")
        await wait_for_text(pilot, "Deleted the note. Press u to undo.")
        assert note_texts(filled_store) == [(None, "older")]
        await pilot.press("u")
        await wait_until(pilot, lambda: note_texts(filled_store) == [(None, "older"), (None, "newer")])
        await pilot.press("m")
        await write(pilot, "newest")
        await wait_for_text(pilot, "Saved the note. Press u to undo.")
    assert note_texts(filled_store) == [(None, "older"), (None, "newest")]


async def test_a_note_that_is_not_changed_is_no_edit(filled_store: Store) -> None:
    filled_store.notes.add_note(filled_store.sessions.get(UPLOAD), "as it is")
    edits = len(filled_store.journal.list_edits())
    async with make_browser(filled_store).run_test(size=SIZE, notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("m")
        await write(pilot, "as it is\n")
        await wait_until(pilot, lambda: not pilot.app.screen.query(TextArea))
        assert "undo" not in screen_text(pilot)
    assert len(filled_store.journal.list_edits()) == edits


async def test_a_note_that_was_changed_elsewhere_is_not_overwritten_unseen(filled_store: Store) -> None:
    note = filled_store.notes.add_note(filled_store.sessions.get(UPLOAD), "mine")
    async with make_browser(filled_store).run_test(size=SIZE) as pilot:
        await ready(pilot)
        await pilot.press("m")
        await wait_for_text(pilot, "Edit note")
        filled_store.notes.edit_note(note.id, "theirs")
        await write(pilot, "mine, longer")
        await wait_for_text(pilot, "The note was changed elsewhere.", "theirs")
        assert note_texts(filled_store) == [(None, "theirs")]
        await pilot.press("ctrl+s")
        await wait_until(pilot, lambda: note_texts(filled_store) == [(None, "mine, longer")])


async def test_a_note_of_the_conversation_belongs_to_the_entry_and_stands_at_it(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=SIZE, notifications=True) as pilot:
        await read_upload(pilot)
        await pilot.press("X", "m")
        await wait_for_text(pilot, "On turn 1: “Bash pytest -q tests/test_upload.py”")
        await write(pilot, "This one is flaky.")
        await wait_for_text(pilot, f"{glyphs.NOTE} note ·", "▎ This one is flaky.")
        assert note_texts(filled_store) == [(1, "This one is flaky.")]
        lines = screen_text(pilot).splitlines()
        at = next(n for n, line in enumerate(lines) if "This one is flaky." in line)
        assert "pytest -q" in "".join(lines[at - 4 : at])
        await pilot.press("m")
        await wait_for_text(pilot, "Edit note")
        await write(pilot, "It was flaky.")
        await wait_for_text(pilot, "▎ It was flaky.")
        await wait_until(pilot, lambda: selected_kind(pilot) == "note")
        await pilot.press("m")
        await write(pilot, "")
        await wait_until(pilot, lambda: "▎" not in screen_text(pilot))
    assert notes(filled_store) == []


def selected_kind(pilot: Pilot[Any]) -> str:
    item = pilot.app.screen.query_one(ConversationPane).timeline_pane.timeline_view.current_item
    return item.kind if item else ""


async def test_a_note_keeps_what_is_open_and_the_cursor_where_they_are(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=SIZE) as pilot:
        await read_upload(pilot)
        await pilot.press("X", "enter")
        await wait_for_text(pilot, "see the log")
        with Store.open(filled_store.path) as other:
            other.notes.add_note(other.sessions.get(UPLOAD), "above the call", entry_seq=0)
        await wait_for_text(pilot, "▎ above the call", "see the log")
        assert selected_kind(pilot) == "call"


async def test_the_words_of_notes_are_found_in_the_list_and_in_the_conversation(filled_store: Store) -> None:
    filled_store.notes.add_note(filled_store.sessions.get(CONFIG), "the quokka of configs", entry_seq=0)
    async with make_browser(filled_store).run_test(size=SIZE) as pilot:
        await ready(pilot)
        await pilot.press("slash", *"quokk")
        await wait_for_text(pilot, "1 found", f"{glyphs.NOTE} the quokka")
        await pilot.press("enter")
        await wait_for_text(pilot, "▎ the quokka of configs")
        await pilot.press("escape", "escape", "slash", *"has:note")
        await wait_for_text(pilot, "1 found")
        await pilot.press("enter", "enter")
        await wait_for_text(pilot, "▎ the quokka of configs")
        await pilot.press("slash", *"quokka")
        await wait_for_text(pilot, "1 of 1")


async def test_a_written_note_is_in_view_and_the_breadcrumb_keeps_the_turn(filled_store: Store) -> None:
    session = filled_store.sessions.get(CONFIG)
    filled_store.chains.append(
        session.key, [answer_entry("\n\n".join(f"line {n}" for n in range(9)), time_ago(hours=1))]
    )
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("down", "enter")
        await wait_for_text(pilot, "line 8", "› turn 1", "m Note", "esc Back")
        await pilot.press("m")
        await wait_for_text(pilot, "On turn 1: “line 0")
        await write(pilot, "one\ntwo\nthree")
        await wait_for_text(pilot, "▎ one", "▎ three", "› turn 1")
        await wait_until(pilot, lambda: selected_kind(pilot) == "note")


async def test_keys_go_to_the_notes_inside_a_session(filled_store: Store) -> None:
    session = filled_store.sessions.get(UPLOAD)
    for seq, text in ((0, "first note"), (3, "last note")):
        filled_store.notes.add_note(session, text, entry_seq=seq)
    async with make_browser(filled_store).run_test(size=SIZE, notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("m")
        await wait_for_text(pilot, "2 notes inside the conversation: Esc, then ' goes there.")
        await pilot.press("escape", "apostrophe")
        await wait_until(pilot, lambda: selected_note(pilot) == "" and selected_kind(pilot) == "prompt")
        for key, text in (("apostrophe", "first"), ("apostrophe", "last"), ("quotation_mark", "first")):
            await pilot.press(key)
            await wait_until(pilot, lambda text=text: selected_note(pilot) == f"{text} note")  # type: ignore[misc]
        await pilot.press("1", "end", "apostrophe")
        await wait_for_text(pilot, "No notes inside this session.")


def selected_note(pilot: Pilot[Any]) -> str:
    item = pilot.app.screen.query_one(ConversationPane).timeline_pane.timeline_view.current_item
    return item.note.text if item and item.note else ""


def test_the_mark_is_in_the_legend() -> None:
    assert any(sign == glyphs.NOTE for sign, _ in glyphs.LEGEND)
