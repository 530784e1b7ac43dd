"""Tests which sessions are found in tool calls only."""

from __future__ import annotations

from datetime import datetime

import pytest
from browser_driver import NOW, add_session, prompt_entry, time_ago
from sample_conversations import make_call_entries

from store.search.list_rows import SessionListOptions
from store.search.query import Query
from store.search.session_list import build_session_list
from store.store import Store


@pytest.fixture
def tool_store(store: Store) -> Store:
    for hours, name, said in ((1, "a", "see"), (2, "b", "see the seal"), (3, "c", "skip this")):
        at = time_ago(hours=hours)
        add_session(
            store, name, at, prompt_entry(said, at), *make_call_entries(1, "Bash", "seal", 1), cwd=f"/code/{name}"
        )
    return store


def find(store: Store, text: str, folder: str = "", now: datetime = NOW, **options: int) -> list[str]:
    found = store.search.find_tool_hits(Query.parse(text), folder, now=now, **options)  # type: ignore[arg-type]
    return [hit.session_id for hit in found.hits.values()]


def test_sessions_that_match_otherwise_are_left_out(tool_store: Store) -> None:
    assert find(tool_store, "seal") == ["a", "c"]
    assert find(tool_store, "seal did") == ["a", "b", "c"]
    assert find(tool_store, "walrus") == []
    listed = [tool_store.sessions.get("a").key]
    found = tool_store.search.find_tool_hits(Query.parse("seal"), listed=listed, now=NOW)
    assert [hit.session_id for hit in found.hits.values()] == ["b", "c"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("seal -skip", ["a"]),
        ("seal tool:bash", ["a", "c"]),
        ("seal tool:read", []),
        ("seal is:pinned", []),
        ("tool:bash", []),
        ("seal after:90d", []),
    ],
)
def test_filters_and_excluded_words_apply(tool_store: Store, text: str, found: list[str]) -> None:
    assert find(tool_store, text) == found


def test_a_folder_and_a_limit_apply(tool_store: Store) -> None:
    assert find(tool_store, "seal", "/code/c") == ["c"]
    found = tool_store.search.find_tool_hits(Query.parse("seal"), limit=1, now=NOW)
    assert ([hit.session_id for hit in found.hits.values()], found.has_more) == (["a"], True)


def test_deleted_sessions_are_not_found(tool_store: Store) -> None:
    tool_store.sessions.delete([tool_store.sessions.get("a")])
    assert find(tool_store, "seal") == ["c"]
    assert find(tool_store, "seal is:trashed") == ["a"]


def test_a_list_gets_them_at_its_end_once(tool_store: Store) -> None:
    layout = build_session_list(tool_store, SessionListOptions(query="seal"), now=NOW)
    found = tool_store.search.find_tool_hits(Query.parse("seal"), listed=(), now=NOW)
    extended = layout.with_tool_hits(found)
    names = [tool_store.sessions.by_key(key).id for key in extended.keys]
    assert (names, extended.total) == (["b", "a", "c"], 1)
    assert extended.headings[-1][:] == (1, "tool output", 2)
    assert layout.with_tool_hits(found._replace(hits={})).keys == layout.keys
