"""This module writes small text files of agents: compare with what was read, then replace each file as a whole.

A file is a row of the table `file`, with its path as the key and its text as the only column. Several files cannot be
replaced at once. So all are compared first, and a kill between two of them is settled by writing the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Any

from store.database.backup import atomic_backup_file, backup_time, delete_backups
from store.errors import ChangedMeanwhile, Refused, StoreError, Unreadable, WriteFailed
from store.model.memory import FilePush
from store.paths import read_small_file, sync_folder
from store.sources.kit.write_plan import RowChange
from store.text.json import encode
from store.write_back.sqlite import BACKUPS_KEPT, list_backups

FILES_SOURCE = "memory"
"""Is the name under which the journal has changes of files."""

TABLE = "file"

OWN_FOLDER = "backscroll"
"""Is the name of a folder in which all files are ours, such as that of a skill. It is removed when it is empty."""

_PARTIAL_SUFFIX = ".part"


def list_changes(files: Iterable[FilePush]) -> list[RowChange]:
    """Return planned files as the changes of their rows."""
    return [RowChange(TABLE, {"path": file.path}, _as_row(file.before), _as_row(file.after)) for file in files]


def _as_row(text: str | None) -> dict[str, str] | None:
    return None if text is None else {"text": text}


def read_text(path: Path) -> str | None:
    """Return the text of a file, or None if there is none."""
    try:
        return read_small_file(path).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise Unreadable(f"{path} is not UTF-8, so it is not written.") from None
    except OSError as error:
        raise Unreadable(f"{path} cannot be read ({error.strerror}).") from None


def swap_rows(locator: str, changes: Sequence[RowChange], *, exclusive: bool) -> None:
    """Compare every file with its expected text and write all changes. If one fails, restore those before it."""
    for change in changes:
        _verify_unchanged(change)
    written: list[RowChange] = []
    try:
        for change in changes:
            _verify_unchanged(change)
            _write(change)
            written.append(change)
    except BaseException:
        for change in reversed(written):
            with suppress(StoreError):
                _verify_unchanged(change.inverted())
                _write(change.inverted())
        raise


def complete(changes: Sequence[RowChange]) -> bool:
    """Write the other files if a kill left some of them written, and return whether it did.

    A file that was changed since stays as it is.
    """
    if not any(_has_text(change, change.after) for change in changes):
        return False
    for change in changes:
        if _has_text(change, change.before):
            _write(change)
    return True


def _has_text(change: RowChange, columns: Mapping[str, Any] | None) -> bool:
    """Return whether the file of a change has this text, or does not exist if there are no columns."""
    return read_text(Path(change.key["path"])) == (None if columns is None else columns["text"])


def _verify_unchanged(change: RowChange) -> None:
    if not _has_text(change, change.before):
        path = change.key["path"]
        raise ChangedMeanwhile(f"{path} was changed meanwhile, so nothing was written.", None)


def _write(change: RowChange) -> None:
    path = Path(change.key["path"])
    try:
        if change.after is None:
            path.unlink()
            if path.parent.name == OWN_FOLDER:
                with suppress(OSError):  # something else is in it
                    path.parent.rmdir()
        else:
            _replace_text(path, change)
        sync_folder(path.parent if path.parent.exists() else path.parent.parent)
    except OSError as error:
        raise WriteFailed(f"Cannot write {path} ({error.strerror}). Nothing was changed there.") from None


def _replace_text(path: Path, change: RowChange) -> None:
    """Replace a file as a whole, with its mode. A link stays a link: the file that it leads to is replaced."""
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = target.stat().st_mode & 0o7777 if target.exists() else None
    if mode is not None and not mode & 0o222:
        raise Refused(f"{path} is read-only, so it was not written.")
    for left in target.parent.glob(f".{escape(target.name)}.*{_PARTIAL_SUFFIX}"):
        left.unlink(missing_ok=True)  # a killed process left it
    partial = target.with_name(f".{target.name}.{os.getpid()}{_PARTIAL_SUFFIX}")
    try:
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o666), "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write((change.after or {})["text"].encode())
            file.flush()
            os.fsync(file.fileno())
        _verify_unchanged(change)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def back_up(folder: Path, name: str, locator: str, changes: Sequence[RowChange]) -> Path:
    """Write the texts of all files before the changes to one file."""
    target = folder / f"{backup_time()}-{name}-files.json"
    files = {change.key["path"]: None if change.before is None else change.before["text"] for change in changes}
    with atomic_backup_file(Path(locator), target) as unfinished:
        unfinished.write_bytes(encode(files))
    delete_backups(list_backups(folder, name)[BACKUPS_KEPT:])
    return target
