"""These tests check summaries: their versions, undo, and that a source's version does not replace a person's."""

from __future__ import annotations

import pytest

from store.errors import BadValue, ChangedMeanwhile, NotFound
from store.model.session import Session
from store.store import Store


@pytest.fixture
def session(store: Store) -> Session:
    session = store.create_session("s")
    for prompt in ("one?", "two?"):
        store.append_message("s", "user", prompt)
        store.append_message("s", "assistant", "yes")
    return session


def current(store: Store, session: Session) -> str | None:
    summary = store.summaries.current(session)
    return summary.text if summary else None


def texts(store: Store, session: Session) -> list[str]:
    return [summary.text for summary in store.summaries.history(session)]


def test_a_new_session_has_no_summary(store: Store, session: Session) -> None:
    assert store.summaries.current(session) is None
    assert store.summaries.history(session) == []
    assert store.summaries.newer_from_source(session) is None


def test_a_new_version_is_current_and_the_old_ones_stay(store: Store, session: Session) -> None:
    first = store.summaries.set(session, "first", up_to_turn=1)
    second = store.summaries.set(session, "second\n\nin two paragraphs", up_to_turn=2, origin="library")
    assert (first.session_id, first.text, first.up_to_turn, first.origin, first.current) == (
        "s",
        "first",
        1,
        "person",
        True,
    )
    assert store.summaries.current(session) == second
    assert texts(store, session) == ["second\n\nin two paragraphs", "first"]
    assert [summary.current for summary in store.summaries.history(session)] == [True, False]


def test_summaries_belong_to_one_session(store: Store, session: Session) -> None:
    other = store.create_session("other")
    theirs = store.summaries.set(other, "theirs")
    assert store.summaries.current(session) is None
    with pytest.raises(NotFound, match="No such version"):
        store.summaries.restore_version(session, theirs.key)


def test_set_undo_and_redo(store: Store, session: Session) -> None:
    store.summaries.set(session, "first")
    store.summaries.set(session, "second")
    edit = store.journal.undo()
    assert (current(store, session), texts(store, session)) == ("first", ["first"])
    store.journal.undo(store.journal.get(edit.id).undone_by)
    assert (current(store, session), texts(store, session)) == ("second", ["second", "first"])


def test_an_equal_summary_adds_no_version(store: Store, session: Session) -> None:
    first = store.summaries.set(session, "first", up_to_turn=1)
    assert store.summaries.set(session, "first", up_to_turn=1) == first
    assert len(store.journal.list_edits()) == 1
    store.summaries.set(session, "first", up_to_turn=2)
    assert len(texts(store, session)) == 2


# ── turns ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("turn", [0, 1, 2, None])
def test_a_summary_may_end_at_any_turn_of_the_session(store: Store, session: Session, turn: int | None) -> None:
    assert store.summaries.set(session, "x", up_to_turn=turn).up_to_turn == turn


@pytest.mark.parametrize("turn", [-1, 3, 2**70, True])
def test_a_summary_cannot_end_at_a_missing_turn(store: Store, session: Session, turn: int) -> None:
    with pytest.raises(BadValue):
        store.summaries.set(session, "x", up_to_turn=turn)
    assert texts(store, session) == []


# ── clearing ──────────────────────────────────────────────────────────────────────────────────────


def test_an_empty_text_removes_the_summary_and_keeps_the_history(store: Store, session: Session) -> None:
    store.summaries.set(session, "first")
    cleared = store.summaries.set(session, " ")
    assert (cleared.key, cleared.text, cleared.current) == (0, "", False)
    assert current(store, session) is None
    assert texts(store, session) == ["first"]


def test_clearing_undo_and_redo(store: Store, session: Session) -> None:
    store.summaries.set(session, "first")
    store.summaries.set(session, "")
    edit = store.journal.undo()
    assert current(store, session) == "first"
    store.journal.undo(store.journal.get(edit.id).undone_by)
    assert current(store, session) is None


def test_clearing_a_missing_summary_writes_nothing(store: Store, session: Session) -> None:
    store.summaries.set(session, "")
    assert store.journal.list_edits() == []
    assert texts(store, session) == []


# ── older versions ────────────────────────────────────────────────────────────────────────────────


def test_restoring_an_older_version_can_be_undone_and_redone(store: Store, session: Session) -> None:
    first = store.summaries.set(session, "first")
    store.summaries.set(session, "second")
    assert store.summaries.restore_version(session, first.key).current
    assert (current(store, session), texts(store, session)) == ("first", ["second", "first"])
    edit = store.journal.undo()
    assert current(store, session) == "second"
    store.journal.undo(store.journal.get(edit.id).undone_by)
    assert current(store, session) == "first"


