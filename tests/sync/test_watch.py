"""Folders that the system watches: nothing that happens in them is missed, and nothing is walked for nothing."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from store.sources.kit import watch as watching
from store.sources.kit.stamps import tree_stamp
from store.sources.kit.watch import watch_trees

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked to watch")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "projects"
    (root / "one" / "deeper").mkdir(parents=True)
    (root / "one" / "deeper" / "a.jsonl").write_text("{}\n")
    return root


def _append(root: Path) -> None:
    with (root / "one" / "deeper" / "a.jsonl").open("a") as file:
        file.write("{}\n")


def _move(root: Path) -> None:
    (root / "one").rename(root / "two")


def _remove(root: Path) -> None:
    shutil.rmtree(root / "one")


def _replace(root: Path) -> None:
    other = root / "other"
    other.write_text("[]\n")
    other.replace(root / "one" / "deeper" / "a.jsonl")


def _come(root: Path) -> None:
    (root / "new" / "still newer").mkdir(parents=True)
    (root / "new" / "still newer" / "b.jsonl").write_text("{}\n")


@pytest.mark.parametrize("happens", [_append, _move, _remove, _replace, _come])
def test_what_happens_is_seen(root: Path, happens: Callable[[Path], None]) -> None:
    with watch_trees():
        before = tree_stamp(root)
        assert tree_stamp(root) == before
        happens(root)
        after = tree_stamp(root)
        assert after == tree_stamp(root)
    assert before != after == tree_stamp(root)


def test_what_happens_in_a_folder_that_came_is_seen_too(root: Path) -> None:
    with watch_trees():
        tree_stamp(root)
        _come(root)
        came = tree_stamp(root)
        (root / "new" / "still newer" / "b.jsonl").write_text("{}\n{}\n")
        assert tree_stamp(root) != came


@pytest.fixture
def elsewhere(root: Path, tmp_path: Path) -> Path:
    """A file that is told of where it is, not where a link leads to it."""
    file = tmp_path / "elsewhere.jsonl"
    file.write_text("{}\n")
    (root / "linked.jsonl").symlink_to(file)
    return file


def test_as_long_as_nothing_happens_nothing_is_walked(root: Path, elsewhere: Path) -> None:
    with watch_trees():
        before = tree_stamp(root)
        elsewhere.write_text("{}\n{}\n")
        assert tree_stamp(root) == before, "the link was followed"
    assert tree_stamp(root) != before


def test_what_the_system_does_not_tell_of_is_seen_in_time(
    root: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "MAX_UNCHECKED_SECONDS", 0.0)
    with watch_trees():
        before = tree_stamp(root)
        elsewhere.write_text("{}\n{}\n")
        assert tree_stamp(root) != before


def test_where_the_system_cannot_watch_each_look_is_a_walk(root: Path, elsewhere: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    with watch_trees():
        try:
            with suppress(OSError):
                while True:
                    taken.append(os.dup(2))
            tree_stamp(root)
        finally:
            for handle in taken:
                os.close(handle)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        before = tree_stamp(root)
        elsewhere.write_text("{}\n{}\n")
        assert tree_stamp(root) != before


def test_nothing_stays_open(root: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with watch_trees():
        tree_stamp(root)
        assert set(os.listdir("/proc/self/fd")) > before
    assert set(os.listdir("/proc/self/fd")) <= before
