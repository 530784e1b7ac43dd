"""These tests check tags and notes."""

from __future__ import annotations

import pytest

from store.errors import BadValue, ChangedMeanwhile, NotFound, StoreError
from store.model.session import Session
from store.store import Store


@pytest.fixture
def session(store: Store) -> Session:
    session = store.create_session("s")
    store.append_message("s", "user", "hello")
    return session


@pytest.fixture
def other(store: Store) -> Session:
    return store.create_session("other")


# ── tags ──────────────────────────────────────────────────────────────────────────────────────────


def test_names_are_trimmed_and_keep_their_case(store: Store, session: Session) -> None:
    store.notes.tag([session], ["  Work ", "work", "zu Hause"])
    assert store.notes.tags(session) == ["Work", "work", "zu Hause"]


def test_tagging_twice_adds_one_tag_and_records_one_edit(store: Store, session: Session) -> None:
    store.notes.tag([session], ["work", "work "])
    store.notes.tag([session, session], ["work"])
    assert store.notes.tags(session) == ["work"]
    assert len(store.journal.list_edits()) == 1


def test_one_name_may_be_given_without_a_list(store: Store, session: Session) -> None:
    store.notes.tag([session], "work")
    assert store.notes.tags(session) == ["work"]


@pytest.mark.parametrize(
    "name", ["", "   ", "a\nb", "a\x00b", "a\x1b[31m", "a\x85b", "a\u2028b", "\ud800", "x" * 70_000]
)
def test_bad_names_are_refused(store: Store, session: Session, name: str) -> None:
    with pytest.raises(BadValue):
        store.notes.tag([session], ["good", name])
    assert store.notes.tags(session) == []


@pytest.mark.parametrize("name", ["می\u200cخواهم", "👩\u200d👩\u200d👧", "日本", "a/b#c"])
def test_names_of_every_script_are_kept(store: Store, session: Session, name: str) -> None:
    store.notes.tag([session], [name])
    assert store.notes.tags(session) == [name]


def test_a_name_must_be_given(store: Store, session: Session) -> None:
    with pytest.raises(BadValue, match="Name at least one tag"):
        store.notes.tag([session], [])


def test_several_sessions_are_one_edit_and_one_undo(store: Store, session: Session, other: Session) -> None:
    store.notes.tag([other], ["work"])
    store.notes.tag([session, other], ["work", "urgent"])
    assert store.notes.all_tags() == [("urgent", 2), ("work", 2)]
    edit = store.journal.undo()
    assert (store.notes.tags(session), store.notes.tags(other)) == ([], ["work"])
    store.journal.undo(store.journal.get(edit.id).undone_by)
    assert store.notes.all_tags() == [("urgent", 2), ("work", 2)]


def test_untag_is_one_edit_and_one_undo(store: Store, session: Session, other: Session) -> None:
    store.notes.tag([session, other], ["work", "urgent"])
    store.notes.untag([session, other], [" work"])
    assert store.notes.all_tags() == [("urgent", 2)]
    edit = store.journal.undo()
    assert store.notes.tags(session) == store.notes.tags(other) == ["urgent", "work"]
    store.journal.undo(store.journal.get(edit.id).undone_by)
    assert store.notes.all_tags() == [("urgent", 2)]


def test_untag_of_a_missing_tag_is_refused_and_removes_nothing(store: Store, session: Session) -> None:
    store.notes.tag([session], ["work"])
    with pytest.raises(NotFound, match="'Work'"):
        store.notes.untag([session], ["work", "Work"])
    assert store.notes.tags(session) == ["work"]


def test_untag_of_several_sessions_needs_the_tag_on_one_of_them(store: Store, session: Session, other: Session) -> None:
    store.notes.tag([other], ["work"])
    store.notes.untag([session, other], ["work"])
    assert store.notes.all_tags() == []


def test_all_tags_leaves_out_the_trash(store: Store, session: Session, other: Session) -> None:
    store.notes.tag([session, other], ["work"])
    store.notes.tag([other], ["old"])
    store.sessions.delete([other])
    assert store.notes.all_tags() == [("work", 1)]


