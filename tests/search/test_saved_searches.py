"""Tests searches that a person has named, and the last ones."""

from __future__ import annotations

import json
import stat

import pytest

from store.errors import BadValue, NotFound
from store.paths import recent_searches_file
from store.search.complete import Vocabulary, accept_completion, list_completions
from store.search.saved_searches import (
    MAX_RECENT,
    MAX_RECENT_CHARS,
    RecentSearches,
    SavedSearch,
    expand_saved_searches,
    find_unknown_names,
)
from store.store import Store

FAILS = SavedSearch("fails", "is:error agent:claude")
WORK = SavedSearch("Work.2", "tag:work", pinned=True)


def test_searches_are_saved_by_name_and_changed(store: Store) -> None:
    saved = store.saved_searches
    assert saved.save("@fails", " is:error agent:claude ") == FAILS
    saved.save("Work.2", "tag:work")
    assert saved.pin("work.2") == WORK
    assert saved.list_searches() == [WORK, FAILS]
    assert saved.save("WORK.2", "tag:home") == WORK._replace(query="tag:home")
    assert saved.rename("fails", "failed").name == "failed"
    saved.delete(["@failed", "Work.2", "work.2"])
    assert saved.list_searches() == []


def test_each_change_can_be_undone(store: Store) -> None:
    saved = store.saved_searches
    for change in (
        lambda: saved.save("a", "one"),
        lambda: saved.save("a", "two"),
        lambda: saved.pin("a"),
        lambda: saved.rename("a", "b"),
        lambda: saved.delete(["b"]),
    ):
        before = saved.list_searches()
        change()
        after = saved.list_searches()
        assert before != after
        store.journal.undo()
        assert saved.list_searches() == before
        change()
    assert store.journal.list_edits(limit=1)[0].kind == "delete search"


@pytest.mark.parametrize("name", ["", "@", "two words", "-x", "a" * 41, "a/b", "a\x1b"])
def test_a_bad_name_is_refused(store: Store, name: str) -> None:
    with pytest.raises(BadValue):
        store.saved_searches.save(name, "x")


def test_a_bad_query_a_taken_name_and_an_unknown_name_are_refused(store: Store) -> None:
    saved = store.saved_searches
    saved.save("a", "x")
    saved.save("b", "y")
    for refused in (
        lambda: saved.save("c", "  "),
        lambda: saved.save("c", "x" * 3_000),
        lambda: saved.rename("a", "B"),
    ):
        with pytest.raises(BadValue):
            refused()
    for unknown in (lambda: saved.pin("c"), lambda: saved.delete(["a", "c"]), lambda: saved.get("@c")):
        with pytest.raises(NotFound):
            unknown()
    assert len(saved.list_searches()) == 2
    assert saved.rename("a", "A").name == "A"


def test_a_search_that_names_another_is_saved_with_its_text(store: Store) -> None:
    store.saved_searches.save("a", "is:error")
    assert store.saved_searches.save("b", "@a upload").query == "is:error upload"


def test_a_value_of_another_program_is_read(store: Store) -> None:
    store.meta.set("saved search odd", "plain text")
    store.meta.set("saved search odder", '{"query": 7}')
    assert store.saved_searches.list_searches() == [SavedSearch("odd", "plain text"), SavedSearch("odder", "7")]
    assert store.meta.keys() == []


@pytest.mark.parametrize(
    ("typed", "expanded"),
    [
        ("@fails", FAILS.query),
        ("@FAILS upload", f"{FAILS.query} upload"),
        ("-draft @work.2", "-draft tag:work"),
        ("ada@fails @failsafe", "ada@fails @failsafe"),
        ('"@fails" @types/node', '"@fails" @types/node'),
        ("@fai", "@fai"),
        ("upload", "upload"),
    ],
)
def test_a_name_stands_for_the_text_of_its_search(typed: str, expanded: str) -> None:
    assert expand_saved_searches(typed, [FAILS, WORK]) == expanded


def test_the_beginning_of_a_name_is_left_out_while_it_is_typed() -> None:
    for typed, expanded in (("up @", "up "), ("up @fai", "up "), ("up @fails", f"up {FAILS.query}"), ("@fax", "@fax")):
        assert expand_saved_searches(typed, [FAILS, WORK], is_typing=True) == expanded


def test_unknown_names_are_found() -> None:
    assert find_unknown_names("@fails @nope ada@x @types/node", [FAILS]) == ["nope"]


def test_names_are_completed() -> None:
    assert list_completions("up @", 4, Vocabulary(), [FAILS, WORK]) == ["@fails", "@Work.2"]
    assert list_completions("up @w", 5, Vocabulary(), [FAILS, WORK]) == ["@Work.2"]
    assert list_completions("@fails", 6, Vocabulary(), [FAILS]) == []
    assert accept_completion("up @w", 5, "@Work.2") == ("up @Work.2 ", 11)


# ── recent searches ───────────────────────────────────────────────────────────────────────────────


def test_the_last_searches_are_kept_once_and_the_newest_first() -> None:
    recent = RecentSearches()
    assert recent.list_queries() == []
    for query in ("one", " two ", "one", "", " ", "x" * (MAX_RECENT_CHARS + 1)):
        recent.add(query)
    assert recent.list_queries() == ["one", "two"]
    recent.remove("one")
    assert recent.list_queries() == ["two"]
    for number in range(MAX_RECENT + 5):
        recent.add(f"query {number}")
    assert len(recent.list_queries()) == MAX_RECENT
    assert recent.list_queries()[0] == f"query {MAX_RECENT + 4}"
    assert stat.S_IMODE(recent_searches_file().stat().st_mode) == 0o600
    recent.clear()
    recent.clear()
    assert recent.list_queries() == []
    assert not recent_searches_file().exists()


@pytest.mark.parametrize("content", ["", "{}", '[1, null, "ok"]', "nonsense"])
def test_a_damaged_file_is_no_error(content: str) -> None:
    RecentSearches().add("x")
    recent_searches_file().write_text(content)
    assert RecentSearches().list_queries() in ([], ["ok"])
    RecentSearches().add("new")
    assert json.loads(recent_searches_file().read_text())[0] == "new"
