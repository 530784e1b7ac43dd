"""Tests which of two values counts, alone and in stores that edit the same title, summary, fact or comment."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from teams.stores import OpenMember, sync_all, trust_all

from store.errors import BadValue, ChangedMeanwhile, Refused
from store.model.session import Session
from store.store import Store
from store.team.values import Moment, SharedValue, compare_vectors, merge_values

DAY = 86_400_000


def write(value: str, machine: str, milliseconds: int, last: SharedValue | None = None) -> SharedValue:
    moment = Moment.after(last.moment if last else None, milliseconds, machine)
    return SharedValue(value, {}, moment).written_after(last, machine)


# ── which one counts ──────────────────────────────────────────────────────────────────────────────


def test_a_value_that_was_written_after_another_was_seen_replaces_it_whatever_the_clocks_say() -> None:
    first = write("first", "a", 10 * DAY)
    second = write("second", "b", 9 * DAY, first)
    merge = merge_values(first, second)
    assert (merge.kept.value, merge.lost) == ("second", None)
    assert merge_values(second, first).kept.value == "second"


def test_of_two_values_written_at_once_the_later_counts_and_the_other_is_kept() -> None:
    one, other = write("one", "a", 1_000), write("other", "b", 2_000)
    for merge in (merge_values(one, other), merge_values(other, one)):
        assert merge.kept.value == "other"
        assert merge.lost is not None
        assert merge.lost.value == "one"


def test_a_value_that_lost_is_no_conflict_with_a_later_one_of_its_own_machine() -> None:
    first = write("first", "a", 1_000)
    kept = merge_values(first, write("blind", "b", 500)).kept
    merge = merge_values(kept, write("second", "a", 2_000, first))
    assert (merge.kept.value, merge.lost) == ("second", None)


def test_equal_values_are_no_conflict() -> None:
    assert merge_values(write("same", "a", 1), write("same", "b", 2)).lost is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans()), min_size=1, max_size=4))
def test_all_machines_agree_in_whatever_order_values_arrive(writes: list[tuple[str, int, bool]]) -> None:
    written: list[SharedValue] = []
    for n, (machine, day, has_seen) in enumerate(writes):
        own = [value for value in written if machine in value.vector]
        last = merged(written) if has_seen and written else merged(own) if own else None
        written.append(write(str(n), machine, day * DAY, last))
    assert len({merged(order).value for order in permutations(written)}) == 1


def merged(values: object) -> SharedValue:
    current: SharedValue | None = None
    for value in values:  # type: ignore[attr-defined]
        current = merge_values(current, value).kept
    assert current is not None
    return current


def test_vectors_are_compared_by_machine() -> None:
    assert compare_vectors({"a": 1}, {"a": 1}) == "same"
    assert compare_vectors({"a": 1}, {}) == "newer"
    assert compare_vectors({"a": 1}, {"a": 1, "b": 1}) == "older"
    assert compare_vectors({"a": 2}, {"a": 1, "b": 1}) == "concurrent"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"vector": {"a": -1}, "moment": [1, 0, "a"]},
        {"vector": {"a": 1.5}, "moment": [1, 0, "a"]},
        {"vector": {"a": 1}, "moment": [1, 0]},
        {"vector": {"a": 1}, "moment": [1, True, "a"]},
        {"vector": {"a": 1}, "moment": [2**60, 0, "a"]},
    ],
)
def test_values_that_make_no_sense_are_refused(body: dict[str, object]) -> None:
    with pytest.raises(BadValue):
        SharedValue.parse(body)


# ── in stores ─────────────────────────────────────────────────────────────────────────────────────


def share_one(open_member: OpenMember) -> tuple[Store, Store, Session, Session]:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    anna.create_session("s1")
    anna.append_message("s1", "user", [{"type": "text", "text": "Fix the upload."}])
    anna.team.share(anna.sessions.get("s1"))
    sync_all(anna, ben)
    (received,) = ben.sessions.newest()
    return anna, ben, anna.sessions.get("s1"), received


def titles(*sessions: tuple[Store, Session]) -> list[str]:
    return [store.sessions.get(session.id).own_title for store, session in sessions]


def test_titles_and_summaries_travel_both_ways(open_member: OpenMember) -> None:
    anna, ben, own, received = share_one(open_member)
    anna.sessions.set_title(own, "Upload")
    sync_all(anna, ben)
    ben.sessions.set_title(ben.sessions.get(received.id), "Flaky upload")
    ben.summaries.set(received, "The retry is missing.", up_to_turn=1)
    sync_all(ben, anna)
    assert titles((anna, own), (ben, received)) == ["Flaky upload"] * 2
    summary = anna.summaries.current(own)
    assert summary is not None
    assert (summary.text, summary.up_to_turn) == ("The retry is missing.", 1)
    assert anna.team.sync().pushed == ben.team.sync().pushed == 0


def test_two_titles_given_at_once_are_both_kept_and_one_can_be_chosen(open_member: OpenMember) -> None:
    anna, ben, own, received = share_one(open_member)
    anna.sessions.set_title(own, "From Anna")
    ben.sessions.set_title(received, "From Ben")
    sync_all(anna, ben)
    assert titles((anna, own)) == titles((ben, received))
    (conflict,) = anna.team.conflicts()
    assert {conflict.kept, conflict.lost} == {"From Anna", "From Ben"}
    anna.team.choose(conflict.key, lost=True)
    sync_all(anna, ben)
    assert titles((anna, own), (ben, received)) == [conflict.lost] * 2
    assert anna.team.conflicts() == ben.team.conflicts() == []


def test_a_clock_that_is_a_day_wrong_does_not_undo_later_edits(
    open_member: OpenMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna, ben, own, received = share_one(open_member)
    with monkeypatch.context() as patch:
        import time

        now = time.time_ns()
        patch.setattr("time.time_ns", lambda: now + DAY * 1_000_000)
        anna.sessions.set_title(own, "From tomorrow")
        anna.team.sync()
    ben.team.sync()
    ben.sessions.set_title(ben.sessions.get(received.id), "From today")
    sync_all(ben, anna)
    assert titles((anna, own), (ben, received)) == ["From today"] * 2


def test_facts_of_the_team_travel_and_others_do_not(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    anna.facts.learn("The staging database is read-only.", scope="team")
    anna.facts.learn("My own fact.")
    sync_all(anna, ben)
    (fact,) = ben.facts.current(None)
    assert (fact.text, fact.scope) == ("The staging database is read-only.", "team")
    ben.facts.edit(fact.id, "The staging database is read-only on Fridays.")
    sync_all(ben, anna)
    assert [one.text for one in anna.facts.current(("team",))] == ["The staging database is read-only on Fridays."]
    anna.facts.retire(anna.facts.current(("team",))[0].id)
    sync_all(anna, ben)
    assert ben.facts.current(None) == []


def test_the_journal_says_who_changed_a_fact_and_undoes_only_own_edits(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    anna.facts.learn("The cellar is dry.", scope="team")
    sync_all(anna, ben)
    (fact,) = ben.facts.current(None)
    ben.facts.edit(fact.id, "The cellar is wet.")
    sync_all(ben, anna)
    (own,) = anna.facts.current(None)
    assert [(edit.kind, edit.author) for edit in anna.facts.history(own.id)] == [("learn", ""), ("edit fact", "ben")]
    assert [(edit.kind, edit.author) for edit in ben.facts.history(fact.id)] == [("learn", "anna"), ("edit fact", "")]
    with pytest.raises(ChangedMeanwhile, match="Undo edit 2 first"):
        anna.journal.undo()
    anna.journal.undo(2)
    anna.journal.undo(1)
    sync_all(anna, ben)
    assert ben.facts.current(None) == []
    assert [edit.kind for edit in ben.facts.history(fact.id)][-1] == "retire fact"


def test_a_fact_that_one_retires_while_another_edits_it_can_be_settled_either_way(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    anna.facts.learn("The cellar is dry.", scope="team")
    sync_all(anna, ben)
    for expected in (["The cellar is wet."], []):
        anna.facts.edit(anna.facts.current(None)[0].id, "The cellar is wet.")
        ben.facts.retire(ben.facts.current(None)[0].id)
        sync_all(anna, ben)
        (conflict,) = anna.team.conflicts()
        assert (conflict.kept_author, conflict.author) == ("ben", "anna")
        anna.team.choose(conflict.key, lost=bool(expected))
        sync_all(anna, ben)
        assert [fact.text for fact in ben.facts.current(None)] == expected
        if expected:
            anna.facts.edit(anna.facts.current(None)[0].id, "The cellar is dry.")
            sync_all(anna, ben)


def test_comments_travel_with_their_author_and_notes_do_not(open_member: OpenMember) -> None:
    anna, ben, own, received = share_one(open_member)
    ben.team.comment(received, "Look at the retry.", 0)
    ben.notes.add_note(received, "Only for me.")
    sync_all(ben, anna)
    (comment,) = anna.notes.notes(own)
    assert (comment.author, comment.text, comment.entry_seq) == ("ben", "Look at the retry.", 0)
    with pytest.raises(Refused, match="from ben"):
        anna.notes.edit_note(comment.id, "changed")
    (mine, _) = ben.notes.notes(received)
    ben.notes.edit_note(mine.id, "Look at the second retry.")
    sync_all(ben, anna)
    assert [note.text for note in anna.notes.notes(own)] == ["Look at the second retry."]
    ben.notes.delete_note(mine.id)
    sync_all(ben, anna)
    assert anna.notes.notes(own) == []


def test_a_comment_on_a_private_session_is_refused(open_member: OpenMember) -> None:
    anna = open_member("anna")
    anna.create_session("s1")
    with pytest.raises(Refused, match="not shared"):
        anna.team.comment(anna.sessions.get("s1"), "Who reads this?")
