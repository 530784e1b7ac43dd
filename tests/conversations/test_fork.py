"""These tests cover forks in our own store."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_conversations import conversation, prompts, statuses

from store.conversations.fork import fork_session
from store.doctor import check_store
from store.errors import BadValue, NotFound, Refused
from store.model.entry import INTERRUPTED_RESULT, NewEntry, NewRecord, Part, Text, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store

TOTALS = "select sum(turns), sum(entries), sum(tool_calls), sum(tokens_total) from sessions where deleted = 0"


def user_entry(text: str) -> NewEntry:
    return NewEntry(role="user", parts=(Text(text),), record=NewRecord(text.encode()))


def tool_entry(*parts: Part) -> NewEntry:
    return NewEntry(role="tool", parts=parts, is_prompt=False)


def calling_entry(*calls: str) -> NewEntry:
    parts = tuple(ToolCall(call, "shell", {"command": call}) for call in calls)
    return NewEntry(role="assistant", parts=parts, record=NewRecord(repr(calls).encode()))


def create_session(store: Store, *entries: NewEntry, name: str = "a") -> Session:
    session = store.create_session(name)
    store.chains.append(session.key, entries)
    return store.get_session(name)


@pytest.fixture
def parent(store: Store) -> Session:
    conversation(store, "a", turns=3)
    return store.get_session("a")


def is_healthy(store: Store) -> bool:
    return check_store(store) == []


# ── forks ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_fork_ends_after_the_turn_and_counts_nothing_twice(store: Store, parent: Session) -> None:
    before = store.row(TOTALS)
    child = fork_session(store, parent, 2)
    assert (child.parent_id, child.relation, child.source) == ("a", "fork", "library")
    assert prompts(store, child) == ["prompt 1 of a", "prompt 2 of a"]
    assert store.row(TOTALS) == before
    assert store.search.find("prompt")[1] == 3
    assert is_healthy(store)


def test_a_new_prompt_replaces_the_prompt_of_the_turn(store: Store, parent: Session) -> None:
    child = fork_session(store, parent, 2, prompt="Something quite  else\nand more")
    turns = store.chains.turns(child.key)
    assert [turn.prompt for turn in turns[1:]] == ["prompt 1 of a", "Something quite  else\nand more"]
    assert [entry.inherited for entry in turns[-1].entries] == [False]
    assert child.title == "Something quite else and more"
    assert (child.turns, child.entries) == (1, 1)
    assert [hit.session_id for hit in store.search.find("quite")[0]] == [child.id]
    assert is_healthy(store)


def test_a_new_prompt_has_the_author_of_the_old_one(store: Store) -> None:
    prompt = NewEntry(role="user", parts=(Text("one"),), author="ada")
    child = fork_session(store, create_session(store, prompt), 1, prompt="two")
    assert store.chains.turns(child.key)[1].entries[0].author == "ada"


def test_a_fork_at_turn_zero_has_the_entries_before_the_first_prompt(store: Store) -> None:
    session = create_session(store, NewEntry(kind="event", text="began"), user_entry("one"))
    child = fork_session(store, session, 0)
    assert [entry.text for entry in store.chains.entries(child.key, 0)] == ["began"]
    assert fork_session(store, store.create_session("empty"), 0).tail is not None
    with pytest.raises(Refused, match="Turn 0"):
        fork_session(store, session, 0, prompt="another")


def test_sessions_that_cannot_be_forked_are_refused_with_a_reason(store: Store, parent: Session) -> None:
    with pytest.raises(NotFound, match=r"No such turn: 4\. The last turn is 3\."):
        fork_session(store, parent, 4)
    with pytest.raises(BadValue, match="empty"):
        fork_session(store, parent, 1, prompt=" \n")
    store.sessions.delete([parent])
    with pytest.raises(Refused, match="trash"):
        fork_session(store, parent, 1)
    assert store.row("select count(*) from sessions") == (1,)


# ── calls and results ─────────────────────────────────────────────────────────────────────────────


def test_pending_calls_are_closed_only_in_the_fork(store: Store) -> None:
    session = create_session(store, user_entry("one"), calling_entry("c1", "c2"), tool_entry(ToolResult("c1", "done")))
    before = store.chains.entries(session.key)
    child = fork_session(store, session, 1)
    assert statuses(store, child) == {"c1": "ok", "c2": "error"}
    assert store.chains.tool_calls(child.key)[1].result == INTERRUPTED_RESULT
    assert store.chains.entries(session.key) == before
    assert statuses(store, session)["c2"] == "pending"
    assert (child.tool_calls, child.errors) == (0, 1)
    assert is_healthy(store)


def test_a_call_answered_only_later_is_closed_before_the_new_prompt(store: Store) -> None:
    session = create_session(
        store, user_entry("one"), calling_entry("c1"), user_entry("two"), tool_entry(ToolResult("c1", "late"))
    )
    child = fork_session(store, session, 2, prompt="three")
    assert [entry.role for entry in store.chains.entries(child.key, 0)] == ["user", "assistant", "tool", "user"]
    assert statuses(store, child) == {"c1": "error"}


def test_results_without_a_call_are_left_out(store: Store) -> None:
    mixed = tool_entry(ToolResult("lost", "?"), ToolResult("c1", "done"), ToolResult("gone", "?"))
    session = create_session(store, user_entry("one"), calling_entry("c1"), mixed, tool_entry(ToolResult("stray", "?")))
    child = fork_session(store, session, 1)
    assert statuses(store, child) == {"c1": "ok"}
    (call,) = store.chains.tool_calls(child.key)
    assert call.result == "done"
    results = [
        part for entry in store.chains.entries(child.key) for part in entry.parts if isinstance(part, ToolResult)
    ]
    assert [part.call_id for part in results] == ["c1"]
    assert set(statuses(store, session)) == {"c1", "lost", "gone", "stray"}
    assert is_healthy(store) is False  # the parent still has results without a call
    assert check_store(store, child) == []


ENTRIES = st.lists(
    st.one_of(
        st.builds(user_entry, st.text("ab ", min_size=1).filter(str.strip)),
        st.builds(calling_entry, st.sampled_from(["1", "2", "3"])),
        st.builds(lambda call: tool_entry(ToolResult(call, "x")), st.sampled_from(["1", "2", "3", "4"])),
        st.builds(lambda text: NewEntry(role="assistant", parts=(Text(text),)), st.text("ab", min_size=1)),
    ),
    max_size=12,
)


@settings(max_examples=25)
@given(entries=ENTRIES, turn=st.integers(0, 4), with_prompt=st.booleans())
def test_forks_of_random_sessions_pair_all_calls_and_leave_the_store_healthy(
    entries: list[NewEntry], turn: int, with_prompt: bool
) -> None:
    with Store.memory() as store:
        session = create_session(store, *entries)
        before = store.chains.entries(session.key)
        last = store.chains.last_turn(session.key)
        turn = min(turn, last)
        child = fork_session(store, session, turn, prompt="new" if with_prompt and turn else None)
        assert set(statuses(store, child).values()) <= {"ok", "error"}
        assert store.chains.entries(session.key) == before
        assert check_store(store, child) == []
        again = fork_session(store, child, turn)
        assert prompts(store, again) == prompts(store, child)
        store.sessions.purge([session], vacuum=False)
        assert check_store(store) == []
        assert prompts(store, again) == prompts(store, child)


# ── undo ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_fork_is_one_edit_that_undo_moves_to_the_trash_and_back(store: Store, parent: Session) -> None:
    child = fork_session(store, parent, 1)
    (edit,) = store.journal.list_edits()
    assert (edit.kind, edit.session_ids) == ("fork", (child.id,))
    store.append_message(child.id, "user", "said since")
    store.journal.undo()
    assert [session.id for session in store.sessions.trash()] == [child.id]
    assert store.search.find("since") == ([], 0)
    store.journal.undo(store.journal.list_edits()[0].id)
    assert [session.id for session in store.sessions.children("a")] == [child.id]
    assert store.sessions.trash() == []
    assert prompts(store, child)[-1] == "said since"


def test_a_failed_fork_leaves_nothing_behind(store: Store, parent: Session) -> None:
    with pytest.raises(BadValue):
        fork_session(store, parent, 1, prompt="half a character \ud800")
    fork_session(store, parent, 1, session_id="b")
    with pytest.raises(Exception, match="already"):
        fork_session(store, parent, 1, session_id="b")
    assert store.row("select count(*) from sessions") == (2,)
    assert len(store.journal.list_edits()) == 1


# ── several forks ─────────────────────────────────────────────────────────────────────────────────


def test_a_fork_of_a_fork_survives_the_purge_of_both_parents(store: Store, parent: Session) -> None:
    first = fork_session(store, parent, 3, session_id="first")
    store.append_message("first", "user", "own words")
    second = fork_session(store, store.get_session("first"), 4, session_id="second")
    assert prompts(store, second) == [*prompts(store, parent), "own words"]
    for purged in (first, parent):
        store.sessions.purge([purged], vacuum=False)
    second = store.get_session("second")
    assert second.turns == 4
    assert store.search.find("words")[1] == 1
    assert is_healthy(store)


def test_concurrent_forks_are_separate_sessions(store: Store, parent: Session) -> None:
    fork_ids: list[str] = []
    barrier = threading.Barrier(4)

    def fork() -> None:
        barrier.wait()
        fork_ids.append(fork_session(store, parent, 2, prompt=threading.current_thread().name).id)

    threads = [threading.Thread(target=fork) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(fork_ids)) == 4
    assert {session.id for session in store.sessions.children("a")} == set(fork_ids)
    assert is_healthy(store)
