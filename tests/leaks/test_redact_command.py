"""Checks the commands that redact: what they print, their exit status, and that no value is in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine
from planted_secrets import AWS_KEY, GROQ_KEY, TRANSCRIPT, claude_lines, find_in_files, scan, sync, write_file

from store.store import Store


@pytest.fixture
def cli(store: Store) -> CommandLine:
    return CommandLine(store.path)


def test_a_dry_run_lists_every_place_and_changes_nothing(cli: CommandLine, store: Store, home: Path) -> None:
    path = write_file(home / TRANSCRIPT, claude_lines(f"use {AWS_KEY}", "ok"))
    sync(store)
    fingerprint = scan(store)["aws-access-key"].fingerprint
    result = cli("leaks", "redact", fingerprint, "--dry-run")
    assert [row[0] for row in result.rows] == ["record", "file"]
    assert str(path) in result.out
    assert "2 values in 2 places, 1 of them files of agents." in result.err
    assert AWS_KEY in path.read_text()
    assert AWS_KEY not in result.out + result.err
    assert cli("leaks", "redactions").err == "Nothing was redacted yet.\n"


def test_every_certain_leak_is_redacted_and_restored(cli: CommandLine, store: Store, home: Path) -> None:
    text = claude_lines(f"use {AWS_KEY} and {GROQ_KEY}", "Authorization: Bearer abcdef0123456789ABCDEF")
    path = write_file(home / TRANSCRIPT, text)
    sync(store)
    scan(store)
    result = cli("leaks", "redact", "--certain")
    assert result.status == 0
    assert "0 left of 4 redacted." in result.err
    assert AWS_KEY not in result.out + result.err
    assert find_in_files([home], AWS_KEY, GROQ_KEY) == []
    assert "abcdef0123456789ABCDEF" in path.read_text()  # it is only likely
    (listed,) = cli("leaks", "redactions", "--json").json["redactions"]
    assert (listed["state"], listed["count"], listed["left"]) == ("done", 4, [])
    assert cli("undo").status == 0
    assert path.read_text() == text


def test_a_file_that_changed_just_now_is_left_and_redacted_later(cli: CommandLine, store: Store, home: Path) -> None:
    path = write_file(home / TRANSCRIPT, claude_lines(f"use {AWS_KEY}", "ok"), age=5)
    sync(store)
    scan(store)
    result = cli("leaks", "redact", "--certain", "--json")
    assert result.status == 1
    (report,) = result.json["redactions"]
    assert [(place["path"], place["problem"]) for place in report["left"]] == [
        (str(path), "It changed less than a minute ago.")
    ]
    write_file(path, path.read_text())
    assert "0 left of 2 redacted." in cli("leaks", "redact").err
    assert find_in_files([home], AWS_KEY) == []
    assert cli("leaks", "redact").status == 2  # nothing is left to continue


def test_forgotten_values_cannot_be_restored(cli: CommandLine, store: Store, home: Path) -> None:
    write_file(home / TRANSCRIPT, claude_lines(f"use {AWS_KEY}", "ok"))
    sync(store)
    scan(store)
    cli("leaks", "redact", "--certain")
    assert cli("leaks", "forget", "1").status == 0
    assert cli("undo").status == 1
    assert cli("leaks", "forget", "1").status == 1
    assert cli("leaks", "redactions").rows[0][1] == "forgotten"


def test_a_passphrase_is_asked_for(cli: CommandLine, store: Store, home: Path) -> None:
    write_file(home / TRANSCRIPT, claude_lines(f"use {AWS_KEY}", "ok"))
    sync(store)
    store.secrets.use_passphrase("correct horse battery")
    scan(store)
    refused = cli("leaks", "redact", "--certain")
    assert (refused.status, "locked" in refused.err) == (1, True)
    assert cli("leaks", "redact", "--certain", "--passphrase-stdin", stdin="correct horse battery\n").status == 0
    assert find_in_files([home], AWS_KEY) == []
