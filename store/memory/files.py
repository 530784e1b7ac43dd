"""This module reads memory files. Whatever the file is, the result is a value: a bad file has a problem, in a sentence.

Agents load these files without asking, so a file that is not what it seems is named, and its content is not shown.
"""

from __future__ import annotations

import hashlib
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

from store.memory.lines import split_lines
from store.model.memory import MemoryFile
from store.sources.kit.stamps import open_regular_file

MAX_FILE_BYTES = 4 * 1024 * 1024
"""A larger file is no memory file. Agents cut far smaller ones, or refuse them."""


def read_memory_file(path: Path, root: Path) -> MemoryFile | None:
    """Read a file, or return None if there is none. A link may lead to any file in `root`, but not out of it."""
    name = str(path)
    try:
        target = path.resolve(strict=True)
        if target != path and not target.is_relative_to(root.resolve()):
            return _refuse(name, f"{name} is a link out of its folder, to {target}. It was not read.")
        with open_regular_file(target) as file:
            status = os.fstat(file.fileno())
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return _refuse(name, f"{name} is a link to nothing.") if path.is_symlink() else None
    except NotADirectoryError:
        return None
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is a circle of links"
        return _refuse(name, f"{name} cannot be read ({reason}).")
    return _build_file(name, data, status)


def _build_file(name: str, data: bytes, status: os.stat_result) -> MemoryFile:
    if len(data) > MAX_FILE_BYTES:
        return _refuse(name, f"{name} is too large ({status.st_size / 1e6:,.1f} MB). It was not read.")
    if b"\0" in data:
        return _refuse(name, f"{name} is a binary file. It was not read.")
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    problem = ""
    if not _is_writable(Path(name), status):
        problem = f"{name} is read-only."
    elif shown != text:
        problem = f"{name} is not UTF-8. Some characters are shown as �."
    return MemoryFile(
        path=name,
        text=shown,
        lines=split_lines(name, shown),
        problem=problem,
        digest=hashlib.sha256(data).hexdigest(),
        modified_at=datetime.fromtimestamp(status.st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    )


def _is_writable(path: Path, status: os.stat_result) -> bool:
    """Return whether we may write the file. The mode counts for root, too: a read-only file is meant to stay."""
    return bool(status.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)) and os.access(path, os.W_OK)


def _refuse(name: str, problem: str) -> MemoryFile:
    return MemoryFile(path=name, problem=problem, is_readable=False)
