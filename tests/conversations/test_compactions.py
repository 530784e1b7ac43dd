"""Tests what a compaction dropped, what its summary names of it, and forks from before it."""

from __future__ import annotations

import pytest
from browser_driver import answer_entry, prompt_entry, time_ago

from store.conversations.compactions import get_compaction, list_compactions
from store.conversations.fork import fork_before_compaction
from store.errors import BadValue, NotFound
from store.model.entry import NewEntry, Text, Tokens, ToolCall, ToolResult
from store.model.session import Session
from store.rebuild import rebuild_session
from store.store import Store

AT = time_ago(minutes=4)
SUMMARY = "The retry in uploader.py was fixed. The upload test passes."


def call(number: int, name: str, path: str) -> list[NewEntry]:
    arguments = {"file_path": path} | ({"old_string": "a", "new_string": "b"} if name == "Edit" else {})
    tokens = Tokens(input=1000, output=5, cache_read=9000)
    asked = ToolCall(str(number), name, arguments)
    return [
        NewEntry(role="assistant", parts=(asked,), tokens=tokens, created_at=AT),
        NewEntry(role="tool", parts=(ToolResult(str(number), "done"),), created_at=AT),
    ]


@pytest.fixture
def session(store: Store) -> Session:
    session = store.sessions.create("claude:1", cwd="/code/alpha", agent_title="Compacted")
    store.chains.append(
        session.key,
        [
            prompt_entry("Fix the retry of the upload test", AT),
            *call(1, "Edit", "/code/alpha/src/uploader.py"),
            answer_entry("We decided to keep the old config format. It works.", AT),
            prompt_entry("Rename every database column", AT),
            *call(2, "Read", "/code/alpha/schema.sql"),
            NewEntry(kind="compaction", role="system", parts=(Text(SUMMARY),), created_at=AT),
            prompt_entry("Go on", AT),
            NewEntry(role="assistant", parts=(Text("ok"),), tokens=Tokens(input=300, output=1), created_at=AT),
            NewEntry(kind="compaction", role="system", created_at=AT),
        ],
    )
    return store.sessions.get("claude:1")


def test_what_was_dropped_and_what_the_summary_names(store: Store, session: Session) -> None:
    first, second = list_compactions(store, session)
    assert [(turn.n, turn.prompt, turn.calls, turn.files, turn.is_named) for turn in first.turns] == [
        (1, "Fix the retry of the upload test", 1, 1, True),
        (2, "Rename every database column", 1, 1, False),
    ]
    assert [(file.path, file.turns, file.is_changed, file.is_named) for file in first.files] == [
        ("src/uploader.py", (1,), True, True),
        ("schema.sql", (2,), False, False),
    ]
    assert [(decision.turn, decision.is_named) for decision in first.decisions] == [(1, False)]
    assert "keep the old config format" in first.decisions[0].text
    assert (first.summary, first.tokens_before, first.tokens_after) == (SUMMARY, 10_000, 300)
    assert (first.count, first.missing) == (5, 3)
    assert [turn.prompt for turn in second.turns] == ["Go on"]
    assert second.summary == ""


def test_a_compaction_that_does_not_exist(store: Store, session: Session) -> None:
    with pytest.raises(NotFound, match="No such compaction: 3"):
        get_compaction(store, session, 3)
    with pytest.raises(NotFound, match="The session has none"):
        get_compaction(store, store.sessions.create("other"), 1)


def test_a_fork_from_before_it_has_every_turn_and_no_summary(store: Store, session: Session) -> None:
    compaction = get_compaction(store, session, 1)
    forked = fork_before_compaction(store, session, compaction.seq)
    entries = store.chains.entries(forked.key)
    assert forked.parent_id == "claude:1"
    assert [entry.text for entry in entries if entry.role == "user"] == [
        "Fix the retry of the upload test",
        "Rename every database column",
    ]
    assert not list_compactions(store, forked)
    store.journal.undo()
    assert store.sessions.get(forked.id).deleted


def test_a_fork_with_a_summary_of_ones_own_continues_from_it(store: Store, session: Session) -> None:
    compaction = get_compaction(store, session, 1)
    forked = fork_before_compaction(store, session, compaction.seq, summary="Keep the old config format.")
    assert [found.summary for found in list_compactions(store, forked)] == ["Keep the old config format."]
    body = str(rebuild_session(store, forked, "anthropic").body)
    assert "Keep the old config format." in body
    assert "Rename every database column" not in body


def test_a_fork_needs_a_compaction_and_a_summary_with_words(store: Store, session: Session) -> None:
    with pytest.raises(NotFound, match="is not a compaction"):
        fork_before_compaction(store, session, 0)
    with pytest.raises(BadValue, match="The summary is empty"):
        fork_before_compaction(store, session, get_compaction(store, session, 1).seq, summary=" \n")
