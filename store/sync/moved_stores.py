"""Recognises a foreign store that was moved or renamed, by its records, so that its sessions are not read again.

Sessions are lost when their store is not where it was read, or has them no more. A new store that consists mostly of
lost sessions is the old one in another place.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from store.errors import StoreError
from store.sources.kit.locator import is_url
from store.sources.kit.sqlite import SQLITE_ERRORS
from store.sync.appended import find_main_session

if TYPE_CHECKING:
    import sqlite3

    from store.sources.contract import Source
    from store.store import Store
    from store.sync.targets import Target

_SELECT_SESSIONS = """
    select sources.key, sources.locator, sessions.key, sessions.native_id, sessions.stamp, sessions.gone
    from sessions join sources on sources.key = sessions.source_key
    where sources.kind = ? and sessions.head is not null and sessions.relation is not 'superseded'
"""
_RENAME_SOURCE = """
    update sources set locator = ?1,
        marks = json_set(marks, '$.identity', coalesce(json_extract(marks, '$.identity'), locator))
    where key = ?2
"""
_RENAME_PLACES = """
    update or ignore places set name = ?2 || substr(name, length(?1) + 1)
    where name = ?1 or substr(name, 1, length(?1) + 1) = ?1 || '/'
"""
_INSERT_SOURCE = """
    insert into sources (kind, locator, marks)
    select ?1, ?2,
        case when count(*) then json_object('identity', ?2 || ' ' || (select max(key) from sources)) else '{}' end
    from sources where kind = ?1 and json_extract(marks, '$.identity') = ?2
"""
"""Gives a store that is at the former place of another one an identity of its own."""


class _LostSession(NamedTuple):
    source_key: int
    key: int
    native_id: str
    stamp: str
    is_store_missing: bool
    "Says that there is nothing any more at the place of its store."


def adopt_moved_store(store: Store, target: Target) -> None:
    """Give a target that was never read the row of the store that it was before, or else the lost sessions in it."""
    lost = _load_lost(store, target.source.name)
    stamps = _scan_stamps(target.source, target.address) if lost else {}
    found = [session for session in lost if find_main_session(session.native_id, stamps)]
    mains = [session for session in found if session.native_id in stamps]
    if not mains or 2 * len(mains) < len(stamps):
        return
    if target.source.has_local_ids and not any(session.stamp == stamps[session.native_id] for session in mains):
        return  # Other stores use the same ids; only equal records show that it is the same store.
    moved_from = _find_former_row(found)
    with store.transaction(durable=False) as connection:
        if moved_from is not None:
            (locator,) = connection.execute("select locator from sources where key = ?", (moved_from,)).fetchone()
            connection.execute(_RENAME_SOURCE, (target.locator, moved_from))
            connection.execute(_RENAME_PLACES, (locator, target.locator))
        elif not target.source.has_local_ids:
            key = insert_source(connection, target)
            connection.executemany(
                "update sessions set source_key = ? where key = ?", [(key, session.key) for session in found]
            )


def insert_source(connection: sqlite3.Connection, target: Target) -> int:
    """Insert the row of a store that was never read, and return its key."""
    return connection.execute(_INSERT_SOURCE, (target.source.name, target.locator)).lastrowid or 0


def _load_lost(store: Store, source: str) -> list[_LostSession]:
    missing: dict[str, bool] = {}
    lost = []
    for source_key, locator, key, native_id, stamp, is_gone in store.rows(_SELECT_SESSIONS, source):
        if locator not in missing:
            missing[locator] = not is_url(locator) and not os.path.lexists(locator)
        if is_gone or missing[locator]:
            lost.append(_LostSession(source_key, key, native_id, stamp.partition(":")[2], missing[locator]))
    return lost


def _scan_stamps(source: Source, address: str) -> Mapping[str, str]:
    """Return the stamps of all sessions of a store by native id; none when it cannot be read. The import says why."""
    try:
        with source.open(address) as reader:
            return {ref.native_id: ref.stamp for ref in reader.scan_files() or reader.scan()}
    except (StoreError, *SQLITE_ERRORS):
        return {}


def _find_former_row(found: Sequence[_LostSession]) -> int | None:
    """Return the row of the store if all of its sessions were in one that is missing now."""
    rows = {session.source_key for session in found}
    return rows.pop() if len(rows) == 1 and all(session.is_store_missing for session in found) else None
