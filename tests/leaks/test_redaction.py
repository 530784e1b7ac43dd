"""Checks that a redaction clears every place of a value, that a sync notices nothing, and that an undo restores all."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from planted_secrets import (
    AWS_KEY,
    GROQ_KEY,
    TRANSCRIPT,
    claude_lines,
    digest_files,
    find_in_files,
    find_in_store,
    plant_in_home,
    redact,
    scan,
    sync,
    undo,
    write_file,
)
from store_integrity import find_faults

from store.doctor import check_store
from store.errors import NotFound, NothingToUndo, Refused, StoreError
from store.leaks.found_values import read_found_values
from store.leaks.redaction import own_redaction
from store.leaks.redaction.own_texts import TextWriter
from store.model.entry import NewEntry, NewRecord, Text, Thinking, ToolCall, ToolResult
from store.store import Store
from store.sync.refresh import sync_known_stores


def add_texts(store: Store, key: str) -> None:
    """Write the value into every kind of text that only our store has."""
    session = store.sessions.create("own")
    parts = (
        Text(f"say {key}"),
        Thinking(f"hm {key}"),
        ToolCall("1", "bash", {"env": [{"TOKEN": key, "more": "x" * 200}]}),
    )
    store.chains.append(session.key, [NewEntry(role="user", parts=(Text(f"use {key} now"),))])
    store.chains.append(session.key, [NewEntry(role="assistant", parts=parts)])
    store.chains.append(session.key, [NewEntry(role="tool", parts=(ToolResult("1", {"out": f"{key} " * 9}),))])
    session = store.sessions.by_key(session.key)
    store.sessions.set_title(session, f"Rotate {key}")
    store.sessions.set_title(store.sessions.by_key(session.key), "Rotate it")
    store.notes.add_note(session, f"was {key}")
    store.facts.learn(f"the bot uses {key}")
    store.summaries.set(session, f"We leaked {key}.")


def test_no_place_of_our_store_keeps_the_value_and_an_undo_restores_all(store: Store) -> None:
    add_texts(store, AWS_KEY)
    tables = ("entries", "sessions", "notes", "facts", "edits")
    before = {table: store.rows(f"select * from {table}") for table in tables}
    assert find_in_store(store, AWS_KEY)
    report = redact(store, scan(store)["aws-access-key"].fingerprint)
    assert (report.state, report.left, report.remaining) == ("done", (), ())
    assert find_in_store(store, AWS_KEY) == []
    assert scan(store) == {}
    assert store.row("select text from notes")[0].startswith("was [redacted: aws-access-key #")
    assert store.search.find(AWS_KEY)[1] == 0
    assert store.search.find("redacted")[1] > 0
    assert [finding.what for finding in check_store(store)] == []
    assert undo(store, report.id).state == "undone"
    for table, rows in before.items():
        assert store.rows(f"select * from {table}")[: len(rows)] == rows
    assert store.search.find(AWS_KEY)[1] > 0
    assert [finding.what for finding in check_store(store)] == []
    assert scan(store)["aws-access-key"].places


def add_long_sessions(store: Store) -> None:
    """Write sessions with the value in records, and in what is derived from them, at the end of a title, too."""
    for name in ("one", "two", "three"):
        session = store.sessions.create(name)
        for number in range(4):
            parts = (Text(f"{'Say' * 20 if number else 'Use'} {AWS_KEY} {number}"), Thinking("long " * 200))
            raw = NewRecord(json.dumps({"text": f"{name} {number} uses {AWS_KEY}"}).encode())
            entry = NewEntry(role="user" if number % 2 == 0 else "assistant", parts=parts, record=raw)
            store.chains.append(session.key, [entry])
        store.notes.add_note(store.sessions.by_key(session.key), f"{name} was {AWS_KEY}")


TABLES = ("entries", "sessions", "notes", "records", "turns", "edits")


def read_tables(store: Store) -> dict[str, list[object]]:
    return {table: store.rows(f"select * from {table}") for table in TABLES}


def test_many_batches_change_the_same_as_one(
    store: Store, tmp_path: Path, blank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {}
    for size in (own_redaction.BATCH_BYTES, 1):
        monkeypatch.setattr(own_redaction, "BATCH_BYTES", size)
        with Store.open(shutil.copy(blank, tmp_path / f"{size}.db")) as other:
            add_long_sessions(other)
            before = read_tables(other)
            fingerprint = scan(other)["aws-access-key"].fingerprint
            report = redact(other, fingerprint)
            assert (report.state, report.left, report.count) == ("done", (), 18)
            assert find_in_store(other, AWS_KEY) == []
            assert other.search.find("redacted")[1] > 0
            entries = [text for (text,) in other.rows("select text from entries order by key")]
            titles = [session.title for session in other.sessions.newest()]
            texts[size] = [text.replace(fingerprint, "") for text in (*entries, *titles)]
            assert undo(other, report.id).state == "undone"
            after = read_tables(other)
            for table in ("entries", "sessions", "notes", "turns"):
                assert after[table] == before[table], table
            assert [finding.what for finding in check_store(other)] == []
    assert texts[1] == texts[own_redaction.BATCH_BYTES]


def test_a_redaction_that_fails_between_batches_changes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    add_long_sessions(store)
    fingerprint = scan(store)["aws-access-key"].fingerprint
    before = read_tables(store)
    write, batches = TextWriter.write, []

    def fail_in_the_end(self: TextWriter, texts: Mapping[Any, bytes], records: Mapping[int, Any]) -> None:
        batches.append((len(texts), len(records)))
        if sum(records for _, records in batches) == 12:
            raise sqlite3.OperationalError("disk I/O error")
        write(self, texts, records)

    with monkeypatch.context() as patch:
        patch.setattr(own_redaction, "BATCH_BYTES", 1)
        patch.setattr(TextWriter, "write", fail_in_the_end)
        with pytest.raises((StoreError, sqlite3.Error)):
            redact(store, fingerprint)
    assert {records for _, records in batches} == {0, 1}
    assert len(batches) > 12
    assert read_tables(store) == before
    assert store.leaks.redactions.list_all() == []
    assert redact(store, fingerprint).left == ()
    assert find_in_store(store, AWS_KEY) == []


def test_every_file_of_the_agents_is_cleared_and_restored(store: Store, home: Path) -> None:
    planted = plant_in_home(home)
    sync(store)
    assert find_faults(store.path) == []
    files = digest_files(home)
    times = {path: path.stat().st_mtime_ns for path in planted}
    sessions = store.rows("select id, turns, entries, tool_calls from sessions order by id")
    fingerprint = scan(store)["aws-access-key"].fingerprint
    preview = store.leaks.redactions.preview([fingerprint])
    assert {place.path for place in preview.places if place.is_foreign} == {str(path) for path in planted}
    assert not preview.problems
    report = redact(store, fingerprint)
    assert (report.left, report.count) == ((), preview.count)
    assert find_in_files([home], AWS_KEY) == []
    assert find_in_store(store, AWS_KEY) == []
    assert scan(store) == {}
    assert {path: path.stat().st_mtime_ns for path in planted} == times
    for path in planted:
        if path.suffix == ".jsonl":
            [json.loads(line) for line in path.read_text().splitlines()]
    assert_sync_writes_nothing(store)
    assert store.rows("select id, turns, entries, tool_calls from sessions order by id") == sessions
    assert undo(store, report.id).left == ()
    assert digest_files(home).items() >= files.items()
    assert find_faults(store.path) == []
    assert_sync_writes_nothing(store)
    assert store.rows("select id, turns, entries, tool_calls from sessions order by id") == sessions


def assert_sync_writes_nothing(store: Store) -> None:
    """Check a sync after the one that takes note of the new stamps."""
    sync_known_stores(store)
    version = store.row("pragma data_version")
    changes = store.connection.total_changes
    reports = sync(store)
    assert [(report.new, report.updated, report.problems) for report in reports] == [(0, 0, [])] * len(reports)
    assert (store.row("pragma data_version"), store.connection.total_changes) == (version, changes)


def test_lines_ids_and_chains_stay(store: Store, home: Path) -> None:
    plant_in_home(home)
    sync(store)
    old = [json.loads(line) for line in (home / TRANSCRIPT).read_text().splitlines()]
    redact(store, scan(store)["aws-access-key"].fingerprint)
    new = [json.loads(line) for line in (home / TRANSCRIPT).read_text().splitlines()]
    assert len(new) == len(old)
    for name in ("uuid", "parentUuid", "sessionId", "timestamp", "type"):
        assert [line[name] for line in new] == [line[name] for line in old]
    assert new[0]["message"]["content"].startswith("use [redacted: aws-access-key #")


def test_only_the_chosen_values_are_redacted(store: Store, home: Path) -> None:
    write_file(home / TRANSCRIPT, claude_lines(f"use {AWS_KEY} and {GROQ_KEY}", "ok"))
    sync(store)
    first = redact(store, scan(store)["aws-access-key"].fingerprint)
    assert list(scan(store)) == ["groq-key"]
    second = redact(store, scan(store)["groq-key"].fingerprint)
    assert scan(store) == {}
    undo(store, first.id)  # not the newest one
    assert list(scan(store)) == ["aws-access-key"]
    undo(store, second.id)
    assert (home / TRANSCRIPT).read_text() == claude_lines(f"use {AWS_KEY} and {GROQ_KEY}", "ok")
    assert find_faults(store.path) == []


def test_what_already_said_redacted_stays_so(store: Store, home: Path) -> None:
    write_file(home / TRANSCRIPT, claude_lines(f"use {AWS_KEY}", "ok"))
    sync(store)
    fingerprint = scan(store)["aws-access-key"].fingerprint
    mark = f"[redacted: aws-access-key #{fingerprint}]"
    text = claude_lines(f"use {mark} or {AWS_KEY} or {mark}", "ok", f"{AWS_KEY}", f"{mark}")
    write_file(home / TRANSCRIPT, text)
    sync(store)
    report = redact(store, scan(store)["aws-access-key"].fingerprint)
    assert (home / TRANSCRIPT).read_text().count(mark) == 5
    undo(store, report.id)
    assert (home / TRANSCRIPT).read_text() == text


def test_a_file_that_grew_keeps_what_was_added_when_it_is_restored(store: Store, home: Path) -> None:
    old = claude_lines(f"use {AWS_KEY}", "ok")
    path = write_file(home / TRANSCRIPT, old)
    sync(store)
    report = redact(store, scan(store)["aws-access-key"].fingerprint)
    more = claude_lines("use", "ok", "more", "yes").split("\n", 2)[2]
    write_file(path, path.read_text() + more)
    sync(store)
    assert undo(store, report.id).left == ()
    assert path.read_text() == old + more
    sync(store)
    assert store.row("select count(*) from sessions where relation = 'superseded'") == (0,)


def test_the_journal_undoes_a_redaction(store: Store, home: Path) -> None:
    write_file(home / TRANSCRIPT, claude_lines(f"use {AWS_KEY}", "ok"))
    sync(store)
    redact(store, scan(store)["aws-access-key"].fingerprint)
    edit = store.journal.undo()
    assert edit.kind == "redact leaks"
    assert AWS_KEY in (home / TRANSCRIPT).read_text()
    with pytest.raises(Refused, match="leaks redact"):
        store.journal.undo(store.journal.list_edits()[0].id)
    with pytest.raises(NothingToUndo):
        store.journal.undo()


def test_what_was_forgotten_cannot_be_restored(store: Store, home: Path) -> None:
    write_file(home / TRANSCRIPT, claude_lines(f"use {AWS_KEY}", "ok"))
    sync(store)
    report = redact(store, scan(store)["aws-access-key"].fingerprint)
    store.leaks.redactions.forget(report.id)
    assert store.rows("select sealed from redacted_values where sealed is not null") == []
    with pytest.raises(Refused):
        store.leaks.redactions.begin_undo(report.id)
    with pytest.raises(Refused):
        store.journal.undo(store.journal.list_edits()[0].id)
    assert_sync_writes_nothing(store)


def test_sealed_values_survive_a_rotation_of_the_key(store: Store, home: Path) -> None:
    text = claude_lines(f"use {AWS_KEY}", "ok")
    write_file(home / TRANSCRIPT, text)
    sync(store)
    report = redact(store, scan(store)["aws-access-key"].fingerprint)
    assert store.secrets.names() == []
    store.secrets.rotate()
    store.secrets.use_passphrase("correct horse battery")
    assert store.secrets.verify() == []
    undo(store, report.id)
    assert (home / TRANSCRIPT).read_text() == text


def test_a_purged_session_stays_purged_when_values_are_restored(store: Store, home: Path) -> None:
    text = claude_lines(f"use {AWS_KEY}", "ok")
    path = write_file(home / TRANSCRIPT, text)
    sync(store)
    report = redact(store, scan(store)["aws-access-key"].fingerprint)
    store.sessions.purge(store.sessions.newest())
    assert undo(store, report.id).left == ()
    assert path.read_text() == text
    assert find_in_store(store, AWS_KEY) == []


def test_an_export_from_before_is_known_as_redacted(store: Store, home: Path, tmp_path: Path) -> None:
    write_file(home / TRANSCRIPT, claude_lines(f"use {AWS_KEY}", "ok"))
    sync(store)
    (session,) = store.sessions.newest()
    cli = CommandLine(store.path)
    target = tmp_path / "export.md"
    cli("export", session.id, "--as", "markdown", "--allow-leaks", "-o", str(target))
    assert cli("verify", str(target)).status == 0
    redact(store, scan(store)["aws-access-key"].fingerprint)
    result = cli("verify", str(target))
    assert (result.status, "redacted" in result.out + result.err) == (1, True)


def test_other_leaks_are_found_where_they_are_after_a_redaction(store: Store, home: Path) -> None:
    write_file(home / TRANSCRIPT, claude_lines(f"use {AWS_KEY} and {GROQ_KEY}", "ok"))
    sync(store)
    redact(store, scan(store)["aws-access-key"].fingerprint)
    (session,) = store.sessions.newest()
    scan(store)
    assert list(read_found_values(store, session.key)) == [GROQ_KEY]


def test_an_unknown_leak_is_named(store: Store) -> None:
    with pytest.raises(NotFound):
        redact(store, "nothing")
    with pytest.raises(Refused):
        redact(store)
