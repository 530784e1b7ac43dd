"""Transcripts of every agent with something wrong in them: told as one problem each, and all around it is read."""

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
from transcript_fuzzer import INVALID_LINES, read_all_sessions
from unprivileged import without_rights

from store import sources
from store.sources.contract import Source
from store.sources.kit import jsonl
from store.store import Store

every_agent = pytest.mark.parametrize("name", JSONL_SOURCES)
MOST_MEMORY = 200 * 1024
"""Kilobytes, of a whole process that reads."""


def source_of(name: str) -> Source:
    source = sources.load_source(name)
    assert source is not None
    return source


@pytest.fixture
def owner(name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / name, tmp_path / name))


@pytest.fixture
def spoiled(owner: Path) -> Path:
    """The transcript that something happens to; the others are its neighbours."""
    return longest(owner)


def longest(owner: Path) -> Path:
    return max(owner.rglob("*.jsonl"), key=lambda path: path.stat().st_size)


def texts(store: Store) -> dict[str, list[str]]:
    return {
        session.id: [entry.text for entry in store.chains.entries(session.key, first=0)]
        for session in store.sessions.newest(100)
    }


@pytest.fixture
def whole(name: str, tmp_path: Path) -> Iterator[dict[str, list[str]]]:
    """What the sample tells when nothing is wrong with it."""
    with Store.open(tmp_path / "whole.db") as store:
        assert sync_paths(store, DATA / name).problems == []
        yield texts(store)


@every_agent
def test_a_cut_last_line_is_being_written(
    name: str, owner: Path, spoiled: Path, store: Store, whole: dict[str, list[str]]
) -> None:
    before = spoiled.read_bytes()
    last = before.splitlines(keepends=True)[-1]
    spoiled.write_bytes(before[: -len(last) // 2])
    assert sync_paths(store, owner).problems == []
    assert texts(store).keys() <= whole.keys()
    spoiled.write_bytes(before)
    assert sync_paths(store, owner).problems == []
    assert texts(store) == whole


@every_agent
@pytest.mark.parametrize("rubbish", INVALID_LINES[:3] + INVALID_LINES[5:], ids=range(len(INVALID_LINES) - 2))
def test_rubbish_in_the_middle_is_one_problem(
    name: str, owner: Path, spoiled: Path, store: Store, whole: dict[str, list[str]], rubbish: bytes
) -> None:
    told = spoiled.read_bytes().splitlines()
    middle = len(told) // 2
    spoiled.write_bytes(b"\n".join([*told[:middle], rubbish, *told[middle:]]) + b"\n")
    (problem,) = sync_paths(store, owner).problems
    assert problem.where.startswith(f"{spoiled}:")
    assert texts(store) == whole


@every_agent
def test_a_line_too_long_to_hold_is_one_problem(
    name: str,
    owner: Path,
    spoiled: Path,
    store: Store,
    whole: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 100_000)
    told = spoiled.read_bytes().splitlines()
    spoiled.write_bytes(b"\n".join([*told[:-1], b'{"type":"' + b"x" * 300_000 + b'"}', told[-1]]) + b"\n")
    (problem,) = sync_paths(store, owner).problems
    assert "left out" in problem.reason
    assert texts(store) == whole


READ = """
import resource, sys
from pathlib import Path
from foreign_databases import pull
from store.store import Store
if __name__ == "__main__":
    with Store.open(Path(sys.argv[1])) as store:
        report = pull(store, Path(sys.argv[2]))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(report.problems), report.new)
"""


@pytest.mark.long
@every_agent
def test_a_line_of_400_megabytes_costs_no_memory(name: str, owner: Path, tmp_path: Path) -> None:
    source = source_of(name)
    sessions = len(read_all_sessions(source, owner))
    path = longest(owner)
    *told, last = path.read_bytes().splitlines(keepends=True)
    with path.open("wb") as file:
        file.writelines([*told, b'{"type":"'])
        file.truncate(file.tell() + 400 * 1024 * 1024)  # zeros that need no room
        file.seek(0, os.SEEK_END)
        file.writelines([b"\n", last])
    (tmp_path / "read.py").write_text(READ)
    folders = os.pathsep.join(map(str, (Path(__file__).parents[1] / "helpers", Path(__file__).parents[2])))
    read = subprocess.run(
        [sys.executable, tmp_path / "read.py", tmp_path / "store.db", owner],
        env={**os.environ, "PYTHONPATH": folders},
        capture_output=True,
        text=True,
        check=True,
    )
    kilobytes, problems, new = map(int, read.stdout.split())
    assert (problems, new) == (1, sessions)
    assert kilobytes < MOST_MEMORY


@every_agent
def test_a_loop_of_links_ends(name: str, owner: Path, store: Store, whole: dict[str, list[str]]) -> None:
    for folder in [owner, *(path for path in sorted(owner.rglob("*")) if path.is_dir() and not path.is_symlink())]:
        (folder / "loop").symlink_to(owner)
        (folder / "itself.jsonl").symlink_to(folder / "itself.jsonl")
    assert sync_paths(store, owner).problems == []
    assert texts(store) == whole


@every_agent
def test_a_folder_or_file_without_permission_is_a_problem(name: str) -> None:
    source = source_of(name)
    with tempfile.TemporaryDirectory() as folder:
        owner = Path(shutil.copytree(DATA / name, Path(folder) / name))
        for path in (Path(folder), owner, *owner.rglob("*")):
            path.chmod(0o755)
        closed = longest(owner)
        closed.chmod(0)
        forbidden = closed.parent.with_name("forbidden")
        forbidden.mkdir(mode=0)
        with without_rights():
            read = read_all_sessions(source, owner)
            with source.open(str(owner)) as opened:
                batches = [batch for ref in list(opened.scan()) for batch in opened.read(ref)]
                problems = opened.problems + [problem for batch in batches for problem in batch.problems]
    assert read < read_all_sessions(source, DATA / name)
    assert read
    assert sorted(problem.where for problem in problems) == sorted(map(str, (closed, forbidden)))
