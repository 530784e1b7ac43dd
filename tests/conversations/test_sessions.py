"""These tests cover finding, editing, forking and purging sessions."""

from __future__ import annotations

import pytest
from sample_conversations import conversation

from store.errors import Ambiguous, BadValue, ChangedMeanwhile, NotFound
from store.model.identity import foreign_session_id
from store.store import Store


def test_a_session_is_found_by_id_native_id_or_an_unambiguous_beginning(store: Store) -> None:
    full = store.create_session("claude:e0741090-8059", native_id="e0741090-8059")
    store.create_session("claude:f1112222", native_id="f1112222")
    for name in ("claude:e0741090-8059", "e0741090-8059", "claude:e0", "e07"):
        assert store.sessions.find(name) == full
    with pytest.raises(Ambiguous) as error:
        store.sessions.find("claude:")
    assert set(error.value.candidates) == {"claude:e0741090-8059", "claude:f1112222"}
    with pytest.raises(NotFound):
        store.sessions.find("nobody")


def test_an_exact_id_wins_over_longer_ones_that_begin_with_it(store: Store) -> None:
    exact = store.create_session("telegram:1")
    store.create_session("telegram:1:delegate:x")
    store.create_session("telegram:12")
    assert store.sessions.find("telegram:1") == exact


def test_two_stores_may_hold_the_same_native_id(store: Store) -> None:
    for locator in ("/a/pingu.db", "/b/pingu.db"):
        store.create_session(foreign_session_id("pingu", "telegram:1", locator), native_id="telegram:1", source="pingu")
    with pytest.raises(Ambiguous):
        store.sessions.find("telegram:1")


def test_the_title_is_the_person_s_or_the_agent_s_or_the_first_prompt(store: Store) -> None:
    store.create_session("a")
    store.append_message("a", "user", "Fix   the\nbuild")
    assert store.get_session("a").title == "Fix the build"
    store.update_session("a", title="Build fix")
    assert store.get_session("a").title == "Build fix"
    store.sessions.set_title(store.get_session("a"), "My own words")
    store.update_session("a", title="The agent's again")
    assert store.get_session("a").title == "My own words"


def test_an_edit_is_refused_when_the_value_was_changed_meanwhile(store: Store) -> None:
    session = store.create_session("a")
    store.sessions.set_title(session, "first", seen="")
    with pytest.raises(ChangedMeanwhile) as error:
        store.sessions.set_title(session, "second", seen="")
    assert error.value.current == "first"
    assert store.get_session("a").title == "first"


def test_an_empty_title_is_refused(store: Store) -> None:
    with pytest.raises(BadValue, match="empty"):
        store.sessions.set_title(store.create_session("a"), "  ")


def test_flags_on_several_sessions_are_one_edit(store: Store) -> None:
    sessions = [store.create_session(name) for name in "abc"]
    store.sessions.archive(sessions)
    assert all(store.get_session(name).archived for name in "abc")
    store.journal.undo()
    assert not any(store.get_session(name).archived for name in "abc")


def test_sessions_in_the_trash_are_hidden_until_restored(store: Store) -> None:
    conversation(store, "a")
    session = store.get_session("a")
    store.sessions.delete([session])
    assert store.list_sessions(5) == []
    assert store.search.find("prompt") == ([], 0)
    assert [found.id for found in store.sessions.trash()] == ["a"]
    store.sessions.restore([session])
    assert [found.id for found in store.list_sessions(5)] == ["a"]


def test_matching_searches_titles_and_conversations(store: Store) -> None:
    conversation(store, "a")
    store.create_session("b", title="About narwhals")
    assert [session.id for session in store.sessions.matching("narwhal")[0]] == ["b"]
    assert [session.id for session in store.sessions.matching("answer")[0]] == ["a"]
    assert store.sessions.matching("")[1] == 2


def test_a_fork_shares_the_past_and_counts_none_of_it(store: Store) -> None:
    conversation(store, "a", turns=3)
    fork = store.sessions.fork(store.get_session("a"), 2, "fork")
    assert (fork.parent_id, fork.relation, fork.forked_at) == ("a", "fork", 7)
    assert (fork.turns, fork.entries, fork.tool_calls, fork.tokens_total) == (0, 0, 0, 0)
    turns = store.chains.turns(fork.key)
    assert [turn.prompt for turn in turns] == ["", "prompt 1 of a", "prompt 2 of a"]
    assert [call.result for turn in turns for call in turn.tool_calls] == ["file-1.txt", "file-2.txt"]
    assert all(entry.inherited for turn in turns[1:] for entry in turn.entries)
    originals = store.chains.entries(store.get_session("a").key)
    assert [entry.record for entry in turns[1].entries] == [entry.record for entry in originals[1:5]]
    assert store.search.find("prompt 1")[1] == 1
    assert len(store.chains.all_tool_calls()) == 3


def test_entries_appended_to_a_fork_are_not_in_its_parent(store: Store) -> None:
    conversation(store, "a", turns=3)
    fork = store.sessions.fork(store.get_session("a"), 1, "fork")
    store.append_message("fork", "user", "something else")
    turns = store.chains.turns(fork.key)
    assert [turn.prompt for turn in turns] == ["", "prompt 1 of a", "something else"]
    assert store.get_session("fork").turns == 1
    assert store.get_session("a").turns == 3


def test_a_fork_survives_the_purge_of_its_parent(store: Store) -> None:
    """The inherited entries become its own: they are counted and found, and their records are kept."""
    conversation(store, "a", turns=3)
    fork = store.sessions.fork(store.get_session("a"), 2, "fork")
    younger = store.sessions.fork(store.get_session("a"), 1, "younger")
    store.delete_session("a")
    fork, younger = store.get_session("fork"), store.get_session("younger")
    assert (fork.turns, fork.entries, fork.tool_calls, fork.errors) == (2, 8, 2, 1)
    assert fork.tokens_total == 32
    assert [hit.session_id for hit in store.search.find('"prompt 1"')[0]] == ["fork"]
    assert store.search.find('"prompt 3"')[1] == 0
    assert len(store.chains.all_tool_calls()) == 2
    assert store.get_messages("younger")[0].content == [{"type": "text", "text": "prompt 1 of a"}]
    assert (younger.turns, younger.entries) == (0, 0)


def test_purge_leaves_a_tombstone_and_no_row(store: Store) -> None:
    conversation(store, "a")
    session = store.get_session("a")
    store.sessions.set_title(session, "Mine")
    store.notes.tag([session], ["work"])
    store.learn("A fact worth keeping", session_id="a")
    store.sessions.purge([session])
    assert store.rows("select source, native_id from tombstones") == [("library", "a")]
    for table in ("sessions", "entries", "records", "blocks", "turns", "tool_calls", "tags", "purging"):
        assert store.row(f"select count(*) from {table}") == (0,)
    (fact,) = store.facts.current()
    assert (fact.text, fact.session_id) == ("A fact worth keeping", None)


def test_a_purged_session_can_be_created_again(store: Store) -> None:
    conversation(store, "a")
    store.delete_session("a")
    conversation(store, "a")
    assert store.get_session("a").turns == 2


def test_a_parent_may_arrive_after_its_child(store: Store) -> None:
    child = store.create_session("codex:child", parent_id="codex:parent", relation="sidechain")
    store.create_session("codex:parent")
    assert store.sessions.children("codex:parent") == [child]
