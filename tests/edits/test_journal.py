"""These tests check the journal: recording, listing, undoing and redoing edits, and purging their data."""

from __future__ import annotations

import pytest

from store.errors import ChangedMeanwhile, NotFound, NothingToUndo, Refused
from store.model.knowledge import Change
from store.model.session import Session
from store.store import Store


@pytest.fixture
def session(store: Store) -> Session:
    return store.create_session("s", title="the agent's")


def title(store: Store, session: Session) -> str:
    return store.sessions.by_key(session.key).own_title


def edits(store: Store) -> int:
    return int(store.row("select count(*) from edits")[0])


# ── writing ───────────────────────────────────────────────────────────────────────────────────────


def test_an_edit_has_the_values_before_and_after(store: Store, session: Session) -> None:
    store.sessions.set_title(session, "mine")
    (edit,) = store.journal.list_edits()
    assert (edit.kind, edit.session_ids, edit.undoes, edit.undone_by) == ("title", ("s",), None, None)
    assert edit.changes == (Change("sessions", session.key, {"own_title": ""}, {"own_title": "mine"}),)


def test_an_insert_is_recorded_with_default_values(store: Store) -> None:
    with store.journal.edit("learn") as edit:
        number = edit.insert("facts", text="a", created_at="t", updated_at="t")
    (change,) = store.journal.list_edits()[0].changes
    assert change.key == number
    assert change.before is None
    assert change.after is not None
    assert (change.after["scope"], change.after["retired_at"]) == ("global", None)


def test_nothing_is_written_when_nothing_changed(store: Store, session: Session) -> None:
    store.sessions.pin([session])
    store.sessions.pin([session])
    with store.journal.edit("nothing"):
        pass
    assert [edit.kind for edit in store.journal.list_edits()] == ["pin"]


def test_a_failing_edit_leaves_no_change_and_no_journal_entry(store: Store, session: Session) -> None:
    def fail_half_way() -> None:
        with store.journal.edit("title", session.key) as edit:
            edit.update("sessions", session.key, own_title="half")
            edit.update("sessions", 999, own_title="nobody's")

    with pytest.raises(NotFound):
        fail_half_way()
    assert title(store, session) == ""
    assert edits(store) == 0


def test_a_missing_row_cannot_be_deleted(store: Store) -> None:
    with pytest.raises(NotFound), store.journal.edit("untag") as edit:
        edit.delete("tags", [1, "none"])


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def test_edits_are_listed_newest_first_and_by_session(store: Store, session: Session) -> None:
    other = store.create_session("other")
    store.sessions.set_title(session, "one")
    store.sessions.set_title(other, "two")
    store.sessions.archive([session, other])
    assert [edit.kind for edit in store.journal.list_edits()] == ["archive", "title", "title"]
    assert [edit.session_ids for edit in store.journal.list_edits(other.key)] == [("s", "other"), ("other",)]
    assert len(store.journal.list_edits(limit=1)) == 1


@pytest.mark.parametrize("name", ["plain", "größe", 'a "quoted" \\ name', "日本"])
def test_the_history_of_a_row_is_found_by_its_compound_key(store: Store, session: Session, name: str) -> None:
    store.notes.tag([session], [name, "another"])
    store.notes.untag([session], [name])
    assert [edit.kind for edit in store.journal.list_edits_of_row("tags", [session.key, name])] == ["tag", "untag"]
    assert [edit.kind for edit in store.journal.list_edits_of_row("tags", [session.key, "another"])] == ["tag"]


def test_an_edit_may_have_more_sessions_than_sqlite_has_variables(store: Store, session: Session) -> None:
    with store.journal.edit("pin", session.key, *range(10_000, 300_000)) as edit:
        edit.update("sessions", session.key, pinned=1)
    assert store.journal.list_edits()[0].session_ids == ("s",)


def test_a_missing_edit_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        store.journal.get(7)


# ── undo ──────────────────────────────────────────────────────────────────────────────────────────


