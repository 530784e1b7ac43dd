"""This module finds the databases and files in which opencode keeps sessions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

from store import probes

INFO_FOLDER = "info"
"""Holds the files that describe the sessions of one project, in the oldest layout."""

STORAGE_TREES = ("session", "message", "part", INFO_FOLDER)
FILE_TREES = ("project", *(f"storage/{name}" for name in STORAGE_TREES), *STORAGE_TREES)
"""Folders in which older releases kept sessions as files, in opencode's folder or in its storage."""

_STORAGE_LEVELS = 5
"""A part is the deepest file: `part/<session>/<message>/<part>.json` in the oldest layout."""

_MAX_DETECT_FILES = 50
_EXPORT_BEGINNING = re.compile(rb'\s*\{\s*"info":\s*\{[^{}]*?"id":\s*"ses_')
_EXPORT_BEGINNING_BYTES = 4096

SIGNATURE = {
    "session": ("id", "project_id", "title", "version", "time_created", "time_updated"),
    "message": ("id", "session_id", "time_created", "data"),
    "part": ("id", "message_id", "session_id", "data"),
}


def is_export(path: Path) -> bool:
    """Return whether a file is a session that `opencode export` wrote. It begins with a description of the session."""
    from store.sources.kit.jsonl import PATH_ERRORS, open_file

    try:
        with open_file(path) as file:
            return bool(_EXPORT_BEGINNING.match(file.read(_EXPORT_BEGINNING_BYTES)))
    except PATH_ERRORS:
        return False


def find_databases(folder: Path) -> Iterator[Path]:
    """Return a database for each release channel of opencode, and the one that the person chose."""
    chosen = probes.read_variable("OPENCODE_DB")
    for name in probes.split_answer(probes.list_names(str(folder), "", ".db")):
        if (name.startswith("opencode") or name == chosen) and probes.is_file(str(folder / name)):
            yield folder / name


def list_storages(folder: Path) -> Iterator[Path]:
    """Return the folders that may hold sessions as files, for a person may name any of them: the storage of each
    project, as the oldest releases had it, and the storage of all projects."""
    yield from sorted(folder.glob("project/*/storage/session"))
    yield from (folder / "storage/session", folder / "session", folder / "storage", folder)


def find_session_files(storage: Path) -> Iterator[Path]:
    """Return the files that describe sessions: in a folder for each project, or in `info` in the storage of one."""
    yield from sorted(path for path in storage.glob("session/*/*.json") if path.parent.name != INFO_FOLDER)
    yield from sorted(storage.glob(f"{INFO_FOLDER}/*.json"))


def find_storage(path: Path) -> Path | None:
    """Return the storage that a file is part of, by what is in the folders above it; their own names do not matter."""
    return next((folder for folder in path.parents[1:_STORAGE_LEVELS] if is_storage(folder)), None)


def is_storage(folder: Path) -> bool:
    for name in ("session", INFO_FOLDER):
        with suppress(OSError):
            return _has_sessions(folder, os.stat(folder / name).st_mtime_ns)
    return False


@lru_cache(maxsize=64)
def _has_sessions(storage: Path, modified_at: int) -> bool:
    """Return whether a session is in it. It is cached, because each of its many files is asked for its storage."""
    from store.sources.kit.jsonl import as_dict, read_json_file

    infos = (as_dict(read_json_file(path, [])) for path in islice(find_session_files(storage), _MAX_DETECT_FILES))
    return any(str(info.get("id")).startswith("ses_") and "time" in info for info in infos)
