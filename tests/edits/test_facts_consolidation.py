"""These tests check consolidation: the limit on lines, consolidation by a program or a person, and the diff."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from facts_sample import edit_kinds, global_fact_texts, redo
from hypothesis import given
from hypothesis import strategies as st
from sample_conversations import insert_foreign_fact

from store.edits.facts import MAX_FACT_CHARS, FactsDiff
from store.errors import BadValue, ChangedMeanwhile, StoreError
from store.model.session import Session
from store.store import Store

# ── the limit ─────────────────────────────────────────────────────────────────────────────────────


def test_over_the_limit_nothing_is_lost_and_the_result_says_so(store: Store) -> None:
    assert not store.facts.learn("a\nb", max_lines=2).over_limit
    learned = store.facts.learn("c", max_lines=2)
    assert (learned.over_limit, learned.fact_count) == (True, 3)
    assert global_fact_texts(store) == ["a", "b", "c"]


def test_over_the_limit_the_consolidation_replaces_the_lines(store: Store) -> None:
    store.facts.learn("a\nb")
    calls: list[list[str]] = []

    def consolidate(lines: list[str]) -> str:
        calls.append(lines)
        return "a and b\nc\n"

    learned = store.facts.learn("c", max_lines=2, consolidate=consolidate)
    assert calls == [["a", "b", "c"]]
    assert (learned.fact_count, learned.over_limit) == (2, False)
    assert [fact.text for fact in learned.facts] == ["c"]
    assert global_fact_texts(store) == ["a and b", "c"]
    assert [fact.text for fact in store.facts.current(retired=True) if fact.retired_at] == ["b"]


def test_learning_and_consolidating_are_undone_separately(store: Store) -> None:
    store.facts.learn("a\nb", max_lines=1, consolidate=lambda lines: [" & ".join(lines)])
    assert edit_kinds(store) == ["consolidate facts", "learn"]
    edit = store.journal.undo()
    assert global_fact_texts(store) == ["a", "b"]
    redo(store, edit.id)
    assert global_fact_texts(store) == ["a & b"]
    store.journal.undo()
    store.journal.undo()
    assert global_fact_texts(store) == []


def test_the_consolidation_runs_only_over_the_limit(store: Store) -> None:
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
    assert global_fact_texts(store) == ["a", "b"]
    assert edit_kinds(store) == ["learn"]


@pytest.mark.parametrize("answer", ["", " \n", [], None, 7, ["\ud800"], [7], ["x" * (MAX_FACT_CHARS + 1)]])
def test_an_answer_that_cannot_be_facts_loses_nothing(store: Store, answer: Iterable[str]) -> None:
    with pytest.raises(StoreError, match="The facts were saved"):
        store.facts.learn("a\nb", max_lines=1, consolidate=lambda lines: answer)
    assert global_fact_texts(store) == ["a", "b"]


def test_facts_that_are_learnt_during_a_consolidation_stay(store: Store) -> None:
    def slow(lines: list[str]) -> str:
        store.facts.learn("meanwhile")
        return "a+b"

    learned = store.facts.learn("a\nb", max_lines=1, consolidate=slow)
    assert global_fact_texts(store) == ["a+b", "meanwhile"]
    assert learned.over_limit


def test_facts_that_are_edited_during_a_consolidation_are_not_overwritten(store: Store) -> None:
    def slow(lines: list[str]) -> str:
        store.facts.edit(1, "corrected")
        return "a+b"

    with pytest.raises(ChangedMeanwhile) as conflict:
        store.facts.learn("a\nb", max_lines=1, consolidate=slow)
    assert conflict.value.current == "corrected\nb"
    assert global_fact_texts(store) == ["corrected", "b"]


@pytest.mark.parametrize("limit", [0, -1, True, 2**70])
def test_an_invalid_limit_is_refused_before_anything_is_learnt(store: Store, limit: int) -> None:
    with pytest.raises(BadValue):
        store.facts.learn("a", max_lines=limit)
    assert global_fact_texts(store) == []


def test_the_limit_counts_the_current_own_facts_of_the_scope(store: Store) -> None:
    store.facts.learn("a\nb\nc", scope="app:x")
    (retired,) = store.facts.learn("old").facts
    store.facts.retire(retired.id)
    insert_foreign_fact(store, "theirs")
    learned = store.facts.learn("new", max_lines=1)
    assert (learned.fact_count, learned.over_limit) == (1, False)


# ── the diff ──────────────────────────────────────────────────────────────────────────────────────


def consolidate(store: Store, before: str, after: str) -> tuple[FactsDiff, dict[str, int]]:
    store.facts.learn(before)
    diff = store.facts.diff(after)
    assert global_fact_texts(store) == before.splitlines()
    assert store.facts.consolidate(after) == diff
    return diff, {fact.text: fact.id for fact in store.facts.current()}


def test_equal_lines_keep_their_fact_and_a_changed_one_is_edited(store: Store) -> None:
    diff, ids = consolidate(store, "a\nb\nc", "a\nB\nc")
    assert ids == {"a": 1, "B": 2, "c": 3}
    assert [(fact.id, line) for fact, line in diff.edited] == [(2, "B")]
    assert (len(diff.kept), diff.added, diff.retired) == (2, (), ())
    assert diff.text.splitlines() == [
        "--- facts before",
        "+++ facts after",
        "@@ -1,3 +1,3 @@",
        " a",
        "-b",
        "+B",
        " c",
    ]


def test_surplus_lines_are_retired_and_new_ones_come_last(store: Store) -> None:
    diff, ids = consolidate(store, "a\nb\nc\nd", "new\na\nbc\nd")
    assert ids == {"a": 1, "bc": 2, "d": 4, "new": 5}
    assert [fact.text for fact in diff.retired] == ["c"]
    assert diff.added == ("new",)
    assert global_fact_texts(store) == ["a", "bc", "d", "new"]
    assert diff.text.endswith("+new")


def test_one_line_removed_and_another_added_elsewhere_is_no_edit(store: Store) -> None:
    diff, ids = consolidate(store, "a\nb\nc\nd", "a\nc\nd\nx")
    assert ids == {"a": 1, "c": 3, "d": 4, "x": 5}
    assert diff.edited == ()


def test_a_line_that_only_moved_keeps_its_fact_and_nothing_is_written(store: Store) -> None:
    diff, ids = consolidate(store, "a\nb\nc", "c\na\nb")
    assert ids == {"a": 1, "b": 2, "c": 3}
    assert (diff.change_count, diff.text) == (0, "")
    assert edit_kinds(store) == ["learn"]


def test_a_repeated_line_is_kept_once(store: Store) -> None:
    _, ids = consolidate(store, "a\nb", "a\na\nx\nx")
    assert ids == {"a": 1, "x": 2}
    assert len(store.facts.current()) == 2


def test_editing_the_blob_keeps_origin_and_category(store: Store, session: Session) -> None:
    store.facts.learn("Lives in Gent", session=session, entry_seq=0, category="person")
    store.facts.consolidate(["Lives in Ghent"])
    (fact,) = store.facts.current()
    assert (fact.text, fact.entry, fact.category) == ("Lives in Ghent", "s#0", "person")
    assert store.journal.list_edits(session.key)[0].kind == "consolidate facts"


def test_consolidating_is_one_edit_that_can_be_undone_and_redone(store: Store) -> None:
    store.facts.learn("a\nb\nc\nd")
    before = store.facts.current()
    store.facts.consolidate("new\na\nbc\nd")
    edit = store.journal.undo()
    assert store.facts.current(retired=True) == before
    redo(store, edit.id)
    assert global_fact_texts(store) == ["a", "bc", "d", "new"]


def test_an_empty_text_retires_all_own_facts_and_can_be_undone(store: Store) -> None:
    store.facts.learn("a\nb")
    insert_foreign_fact(store, "theirs")
    store.facts.learn("private", scope="app:x")
    store.facts.consolidate("")
    assert [fact.text for fact in store.facts.current(None)] == ["theirs", "private"]
    store.journal.undo()
    assert global_fact_texts(store) == ["a", "b"]


def test_a_blob_that_changed_since_it_was_seen_is_not_overwritten(store: Store) -> None:
    store.facts.learn("a")
    seen = store.facts.blob()
    store.facts.learn("b")
    with pytest.raises(ChangedMeanwhile) as conflict:
        store.facts.consolidate("A", seen=seen)
    assert conflict.value.current == "a\nb"
    store.facts.consolidate("A\nb", seen="a\nb")
    assert global_fact_texts(store) == ["A", "b"]


def test_two_facts_may_have_the_same_text_until_one_is_removed(store: Store) -> None:
    store.facts.learn("a\nb")
    store.facts.edit(2, "a")
    assert store.facts.consolidate(store.facts.blob()).change_count == 0
    store.facts.consolidate("a")
    assert global_fact_texts(store) == ["a"]


LINES = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f", "g"]), max_size=9)


@given(before=LINES, after=LINES)
def test_any_text_becomes_the_facts_and_one_undo_restores_the_old_ones(before: list[str], after: list[str]) -> None:
    with Store.memory() as store:
        if before:
            store.facts.learn("\n".join(before))
        facts_before = store.facts.current()
        diff = store.facts.consolidate("\n".join(after))
        facts = [*diff.kept, *(fact for fact, _ in diff.edited), *diff.retired]
        assert sorted(facts, key=lambda fact: fact.id) == facts_before
        assert sorted(global_fact_texts(store)) == sorted(set(after))
        by_id = {fact.id: fact for fact in store.facts.current()}
        assert all(by_id[fact.id] == fact for fact in facts_before if fact.text in after)
        assert store.facts.consolidate(store.facts.blob()).change_count == 0
        if diff.change_count:
            store.journal.undo()
        assert store.facts.current() == facts_before
