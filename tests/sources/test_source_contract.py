"""These tests check every source: its stores are recognized, everything is read once, and sessions can be resumed."""

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

every_source = pytest.mark.parametrize("source", sources.all_sources(), ids=lambda source: source.name)


@pytest.fixture
def sample(tmp_path: Path, source: Source) -> Path:
    return SAMPLES[source.name](tmp_path)


@every_source
def test_the_source_is_registered_and_described(source: Source) -> None:
    assert sources.load_source(source.name) is source
    assert source.label
    assert source.badge == sources.REGISTRY[source.name].badge
    assert source.reader_version >= 1
    assert all(isinstance(root, str) for root in source.roots())
    assert source.describe_home()


@every_source
def test_only_its_own_stores_are_recognized(source: Source, sample: Path, tmp_path: Path) -> None:
    assert [candidate.name for candidate in sources.all_sources() if candidate.detect(str(sample))] == [source.name]
    (tmp_path / "empty").mkdir()
    for other in (os.devnull, str(tmp_path / "empty"), str(tmp_path / "nowhere"), __file__):
        assert not source.detect(other)
    assert source.stamp(str(tmp_path / "nowhere")) == ""


@every_source
def test_the_stamp_differs_after_a_change(source: Source, sample: Path) -> None:
    before = source.stamp(str(sample))
    assert before
    assert source.stamp(str(sample)) == before
    if sample.is_dir():
        largest = max(sample.rglob("*.json*"), key=lambda path: path.stat().st_size)
        largest.write_bytes(largest.read_bytes() + b"\n")
    else:
        with closing(sqlite3.connect(sample)) as connection:
            connection.execute("pragma user_version = 77")
    assert source.stamp(str(sample)) != before


@every_source
def test_a_scan_names_each_session_once_and_each_can_be_read(source: Source, sample: Path) -> None:
    with source.open(str(sample)) as reader:
        refs = list(reader.scan())
        assert refs
        assert len({ref.native_id for ref in refs}) == len(refs)
        for ref in refs:
            batches = list(reader.read(ref))
            assert batches[0].fields is not None
            assert ref.stamp or batches[-1].stamp
            for batch in batches:
                assert len(batch.entries) <= 2 * BATCH_ENTRIES
                assert all(entry.record for entry in batch.entries)
                derive_rows(batch.entries)
    with source.open(str(sample)) as reader:
        assert list(reader.scan()) == refs


@every_source
def test_scanning_files_finds_the_same_sessions_as_a_full_scan(source: Source, sample: Path) -> None:
    with source.open(str(sample)) as reader:
        if (files := reader.scan_files()) is not None:
            refs = [ref for file_ref in files for ref in (file_ref, *reader.scan_branches(file_ref))]
            assert sorted(refs, key=str) == sorted(reader.scan(), key=str)


@every_source
def test_every_record_is_stored_and_a_second_sync_writes_nothing(source: Source, sample: Path, store: Store) -> None:
    report = sync_paths(store, sample)
    assert (report.source, report.problems) == (source.name, [])
    assert report.new == report.seen > 0
    assert find_missing_records(source.name, sample, store) == []
    before = store.connection.total_changes
    second_report = sync_paths(store, sample)
    assert (second_report.seen, second_report.new, second_report.updated, second_report.unchanged) == (
        report.seen,
        0,
        0,
        report.seen,
    )
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
    "source",
    [source for source in sources.all_sources() if source.name in JSONL_SOURCES],
    ids=lambda source: source.name,
)
def test_deleted_files_stay_as_gone_sessions_until_they_return(source: Source, sample: Path, store: Store) -> None:
    sync_paths(store, sample)
    session_ids = {session.id for session in store.sessions.newest(100)}
    path = max(sample.rglob("*.jsonl"), key=lambda path: path.stat().st_size)
    moved_path = path.rename(path.with_suffix(".away"))
    assert sync_paths(store, sample).new == 0
    assert {session.id for session in store.sessions.newest(100)} == session_ids
    assert 0 < len([session for session in store.sessions.newest(100) if session.gone]) < len(session_ids)
    moved_path.rename(path)
    assert sync_paths(store, sample).new == 0
    assert not [session for session in store.sessions.newest(100) if session.gone]


@every_source
def test_every_session_can_be_resumed_or_has_a_hint(source: Source, sample: Path, store: Store) -> None:
    sync_paths(store, sample)
    for session in store.sessions.newest(100):
        command = source.resume(session)
        assert isinstance(command, ResumeCommand)
        assert command.cwd == session.cwd or not command.argv
        if command.argv is None:
            assert command.hint.endswith(".")
        else:
            assert all(isinstance(argument, str) and argument for argument in command.argv)
        assert plan_resume(session).command or plan_resume(session).hint


@every_source
def test_a_call_whose_beginning_and_end_are_known_has_a_duration(source: Source, sample: Path, store: Store) -> None:
    sync_paths(store, sample)
    calls = store.rows(
        """
        select call_id, called.created_at, answered.created_at, duration_ms from tool_calls
        join entries called on called.key = entry join entries answered on answered.key = result_entry
        """
    )
    for call_id, called_at, answered_at, duration_ms in calls:
        if called_at and answered_at > called_at:
            assert duration_ms is not None, call_id
