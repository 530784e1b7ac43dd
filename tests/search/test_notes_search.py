"""These tests check that the words of notes are found, at every letter and after a pause."""

from __future__ import annotations

import pytest
from browser_driver import NOW, add_session, prompt_entry, time_ago

from store.search.list_rows import SessionListOptions
from store.search.query import Query
from store.search.session_list import build_session_list, load_rows
from store.store import Store


@pytest.fixture
def noted(store: Store) -> Store:
    for days, name in enumerate(("plain", "other", "noted")):
        at = time_ago(days=days)
        add_session(store, name, at, prompt_entry("an ordinary question", at), prompt_entry("a reply", at))
    session = store.sessions.get("noted")
    store.notes.add_note(session, "ask the narwhal 100%", entry_seq=1)
    store.notes.add_note(session, "about the budget")
    return store


def find(store: Store, query: str, limit: int = -1) -> list[str]:
    shown = build_session_list(store, SessionListOptions(query), limit, NOW)
    return [store.sessions.by_key(key).id for key in shown.keys]


@pytest.mark.parametrize("limit", [-1, 10, 1])
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("narwhal", ["noted"]),
        ("narw", ["noted"]),
        ("NARWHAL ask", ["noted"]),
        ('"100%"', ["noted"]),
        ("narwhal budget", []),
        ("narwhal OR budget", ["noted"]),
        ("has:note", ["noted"]),
        ("has:note ordinary", ["noted"]),
        ("role:user narwhal", []),
        ("-has:note zebra OR narwhal", []),
    ],
)
def test_words_are_found_in_one_note(noted: Store, query: str, found: list[str], limit: int) -> None:
    assert find(noted, query, limit) == found[: limit if limit > 0 else None]


def test_a_negated_word_excludes_sessions_with_it_in_a_note(noted: Store) -> None:
    assert sorted(find(noted, "ordinary -narwhal")) == ["other", "plain"]


def test_the_command_line_finds_them_too(noted: Store) -> None:
    assert [session.id for session in noted.sessions.matching("narwhal")[0]] == ["noted"]


def test_a_row_shows_the_newest_note_that_matches_and_opens_at_its_entry(noted: Store) -> None:
    key = noted.sessions.get("noted").key
    query = Query.parse("narwhal")
    (row,) = load_rows(noted, [key], query)
    assert row.has_notes
    assert row.hit is not None
    assert (row.hit.field, row.hit.snippet, row.hit.highlights) == ("note", "ask the narwhal 100%", ((8, 15),))
    assert noted.search.find_newest_hit_entry(key, query) == "noted#1"
    assert noted.search.find_newest_hit_entry(key, Query.parse("budget")) is None


def test_a_message_is_shown_before_a_note(noted: Store) -> None:
    session = noted.sessions.get("noted")
    noted.notes.add_note(session, "ordinary, too")
    (row,) = load_rows(noted, [session.key], Query.parse("ordinary"))
    assert row.hit is not None
    assert row.hit.field == "text"


def test_a_session_with_a_matching_note_is_among_the_best(noted: Store) -> None:
    noted.notes.add_note(noted.sessions.get("noted"), "the reply that counts")
    assert find(noted, "reply ")[0] == "noted"
