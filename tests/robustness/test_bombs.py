"""These tests read files that are small on the disk and huge or endless when they are read.

Each is named, its neighbours are read, and the processor time and the memory of a real process are limited.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zstandard
from command_line import CommandLine

from store.resume.git import read_branch

MAX_MEMORY_KB = 300 * 1024
MAX_PROCESSOR_SECONDS = 12.0
MAX_SECONDS = 120.0
MEGABYTE = 1024 * 1024


MEASURE = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[2:]).returncode
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as file:
    file.write(f"{usage.ru_maxrss} {usage.ru_utime + usage.ru_stime}")
sys.exit(status)
"""
"""Runs a command in a small process, because a child's peak of memory begins with the memory of its parent."""


class Finished(NamedTuple):
    status: int
    output: str
    kilobytes: int
    "Is the most memory that the process, or a process that it started, had at once."
    processor_seconds: float


class LimitedCommandLine(CommandLine):
    """Runs commands in processes that are killed when they take too long."""

    def run_measured(self, *args: str) -> Finished:
        log, usage = self.path.with_name("output"), self.path.with_name("usage")
        command = [sys.executable, "-c", MEASURE, str(usage), "timeout", str(MAX_SECONDS), *self.command(*args)]
        with log.open("wb") as output:
            process = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        kilobytes, seconds = usage.read_text().split()
        return Finished(process.returncode, log.read_text(), int(kilobytes), float(seconds))

    def sync(self, path: Path) -> str:
        """Sync a path, check how much that took, and return what was said."""
        finished = self.run_measured("sync", str(path))
        assert finished.status == 0, finished.output
        assert finished.kilobytes < MAX_MEMORY_KB
        assert finished.processor_seconds < MAX_PROCESSOR_SECONDS
        return finished.output

    def search(self, words: str) -> int:
        return len(self("search", words, "--json").json["hits"])


@pytest.fixture
def cli(tmp_path: Path) -> LimitedCommandLine:
    return LimitedCommandLine(tmp_path / "store.db")


# ── archives ──────────────────────────────────────────────────────────────────────────────────────


def make_conversation(name: str) -> dict[str, Any]:
    """Return a conversation of ChatGPT with one message, which consists of the name."""
    content = {"content_type": "text", "parts": [name]}
    message = {"id": name, "author": {"role": "user"}, "create_time": 1.7e9, "content": content}
    mapping = {
        "root": {"id": "root", "parent": None, "children": [name], "message": None},
        name: {"id": name, "parent": "root", "children": [], "message": message},
    }
    return {"id": name, "title": name, "create_time": 1.7e9, "update_time": 1.7e9, "mapping": mapping}


