"""This module asks for a note or a comment on a session or on an entry. One that is emptied is deleted."""

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
    is_comment: bool = False,
    show: Callable[[Note], object] = lambda _: None,
) -> None:
    """Edit the newest of these notes, or add one if there are none. The place says what the note is on.

    A comment is a note that everybody sees who can read the session. `show` gets the note that was written.
    """
    kind = "comment" if is_comment else "note"
    note = notes[-1] if notes else None
    written: Note | None = None
    seen = note.text if note else ""
    done = ""

    def save(text: str) -> None:
        nonlocal seen, done, written
        if note is None:
            add = store.team.comment if is_comment else store.notes.add_note
            written = add(session, text, entry_seq)
            done = f"Added the {kind}."
        elif not text.strip():
            store.notes.delete_note(note.id)
            done = f"Deleted the {kind}."
        elif text.strip() != seen:
            try:
                store.notes.edit_note(note.id, text, seen)
            except ChangedMeanwhile as conflict:
                seen = str(conflict.current)  # the dialog shows it, and saving again overwrites it
                raise
            written = note
            done = f"Saved the {kind}."

    def report(text: str | None) -> None:
        if text is not None and done:
            screen.notify(f"{done} Press u to undo.", timeout=3, markup=False)
            if written is not None:
                show(written)

    count = f"The newest of {len(notes):,} {kind}s. " if len(notes) > 1 else ""
    hint = "\nEverybody who can read the session sees it." if is_comment else ""
    hint += f"\n{count}Save an empty text to delete the {kind}." if note else ""
    dialog = MultilineDialog(f"Edit {kind}" if note else kind.capitalize(), seen, save, note=place + hint)
    screen.app.push_screen(dialog, report)


def list_editable(notes: Sequence[Note], *, is_comment: bool) -> list[Note]:
    """Return the own notes, or the own comments, of these notes."""
    return [note for note in notes if note.is_comment == is_comment and not note.author]
