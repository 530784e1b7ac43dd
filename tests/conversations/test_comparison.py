"""Tests that sessions, turns, entries, summaries, facts and edits can be compared by their references."""

from __future__ import annotations

import pytest

from store.conversations import comparison
from store.conversations.comparison import compare, list_fact_versions
from store.conversations.fork import fork_session
from store.errors import BadValue, NotFound
from store.model.entry import NewEntry, Text, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store


def add_turn(store: Store, session: Session, prompt: str, command: str, output: str, answer: str) -> None:
    store.chains.append(
        session.key,
        [
            NewEntry(role="user", parts=(Text(prompt),)),
            NewEntry(role="assistant", parts=(Text(answer), ToolCall(prompt, "Bash", {"command": command}))),
            NewEntry(role="tool", parts=(ToolResult(prompt, output),)),
        ],
    )


@pytest.fixture
def world(store: Store) -> Store:
    for name, answer in (("a", "one"), ("b", "two")):
        session = store.sessions.create(name, agent_title=f"Session {name}")
        add_turn(store, session, "first", "ls", "x", "same")
        add_turn(store, session, "second", "pwd", "/w", answer)
    return store


def kinds(store: Store, left: str, right: str) -> list[tuple[str, str, int]]:
    return [(section.kind, section.title, section.count) for section in compare(store, left, right).sections]


def test_two_sessions_are_aligned_by_turns(world: Store) -> None:
    assert kinds(world, "a", "b") == [("shared", "turn 1", 1), ("changed", "turn 2", 1)]
    changed = compare(world, "a", "b").sections[1]
    assert [line for line in changed.compare()[0].lines if line.sign != " "] == [("-", "one"), ("+", "two")]
    assert changed.entry == "b#3"
    assert compare(world, "a", "a").is_equal


def test_a_fork_shares_turns_with_its_parent_and_both_are_told_apart(world: Store) -> None:
    fork = fork_session(world, world.sessions.get("a"), 1, session_id="f")
    add_turn(world, fork, "other", "id", "0", "new")
    found = compare(world, "a", "f")
    assert [(section.kind, section.title) for section in found.sections] == [
        ("shared", "turn 1"),
        ("left", "turn 2"),
        ("right", "turn 2"),
    ]
    assert (found.left, found.right) == ("Session a (a)", "Session a (f)")


def test_very_many_differences_are_limited_and_that_is_said(world: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MAX_DETAILED_TURNS", 4)
    for name in ("a", "b"):
        for n in range(4):
            add_turn(world, world.sessions.get(name), f"prompt {n}", "ls", "x", name)
    found = compare(world, "a", "b")
    assert found.notes == ("Only the first 4 different turns are compared in full.",)
    assert [section.is_detailed for section in found.sections] == [True, True, True, False, False, False]
    assert not found.is_equal


def test_progress_is_told(world: Store) -> None:
    told: list[tuple[int, int]] = []
    compare(world, "a", "b", progress=lambda done, total: told.append((done, total)))
    assert told == [(2, 4), (4, 4)]


def test_two_turns(world: Store) -> None:
    found = compare(world, "a#t1", "b#t2")
    assert (found.left, found.right) == ("turn 1 of Session a", "turn 2 of Session b")
    assert kinds(world, "a#t2", "b#t2") == [("changed", "turn", 1)]
    assert compare(world, "a#t1", "b#t1").is_equal


def test_two_calls_and_two_entries(world: Store) -> None:
    assert kinds(world, "a#1.1", "a#4.1") == [
        ("shared", "call", 1),
        ("changed", "arguments", 1),
        ("changed", "result", 1),
    ]
    assert kinds(world, "a#1", "b#4") == [("changed", "text", 1), ("changed", "call", 1)]
    assert kinds(world, "a#1.0", "b#1.0") == [("shared", "text", 1)]
    assert kinds(world, "a#2", "a#1") == [("left", "result", 1), ("right", "text", 1), ("right", "call", 1)]


def test_two_versions_of_a_summary_and_of_a_fact(world: Store) -> None:
    session = world.sessions.get("a")
    for text in ("It began.", "It ended."):
        world.summaries.set(session, text)
    newest, oldest = (version.key for version in world.summaries.history(session))
    assert kinds(world, f"a#s{oldest}", f"a#s{newest}") == [("changed", "summary", 1)]
    (fact,) = world.facts.learn("We use Flask.").facts
    world.facts.edit(fact.id, "We use FastAPI.")
    before, after = list_fact_versions(world, fact.id)
    found = compare(world, f"fact:{fact.id}@{before}", f"fact:{fact.id}")
    assert list(found.sections[0].compare()[0].lines) == [("-", "We use Flask."), ("+", "We use FastAPI.")]
    assert compare(world, f"fact:{fact.id}@{after}", f"fact:{fact.id}").is_equal


def test_an_edit_before_and_after(world: Store) -> None:
    session = world.sessions.get("a")
    world.sessions.set_title(session, "Another title")
    world.summaries.set(session, "It began.")
    world.summaries.set(session, "It ended.")
    title, summary = (world.journal.list_edits(limit=3)[n].id for n in (2, 0))
    assert kinds(world, f"edit:{title}:before", f"edit:{title}:after") == [("changed", "sessions 1 own_title", 1)]
    found = compare(world, f"edit:{summary}:before", f"edit:{summary}:after")
    assert [tuple(line) for line in found.sections[0].compare()[0].lines] == [("-", "It began."), ("+", "It ended.")]


def test_a_session_whose_id_looks_like_a_reference(world: Store) -> None:
    session = world.sessions.create("fact:1")
    add_turn(world, session, "first", "ls", "x", "same")
    assert kinds(world, "a", "fact:1") == [("shared", "turn 1", 1), ("left", "turn 2", 1)]


@pytest.mark.parametrize("reference", ["nope", "a#t9", "a#99", "a#1.7", "a#s9", "fact:9", "fact:9@1", "edit:99:after"])
def test_what_does_not_exist_is_not_found(world: Store, reference: str) -> None:
    with pytest.raises(NotFound):
        compare(world, reference, "b#t1")


def test_a_session_and_a_turn_cannot_be_compared(world: Store) -> None:
    with pytest.raises(BadValue):
        compare(world, "a", "b#t1")
