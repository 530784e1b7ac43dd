"""This module finds the databases and files in which opencode keeps sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from store.sources.kit.stamps import walk_files

FILE_TREES = ("storage/session", "storage/message", "storage/part", "project")
"""Folders in which older releases kept sessions as files."""

SIGNATURE = {
    "session": ("id", "project_id", "title", "version", "time_created", "time_updated"),
    "message": ("id", "session_id", "time_created", "data"),
    "part": ("id", "message_id", "session_id", "data"),
}


def find_databases(folder: Path) -> Iterator[Path]:
    """Return a database for each release channel of opencode, and the one that the person chose."""
    for path in walk_files(folder, [], suffixes=(".db",), depth=0):
        if path.name.startswith("opencode") or path.name == os.environ.get("OPENCODE_DB"):
            yield path


def find_session_files(folder: Path) -> Iterator[Path]:
    yield from folder.glob("storage/session/*/ses_*.json")
    yield from folder.glob("project/*/storage/session/info/ses_*.json")