def test_an_older_version_can_be_restored_after_clearing(store: Store, session: Session) -> None:
    first = store.summaries.set(session, "first")
    store.summaries.set(session, "")
    store.summaries.restore_version(session, first.key)
    assert current(store, session) == "first"


def test_restoring_the_current_version_writes_nothing(store: Store, session: Session) -> None:
    first = store.summaries.set(session, "first")
    assert store.summaries.restore_version(session, first.key) == first
    assert len(store.journal.list_edits()) == 1


@pytest.mark.parametrize("key", [0, 5])
def test_a_missing_version_cannot_be_restored(store: Store, session: Session, key: int) -> None:
    with pytest.raises(NotFound):
        store.summaries.restore_version(session, key)


# ── versions from a source ────────────────────────────────────────────────────────────────────────


def test_a_newer_version_from_the_source_replaces_its_older_and_an_agents(store: Store, session: Session) -> None:
    store.summaries.set(session, "old", origin="source")
    store.summaries.set(session, "new", origin="source")
    assert current(store, session) == "new"
    store.summaries.set(session, "the agent's", origin="library")
    store.summaries.set(session, "newest", origin="source")
    assert current(store, session) == "newest"
    assert store.summaries.newer_from_source(session) is None


def test_a_persons_version_stays_current_after_a_newer_one_from_the_source(store: Store, session: Session) -> None:
    store.summaries.set(session, "old", origin="source")
    store.summaries.set(session, "mine")
    assert store.summaries.newer_from_source(session) is None
    from_source = store.summaries.set(session, "new", origin="source")
    assert not from_source.current
    assert current(store, session) == "mine"
    assert store.summaries.newer_from_source(session) == from_source
    store.summaries.restore_version(session, from_source.key)
    assert current(store, session) == "new"
    assert store.summaries.newer_from_source(session) is None


def test_undoing_a_persons_version_still_reports_the_newer_one_from_the_source(store: Store, session: Session) -> None:
    store.summaries.set(session, "old", origin="source")
    store.summaries.set(session, "mine")
    from_source = store.summaries.set(session, "new", origin="source")
    store.journal.undo()
    assert current(store, session) == "old"
    assert store.summaries.newer_from_source(session) == from_source


def test_a_version_from_the_source_is_no_edit_and_is_added_once(store: Store, session: Session) -> None:
    first = store.summaries.set(session, "theirs", origin="source")
    store.summaries.set(session, "mine")
    assert store.summaries.set(session, "theirs", origin="source") == store.summaries.history(session)[1]
    assert texts(store, session) == ["mine", "theirs"]
    assert [edit.kind for edit in store.journal.list_edits()] == ["summary"]
    store.journal.undo()
    assert store.summaries.current(session) == first


def test_a_source_can_clear_its_own_version_but_not_a_persons(store: Store, session: Session) -> None:
    store.summaries.set(session, "theirs", origin="source")
    store.summaries.set(session, "", origin="source")
    assert current(store, session) is None
    store.summaries.set(session, "mine")
    store.summaries.set(session, "", origin="source")
    assert current(store, session) == "mine"


def test_a_person_may_adopt_the_text_of_the_source(store: Store, session: Session) -> None:
    store.summaries.set(session, "theirs", origin="source")
    assert store.summaries.set(session, "theirs").origin == "person"
    store.summaries.set(session, "other", origin="source")
    assert current(store, session) == "theirs"


# ── bad values ────────────────────────────────────────────────────────────────────────────────────


def test_a_summary_that_changed_meanwhile_is_not_overwritten(store: Store, session: Session) -> None:
    store.summaries.set(session, "first", seen="")
    with pytest.raises(ChangedMeanwhile) as conflict:
        store.summaries.set(session, "second", seen="")
    assert conflict.value.current == "first"
    store.summaries.set(session, "second", seen="first")
    assert current(store, session) == "second"


def test_an_unknown_origin_is_refused(store: Store, session: Session) -> None:
    with pytest.raises(BadValue, match="origin"):
        store.summaries.set(session, "x", origin="rumour")


def test_a_lone_surrogate_is_refused(store: Store, session: Session) -> None:
    with pytest.raises(BadValue, match="summary"):
        store.summaries.set(session, "\ud83d")


def test_text_is_kept_unchanged(store: Store, session: Session) -> None:
    text = "  a\x00b\r\n日本 🙂\u2028 " * 1000
    store.summaries.set(session, text)
    assert current(store, session) == text


def test_a_purged_session_cannot_get_a_summary(store: Store, session: Session) -> None:
    store.sessions.purge([session])
    with pytest.raises(NotFound):
        store.summaries.set(session, "too late")