def test_undo_reverses_the_newest_active_edit_each_time(store: Store, session: Session) -> None:
    store.sessions.set_title(session, "first")
    store.sessions.set_title(session, "second")
    store.journal.undo()
    assert title(store, session) == "first"
    store.journal.undo()
    assert title(store, session) == ""
    with pytest.raises(NothingToUndo):
        store.journal.undo()


def test_an_edit_is_undone_only_once(store: Store, session: Session) -> None:
    store.sessions.set_title(session, "mine")
    edit = store.journal.undo()
    with pytest.raises(NothingToUndo, match=f"Edit {edit.id} is already undone"):
        store.journal.undo(edit.id)


def test_undoing_the_undo_restores_the_edit(store: Store, session: Session) -> None:
    store.sessions.set_title(session, "mine")
    edit = store.journal.undo()
    undo = store.journal.get(edit.id).undone_by
    assert undo is not None
    store.journal.undo(undo)
    assert title(store, session) == "mine"
    assert store.journal.get(edit.id).undone_by is None
    store.journal.undo()
    assert title(store, session) == ""


def test_repeated_undo_and_redo_keeps_track_of_active_edits(store: Store, session: Session) -> None:
    store.sessions.set_title(session, "mine")
    first = store.journal.list_edits()[0].id
    for _ in range(6):
        store.journal.undo(store.journal.list_edits()[0].id)
        is_active = title(store, session) == "mine"
        assert (store.journal.get(first).undone_by is None) == is_active
        active = [edit.id for edit in store.journal.list_edits() if edit.undone_by is None]
        assert (first in active) == is_active
    store.journal.undo(store.journal.list_edits()[0].id)
    assert title(store, session) == ""
    with pytest.raises(NothingToUndo):
        store.journal.undo()


def test_an_edit_with_later_changes_names_the_edit_to_undo_first(store: Store, session: Session) -> None:
    for text in ("one", "two", "three"):
        store.sessions.set_title(session, text)
    third, second, first = store.journal.list_edits()
    with pytest.raises(ChangedMeanwhile, match=f"Undo edit {third.id} first") as conflict:
        store.journal.undo(first.id)
    assert isinstance(conflict.value.current, dict)
    assert conflict.value.current["own_title"] == "three"
    store.journal.undo(third.id)
    # The undo of the third edit is the newest edit of that row, but the second edit must be undone first.
    with pytest.raises(ChangedMeanwhile, match=f"Undo edit {second.id} first"):
        store.journal.undo(first.id)
    assert title(store, session) == "two"
    assert edits(store) == 4


def test_a_change_outside_the_journal_is_not_overwritten(store: Store, session: Session) -> None:
    store.sessions.set_title(session, "mine")
    store.connection.execute("update sessions set own_title = 'theirs'")
    with pytest.raises(ChangedMeanwhile, match=r"the same data was changed later\.$"):
        store.journal.undo()
    assert title(store, session) == "theirs"


def test_a_new_row_that_changed_later_is_not_deleted(store: Store) -> None:
    with store.journal.edit("learn") as edit:
        number = edit.insert("facts", text="a", created_at="t", updated_at="t")
    learn = store.journal.list_edits()[0]
    with store.journal.edit("sort") as edit:
        edit.update("facts", number, category="people")
    with pytest.raises(ChangedMeanwhile, match="Undo edit 2 first"):
        store.journal.undo(learn.id)
    assert store.row("select category from facts") == ("people",)


def test_a_deleted_row_is_restored_unless_it_was_created_again(store: Store, session: Session) -> None:
    store.notes.tag([session], ["work"])
    store.notes.untag([session], ["work"])
    untag = store.journal.list_edits()[0]
    store.notes.tag([session], ["work"])
    with pytest.raises(ChangedMeanwhile, match="Undo edit 3 first"):
        store.journal.undo(untag.id)
    store.journal.undo()
    store.journal.undo(untag.id)
    assert store.notes.tags(session) == ["work"]


def test_an_undo_that_violates_a_constraint_is_refused(store: Store, session: Session) -> None:
    store.summaries.set(session, "first")
    store.summaries.set(session, "")
    clear = store.journal.list_edits()[0]
    store.connection.execute(
        "insert into summaries (session, text, origin, current, created_at) values (?, 'x', 'source', 1, 't')",
        (session.key,),
    )
    with pytest.raises(Refused, match=f"Edit {clear.id} cannot be undone now"):
        store.journal.undo(clear.id)


