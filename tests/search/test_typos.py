"""These tests check which typing errors are corrected, and that the work is bounded in a large archive."""

from __future__ import annotations

import pytest

from store.search.list_rows import SessionListOptions
from store.search.query import Query
from store.search.session_list import build_session_list
from store.search.typos import correct_typos, generate_one_typo_variants
from store.store import Store

TEXT = "The migration of the database failed after the Übertragung; миграция не удалась, la traducción también"


@pytest.fixture
def archive(store: Store) -> Store:
    store.create_session("s", source="claude", agent_title="About a narwhal")
    store.append_message("s", "user", TEXT)
    store.append_message("s", "user", "a database, a database, and data")
    return store


def corrected_words(store: Store, typed: str, *, is_typing: bool = False) -> str:
    query = correct_typos(store, Query.parse(typed, is_typing=is_typing))
    return " ".join(word for _, word in query.corrections) if query else ""


@pytest.mark.parametrize(
    ("typed", "corrected"),
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
def test_typos_are_corrected(archive: Store, typed: str, corrected: str) -> None:
    assert corrected_words(archive, typed) == corrected


@pytest.mark.parametrize(
    ("typed", "agent"),
    [("clod", "claude"), ("clawd", "claude"), ("coedx", "codex"), ("codx", "codex"), ("gose", "goose"), ("px", "pi")],
)
def test_a_name_is_corrected_by_its_consonants_then_by_its_letters(store: Store, typed: str, agent: str) -> None:
    for number, source in enumerate(["codex", "codex", "claude", "goose", "pi", "claude-ai"]):
        store.create_session(str(number), source=source)
    assert corrected_words(store, f"agent:{typed}") == f"agent:{agent}"


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
def test_queries_that_are_not_corrected(archive: Store, typed: str) -> None:
    assert corrected_words(archive, typed) == ""


def test_an_incomplete_word_is_corrected_as_a_prefix(archive: Store) -> None:
    assert corrected_words(archive, "migra", is_typing=True) == ""
    assert corrected_words(archive, "mirgat", is_typing=True) == "migrat…"
    assert corrected_words(archive, "mirgtai", is_typing=True) == "migration…"
    assert corrected_words(archive, "narwah", is_typing=True) == "narwha…"


def test_the_list_shows_the_results_of_the_corrected_query(archive: Store) -> None:
    shown = build_session_list(archive, SessionListOptions("databsae migartion "))
    assert [*shown.keys] == [archive.sessions.get("s").key]
    assert shown.query.corrections == (("databsae", "database"), ("migartion", "migration"))
    assert not build_session_list(archive, SessionListOptions("databsae migartion "), 50).keys, (
        "nothing is corrected while typing"
    )
    assert not build_session_list(archive, SessionListOptions("databsae -data ")).keys
    assert build_session_list(archive, SessionListOptions("databsae -data ")).query.corrections == (), (
        "a correction without results is not used"
    )


def test_the_most_frequent_word_is_preferred(store: Store) -> None:
    store.create_session("s")
    for word in ("barn", "bark", "bark"):
        store.append_message("s", "user", word)
    assert corrected_words(store, "barf") == "bark"


def test_every_kind_of_typo_is_tried_without_writing_to_the_store(archive: Store) -> None:
    variants = set(generate_one_typo_variants("word"))
    assert {"ord", "wrd", "owrd", "wodr", "words", "sword", "ward", "wore"} <= variants
    assert len(variants) < 300
    before = archive.connection.total_changes
    version = archive.row("pragma schema_version")
    corrected_words(archive, "migartion")
    assert (archive.connection.total_changes, archive.row("pragma schema_version")) == (before, version)


def test_only_a_limited_number_of_words_is_compared(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of forty thousand words with the same beginning, no more are read than the limit."""
    store.create_session("s")
    for part in range(10):
        store.append_message(
            "s", "user", " ".join(f"nearby{number:x}" for number in range(part * 4000, part * 4000 + 4000))
        )
    row_counts: list[int] = []
    read_rows = store.rows
    monkeypatch.setattr(store, "rows", lambda *values: row_counts.append(len(rows := read_rows(*values))) or rows)
    assert corrected_words(store, "nearbxxx") == ""
    assert max(row_counts) == 20_000
