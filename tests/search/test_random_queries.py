"""Whatever is typed is a search: ten thousand random texts through all that reads one, and nothing is raised."""

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


def text(dice: random.Random) -> str:
    drawn = (
        dice.choice(PIECES) if dice.random() < 0.7 else chr(dice.randrange(0x110000)) for _ in range(dice.randrange(9))
    )
    return "".join(drawn) * (1 if dice.random() < 0.98 else 200)


@pytest.fixture
def world(store: Store) -> Store:
    fill_store(store)
    return store


def tried(store: Store, typed: str) -> None:
    known = Vocabulary(agents=("claude", "co dex"), tools=("Bash", typed))
    for offer in list_completions(typed, len(typed), known)[:2]:
        accept_completion(typed, len(typed), offer)
    for typing in (False, True):
        query = Query.parse(typed, is_typing=typing)
        assert isinstance(explain_query(query, NOW) + query.warning_text + explain_corrections(query), str)
    query.pattern()
    found = build_session_list(store, SessionListOptions(typed), 50, NOW)
    load_rows(store, found.keys, found.query)
    store.search.find_by_area(query, now=NOW)
    all_tool_calls.find_calls(store, query, limit=5, now=NOW)


def more(store: Store, typed: str) -> None:
    """What follows after a pause, and takes longer."""
    query = Query.parse(typed)
    build_session_list(store, SessionListOptions(typed), now=NOW)
    store.sessions.matching(query, now=NOW)
    correct_typos(store, query, ["conversation_fts", "tools_fts"])
    all_tool_calls.compute_tool_stats(store, query, now=NOW)
    all_tool_calls.count_calls(store, query, NOW)
    query.pattern(ignore_accents=True)


@pytest.mark.parametrize(("read", "texts"), [(tried, TEXTS), (more, TEXTS // 20)])
def test_random_texts_raise_nothing(world: Store, read: Callable[[Store, str], None], texts: int) -> None:
    dice = random.Random(20_261_103)
    for number in range(texts):
        typed = text(dice)
        try:
            read(world, typed)
        except Exception as reason:
            raise AssertionError(f"text {number}, {typed!r}") from reason


@pytest.mark.parametrize("read", [tried, more])
def test_long_texts_raise_nothing(world: Store, read: Callable[[Store, str], None]) -> None:
    """A page that was pasted: of text, of one word, of quotes."""
    for typed in (
        Path(__file__).read_text("utf-8"),
        "x" * 100_000,
        '"' * 10_000,
        "a OR " * 5_000,
        "失" * 20_000,
        "-a " * 9_000,
    ):
        read(world, typed)
    assert sys.getrecursionlimit() <= 1_000, "and none of it by allowing more"
