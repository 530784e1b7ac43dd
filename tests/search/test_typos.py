"""Typing errors: what is forgiven, what is not, and that the archive's size does not matter much."""

from __future__ import annotations

import pytest

from store.search.list_rows import SessionListOptions
from store.search.query import Query
from store.search.session_list import build_session_list
from store.search.typos import correct_typos, generate_one_typo_variants
from store.store import Store

SAID = "The migration of the database failed after the Übertragung; миграция не удалась, la traducción también"


@pytest.fixture
def archive(store: Store) -> Store:
    store.create_session("s", source="claude", agent_title="About a narwhal")
    store.append_message("s", "user", SAID)
    store.append_message("s", "user", "a database, a database, and data")
    return store


def meant(store: Store, typed: str, *, typing: bool = False) -> str:
    found = correct_typos(store, Query.parse(typed, is_typing=typing))
    return " ".join(shown for _, shown in found.corrections) if found else ""


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("migartion", "migration"),
        ("migraton", "migration"),
        ("imgration", "migration"),
        ("migrationn", "migration"),
        ("mirgatoin", "migration"),
        ("databsae", "database"),
        ("ubertragumg", "ubertragung"),
        ("Übertragumg", "ubertragung"),
        ("мирация", "миграция"),
        ("traduccoin", "traduccion"),
        ("narwahl", "narwhal"),
        ("database migartion", "migration"),
        ('"database migartion"', "database migration"),
        ("migartion OR databsae", "migration database"),
        ("agent:cluade", "agent:claude"),
        ("agnet:claude", "agent:claude"),
        ("agnet:cluade", "agent:claude"),
    ],
)
def test_what_is_forgiven(archive: Store, typed: str, shown: str) -> None:
    assert meant(archive, typed) == shown


@pytest.mark.parametrize(
    ("typed", "agent"),
    [("clod", "claude"), ("clawd", "claude"), ("coedx", "codex"), ("codx", "codex"), ("gose", "goose"), ("px", "pi")],
)
def test_a_name_is_known_by_how_it_sounds_then_by_how_it_is_spelled(store: Store, typed: str, agent: str) -> None:
    for at, source in enumerate(["codex", "codex", "claude", "goose", "pi", "claude-ai"]):
        store.create_session(str(at), source=source)
    assert meant(store, f"agent:{typed}") == f"agent:{agent}"


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "database",
        "migration narwhal",
        "dat",
        "tset",
        "zzzzzzzz",
        "mxgrxtxxn",
        "id4711",
        "-migartion",
        "数据库",
        "is:odd",
        "agent:claude",
        "cwd:/nowhere",
        "!!!",
    ],
)
def test_what_is_not(archive: Store, typed: str) -> None:
    assert meant(archive, typed) == ""


def test_what_is_half_typed_is_forgiven_as_a_beginning(archive: Store) -> None:
    assert meant(archive, "migra", typing=True) == ""
    assert meant(archive, "mirgat", typing=True) == "migrat…"
    assert meant(archive, "mirgtai", typing=True) == "migration…"
    assert meant(archive, "narwah", typing=True) == "narwha…"


def test_the_list_shows_what_was_meant_and_says_so(archive: Store) -> None:
    shown = build_session_list(archive, SessionListOptions("databsae migartion "))
    assert [*shown.keys] == [archive.sessions.get("s").key]
    assert shown.query.corrections == (("databsae", "database"), ("migartion", "migration"))
    assert not build_session_list(archive, SessionListOptions("databsae migartion "), 50).keys, (
        "at every key nothing is guessed"
    )
    assert not build_session_list(archive, SessionListOptions("databsae -data ")).keys
    assert build_session_list(archive, SessionListOptions("databsae -data ")).query.corrections == (), (
        "what finds nothing either is not told"
    )


def test_the_word_that_is_used_most_is_meant(store: Store) -> None:
    store.create_session("s")
    for said in ("barn", "bark", "bark"):
        store.append_message("s", "user", said)
    assert meant(store, "barf") == "bark"


def test_every_slip_is_thought_of_and_the_store_is_not_written_to(archive: Store) -> None:
    near = set(generate_one_typo_variants("word"))
    assert {"ord", "wrd", "owrd", "wodr", "words", "sword", "ward", "wore"} <= near
    assert len(near) < 300
    before = archive.connection.total_changes
    version = archive.row("pragma schema_version")
    meant(archive, "migartion")
    assert (archive.connection.total_changes, archive.row("pragma schema_version")) == (before, version)


def test_what_is_looked_at_is_bounded_however_many_words_there_are(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred thousand words with one beginning: no more of them are read than the bound says."""
    store.create_session("s")
    for part in range(10):
        store.append_message(
            "s", "user", " ".join(f"nearby{number:x}" for number in range(part * 4000, part * 4000 + 4000))
        )
    looked_at: list[int] = []
    rows = store.rows
    monkeypatch.setattr(store, "rows", lambda *given: looked_at.append(len(found := rows(*given))) or found)
    assert meant(store, "nearbxxx") == ""
    assert max(looked_at) == 20_000