@pytest.mark.parametrize(
    ("before", "letters", "after", "reason"),
    [
        (b'"', b"ab", b'"', "The text is larger than 64 MB and is left out."),
        (b'{"title": {"deep": ["', b"ab", b'"]}}', "The conversation is larger than 64 MB and is left out."),
        (b'[["', b'\\"', b'"]]', "The text is larger than 64 MB and is left out."),
    ],
    ids=["bare", "in a conversation", "with escaped quotes"],
)
def test_a_string_of_half_a_gigabyte_in_an_archive(
    cli: LimitedCommandLine, tmp_path: Path, before: bytes, letters: bytes, after: bytes, reason: str
) -> None:
    path = tmp_path / "export.zip"
    neighbours = [json.dumps(make_conversation(name)).encode() for name in ("earlier", "later")]
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("conversations.json", "w") as file,
    ):
        file.write(b"[" + neighbours[0] + b"," + before)
        for _ in range(512):
            file.write(letters * (MEGABYTE // 2))
        file.write(after + b"," + neighbours[1] + b"]")
    assert path.stat().st_size < 8 * MEGABYTE
    output = cli.sync(path)
    assert output.startswith("chatgpt\t2\t2\t0\t")
    assert reason in output
    assert (cli.search("earlier"), cli.search("later")) == (1, 1)


# ── transcripts ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def rollouts(home: Path) -> Path:
    """Provide Codex's folder with one short rollout."""
    folder = home / ".codex/sessions/2026/01/01"
    folder.mkdir(parents=True)
    (folder / rollout_name(1)).write_bytes(b"".join(rollout_lines(1)))
    return folder


def rollout_name(number: int) -> str:
    return f"rollout-2026-01-01T00-00-00-0199aaaa-0000-7000-8000-00000000000{number}.jsonl"


def rollout_lines(number: int) -> Iterator[bytes]:
    time = "2026-01-01T00:00:00Z"
    meta = {"id": f"0199aaaa-0000-7000-8000-00000000000{number}", "timestamp": time, "cwd": "/", "cli_version": "1"}
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
    for kind, payload in (("session_meta", meta), ("response_item", message)):
        yield json.dumps({"timestamp": time, "type": kind, "payload": payload}).encode() + b"\n"


def test_a_packed_transcript_of_four_gigabytes(cli: LimitedCommandLine, rollouts: Path) -> None:
    path = rollouts / f"{rollout_name(2)}.zst"
    with path.open("wb") as file, zstandard.ZstdCompressor().stream_writer(file) as packed:
        packed.write(b"".join(rollout_lines(2)))
        for _ in range(4096):
            packed.write(b"a" * MEGABYTE)
    assert path.stat().st_size < MEGABYTE
    output = cli.sync(rollouts)
    assert f"{path}: It cannot be read: it unpacks to more than 64 MB." in output
    assert cli.search("hello") == 2


@pytest.mark.parametrize("size", [2 << 30, 1 << 40])
def test_a_transcript_that_is_mostly_a_hole(cli: LimitedCommandLine, rollouts: Path, size: int) -> None:
    path = rollouts / rollout_name(2)
    path.write_bytes(b"".join(rollout_lines(2)))
    os.truncate(path, size)
    with path.open("ab") as file:
        file.writelines(rollout_lines(2))
    output = cli.sync(rollouts)
    assert f"{path}: It cannot be read: it has a hole of more than 512 MB at " in output
    assert cli.search("hello") == 2


def test_a_pipe_beside_transcripts(cli: LimitedCommandLine, rollouts: Path) -> None:
    pipes = [rollouts / rollout_name(2), rollouts / f"{rollout_name(3)}.zst"]
    for path in pipes:
        os.mkfifo(path)
    output = cli.sync(rollouts)
    assert all(f"{path}: It is not a regular file, and is not read." in output for path in pipes)
    assert cli.search("hello") == 1


def test_a_pipe_that_is_named(cli: LimitedCommandLine, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    os.mkfifo(path)
    finished = cli.run_measured("sync", str(path))
    assert (finished.status, str(path) in finished.output) == (3, True)


# ── other files ───────────────────────────────────────────────────────────────────────────────────


def test_a_pipe_in_place_of_the_config_file(home: Path) -> None:
    path = home / ".config/backscroll/config.toml"
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    command = [sys.executable, "-m", "store", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=MAX_SECONDS)
    reason = "it is not a regular file"
    assert listed.stderr.strip() == f"The config file {path} cannot be read ({reason}). Fix it or remove it."


def test_pipes_in_place_of_config_files_of_agents(home: Path, cli: LimitedCommandLine, rollouts: Path) -> None:
    for name in (".config/pingu/config.toml", ".wuhu/server.yml", ".claude/settings.json", ".codex/config.toml"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(home / name)
    finished = cli.run_measured("sync")
    assert finished.status == 0
    assert cli.search("hello") == 1


def test_a_pipe_in_place_of_the_head_of_a_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git/HEAD")
    assert read_branch(tmp_path) is None


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc")
def test_the_folder_of_processes(cli: LimitedCommandLine) -> None:
    """It has files that never end and links that lead everywhere."""
    finished = cli.run_measured("sync", "/proc")
    assert finished.status == 3
    assert finished.output == "/proc is not a conversation store that Backscroll can read.\n"
    assert finished.kilobytes < MAX_MEMORY_KB
