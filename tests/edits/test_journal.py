"""The journal: every edit can be taken back and brought again, unless something later stands on it."""

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


def test_an_edit_says_what_was_before_and_after(store: Store, session: Session) -> None:
    store.sessions.set_title(session, "mine")
    (edit,) = store.journal.list_edits()
    assert (edit.kind, edit.session_ids, edit.undoes, edit.undone_by) == ("title", ("s",), None, None)
    assert edit.changes == (Change("sessions", session.key, {"own_title": ""}, {"own_title": "mine"}),)


def test_an_insert_is_remembered_with_the_defaults_of_the_row(store: Store) -> None:
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


def test_a_failing_edit_leaves_neither_change_nor_journal(store: Store, session: Session) -> None:
    def fail_half_way() -> None:
        with store.journal.edit("title", session.key) as edit:
            edit.update("sessions", session.key, own_title="half")
            edit.update("sessions", 999, own_title="nobody's")

    with pytest.raises(NotFound):
        fail_half_way()
    assert title(store, session) == ""
    assert edits(store) == 0


def test_what_is_not_there_cannot_be_deleted(store: Store) -> None:
    with pytest.raises(NotFound), store.journal.edit("untag") as edit:
        edit.delete("tags", [1, "none"])


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def test_newest_comes_first_and_of_one_session_on_request(store: Store, session: Session) -> None:
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


def test_an_edit_of_more_sessions_than_sqlite_takes_variables_is_read_back(store: Store, session: Session) -> None:
    with store.journal.edit("pin", session.key, *range(10_000, 300_000)) as edit:
        edit.update("sessions", session.key, pinned=1)
    assert store.journal.list_edits()[0].session_ids == ("s",)


def test_an_edit_that_is_not_there_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        store.journal.get(7)


# ── undo ──────────────────────────────────────────────────────────────────────────────────────────


def test_undo_takes_back_the_newest_that_stands_one_after_the_other(store: Store, session: Session) -> None:
    store.sessions.set_title(session, "first")
    store.sessions.set_title(session, "second")
    store.journal.undo()
    assert title(store, session) == "first"
    store.journal.undo()
    assert title(store, session) == ""
    with pytest.raises(NothingToUndo):
        store.journal.undo()


def test_an_edit_is_undone_once(store: Store, session: Session) -> None:
    store.sessions.set_title(session, "mine")
    edit = store.journal.undo()
    with pytest.raises(NothingToUndo, match=f"Edit {edit.id} is already undone"):
        store.journal.undo(edit.id)


def test_undoing_the_undo_brings_the_edit_again(store: Store, session: Session) -> None:
    store.sessions.set_title(session, "mine")
    edit = store.journal.undo()
    undo = store.journal.get(edit.id).undone_by
    assert undo is not None
    store.journal.undo(undo)
    assert title(store, session) == "mine"
    assert store.journal.get(edit.id).undone_by is None
    store.journal.undo()
    assert title(store, session) == ""


def test_undo_and_redo_can_go_on_for_ever_and_the_journal_knows_what_stands(store: Store, session: Session) -> None:
    store.sessions.set_title(session, "mine")
    first = store.journal.list_edits()[0].id
    for _ in range(6):
        store.journal.undo(store.journal.list_edits()[0].id)
        stands = title(store, session) == "mine"
        assert (store.journal.get(first).undone_by is None) == stands
        standing = [edit.id for edit in store.journal.list_edits() if edit.undone_by is None]
        assert (first in standing) == stands
    store.journal.undo(store.journal.list_edits()[0].id)
    assert title(store, session) == ""
    with pytest.raises(NothingToUndo):
        store.journal.undo()


def test_an_edit_that_later_ones_build_on_names_the_later(store: Store, session: Session) -> None:
    for text in ("one", "two", "three"):
        store.sessions.set_title(session, text)
    third, second, first = store.journal.list_edits()
    with pytest.raises(ChangedMeanwhile, match=f"Undo edit {third.id} first") as clash:
        store.journal.undo(first.id)
    assert isinstance(clash.value.current, dict)
    assert clash.value.current["own_title"] == "three"
    store.journal.undo(third.id)
    # The undo of the third is the newest edit of that row, but it is the second that stands in the way.
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


def test_a_new_row_that_was_changed_since_is_not_taken_away(store: Store) -> None:
    with store.journal.edit("learn") as edit:
        number = edit.insert("facts", text="a", created_at="t", updated_at="t")
    learn = store.journal.list_edits()[0]
    with store.journal.edit("sort") as edit:
        edit.update("facts", number, category="people")
    with pytest.raises(ChangedMeanwhile, match="Undo edit 2 first"):
        store.journal.undo(learn.id)
    assert store.row("select category from facts") == ("people",)


def test_a_deleted_row_comes_back_whole_unless_another_took_its_place(store: Store, session: Session) -> None:
    store.notes.tag([session], ["work"])
    store.notes.untag([session], ["work"])
    untag = store.journal.list_edits()[0]
    store.notes.tag([session], ["work"])
    with pytest.raises(ChangedMeanwhile, match="Undo edit 3 first"):
        store.journal.undo(untag.id)
    store.journal.undo()
    store.journal.undo(untag.id)
    assert store.notes.tags(session) == ["work"]


def test_an_undo_that_the_tables_forbid_is_refused_in_one_sentence(store: Store, session: Session) -> None:
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


def test_purge_of_every_session_of_an_edit_blanks_it_whole(store: Store, session: Session) -> None:
    other = store.create_session("other")
    store.sessions.pin([session, other])
    store.sessions.purge([session, other])
    assert store.journal.list_edits()[0].blanked


# ── edits that build on others ────────────────────────────────────────────────────────────────────


def test_what_was_changed_again_builds_on_an_edit(store: Store, session: Session) -> None:
    store.sessions.set_title(session, "one")
    store.sessions.pin([session])
    store.sessions.set_title(session, "two")
    store.sessions.set_title(session, "three")
    assert [edit.id for edit in store.journal.list_dependent_edits(1)] == [4, 3]
    assert store.journal.list_dependent_edits(2) == []
    store.journal.undo(4)
    assert [edit.id for edit in store.journal.list_dependent_edits(1)] == [3]


def test_what_builds_on_what_builds_on_it_counts_too(store: Store) -> None:
    (first,) = store.facts.learn("a").facts
    (second,) = store.facts.learn("b").facts
    store.facts.merge([first.id, second.id], "a and b")
    store.facts.edit(first.id, "both")
    assert [edit.id for edit in store.journal.list_dependent_edits(2)] == [4, 3]


def test_an_edit_is_undone_together_with_what_builds_on_it(store: Store, session: Session) -> None:
    for text in ("one", "two", "three"):
        store.sessions.set_title(session, text)
    undone = store.journal.undo_all([1, 2, 3])
    assert [edit.id for edit in undone] == [3, 2, 1]
    assert title(store, session) == ""


def test_either_all_of_them_are_undone_or_none(store: Store, session: Session) -> None:
    for text in ("one", "two", "three"):
        store.sessions.set_title(session, text)
    with pytest.raises(ChangedMeanwhile):
        store.journal.undo_all([1, 3])
    assert title(store, session) == "three"
    assert edits(store) == 3


def test_the_journal_goes_on_from_an_edit_that_was_shown(store: Store, session: Session) -> None:
    for text in ("one", "two", "three"):
        store.sessions.set_title(session, text)
    assert [edit.id for edit in store.journal.list_edits(before=3, limit=1)] == [2]
    assert [edit.id for edit in store.journal.list_edits(session.key, before=2)] == [1]