def test_a_purged_session_cannot_get_a_tag_or_a_note(store: Store, session: Session, other: Session) -> None:
    store.sessions.purge([session])
    with pytest.raises(NotFound):
        store.notes.tag([other, session], ["work"])
    with pytest.raises(NotFound):
        store.notes.add_note(session, "too late")
    assert store.notes.tags(other) == []


# ── notes ─────────────────────────────────────────────────────────────────────────────────────────


def test_notes_belong_to_a_session_or_an_entry(store: Store, session: Session, other: Session) -> None:
    session_note = store.notes.add_note(session, "  see also\nthe other one ")
    entry_note = store.notes.add_note(session, "well asked", entry_seq=0)
    assert (session_note.session_id, session_note.entry) == ("s", None)
    assert session_note.text == "see also\nthe other one"
    assert (entry_note.entry, entry_note.text) == ("s#0", "well asked")
    assert store.notes.notes(session) == [session_note, entry_note]
    assert store.notes.notes(other) == []


def test_a_note_on_a_missing_entry_is_refused(store: Store, session: Session, other: Session) -> None:
    with pytest.raises(NotFound, match="No such entry: 1"):
        store.notes.add_note(session, "x", entry_seq=1)
    with pytest.raises(NotFound, match="No such entry: 0"):
        store.notes.add_note(other, "x", entry_seq=0)
    with pytest.raises(BadValue):
        store.notes.add_note(session, "x", entry_seq=2**70)
    assert store.journal.list_edits() == []


@pytest.mark.parametrize("text", ["", " \n ", "half \udc00"])
def test_bad_notes_are_refused(store: Store, session: Session, text: str) -> None:
    with pytest.raises(BadValue):
        store.notes.add_note(session, text)


def test_a_note_keeps_control_characters(store: Store, session: Session) -> None:
    assert store.notes.add_note(session, "a\x00b\x1b[31m").text == "a\x00b\x1b[31m"
    assert store.notes.notes(session)[0].text == "a\x00b\x1b[31m"


def test_note_undo_and_redo(store: Store, session: Session) -> None:
    note = store.notes.add_note(session, "remember", entry_seq=0)
    edit = store.journal.undo()
    assert store.notes.notes(session) == []
    store.journal.undo(store.journal.get(edit.id).undone_by)
    assert store.notes.notes(session) == [note]


def test_delete_note_undo_and_redo(store: Store, session: Session) -> None:
    note = store.notes.add_note(session, "remember")
    store.notes.delete_note(note.id)
    assert store.notes.notes(session) == []
    edit = store.journal.undo()
    assert store.notes.notes(session) == [note]
    store.journal.undo(store.journal.get(edit.id).undone_by)
    assert store.notes.notes(session) == []


def test_edit_note_undo_and_redo(store: Store, session: Session) -> None:
    note = store.notes.add_note(session, "first", entry_seq=0)
    store.notes.edit_note(note.id, " second ", seen="first")
    assert [(edited.id, edited.entry, edited.text) for edited in store.notes.notes(session)] == [
        (note.id, "s#0", "second")
    ]
    edit = store.journal.undo()
    assert store.notes.notes(session) == [note]
    store.journal.undo(store.journal.get(edit.id).undone_by)
    assert store.notes.note(note.id).text == "second"


def test_a_note_that_was_changed_elsewhere_is_not_overwritten(store: Store, session: Session) -> None:
    note = store.notes.add_note(session, "first")
    store.notes.edit_note(note.id, "theirs")
    with pytest.raises(ChangedMeanwhile) as conflict:
        store.notes.edit_note(note.id, "mine", seen="first")
    assert conflict.value.current == "theirs"
    with pytest.raises(BadValue):
        store.notes.edit_note(note.id, " ")
    assert store.notes.note(note.id).text == "theirs"


@pytest.mark.parametrize("number", [1, -1, 2**70])
def test_editing_a_missing_note_is_refused(store: Store, number: int) -> None:
    with pytest.raises(StoreError):
        store.notes.edit_note(number, "x")


@pytest.mark.parametrize("number", [1, -1, 2**70])
def test_deleting_a_missing_note_is_refused(store: Store, number: int) -> None:
    with pytest.raises(StoreError):
        store.notes.delete_note(number)
