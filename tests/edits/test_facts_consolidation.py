"""Facts made shorter: the limit on lines, a consolidation by a program or a person, and the difference it makes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.edits.facts import MAX_FACT_CHARS, FactsDiff
from store.errors import BadValue, ChangedMeanwhile, StoreError
from store.model.session import Session
from store.store import Store


@pytest.fixture
def session(store: Store) -> Session:
    made = store.create_session("s")
    store.append_message("s", "user", "I live in Ghent")
    return made


def texts(store: Store) -> list[str]:
    return store.facts.blob().splitlines()


def kinds(store: Store) -> list[str]:
    return [edit.kind for edit in store.journal.list_edits()]


def redo(store: Store, edit_id: int) -> None:
    store.journal.undo(store.journal.get(edit_id).undone_by)


def read_from_abroad(store: Store, text: str) -> int:
    """As a sync leaves it: with the foreign row it was read from."""
    inserted = store.connection.execute(
        "insert into facts (text, foreign_place, foreign_text, created_at, updated_at)"
        " values (?, 'facts/7', ?, 't', 't')",
        (text, text),
    )
    return int(inserted.lastrowid or 0)


# ── the limit ─────────────────────────────────────────────────────────────────────────────────────


def test_over_the_limit_nothing_is_lost_and_it_is_said(store: Store) -> None:
    assert not store.facts.learn("a\nb", max_lines=2).over_limit
    learned = store.facts.learn("c", max_lines=2)
    assert (learned.over_limit, learned.fact_count) == (True, 3)
    assert texts(store) == ["a", "b", "c"]


def test_over_the_limit_the_consolidation_takes_the_place_of_the_lines(store: Store) -> None:
    store.facts.learn("a\nb")
    shown: list[list[str]] = []

    def shorter(lines: list[str]) -> str:
        shown.append(lines)
        return "a and b\nc\n"

    learned = store.facts.learn("c", max_lines=2, consolidate=shorter)
    assert shown == [["a", "b", "c"]]
    assert (learned.fact_count, learned.over_limit) == (2, False)
    assert [fact.text for fact in learned.facts] == ["c"]
    assert texts(store) == ["a and b", "c"]
    assert [fact.text for fact in store.facts.current(retired=True) if fact.retired_at] == ["b"]


def test_learning_and_consolidating_are_an_undo_each(store: Store) -> None:
    store.facts.learn("a\nb", max_lines=1, consolidate=lambda lines: [" & ".join(lines)])
    assert kinds(store) == ["consolidate facts", "learn"]
    edit = store.journal.undo()
    assert texts(store) == ["a", "b"]
    redo(store, edit.id)
    assert texts(store) == ["a & b"]
    store.journal.undo()
    store.journal.undo()
    assert texts(store) == []


def test_the_consolidation_is_asked_only_over_the_limit(store: Store) -> None:
    def never(lines: list[str]) -> str:
        raise AssertionError(lines)

    store.facts.learn("a\nb", max_lines=2, consolidate=never)
    store.facts.learn("c", consolidate=never)


def test_a_consolidation_that_is_still_too_long_says_so(store: Store) -> None:
    learned = store.facts.learn("a\nb\nc", max_lines=1, consolidate=lambda lines: lines[:2])
    assert (learned.fact_count, learned.over_limit) == (2, True)


def test_a_failing_consolidation_loses_nothing(store: Store) -> None:
    def fail(lines: list[str]) -> str:
        raise TimeoutError("the model does not answer")

    with pytest.raises(StoreError, match=r"The facts were saved.*the model does not answer"):
        store.facts.learn("a\nb", max_lines=1, consolidate=fail)
    assert texts(store) == ["a", "b"]
    assert kinds(store) == ["learn"]


@pytest.mark.parametrize("answer", ["", " \n", [], None, 7, ["\ud800"], [7], ["x" * (MAX_FACT_CHARS + 1)]])
def test_an_answer_that_cannot_be_facts_loses_nothing(store: Store, answer: Iterable[str]) -> None:
    with pytest.raises(StoreError, match="The facts were saved"):
        store.facts.learn("a\nb", max_lines=1, consolidate=lambda lines: answer)
    assert texts(store) == ["a", "b"]


def test_what_another_learns_during_a_consolidation_stays(store: Store) -> None:
    def slow(lines: list[str]) -> str:
        store.facts.learn("meanwhile")
        return "a+b"

    learned = store.facts.learn("a\nb", max_lines=1, consolidate=slow)
    assert texts(store) == ["a+b", "meanwhile"]
    assert learned.over_limit


def test_what_another_changes_during_a_consolidation_is_not_overwritten(store: Store) -> None:
    def slow(lines: list[str]) -> str:
        store.facts.edit(1, "corrected")
        return "a+b"

    with pytest.raises(ChangedMeanwhile) as clash:
        store.facts.learn("a\nb", max_lines=1, consolidate=slow)
    assert clash.value.current == "corrected\nb"
    assert texts(store) == ["corrected", "b"]


@pytest.mark.parametrize("limit", [0, -1, True, 2**70])
def test_a_limit_that_is_none_is_refused_before_anything_is_learnt(store: Store, limit: int) -> None:
    with pytest.raises(BadValue):
        store.facts.learn("a", max_lines=limit)
    assert texts(store) == []


def test_the_limit_is_the_scopes_own_and_counts_what_stands(store: Store) -> None:
    store.facts.learn("a\nb\nc", scope="app:x")
    (gone,) = store.facts.learn("old").facts
    store.facts.retire(gone.id)
    read_from_abroad(store, "theirs")
    learned = store.facts.learn("new", max_lines=1)
    assert (learned.fact_count, learned.over_limit) == (1, False)


# ── the difference ────────────────────────────────────────────────────────────────────────────────


def consolidated(store: Store, before: str, after: str) -> tuple[FactsDiff, dict[str, int]]:
    store.facts.learn(before)
    difference = store.facts.diff(after)
    assert texts(store) == before.splitlines()
    assert store.facts.consolidate(after) == difference
    return difference, {fact.text: fact.id for fact in store.facts.current()}


def test_equal_lines_keep_their_fact_and_a_changed_one_is_edited(store: Store) -> None:
    difference, now = consolidated(store, "a\nb\nc", "a\nB\nc")
    assert now == {"a": 1, "B": 2, "c": 3}
    assert [(fact.id, line) for fact, line in difference.edited] == [(2, "B")]
    assert (len(difference.kept), difference.added, difference.retired) == (2, (), ())
    assert difference.text.splitlines() == [
        "--- facts before",
        "+++ facts after",
        "@@ -1,3 +1,3 @@",
        " a",
        "-b",
        "+B",
        " c",
    ]


def test_surplus_lines_are_retired_and_new_ones_come_last(store: Store) -> None:
    difference, now = consolidated(store, "a\nb\nc\nd", "new\na\nbc\nd")
    assert now == {"a": 1, "bc": 2, "d": 4, "new": 5}
    assert [fact.text for fact in difference.retired] == ["c"]
    assert difference.added == ("new",)
    assert texts(store) == ["a", "bc", "d", "new"]
    assert difference.text.endswith("+new")


def test_one_line_removed_and_another_added_elsewhere_is_no_edit(store: Store) -> None:
    difference, now = consolidated(store, "a\nb\nc\nd", "a\nc\nd\nx")
    assert now == {"a": 1, "c": 3, "d": 4, "x": 5}
    assert difference.edited == ()


def test_a_line_that_only_moved_keeps_its_fact_and_nothing_is_written(store: Store) -> None:
    difference, now = consolidated(store, "a\nb\nc", "c\na\nb")
    assert now == {"a": 1, "b": 2, "c": 3}
    assert (difference.change_count, difference.text) == (0, "")
    assert kinds(store) == ["learn"]


def test_a_line_said_twice_is_kept_once(store: Store) -> None:
    _, now = consolidated(store, "a\nb", "a\na\nx\nx")
    assert now == {"a": 1, "x": 2}
    assert len(store.facts.current()) == 2


def test_editing_the_blob_keeps_origin_and_category(store: Store, session: Session) -> None:
    store.facts.learn("Lives in Gent", session=session, entry_seq=0, category="person")
    store.facts.consolidate(["Lives in Ghent"])
    (fact,) = store.facts.current()
    assert (fact.text, fact.entry, fact.category) == ("Lives in Ghent", "s#0", "person")
    assert store.journal.list_edits(session.key)[0].kind == "consolidate facts"


def test_consolidating_is_one_edit_undone_and_done_again(store: Store) -> None:
    store.facts.learn("a\nb\nc\nd")
    before = store.facts.current()
    store.facts.consolidate("new\na\nbc\nd")
    edit = store.journal.undo()
    assert store.facts.current(retired=True) == before
    redo(store, edit.id)
    assert texts(store) == ["a", "bc", "d", "new"]


def test_an_empty_text_retires_all_of_our_own_and_can_be_undone(store: Store) -> None:
    store.facts.learn("a\nb")
    read_from_abroad(store, "theirs")
    store.facts.learn("private", scope="app:x")
    store.facts.consolidate("")
    assert [fact.text for fact in store.facts.current(None)] == ["theirs", "private"]
    store.journal.undo()
    assert texts(store) == ["a", "b"]


def test_a_blob_that_changed_since_it_was_seen_is_not_overwritten(store: Store) -> None:
    store.facts.learn("a")
    seen = store.facts.blob()
    store.facts.learn("b")
    with pytest.raises(ChangedMeanwhile) as clash:
        store.facts.consolidate("A", seen=seen)
    assert clash.value.current == "a\nb"
    store.facts.consolidate("A\nb", seen="a\nb")
    assert texts(store) == ["A", "b"]


def test_a_fact_edited_into_another_is_two_lines_until_one_is_taken_out(store: Store) -> None:
    store.facts.learn("a\nb")
    store.facts.edit(2, "a")
    assert store.facts.consolidate(store.facts.blob()).change_count == 0
    store.facts.consolidate("a")
    assert texts(store) == ["a"]


LINES = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f", "g"]), max_size=9)


@given(before=LINES, after=LINES)
def test_whatever_is_written_is_what_is_known_and_one_undo_takes_it_back(before: list[str], after: list[str]) -> None:
    with Store.memory() as store:
        if before:
            store.facts.learn("\n".join(before))
        were = store.facts.current()
        difference = store.facts.consolidate("\n".join(after))
        facts = [*difference.kept, *(fact for fact, _ in difference.edited), *difference.retired]
        assert sorted(facts, key=lambda fact: fact.id) == were
        assert sorted(texts(store)) == sorted(set(after))
        by_id = {fact.id: fact for fact in store.facts.current()}
        assert all(by_id[fact.id] == fact for fact in were if fact.text in after)
        assert store.facts.consolidate(store.facts.blob()).change_count == 0
        if difference.change_count:
            store.journal.undo()
        assert store.facts.current() == were
