"""This module stores the tags of sessions, and the notes on sessions and entries."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from store.errors import BadValue, ChangedMeanwhile, NotFound, Refused
from store.model.knowledge import Note
from store.model.session import Session, entry_id
from store.text.validate import utc_timestamp, validate_id, validate_integer, validate_text

if TYPE_CHECKING:
    from store.store import Store

_SELECT_NOTES = """
    select notes.id, sessions.id, notes.entry_seq, notes.text, notes.created_at, notes.author, notes.comment
    from notes join sessions on sessions.key = notes.session
"""
_SELECT_ALL_TAGS = """
    select tags.name, count(*) from tags join sessions on sessions.key = tags.session where sessions.deleted = 0
    group by tags.name order by count(*) desc, tags.name
"""


class Notes:
    """Reads and edits tags and notes. This is the collection `store.notes`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # ── tags ──────────────────────────────────────────────────────────────────────────────────────

    def tag(self, sessions: Sequence[Session], names: Sequence[str]) -> None:
        """Add tags to several sessions in one edit. Tags that a session already has stay."""
        added = _validate_tags(names)
        with self._store.journal.edit("tag", *(session.key for session in sessions)) as edit:
            for key in dict.fromkeys(session.key for session in sessions):
                existing = self._read_tags(self._store.sessions.by_key(key).key)
                for name in added:
                    if name not in existing:
                        edit.insert("tags", session=key, name=name)

    def untag(self, sessions: Sequence[Session], names: Sequence[str]) -> None:
        """Remove tags from several sessions in one edit. At least one of the sessions must have each tag."""
        missing = removed = _validate_tags(names)
        with self._store.journal.edit("untag", *(session.key for session in sessions)) as edit:
            for key in dict.fromkeys(session.key for session in sessions):
                existing = self._read_tags(key)
                for name in removed:
                    if name in existing:
                        edit.delete("tags", [key, name])
                missing = [name for name in missing if name not in existing]
            if missing:
                raise NotFound(f"No such tag: {missing[0]!r}.")

    def retag(self, sessions: Sequence[Session], names: Sequence[str], instead_of: Sequence[str]) -> None:
        """Replace tags of several sessions by others in one edit."""
        added = _validate_tags(names) if names else []
        with self._store.journal.edit("tag", *(session.key for session in sessions)) as edit:
            for key in dict.fromkeys(session.key for session in sessions):
                existing = self._read_tags(self._store.sessions.by_key(key).key)
                for name in set(existing) & (set(instead_of) - set(added)):
                    edit.delete("tags", [key, name])
                for name in added:
                    if name not in existing:
                        edit.insert("tags", session=key, name=name)

    def tags(self, session: Session) -> list[str]:
        return self._read_tags(session.key)

    def all_tags(self) -> list[tuple[str, int]]:
        """Return each tag with the number of its sessions, the most used first. The trash does not count."""
        return self._store.rows(_SELECT_ALL_TAGS)

    def _read_tags(self, session: int) -> list[str]:
        return [name for (name,) in self._store.rows("select name from tags where session = ? order by name", session)]

    # ── notes ─────────────────────────────────────────────────────────────────────────────────────

    def add_note(self, session: Session, text: str, entry_seq: int | None = None) -> Note:
        return self._insert_note("note", session, text, entry_seq)

    def add_comment(self, session: Session, text: str, entry_seq: int | None = None) -> Note:
        """Add a note that is sent to everybody who can read the session."""
        return self._insert_note("comment", session, text, entry_seq, comment=uuid4().hex)

    def _insert_note(self, kind: str, session: Session, text: str, entry_seq: int | None, **columns: str) -> Note:
        columns |= {"text": _validate_note_text(text), "created_at": utc_timestamp()}
        with self._store.journal.edit(kind, session.key) as edit:
            key = self._store.sessions.by_key(session.key).key
            if entry_seq is not None:
                self._store.chains.entry(key, validate_integer(entry_seq, "entry"))
            note_id = edit.insert("notes", session=key, entry_seq=entry_seq, **columns)
            return _note_from_row(self._store.row(f"{_SELECT_NOTES} where notes.id = ?", note_id))

    def add_note_to_all(self, sessions: Sequence[Session], text: str) -> None:
        """Add the same note to several sessions in one edit."""
        with self._store.journal.edit("note", *(session.key for session in sessions)) as edit:
            for session in sessions:
                key = self._store.sessions.by_key(session.key).key
                edit.insert(
                    "notes", session=key, entry_seq=None, text=_validate_note_text(text), created_at=utc_timestamp()
                )

    def edit_note(self, note_id: int, text: str, seen: str | None = None) -> None:
        """Replace the text of a note. With `seen`, refuse if it is not the text any more, so that none is lost."""
        note_text = _validate_note_text(text)
        with self._store.journal.edit("edit note", self._session_key(self._own_note(note_id))) as edit:
            current = self.note(note_id).text
            if seen is not None and seen != current:
                raise ChangedMeanwhile("The note was changed elsewhere.", current)
            edit.update("notes", note_id, text=note_text)

    def delete_note(self, note_id: int) -> None:
        with self._store.journal.edit("unnote", self._session_key(self._own_note(note_id))) as edit:
            edit.delete("notes", note_id)

    def _own_note(self, note_id: int) -> Note:
        note = self.note(note_id)
        if note.author and note.is_comment:
            raise Refused(f"This comment is from {note.author}. Only {note.author} can change it.")
        return note

    def note(self, note_id: int) -> Note:
        row = self._store.row(f"{_SELECT_NOTES} where notes.id = ?", validate_integer(note_id, "number of a note"))
        if row is None:
            raise NotFound(f"No such note: {note_id}.")
        return _note_from_row(row)

    def notes(self, session: Session) -> list[Note]:
        """Return the notes of a session, oldest first."""
        return self.by_session_key(session.key)

    def by_session_key(self, session: int) -> list[Note]:
        rows = self._store.rows(f"{_SELECT_NOTES} where sessions.key = ? order by notes.id", session)
        return list(map(_note_from_row, rows))

    def _session_key(self, note: Note) -> int:
        return self._store.sessions.get(note.session_id).key


def _validate_tags(names: Sequence[str]) -> list[str]:
    tags = [validate_tag(name) for name in ([names] if isinstance(names, str) else names)]
    if not tags:
        raise BadValue("Name at least one tag.")
    return list(dict.fromkeys(tags))


def validate_tag(name: str) -> str:
    """Return the name of a tag as it is stored, or raise BadValue."""
    trimmed = validate_text(name, "tag").strip()
    if any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in trimmed):
        raise BadValue(f"The tag {trimmed[:80]!r} contains a control character.")
    return validate_id(trimmed, "tag")


def _validate_note_text(text: str) -> str:
    trimmed = validate_text(text, "note").strip()
    if not trimmed:
        raise BadValue("The note is empty.")
    return trimmed


def _note_from_row(row: Sequence[Any]) -> Note:
    note_id, session_id, seq, text, created_at, author, comment = row
    entry = entry_id(session_id, seq) if seq is not None else None
    return Note(note_id, session_id, entry, text, created_at, author, comment is not None)
