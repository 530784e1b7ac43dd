"""This module computes stamps of files, folders and databases, and walks folders, for readers that work with paths.

`store.probes` does the work, so that a sync can note what it asked. Little is imported, because nothing else is loaded
for a store that did not change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

from store import probes
from store.probes import PATH_ERRORS as PATH_ERRORS
from store.probes import QUIET_SECONDS as QUIET_SECONDS
from store.probes import digest as digest
from store.probes import error_text as error_text
from store.probes import stat_stamp as stat_stamp
from store.probes import to_one_line as to_one_line
from store.sources.kit.problem import Problem

MAX_FOLDER_DEPTH = 12

SQLITE_MAGIC = b"SQLite format 3\0"
"""Begins every SQLite database."""


def walk_files(
    root: Path,
    problems: list[Problem],
    *,
    suffixes: Collection[str] = (".jsonl",),
    depth: int = MAX_FOLDER_DEPTH,
    is_bounded: bool = False,
) -> Iterator[Path]:
    """Yield the regular files below a folder, sorted. A folder is visited once, even if several links lead to it.

    A bounded walk is for a folder of any content. It has a limit and skips some folders. A link that leads out of the
    folder is not followed, but yielded like a file.
    """
    entries = probes.walk_entries(str(root), tuple(suffixes), depth, is_bounded, _add_to(problems))
    return (Path(entry.path) for entry in entries)


def walk_with_stat(
    root: Path,
    problems: list[Problem],
    *,
    suffixes: Collection[str] = (".jsonl",),
    depth: int = MAX_FOLDER_DEPTH,
    is_bounded: bool = False,
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the paths that `walk_files` finds, each with its status."""
    return probes.walk_with_stat(str(root), suffixes, depth, is_bounded, _add_to(problems))


def _add_to(problems: list[Problem]) -> Callable[[str, str], None]:
    return lambda path, reason: problems.append(Problem(path, reason))


def tree_stamp(
    root: Path,
    *,
    suffixes: Collection[str] = (".jsonl",),
    depth: int = MAX_FOLDER_DEPTH,
    is_bounded: bool = False,
) -> str:
    """Return a stamp that differs when a file below is added, removed or changed; empty for an unreadable folder."""
    return probes.stamp_tree(str(root), probes.SEPARATOR.join(suffixes), depth, is_bounded)


def plain_file_stamp(path: Path) -> str:
    """Return a stamp of the size, time and inode of a regular file; empty when it cannot be read."""
    return probes.stamp_file(str(path))


def database_stamp(path: Path) -> str:
    """Return a stamp of the size, time and change counter of a database, and of its WAL; empty if it is unreadable."""
    return probes.stamp_database(str(path))


def quiet_stamp(path: Path) -> str:
    """Return a stamp that also changes when a database becomes quiet, so that its unfinished answers are read then."""
    return probes.stamp_quiet_database(str(path))


@contextmanager
def open_regular_file(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file for reading. Raises OSError for anything else, such as a pipe, which would block."""
    raw: Any = _ReadyFile(probes.open_regular(str(path)))
    with BufferedReader(raw) as file:
        yield file


class _ReadyFile(FileIO):
    """Raises OSError where a read would wait for data, as in some files of `/proc`. Python would return None."""

    def readinto(self, buffer: Any, /) -> int:
        count = super().readinto(buffer)
        if count is None:
            raise OSError(0, "it has nothing to read at the moment")
        return count


def sidecar_path(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)
