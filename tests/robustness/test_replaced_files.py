"""These tests replace a file just before the program opens it, at many moments of a sync.

The sync ends and does not fail. The next one finds what is there then, as if nothing had happened.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from source_samples import JSONL_SOURCES, SAMPLES

from store.errors import StoreError
from store.sources.kit.line_scan import read_chunks
from store.sources.kit.stamps import database_stamp
from store.store import Store
from store.sync import refresh
from store.sync.targets import find_targets

MOMENTS = 5
"""Is how often a sync is disturbed for each way to replace a file; the moments are spread over the sync."""

HANG_SECONDS = 30
DATABASE_SOURCES = ("pingu", "crush")


# ── before a file is opened ───────────────────────────────────────────────────────────────────────


class OpenedFiles:
    """Counts the files and folders below a folder that are opened, and acts before one of them is."""

    def __init__(self) -> None:
        self.root: str | None = None
        self.count = self.moment = 0
        self.act: Callable[[], object] = str

    def notice(self, event: str, args: tuple[Any, ...]) -> None:
        if self.root is None or event not in ("open", "os.scandir", "os.listdir", "sqlite3.connect"):
            return
        if isinstance(args[0], str | bytes | os.PathLike) and self.root in os.fsdecode(args[0]):
            self.count += 1
            if self.count == self.moment:
                root, self.root = self.root, None
                self.act()
                self.root = root

    @contextmanager
    def act_at(self, moment: int, folder: Path, act: Callable[[], object]) -> Iterator[None]:
        self.root, self.count, self.moment, self.act = str(folder), 0, moment, act
        try:
            yield
        finally:
            self.root = None


opened_files = OpenedFiles()
sys.addaudithook(opened_files.notice)


@contextmanager
def time_limit() -> Iterator[None]:
    """Fail instead of waiting for ever."""

    def fail(*_: object) -> None:
        raise AssertionError(f"It takes longer than {HANG_SECONDS} seconds.")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(HANG_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ── ways to replace a file ────────────────────────────────────────────────────────────────────────


def rename_over(path: Path, data: bytes) -> None:
    other = path.with_name(".other")
    other.write_bytes(data)
    other.rename(path)


def rewrite(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def become_folder(path: Path, _: bytes) -> None:
    path.unlink()
    path.mkdir()


def become_pipe(path: Path, _: bytes) -> None:
    path.unlink()
    os.mkfifo(path)


def become_endless(path: Path, _: bytes) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def disappear(path: Path, _: bytes) -> None:
    path.unlink()


REPLACEMENTS = [rename_over, rewrite, become_folder, become_pipe, become_endless, disappear]


def restore(path: Path, data: bytes) -> None:
    """Put a regular file back."""
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    elif path.is_symlink() or not path.is_file():
        path.unlink(missing_ok=True)
    if not path.exists():
        path.write_bytes(data)


# ── syncing ───────────────────────────────────────────────────────────────────────────────────────


def largest_transcript(sample: Path) -> Path:
    if sample.is_file():
        return sample
    return max((path for path in sample.rglob("*.jsonl") if path.is_file()), key=lambda path: path.stat().st_size)


def change_words(data: bytes) -> bytes:
    """Return another conversation with the same structure and length."""
    return data.replace(b" the ", b" THE ").replace(b" a ", b" A ").replace(b"ing", b"INK")


def sync(store: Store, sample: Path) -> None:
    for _ in refresh.sync_targets(store, find_targets([str(sample)])):
        pass


def read_conversations(store: Store) -> list[tuple[str, list[str]]]:
    return sorted(
        (session.native_id, [entry.text for entry in store.chains.entries(session.key, 0)])
        for session in store.sessions.newest(1000)
        if session.relation != "superseded"
    )


def read_anew(sample: Path) -> list[tuple[str, list[str]]]:
    with Store.memory() as store:
        sync(store, sample)
        return read_conversations(store)


def disturb_sync(
    folder: Path, source: str, replace: Callable[[Path, bytes], object], moment: int, *, is_known: bool
) -> int:
    """Sync while a file is replaced at that moment, then check what a second sync finds.

    Return how many files were opened. `is_known` lets the store know the first half of the file before.
    """
    folder.mkdir()
    sample = SAMPLES[source](folder)
    path = largest_transcript(sample)
    old = path.read_bytes()
    new = old if source in DATABASE_SOURCES else change_words(old)
    with Store.memory() as store:
        if is_known:
            lines = old.splitlines(keepends=True)
            path.write_bytes(b"".join(lines[: len(lines) // 2]))
            os.utime(path, (1, 1))
            sync(store, sample)
            path.write_bytes(old)
        disturbed = opened_files.act_at(moment, folder, lambda: replace(path, new))
        with disturbed, time_limit(), suppress(StoreError):
            sync(store, sample)
        restore(path, new)
        sync(store, sample)
        assert read_conversations(store) == read_anew(sample), f"{source} {replace.__name__} at {moment}"
    return opened_files.count


@pytest.mark.parametrize("replace", REPLACEMENTS)
@pytest.mark.parametrize("source", [*JSONL_SOURCES, *DATABASE_SOURCES])
def test_a_file_that_is_replaced_while_it_is_read(
    tmp_path: Path, source: str, replace: Callable[[Path, bytes], object]
) -> None:
    count = disturb_sync(tmp_path / "0", source, replace, 0, is_known=False)
    assert count > MOMENTS
    for number in range(1, MOMENTS + 1):
        disturb_sync(tmp_path / str(number), source, replace, count * number // MOMENTS, is_known=False)


@pytest.mark.parametrize("is_known", [False, True])
def test_a_transcript_that_another_one_replaces_is_read_again(tmp_path: Path, is_known: bool) -> None:
    """What was read of the old file must not be continued with the new one, although it has as many bytes."""
    count = disturb_sync(tmp_path / "0", "claude", rename_over, 0, is_known=is_known)
    for moment in range(count // 2, count + 1):
        disturb_sync(tmp_path / str(moment), "claude", rename_over, moment, is_known=is_known)


@pytest.mark.parametrize("replace", [become_pipe, become_endless, become_folder, disappear])
def test_a_file_that_is_replaced_between_its_check_and_its_opening(
    tmp_path: Path, replace: Callable[[Path, bytes], object]
) -> None:
    path = tmp_path / "a.jsonl"
    for read in (lambda: b"".join(read_chunks(path)), lambda: database_stamp(path)):
        path.write_text('{"type": "user"}\n')
        with opened_files.act_at(1, tmp_path, lambda: replace(path, b"")), time_limit():
            assert not read()
        restore(path, b"")
