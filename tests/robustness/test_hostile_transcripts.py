"""These tests corrupt transcripts of every agent: each fault is one problem, and everything else is read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from foreign_databases import sync_paths
from source_samples import DATA, JSONL_SOURCES
from stored_records import read_stored_records
from transcript_fuzzer import INVALID_LINES, read_all_sessions
from unprivileged import without_rights

from store import sources
from store.sources.contract import Source
from store.sources.kit import jsonl
from store.store import Store

every_agent = pytest.mark.parametrize("name", JSONL_SOURCES)
MAX_MEMORY_KB = 200 * 1024
"""Limits the memory of the process that reads, in kilobytes."""


def load_source(name: str) -> Source:
    source = sources.load_source(name)
    assert source is not None
    return source


@pytest.fixture
def owner(name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / name, tmp_path / name))


@pytest.fixture
def transcript(owner: Path) -> Path:
    """Return the transcript that is corrupted. The others must still be read."""
    return find_longest_transcript(owner)


def find_longest_transcript(owner: Path) -> Path:
    return max(owner.rglob("*.jsonl"), key=lambda path: path.stat().st_size)


def read_texts(store: Store) -> dict[str, list[str]]:
    """Return the texts of every session, without the lines that could not be read."""
    return {
        session.id: [entry.text for entry in store.chains.entries(session.key, first=0) if entry.kind != "unknown"]
        for session in store.sessions.newest(100)
    }


@pytest.fixture
def expected(name: str, tmp_path: Path) -> Iterator[dict[str, list[str]]]:
    """Give the texts of the sample without a fault."""
    with Store.open(tmp_path / "whole.db") as store:
        assert sync_paths(store, DATA / name).problems == []
        yield read_texts(store)


@every_agent
def test_a_truncated_last_line_is_read_when_it_is_complete(
    name: str, owner: Path, transcript: Path, store: Store, expected: dict[str, list[str]]
) -> None:
    before = transcript.read_bytes()
    last = before.splitlines(keepends=True)[-1]
    transcript.write_bytes(before[: -len(last) // 2])
    assert sync_paths(store, owner).problems == []
    assert read_texts(store).keys() <= expected.keys()
    transcript.write_bytes(before)
    assert sync_paths(store, owner).problems == []
    assert read_texts(store) == expected


@every_agent
def test_a_byte_order_mark_is_no_part_of_the_first_line(
    name: str, owner: Path, store: Store, expected: dict[str, list[str]]
) -> None:
    """Some editors write it. The first line often is the prompt, or says what the file is."""
    transcripts = [*owner.rglob("*.json*")]
    for path in transcripts:
        path.write_bytes(jsonl.BYTE_ORDER_MARK + path.read_bytes())
    assert sync_paths(store, owner).problems == []
    assert read_texts(store) == expected
    quick = {found.native_id: found.prompts for found in load_source(name).quick_read(str(owner), ())}
    assert quick == {found.native_id: found.prompts for found in load_source(name).quick_read(str(DATA / name), ())}


@every_agent
@pytest.mark.parametrize("invalid_line", INVALID_LINES[:3] + INVALID_LINES[5:], ids=range(len(INVALID_LINES) - 2))
def test_an_invalid_line_in_the_middle_is_one_problem(
    name: str, owner: Path, transcript: Path, store: Store, expected: dict[str, list[str]], invalid_line: bytes
) -> None:
    lines = transcript.read_bytes().splitlines()
    middle = len(lines) // 2
    transcript.write_bytes(b"\n".join([*lines[:middle], invalid_line, *lines[middle:]]) + b"\n")
    (problem,) = sync_paths(store, owner).problems
    assert problem.where.startswith(f"{transcript}:")
    # Codex names its branches after lines, so that only their texts are compared.
    assert sorted(read_texts(store).values()) == sorted(expected.values())
    assert invalid_line in read_stored_records(store)


@every_agent
def test_a_line_too_long_to_parse_is_one_problem_and_is_kept(
    name: str,
    owner: Path,
    transcript: Path,
    store: Store,
    expected: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 100_000)
    monkeypatch.setattr(jsonl, "PIECE_BYTES", 50_000)
    lines = transcript.read_bytes().splitlines()
    long_line = b'{"type":"' + b"".join(b"%06d" % number for number in range(50_000)) + b'"}'
    transcript.write_bytes(b"\n".join([*lines[:-1], long_line, lines[-1]]) + b"\n")
    (problem,) = sync_paths(store, owner).problems
    assert "The line has 300,012 bytes and is too long to be read. It is kept in pieces." in problem.reason
    assert read_texts(store) == expected
    pieces = [long_line[position : position + 50_000] for position in range(0, len(long_line), 50_000)]
    assert read_stored_records(store).issuperset(pieces)


READ_SCRIPT = """
import resource, sys
from pathlib import Path
from foreign_databases import sync_paths
from store.store import Store
if __name__ == "__main__":
    with Store.open(Path(sys.argv[1])) as store:
        report = sync_paths(store, Path(sys.argv[2]))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(report.problems), report.new)
"""


@pytest.mark.long
@every_agent
def test_a_line_of_400_megabytes_costs_no_memory(name: str, owner: Path, tmp_path: Path) -> None:
    source = load_source(name)
    sessions = len(read_all_sessions(source, owner))
    path = find_longest_transcript(owner)
    *lines, last = path.read_bytes().splitlines(keepends=True)
    with path.open("wb") as file:
        file.writelines([*lines, b'{"type":"'])
        file.truncate(file.tell() + 400 * 1024 * 1024)  # a sparse file takes no space on the disk
        file.seek(0, os.SEEK_END)
        file.writelines([b"\n", last])
    (tmp_path / "read.py").write_text(READ_SCRIPT)
    folders = os.pathsep.join(map(str, (Path(__file__).parents[1] / "helpers", Path(__file__).parents[2])))
    result = subprocess.run(
        [sys.executable, tmp_path / "read.py", tmp_path / "store.db", owner],
        env={**os.environ, "PYTHONPATH": folders},
        capture_output=True,
        text=True,
        check=True,
    )
    kilobytes, problems, new = map(int, result.stdout.split())
    assert (problems, new) == (1, sessions)
    assert kilobytes < MAX_MEMORY_KB


@every_agent
def test_a_loop_of_links_ends(name: str, owner: Path, store: Store, expected: dict[str, list[str]]) -> None:
    for folder in [owner, *(path for path in sorted(owner.rglob("*")) if path.is_dir() and not path.is_symlink())]:
        (folder / "loop").symlink_to(owner)
        (folder / "itself.jsonl").symlink_to(folder / "itself.jsonl")
    assert sync_paths(store, owner).problems == []
    assert read_texts(store) == expected


@every_agent
def test_a_folder_or_file_without_permission_is_a_problem(name: str) -> None:
    source = load_source(name)
    with tempfile.TemporaryDirectory() as folder:
        owner = Path(shutil.copytree(DATA / name, Path(folder) / name))
        for path in (Path(folder), owner, *owner.rglob("*")):
            path.chmod(0o755)
        closed = find_longest_transcript(owner)
        closed.chmod(0)
        forbidden = closed.parent.with_name("forbidden")
        forbidden.mkdir(mode=0)
        with without_rights():
            result = read_all_sessions(source, owner)
            with source.open(str(owner)) as opened:
                batches = [batch for ref in list(opened.scan()) for batch in opened.read(ref)]
                problems = opened.problems + [problem for batch in batches for problem in batch.problems]
    assert result < read_all_sessions(source, DATA / name)
    assert result
    assert sorted(problem.where for problem in problems) == sorted(map(str, (closed, forbidden)))
