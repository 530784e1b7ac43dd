"""This module remembers a write-back while it runs, so that a kill cannot split it.

Two databases cannot be committed at once: the agent's store is committed first, and ours with the journal a moment
later. So what the journal will say is written to a file before. After a kill the file is still there. Then the rows of
the agent's store tell whether the edit must be journaled or forgotten.
"""

from __future__ import annotations

import base64
import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from store.edits.journal import PendingEdit
from store.errors import BadValue, WriteFailed
from store.model.knowledge import FOREIGN_TABLE, Change
from store.paths import make_private_folder, refuse_planted, sync_folder, unfinished_folder
from store.text.validate import decode, encode

if TYPE_CHECKING:
    from store.store import Store

_SUFFIX = ".json"
_SELECT_SEALED = "select session, key, version, sealed, created_at from secrets where session = ? and key = ?"


class Intention:
    """Is the file of one write-back. It is locked while it is open."""

    def __init__(self, path: Path, handle: int, content: dict[str, Any]) -> None:
        self._path = path
        self._handle = handle
        self.kind = str(content["kind"])
        self.sessions: list[int] = content["sessions"]
        self.undoes: int | None = content["undoes"]
        self.newest_edit: int = content["newest_edit"]
        "Is the last edit in the journal before this one."
        self.changes = [Change(*change) for change in content["changes"]]
        self.sealed = [(*row[:3], base64.b64decode(row[3]), row[4]) for row in content["sealed"]]
        "Lists the versions of secrets that are sealed for this edit, as rows of the table `secrets`."

    @property
    def foreign_changes(self) -> list[Change]:
        return [change for change in self.changes if change.table == FOREIGN_TABLE]

    def close(self) -> None:
        os.close(self._handle)

    def delete(self) -> None:
        """Delete the file, and the folder with the last one."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
            self._path.parent.rmdir()


def write_intention(store: Store, edit: PendingEdit) -> Intention:
    """Write the file of an edit, within the transaction of the edit. It has its name only when it is complete."""
    (newest,) = store.row("select coalesce(max(id), 0) from edits")
    content = {
        "kind": edit.kind,
        "sessions": list(edit.sessions),
        "undoes": edit.undoes,
        "newest_edit": newest,
        "changes": [[change.table, change.key, change.before, change.after] for change in edit.changes],
        "sealed": [_encode_sealed(row) for row in _find_sealed(store, edit)],
    }
    folder = unfinished_folder(store.path)
    path = folder / f"{token_hex(8)}{_SUFFIX}"
    try:
        refuse_planted(folder)
        make_private_folder(folder)
        handle = _write_locked(path, encode(content))
    except OSError as error:
        raise WriteFailed(f"Cannot write {path} ({error.strerror}), so nothing was changed. Check the disk.") from None
    return Intention(path, handle, content)


def _write_locked(path: Path, data: bytes) -> int:
    partial = path.with_suffix(".part")
    handle = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(data)
        os.fsync(handle)
        partial.rename(path)
        sync_folder(path.parent)
    except BaseException:
        os.close(handle)
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    return handle


def _find_sealed(store: Store, edit: PendingEdit) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of sealed secrets to which the changes refer: a rollback would remove those sealed just now."""
    for change in edit.changes:
        for columns in (change.before, change.after) if change.table == FOREIGN_TABLE else ():
            for value in (columns or {}).values():
                match value:
                    case {"$secret": [session_id, key, version]}:
                        session = store.sessions.get(session_id)
                        rows = store.rows(_SELECT_SEALED, session.key, key)
                        yield from (row for row in rows if row[2] == version)


def _encode_sealed(row: tuple[Any, ...]) -> list[Any]:
    return [*row[:3], base64.b64encode(row[3]).decode(), row[4]]


def open_unfinished(store: Store) -> Iterator[Intention]:
    """Yield the files that killed processes left. Those of running processes are locked."""
    folder = unfinished_folder(store.path)
    try:
        refuse_planted(folder)
        paths = sorted(folder.iterdir())
    except (OSError, WriteFailed):
        return
    for path in paths:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_uid == os.geteuid() and path.exists():
                yield from _read_unfinished(path, handle)
        except OSError:
            continue
        finally:
            os.close(handle)


def _read_unfinished(path: Path, handle: int) -> Iterator[Intention]:
    """Yield the intention in a file. One that is incomplete was not acted on, and is deleted."""
    with os.fdopen(handle, "rb", closefd=False) as file:
        data = file.read()
    try:
        if path.suffix == _SUFFIX:
            yield Intention(path, handle, decode(data))
            return
    except (BadValue, KeyError, TypeError, ValueError, IndexError):
        pass
    with suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()
