"""This module asks for a note on a session or on an entry. An emptied note is deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from store.errors import ChangedMeanwhile
from store.model.knowledge import Note
from store.model.session import Session
from tui.dialogs.text import MultilineDialog

if TYPE_CHECKING:
    from store.store import Store


def open_note_dialog(
    screen: Screen[Any],
    store: Store,
    session: Session,
    notes: Sequence[Note],
    *,
    entry_seq: int | None = None,
    place: str,
    show: Callable[[Note], object] = lambda _: None,
) -> None:
    """Edit the newest of these notes, or add one if there are none. The place says what the note is on.

    `show` gets the note that was written.
    """
    note = notes[-1] if notes else None
    written: Note | None = None
    seen = note.text if note else ""
    done = ""

    def save(text: str) -> None:
        nonlocal seen, done, written
        if note is None:
            written = store.notes.add_note(session, text, entry_seq)
            done = "Added the note."
        elif not text.strip():
            store.notes.delete_note(note.id)
            done = "Deleted the note."
        elif text.strip() != seen:
            try:
                store.notes.edit_note(note.id, text, seen)
            except ChangedMeanwhile as conflict:
                seen = str(conflict.current)  # the dialog shows it, and saving again overwrites it
                raise
            written = note
            done = "Saved the note."

    def report(text: str | None) -> None:
        if text is not None and done:
            screen.notify(f"{done} Press u to undo.", timeout=3, markup=False)
            if written is not None:
                show(written)

    count = f"The newest of {len(notes):,} notes. " if len(notes) > 1 else ""
    hint = f"\n{count}{_DELETE_HINT}" if note else ""
    dialog = MultilineDialog("Edit note" if note else "Note", seen, save, note=place + hint)
    screen.app.push_screen(dialog, report)


_DELETE_HINT = "Save an empty text to delete the note."
