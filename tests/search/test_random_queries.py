"""These tests pass ten thousand random texts to everything that takes a query, and expect no exception."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from browser_driver import NOW, fill_store

from store.search import all_tool_calls
from store.search.complete import Vocabulary, accept_completion, list_completions
from store.search.explain import explain_corrections, explain_query
from store.search.list_rows import SessionListOptions
from store.search.query import FILTERS, Query
from store.search.session_list import build_session_list, load_rows
from store.search.typos import correct_typos
from store.store import Store

TEXTS = 10_000
PIECES = [
    '"',
    "-",
    "*",
    "OR",
    "AND",
    "NOT",
    "NEAR(",
    " ",
    " ",
    ":",
    "(",
    ")",
    "^",
    "{",
    "+",
    "'",
    ";",
    "%",
    "_",
    "\\",
    "\0",
]
PIECES += [
    "\x1b[2J",
    "\ud800",
    "\udfff",
    "\u202e",
    "\ufeff",
    "e\u0301",
    "ﬃ",
    "İ",
    "ß",
    "失",
    "한",
    "👩‍👩‍👧",
    "\U0010ffff",
    "\n",
    "\t",
]
PIECES += [
    "3d",
    "error",
    "today",
    "0000-1-1",
    "9999-12-31",
    "99999y",
    "upload",
    "retry",
    "pytest",
    "uplaod",
    "clau",
    "--",
    "…",
]
PIECES += [f"{name}:" for name in FILTERS] + [f"-{name.upper()}:" for name in FILTERS]


def make_text(randomness: random.Random) -> str:
    pieces = (
        randomness.choice(PIECES) if randomness.random() < 0.7 else chr(randomness.randrange(0x110000))
        for _ in range(randomness.randrange(9))
    )
    return "".join(pieces) * (1 if randomness.random() < 0.98 else 200)


@pytest.fixture
def world(store: Store) -> Store:
    fill_store(store)
    return store


def search_while_typing(store: Store, typed: str) -> None:
    vocabulary = Vocabulary(agents=("claude", "co dex"), tools=("Bash", typed))
    for completion in list_completions(typed, len(typed), vocabulary)[:2]:
        accept_completion(typed, len(typed), completion)
    for is_typing in (False, True):
        query = Query.parse(typed, is_typing=is_typing)
        assert isinstance(explain_query(query, NOW) + query.warning_text + explain_corrections(query), str)
    query.pattern()
    layout = build_session_list(store, SessionListOptions(typed), 50, NOW)
    load_rows(store, layout.keys, layout.query)
    store.search.find_by_area(query, now=NOW)
    all_tool_calls.find_calls(store, query, limit=5, now=NOW)


def search_after_typing(store: Store, typed: str) -> None:
    """Run the slower searches that start after a pause in typing."""
    query = Query.parse(typed)
    build_session_list(store, SessionListOptions(typed), now=NOW)
    store.sessions.matching(query, now=NOW)
    correct_typos(store, query, ["conversation_fts", "tools_fts"])
    all_tool_calls.compute_tool_stats(store, query, now=NOW)
    all_tool_calls.count_calls(store, query, NOW)
    query.pattern(ignore_accents=True)


@pytest.mark.parametrize(("search", "texts"), [(search_while_typing, TEXTS), (search_after_typing, TEXTS // 20)])
def test_random_texts_raise_nothing(world: Store, search: Callable[[Store, str], None], texts: int) -> None:
    randomness = random.Random(20_261_103)
    for number in range(texts):
        typed = make_text(randomness)
        try:
            search(world, typed)
        except Exception as error:
            raise AssertionError(f"text {number}, {typed!r}") from error


@pytest.mark.parametrize("search", [search_while_typing, search_after_typing])
def test_long_texts_raise_nothing(world: Store, search: Callable[[Store, str], None]) -> None:
    """A person may paste a page of text, of one long word or of quotes."""
    for typed in (
        Path(__file__).read_text("utf-8"),
        "x" * 100_000,
        '"' * 10_000,
        "a OR " * 5_000,
        "失" * 20_000,
        "-a " * 9_000,
    ):
        search(world, typed)
    assert sys.getrecursionlimit() <= 1_000, "the recursion limit was not raised"
