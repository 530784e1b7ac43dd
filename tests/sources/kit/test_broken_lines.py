"""These tests read files of JSON lines of every source in which a line cannot be read, or holds two records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from foreign_databases import sync_paths
from source_samples import JSONL_SOURCES, SAMPLES
from stored_records import read_stored_records

from store import sources
from store.model.entry import Opaque
from store.sources.kit.problem import MAX_PROBLEMS_OF_SESSION
from store.store import Store

RUBBISH = b'{"type": "user", "message": {"content": "half a rec\xff'
OPAQUE = (Opaque("", RUBBISH.decode("utf-8", "replace")),)
every_source = pytest.mark.parametrize("name", JSONL_SOURCES)


def rewrite_lines(path: Path, rewrite: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"\n".join([*rewrite(path.read_bytes().splitlines()), b""]))


def find_largest(sample: Path) -> Path:
    return max(sample.rglob("*.jsonl"), key=lambda path: path.stat().st_size)


def load_chains(store: Store) -> list[list[Any]]:
    """Return the entries of every session, without what tells where they are stored. The sessions have no ids here,
    because some sources number their branches by lines."""
    chains = [
        [
            (entry.kind, entry.role, entry.text, entry.parts, entry.turn, entry.inherited, entry.created_at)
            for entry in store.chains.entries(session.key)
            if entry.parts != OPAQUE
        ]
        for session in store.sessions.newest(100)
    ]
    return sorted(chains, key=repr)


@every_source
@pytest.mark.parametrize("position", [1, 4, -1])
def test_an_unreadable_line_is_kept_as_an_opaque_entry(name: str, position: int, tmp_path: Path, store: Store) -> None:
    sample = SAMPLES[name](tmp_path)
    with Store.open(tmp_path / "intact.db") as intact:
        sync_paths(intact, sample)
        expected = load_chains(intact)
    path = find_largest(sample)
    rewrite_lines(path, lambda lines: [*lines[:position], RUBBISH, *lines[position:]])
    report = sync_paths(store, sample)
    assert len({problem.where for problem in report.problems}) == 1
    assert RUBBISH in read_stored_records(store)
    sessions = store.sessions.newest(100)
    kept = [entry for session in sessions for entry in store.chains.entries(session.key) if entry.parts == OPAQUE]
    assert {entry.kind for entry in kept} == {"unknown"}
    assert load_chains(store) == expected
    before = store.connection.total_changes
    sync_paths(store, sample)
    assert store.connection.total_changes == before


@every_source
@pytest.mark.parametrize("position", [0, 2, -2])
@pytest.mark.parametrize("separator", [b"", b" "])
def test_two_records_on_one_line_are_both_read(
    name: str, position: int, separator: bytes, tmp_path: Path, store: Store
) -> None:
    sample = SAMPLES[name](tmp_path)
    with Store.open(tmp_path / "intact.db") as intact:
        sync_paths(intact, sample)
        expected, records = load_chains(intact), read_stored_records(intact)

    def join_two(lines: list[bytes]) -> list[bytes]:
        at = position % len(lines)
        return [*lines[:at], separator.join(lines[at : at + 2]), *lines[at + 2 :]]

    rewrite_lines(find_largest(sample), join_two)
    assert sync_paths(store, sample).problems == []
    assert load_chains(store) == expected
    assert read_stored_records(store) == records


@pytest.mark.parametrize("name", ["claude", "codex", "pi", "gemini", "qwen", "copilot", "goose"])
def test_what_an_older_reader_left_out_is_read_again(name: str) -> None:
    """The readers of version 0.1.0 left out the second record of a line."""
    assert sources.load_source(name).reader_version > 1


@pytest.mark.parametrize("name", [name for name in JSONL_SOURCES if sources.load_source(name).has_quick_read])
def test_a_quick_read_finds_both_records_of_a_line(name: str, tmp_path: Path) -> None:
    source, sample = sources.load_source(name), SAMPLES[name](tmp_path)
    expected = {session.native_id: session for session in source.quick_read(str(sample), ())}
    for path in sample.rglob("*.jsonl"):
        path.write_bytes(path.read_bytes().replace(b"}\n{", b"}{"))
    found = {session.native_id: session for session in source.quick_read(str(sample), ())}
    assert {native_id: (session.prompts, session.answers) for native_id, session in found.items()} == {
        native_id: (session.prompts, session.answers) for native_id, session in expected.items()
    }


def test_of_a_file_that_is_broken_throughout_the_first_problems_are_kept(tmp_path: Path, store: Store) -> None:
    sample = SAMPLES["claude"](tmp_path)
    rewrite_lines(find_largest(sample), lambda lines: [*lines, *(b"{broken %d" % n for n in range(300))])
    report = sync_paths(store, sample)
    assert len(report.problems) == MAX_PROBLEMS_OF_SESSION + 1
    assert report.problems[-1].reason == "More problems are not listed."
    assert sum(b"{broken" in record for record in read_stored_records(store)) == 300
    cli = CommandLine(store.path)
    said = cli("sources").err.splitlines()
    assert len(said) == 21
    assert said[-1].endswith("31 more problems. Use --json to see them.")
