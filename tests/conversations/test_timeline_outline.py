"""These tests cover timelines: outlines, single turns, and finding text in them."""

from __future__ import annotations

import re

import pytest
from browser_driver import add_session, answer_entry, fill_store, prompt_entry, time_ago

from store.conversations.timeline import Timelines
from store.model.entry import Attachment, NewEntry, Opaque, Text, Thinking, Tokens, ToolCall, ToolResult
from store.model.session import Session
from store.model.timeline import EntryPosition, TimelineOutline, mentions_failure
from store.store import Store


@pytest.fixture
def busy(store: Store) -> Session:
    """Create three turns after a system message: one with tokens, one with a failed call, one that was interrupted."""
    call = ToolCall("c", "Bash", {"command": "make", "steps": ["one", {"deep": "needle in arguments"}]})
    return add_session(
        store,
        "busy",
        time_ago(),
        NewEntry(role="system", parts=(Text("Be kind."),), created_at=time_ago(minutes=9)),
        prompt_entry("First " + "x" * 1000, time_ago(minutes=8), "ada"),
        NewEntry(
            role="assistant",
            parts=(Text("Yes."),),
            model="opus",
            tokens=Tokens(10, 5, 1000),
            created_at=time_ago(minutes=7),
        ),
        NewEntry(role="assistant", parts=(Text("More."),), tokens=Tokens(1, 2, 3), created_at=time_ago(minutes=7)),
        prompt_entry("Second", time_ago(minutes=6)),
        NewEntry(role="assistant", parts=(Thinking("a needle in thoughts"), call), created_at=time_ago(minutes=5)),
        NewEntry(
            role="tool", parts=(ToolResult("c", {"stdout": "NEEDLE"}, is_error=True),), created_at=time_ago(minutes=4)
        ),
        prompt_entry("Third", time_ago(minutes=3)),
        NewEntry(
            kind="event", text="error: 529 overloaded", parts=(Opaque("stop", {}),), created_at=time_ago(minutes=2)
        ),
        NewEntry(
            kind="event", text="model set to needle", parts=(Opaque("settings", {}),), created_at=time_ago(minutes=2)
        ),
        NewEntry(
            role="user", parts=(Attachment("image/png", "needle.png"),), is_prompt=False, created_at=time_ago(minutes=1)
        ),
    )


def load_outline(store: Store, session: Session) -> TimelineOutline:
    return Timelines(store).load_outline(session.key)


def test_the_outline_describes_every_turn(store: Store, busy: Session) -> None:
    turns = load_outline(store, busy).turns
    assert [(turn.n, turn.first_seq, turn.last_seq) for turn in turns] == [(0, -1, 0), (1, 1, 3), (2, 4, 6), (3, 7, 10)]
    assert [turn.author for turn in turns] == ["", "ada", "unknown_user", "unknown_user"]
    assert [turn.tokens for turn in turns] == [0, 1_021, 0, 0]
    assert [turn.model for turn in turns] == ["", "opus", "", ""]
    assert [(turn.calls, turn.errors) for turn in turns] == [(0, 0), (0, 0), (1, 1), (0, 1)]
    assert turns[1].prompt.startswith("First x")
    assert len(turns[1].prompt) < 300
    assert turns[2].ended_at == time_ago(minutes=4)


def test_the_outline_contains_the_last_summarized_turn(store: Store, busy: Session) -> None:
    assert load_outline(store, busy).summarized_up_to == 0
    store.summaries.set(busy, "In short.", up_to_turn=2)
    assert load_outline(store, busy).summarized_up_to == 2
    store.summaries.set(busy, "In shorter.")
    assert load_outline(store, busy).summarized_up_to == 0


def test_turns_are_found_by_number_and_by_entry(store: Store, busy: Session) -> None:
    outline = load_outline(store, busy)
    assert [outline.index_of_turn(n) for n in (-1, 0, 3, 4)] == [None, 0, 3, None]
    assert [outline.index_of_entry(seq) for seq in (-2, -1, 0, 1, 6, 7, 10, 11)] == [None, 0, 0, 1, 2, 3, 3, None]


def test_an_empty_session_has_only_turn_zero(store: Store) -> None:
    session = store.sessions.create("empty")
    (turn,) = load_outline(store, session).turns
    assert (turn.n, turn.last_seq) == (0, -1)
    assert [turn.n for turn in Timelines(store).load_turns(session.key, [0, 1])] == [0]
    assert TimelineOutline().index_of_entry(0) is None


def test_turns_that_are_read_in_parts_equal_those_read_together(store: Store, busy: Session) -> None:
    fill_store(store)
    for session in store.sessions.newest():
        all_turns = store.chains.turns(session.key)
        numbers = [turn.n for turn in all_turns]
        assert Timelines(store).load_turns(session.key, numbers[::-1]) == all_turns
        assert Timelines(store).load_turns(session.key, [*numbers[1:2], 99]) == all_turns[1:2]


def test_the_outline_of_a_fork_contains_the_shared_turns(store: Store, busy: Session) -> None:
    fork = store.sessions.fork(busy, 2)
    assert load_outline(store, fork).turns[1:] == load_outline(store, busy).turns[1:3]
    store.chains.append(fork.key, [prompt_entry("Another third", time_ago()), answer_entry("Yes.", time_ago())])
    assert [turn.n for turn in Timelines(store).load_turns(fork.key, [3])] == [3]


@pytest.mark.parametrize(
    ("words", "seqs"),
    [
        ("needle", [5, 6, 9, 10]),
        ("be kind", [0]),
        ("bash", [5]),
        ("stdout", []),
        ("second|third", [4, 7]),
        ("zebra", []),
    ],
)
def test_words_are_found_in_everything_that_is_shown(store: Store, busy: Session, words: str, seqs: list[int]) -> None:
    positions = Timelines(store).find_text(busy.key, re.compile(words, re.IGNORECASE))
    assert [position.seq for position in positions] == seqs
    assert all(isinstance(position, EntryPosition) for position in positions)
    outline = load_outline(store, busy)
    assert [outline.turns[outline.index_of_entry(seq) or 0].n for seq in seqs] == [
        position.turn for position in positions
    ]


def test_the_output_of_a_tool_is_found(store: Store) -> None:
    fill_store(store)
    session = store.sessions.get("claude:e0741090")
    assert Timelines(store).find_text(session.key, re.compile("ValueError")) == [EntryPosition(1, 2)]


def test_a_cancelled_search_returns_nothing(store: Store, busy: Session) -> None:
    assert Timelines(store).find_text(busy.key, re.compile("needle"), lambda: True) == []


def test_reading_does_not_change_the_connection(store: Store, busy: Session) -> None:
    before = store.row("pragma cache_size")
    load_outline(store, busy)
    Timelines(store).find_text(busy.key, re.compile("needle"))
    assert store.row("pragma cache_size") == before


@pytest.mark.parametrize("text", ["error: 529", "Request was aborted", "tool FAILED", "interrupted by the user"])
def test_events_that_report_a_failure(text: str) -> None:
    assert mentions_failure(text)


@pytest.mark.parametrize("text", ["", "model set to opus", "terrorising the cat", "mirrored"])
def test_events_that_report_no_failure(text: str) -> None:
    assert not mentions_failure(text)
