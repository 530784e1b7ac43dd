"""Saves what a sync looked at, so that the next one knows in a few milliseconds whether anything changed since.

The file that syncs lock holds the questions that decided what there was to read, each with its answer (see
`store.probes`). `backscroll sync` asks them again before it loads the sources, and is done if all answers are the same
and the store is as it was. Anything else, such as a damaged file, leaves the decision to the usual sync. So a saved
check can be wrong in one way only: the usual sync runs although nothing changed.
"""

from __future__ import annotations

import os
from fcntl import LOCK_EX, LOCK_NB, flock

from store.probes import ProbeNotes, are_answers_equal, stamp_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from store.store import Store
    from store.sync.targets import Target

    UnchangedStore = tuple[str, int, str]
    """Holds the source, the number of sessions and the locator of a foreign store in which nothing changed."""

_MAX_BYTES = 1 << 20
_PROGRAM_FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "sources")
_PROGRAM_DEPTH = 3

_IS_SAME_STORE = """
    select application_id = json_extract(:saved, '$.application') and user_version = json_extract(:saved, '$.schema')
        and freelist_count * 100 <= page_count
        and not exists (
            select 1 from sessions where usage_version < json_extract(:saved, '$.usage') and head is not null)
        and :bytes % page_size = 0
    from pragma_application_id, pragma_user_version, pragma_freelist_count, pragma_page_count, pragma_page_size
"""
_SELECT_UNCHANGED = """
    select kind, json_extract(marks, '$.seen'), locator
    from json_each(:saved, '$.stores') left join sources on kind = json_extract(value, '$[0]')
        and locator = json_extract(value, '$[1]') and marks = json_extract(value, '$[2]') and problems = '[]'
"""
_SELECT_PROBES = f"""
    select {", ".join(f"json_extract(value, '$[{position}]')" for position in range(6))}
    from json_each(:saved, '$.probes')
"""
_SELECT_SOURCE = """
    select kind, locator, marks, json_extract(marks, '$.stamp'), json_extract(marks, '$.reader') from sources
    where kind = ? and locator = ? and problems = '[]'
"""
_SELECT_VERSIONS = "select application_id, user_version from pragma_application_id, pragma_user_version"


def find_unchanged(store_path: str) -> list[UnchangedStore] | None:
    """Return every foreign store, if nothing changed since the last sync; None if a sync must find out."""
    try:
        handle = os.open(_lock_path(store_path), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        flock(handle, LOCK_EX | LOCK_NB)  # another sync may be running
        saved = os.read(handle, _MAX_BYTES)
        return _compare(store_path, saved.decode()) if saved else None
    except (OSError, ValueError):
        return None
    finally:
        os.close(handle)


def _compare(store_path: str, saved: str) -> list[UnchangedStore] | None:
    import sqlite3

    if os.path.exists(f"{store_path}.unfinished"):  # a write-back that was interrupted
        return None
    values: dict[str, str | int] = {"saved": saved, "bytes": os.stat(store_path).st_size}
    try:
        connection = sqlite3.connect(store_path, isolation_level=None)
        try:
            return _read_unchanged(connection, values)
        finally:
            connection.close()
    except (sqlite3.Error, LookupError, TypeError):  # also where another version of the program saved something else
        return None


def _read_unchanged(connection: sqlite3.Connection, values: dict[str, str | int]) -> list[UnchangedStore] | None:
    if connection.execute(_IS_SAME_STORE, values).fetchone() != (1,):
        return None
    stores = connection.execute(_SELECT_UNCHANGED, values).fetchall()
    if any(None in row for row in stores):
        return None
    probes = ([field for field in row if field is not None] for row in connection.execute(_SELECT_PROBES, values))
    return stores if are_answers_equal(probes) else None


def _lock_path(store_path: str) -> str:
    return f"{store_path}.sync"


class SyncCheck:
    """Notes what decides what a sync reads, and saves that when everything is read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._notes = ProbeNotes()
        self._stamps: list[tuple[Target, str]] = []

    def find_targets(self, source_name: str | None = None) -> list[Target]:
        """Return the stores that are where their agents keep them."""
        from store.sync.targets import find_targets

        with self._notes:
            stamp_tree(_PROGRAM_FOLDER, ".py", _PROGRAM_DEPTH, False)  # a newer program reads more
            targets = find_targets(source_name=source_name, store=self._store)
            self._stamps = [(target, target.stamp) for target in targets]
        return targets

    def save(self) -> None:
        """Save the notes, if the store has all that the targets had when they were found."""
        from contextlib import suppress

        from store.errors import Busy
        from store.sync.lock import sync_lock

        with suppress(Busy), sync_lock(self._store):
            if stores := self._list_stores():
                _replace_content(_lock_path(str(self._store.path)), self._encode(stores))

    def _list_stores(self) -> Sequence[Sequence[str]]:
        """Return the source, locator and marks of each target; nothing if one is not completely read."""
        stores = []
        for target, stamp in self._stamps:
            row = self._store.row(_SELECT_SOURCE, target.source.name, target.locator)
            if not stamp or row is None or row[3:] != (stamp, target.source.reader_version):
                return ()
            if not target.locator.isprintable():  # the command line would have to quote it
                return ()
            stores.append(row[:3])
        return stores

    def _encode(self, stores: Sequence[Sequence[str]]) -> bytes:
        from store.model.usage import USAGE_VERSION
        from store.text.json import serialize

        application, schema = self._store.row(_SELECT_VERSIONS)
        numbers = {"application": application, "schema": schema, "usage": USAGE_VERSION}
        return serialize({**numbers, "stores": stores, "probes": self._notes.rows()})


def _replace_content(path: str, content: bytes) -> None:
    """Write the content of the lock file, unless it is there. A reader that sees half of it does not understand it."""
    with open(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b") as file:
        if file.read() != content:
            file.seek(0)
            file.truncate()
            file.write(content)
