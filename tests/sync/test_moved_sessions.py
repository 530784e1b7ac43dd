"""This module tests conversations in two places: their files were copied, and one copy grows; or they were moved."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from foreign_databases import (
    RUBICHAN_LATEST_SCHEMA,
    add_rubichan_messages,
    add_rubichan_session,
    execute_sql,
    make_database,
    stored_texts,
    sync_paths,
)
from source_samples import JSONL_SOURCES, SAMPLES

from store.sources import load_source
from store.sources.contract import Batch, SessionRef, SourceReader
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


# ── a store that was moved or renamed ─────────────────────────────────────────────────────────────


def record_reading(monkeypatch: pytest.MonkeyPatch, name: str, folder: Path) -> set[str]:
    """Return a set to which the native id of every session is added that is read from its beginning."""
    source = load_source(name)
    assert source is not None
    with source.open(str(folder)) as reader:
        read = type(reader).read
    native_ids: set[str] = set()

    def read_and_record(self: SourceReader, ref: SessionRef) -> Iterator[Batch]:
        native_ids.add(ref.native_id)
        return read(self, ref)

    monkeypatch.setattr(type(reader), "read", read_and_record)
    return native_ids


def dump_sessions(store: Store) -> list[tuple[object, ...]]:
    return store.rows("select id, native_id, entries, turns, parent_id, gone from sessions order by id")


@pytest.mark.parametrize("name", JSONL_SOURCES)
def test_a_renamed_home_is_not_read_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    old = SAMPLES[name](tmp_path)
    sync_paths(store, old)
    before = dump_sessions(store)
    new = old.rename(tmp_path / "elsewhere")
    read_ids = record_reading(monkeypatch, name, new)
    report = sync_paths(store, new)
    assert (report.new, report.updated, report.unchanged) == (0, 0, report.seen)
    assert not read_ids
    assert dump_sessions(store) == before
    assert store.rows("select locator from sources") == [(str(new),)]
    assert not store.rows("select name from places where name like ?", f"{old}/%")


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_home_on_another_disk_is_recognized_by_its_records(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    old = SAMPLES[name](tmp_path)
    sync_paths(store, old)
    before = dump_sessions(store)
    new = Path(shutil.copytree(old, tmp_path / "disk/home", copy_function=shutil.copyfile))
    shutil.rmtree(old)
    read_ids = record_reading(monkeypatch, name, new)
    report = sync_paths(store, new)
    assert report.new == 0
    assert dump_sessions(store) == before
    marked = {native_id for (native_id,) in store.rows("select native_id from sessions where mark != ''")}
    assert len(marked) > 3
    assert not read_ids & marked  # what has no mark is always read from its beginning


def test_a_moved_home_is_followed(store: Store, here: Path, tmp_path: Path) -> None:
    sync_paths(store, here)
    new = here.rename(tmp_path / "moved")
    append_prompt(new, "said after the move")
    report = sync_paths(store, new)
    assert (report.new, report.updated) == (0, 1)
    assert store.search.find("after the move")[1] == 1


def test_a_home_that_was_moved_and_made_again_is_not_read_again(
    store: Store, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync_paths(store, here)
    new = here.rename(tmp_path / "old codex")
    rollout = max(new.rglob("rollout-*.jsonl"), key=lambda path: path.name)
    other = here / "sessions" / rollout.name.replace("0a00", "0c00")
    other.parent.mkdir(parents=True)
    other.write_text(rollout.read_text().replace("0a00", "0c00"))
    sync_paths(store, here)
    assert store.row("select count(*) from sessions where gone")[0] > 5
    read_ids = record_reading(monkeypatch, "codex", new)
    report = sync_paths(store, new)
    assert (report.new, report.updated, report.unchanged) == (0, 0, report.seen)
    assert not read_ids
    assert store.row("select count(*) from sessions where gone") == (0,)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = make_database(tmp_path / "rubichan.db", RUBICHAN_LATEST_SCHEMA)
    add_rubichan_session(path, "a", ("user", "one"))
    add_rubichan_session(path, "b", ("user", "hello"))
    execute_sql(path, "insert into memories (working_dir, tag, content) values ('/x', 'a', 'a fact')")
    return path


def test_a_moved_database_keeps_its_sessions_and_facts(store: Store, database: Path, tmp_path: Path) -> None:
    sync_paths(store, database)
    before = dump_sessions(store)
    (fact,) = store.facts.current(None)
    new = database.rename(tmp_path / "renamed.db")
    report = sync_paths(store, new)
    assert (report.new, report.updated, report.unchanged) == (0, 0, 2)
    assert dump_sessions(store) == before
    assert [known.id for known in store.facts.current(None)] == [fact.id]
    store.facts.edit(fact.id, "a corrected fact")
    assert store.write_back.preview_facts(store.facts.get(fact.id)).locator == str(new)
    add_rubichan_messages(new, "a", 1, ("user", "two"))
    sync_paths(store, new)
    assert stored_texts(store, "a") == ["one", "two"]


def test_a_new_database_in_the_old_place_is_another_store(store: Store, database: Path, tmp_path: Path) -> None:
    sync_paths(store, database)
    sync_paths(store, database.rename(tmp_path / "renamed.db"))
    again = make_database(database, RUBICHAN_LATEST_SCHEMA)
    add_rubichan_session(again, "a", ("user", "something else"))
    assert sync_paths(store, again).new == 1
    assert len({session.id for session in store.sessions.newest(9) if session.native_id == "a"}) == 2
    assert not store.row("select 1 from sessions where relation = 'superseded'")


def test_another_database_with_equal_ids_is_not_taken_for_a_moved_one(
    store: Store, database: Path, tmp_path: Path
) -> None:
    sync_paths(store, database)
    database.unlink()
    other = make_database(tmp_path / "other.db", RUBICHAN_LATEST_SCHEMA)
    add_rubichan_session(other, "a", ("user", "something else"))
    assert sync_paths(store, other).new == 1
    assert len(store.sessions.newest(9)) == 3
