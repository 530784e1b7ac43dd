"""One conversation in two places: files that were moved or copied, and an export made again."""

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


def ids(store: Store) -> set[str]:
    return {session.id for session in store.sessions.newest(100)}


def grow(place: Path, words: str) -> None:
    newest = max(place.rglob("rollout-*.jsonl"), key=lambda path: path.name)
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}
    line = {"timestamp": "2036-01-01T00:00:00.000Z", "type": "response_item", "payload": said}
    with newest.open("a") as file:
        file.write(json.dumps(line) + "\n")


def test_a_copy_brings_nothing_new_and_no_problem(store: Store, here: Path, there: Path) -> None:
    sync_paths(store, here)
    before = ids(store)
    report = sync_paths(store, there)
    assert (report.new, report.updated, report.problems) == (0, 0, [])
    assert report.unchanged == report.seen > 0
    assert ids(store) == before


def test_whichever_place_goes_on_is_followed_and_nothing_is_taken_back(store: Store, here: Path, there: Path) -> None:
    sync_paths(store, here)
    grow(there, "said over there")
    report = sync_paths(store, there)
    assert (report.new, report.updated, report.problems) == (0, 1, [])
    assert [hit.snippet for hit in store.search.find("over there")[0]] == ["said over there"]
    grow(here, "")  # changes the file, so that it is looked at again
    sync_paths(store, here)
    assert store.search.find("over there")[1] == 1
    assert not store.row("select 1 from sessions where relation = 'superseded'")
