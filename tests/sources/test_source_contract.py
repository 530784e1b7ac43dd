"""What every source owes, whatever it reads: one shape, its own stores and no other's, everything told and nothing told
again, and a way back to its program."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from foreign_databases import sync_paths
from source_samples import JSONL_SOURCES, SAMPLES, find_missing_records

from store import sources
from store.conversations.derive import derive_rows
from store.resume.command import plan_resume
from store.sources.contract import ResumeCommand, Source
from store.sources.kit.sqlite import BATCH_ENTRIES
from store.store import Store

every_source = pytest.mark.parametrize("source", sources.ALL, ids=lambda source: source.name)


@pytest.fixture
def sample(tmp_path: Path, source: Source) -> Path:
    return SAMPLES[source.name](tmp_path)


@every_source
def test_it_has_the_one_shape(source: Source) -> None:
    assert sources.load_source(source.name) is source
    assert source.label
    assert source.badge == sources.REGISTRY[source.name].badge
    assert source.reader_version >= 1
    assert all(isinstance(root, str) for root in source.roots())
    assert source.describe_home()


@every_source
def test_it_knows_its_own_and_nothing_else(source: Source, sample: Path, tmp_path: Path) -> None:
    assert [one.name for one in sources.ALL if one.detect(str(sample))] == [source.name]
    (tmp_path / "empty").mkdir()
    for other in (os.devnull, str(tmp_path / "empty"), str(tmp_path / "nowhere"), __file__):
        assert not source.detect(other)
    assert source.stamp(str(tmp_path / "nowhere")) == ""


@every_source
def test_its_stamp_tells_that_something_moved(source: Source, sample: Path) -> None:
    before = source.stamp(str(sample))
    assert before
    assert source.stamp(str(sample)) == before
    if sample.is_dir():
        newest = max(sample.rglob("*.json*"), key=lambda path: path.stat().st_size)
        newest.write_bytes(newest.read_bytes() + b"\n")
    else:
        with closing(sqlite3.connect(sample)) as owner:
            owner.execute("pragma user_version = 77")
    assert source.stamp(str(sample)) != before


@every_source
def test_a_scan_names_each_session_once_and_each_can_be_read(source: Source, sample: Path) -> None:
    with source.open(str(sample)) as opened:
        refs = list(opened.scan())
        assert refs
        assert len({ref.native_id for ref in refs}) == len(refs)
        for ref in refs:
            batches = list(opened.read(ref))
            assert batches[0].fields is not None
            assert ref.stamp or batches[-1].stamp
            for batch in batches:
                assert len(batch.entries) <= 2 * BATCH_ENTRIES
                assert all(entry.record for entry in batch.entries)
                derive_rows(batch.entries)
    with source.open(str(sample)) as opened:
        assert list(opened.scan()) == refs


@every_source
def test_files_that_grow_are_told_of_the_same_with_and_without_opening_them(source: Source, sample: Path) -> None:
    with source.open(str(sample)) as opened:
        if (files := opened.scan_files()) is not None:
            told = [ref for head in files for ref in (head, *opened.scan_branches(head))]
            assert sorted(told, key=str) == sorted(opened.scan(), key=str)


@every_source
def test_everything_is_kept_and_a_second_sync_writes_nothing(source: Source, sample: Path, store: Store) -> None:
    report = sync_paths(store, sample)
    assert (report.source, report.problems) == (source.name, [])
    assert report.new == report.seen > 0
    assert find_missing_records(source.name, sample, store) == []
    before = store.connection.total_changes
    again = sync_paths(store, sample)
    assert (again.seen, again.new, again.updated, again.unchanged) == (report.seen, 0, 0, report.seen)
    assert store.connection.total_changes == before


@every_source
def test_a_touched_store_brings_nothing_new(source: Source, sample: Path, store: Store) -> None:
    sync_paths(store, sample)
    (entries,) = store.row("select count(*) from entries")
    for path in sample.rglob("*") if sample.is_dir() else [sample]:
        os.utime(path)
    report = sync_paths(store, sample)
    assert (report.new, report.problems) == (0, [])
    assert store.row("select count(*) from entries") == (entries,)
    assert not store.row("select 1 from sessions where relation = 'superseded'")


@pytest.mark.parametrize(
    "source", [one for one in sources.ALL if one.name in JSONL_SOURCES], ids=lambda source: source.name
)
def test_what_vanished_stays_and_says_so_and_may_come_back(source: Source, sample: Path, store: Store) -> None:
    sync_paths(store, sample)
    kept = {session.id for session in store.sessions.newest(100)}
    path = max(sample.rglob("*.jsonl"), key=lambda path: path.stat().st_size)
    away = path.rename(path.with_suffix(".away"))
    assert sync_paths(store, sample).new == 0
    assert {session.id for session in store.sessions.newest(100)} == kept
    assert 0 < len([session for session in store.sessions.newest(100) if session.gone]) < len(kept)
    away.rename(path)
    assert sync_paths(store, sample).new == 0
    assert not [session for session in store.sessions.newest(100) if session.gone]


@every_source
def test_every_session_can_be_gone_on_with_or_it_says_why_not(source: Source, sample: Path, store: Store) -> None:
    sync_paths(store, sample)
    for session in store.sessions.newest(100):
        found = source.resume(session)
        assert isinstance(found, ResumeCommand)
        assert found.cwd == session.cwd or not found.argv
        if found.argv is None:
            assert found.hint.endswith(".")
        else:
            assert all(isinstance(word, str) and word for word in found.argv)
        assert plan_resume(session).command or plan_resume(session).hint
