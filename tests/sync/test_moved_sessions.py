"""This module tests one conversation in two places: its files were copied, and one copy grows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from foreign_databases import sync_paths

from store.store import Store

SAMPLE = Path(__file__).parents[1] / "data/codex"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "here"))


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "there"))


def session_ids(store: Store) -> set[str]:
    return {session.id for session in store.sessions.newest(100)}


def append_prompt(folder: Path, words: str) -> None:
    newest = max(folder.rglob("rollout-*.jsonl"), key=lambda path: path.name)
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}
    line = {"timestamp": "2036-01-01T00:00:00.000Z", "type": "response_item", "payload": message}
    with newest.open("a") as file:
        file.write(json.dumps(line) + "\n")


def test_a_copy_adds_no_session_and_no_problem(store: Store, here: Path, there: Path) -> None:
    sync_paths(store, here)
    before = session_ids(store)
    report = sync_paths(store, there)
    assert (report.new, report.updated, report.problems) == (0, 0, [])
    assert report.unchanged == report.seen > 0
    assert session_ids(store) == before


def test_the_copy_that_grows_is_followed_and_nothing_is_lost(store: Store, here: Path, there: Path) -> None:
    sync_paths(store, here)
    append_prompt(there, "said over there")
    report = sync_paths(store, there)
    assert (report.new, report.updated, report.problems) == (0, 1, [])
    assert [hit.snippet for hit in store.search.find("over there")[0]] == ["said over there"]
    append_prompt(here, "")  # changes the file, so that it is read again
    sync_paths(store, here)
    assert store.search.find("over there")[1] == 1
    assert not store.row("select 1 from sessions where relation = 'superseded'")