def test_an_edit_of_several_sessions_is_one_undo(store: Store, session: Session) -> None:
    other = store.create_session("other")
    store.sessions.delete([session, other])
    assert len(store.sessions.trash()) == 2
    store.journal.undo()
    assert store.sessions.trash() == []


# ── purge ─────────────────────────────────────────────────────────────────────────────────────────


def test_purge_blanks_the_edits_of_the_session(store: Store, session: Session) -> None:
    store.sessions.set_title(session, "private words")
    store.summaries.set(session, "private words")
    store.notes.add_note(session, "private words")
    store.notes.tag([session], ["private words"])
    store.sessions.purge([session])
    for edit in store.journal.list_edits():
        assert (edit.blanked, edit.changes, edit.session_ids) == (True, (), ())
        with pytest.raises(Refused, match="purged"):
            store.journal.undo(edit.id)
    assert store.row("select count(*) from edits where before || after like '%private%'") == (0,)
    with pytest.raises(NothingToUndo):
        store.journal.undo()


def test_purge_blanks_only_its_part_of_an_edit_of_several_sessions(store: Store, session: Session) -> None:
    other = store.create_session("other")
    store.sessions.pin([session, other])
    store.notes.tag([session, other], ["work"])
    store.sessions.purge([session])
    tag, pin = store.journal.list_edits()
    assert [change.key for change in pin.changes] == [other.key]
    assert [change.key for change in tag.changes] == [[other.key, "work"]]
    assert (tag.blanked, tag.session_ids) == (False, ("other",))
    store.journal.undo()
    store.journal.undo()
    assert store.notes.tags(other) == []
    assert store.sessions.by_key(other.key).pinned == 0


def test_purging_every_session_of_an_edit_blanks_it(store: Store, session: Session) -> None:
    other = store.create_session("other")
    store.sessions.pin([session, other])
    store.sessions.purge([session, other])
    assert store.journal.list_edits()[0].blanked


# ── dependent edits ───────────────────────────────────────────────────────────────────────────────


def test_a_later_change_of_the_same_data_is_a_dependent_edit(store: Store, session: Session) -> None:
    store.sessions.set_title(session, "one")
    store.sessions.pin([session])
    store.sessions.set_title(session, "two")
    store.sessions.set_title(session, "three")
    assert [edit.id for edit in store.journal.list_dependent_edits(1)] == [4, 3]
    assert store.journal.list_dependent_edits(2) == []
    store.journal.undo(4)
    assert [edit.id for edit in store.journal.list_dependent_edits(1)] == [3]


def test_dependent_edits_are_found_transitively(store: Store) -> None:
    (first,) = store.facts.learn("a").facts
    (second,) = store.facts.learn("b").facts
    store.facts.merge([first.id, second.id], "a and b")
    store.facts.edit(first.id, "both")
    assert [edit.id for edit in store.journal.list_dependent_edits(2)] == [4, 3]


def test_an_edit_is_undone_together_with_its_dependent_edits(store: Store, session: Session) -> None:
    for text in ("one", "two", "three"):
        store.sessions.set_title(session, text)
    undone = store.journal.undo_all([1, 2, 3])
    assert [edit.id for edit in undone] == [3, 2, 1]
    assert title(store, session) == ""


def test_undoing_several_edits_is_all_or_nothing(store: Store, session: Session) -> None:
    for text in ("one", "two", "three"):
        store.sessions.set_title(session, text)
    with pytest.raises(ChangedMeanwhile):
        store.journal.undo_all([1, 3])
    assert title(store, session) == "three"
    assert edits(store) == 3


def test_the_journal_is_listed_in_pages(store: Store, session: Session) -> None:
    for text in ("one", "two", "three"):
        store.sessions.set_title(session, text)
    assert [edit.id for edit in store.journal.list_edits(before=3, limit=1)] == [2]
    assert [edit.id for edit in store.journal.list_edits(session.key, before=2)] == [1]
