"""This module restores what a person kept of an exported session, when it is read into a store for the first time.

It is no edit of this store, so it is not in the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from store.edits.notes import validate_tag
from store.errors import BadValue
from store.text.json import utc_timestamp

if TYPE_CHECKING:
    from store.model.knowledge import KeptValues
    from store.model.session import Session
    from store.store import Store

_INSERT_NOTE = "insert into notes (session, entry_seq, text, created_at) values (?, ?, ?, ?)"
_INSERT_SUMMARY = """
    insert into summaries (session, text, up_to_turn, origin, current, created_at) values (?, ?, ?, ?, ?, ?)
"""


def restore_kept(store: Store, session: Session, kept: KeptValues) -> None:
    """Write title, tags, notes and summaries of a session that has none yet."""
    (last_seq,) = store.row("select coalesce(max(seq), -1) from entries where session = ?", session.key)
    last_turn, now = store.chains.last_turn(session.key), utc_timestamp()
    current = max((n for n, version in enumerate(kept.summaries) if version.current), default=None)
    with store.transaction(durable=False) as connection:
        connection.execute(
            "update sessions set own_title = ?, pinned = ? where key = ?",
            (kept.title.strip(), int(kept.pinned), session.key),
        )
        connection.executemany(
            "insert or ignore into tags (session, name) values (?, ?)",
            [(session.key, tag) for tag in _find_valid_tags(kept.tags)],
        )
        connection.executemany(
            _INSERT_NOTE,
            [
                (session.key, seq if seq is None or -1 <= seq <= last_seq else None, text, at or now)
                for seq, text, at in kept.notes
            ],
        )
        connection.executemany(
            _INSERT_SUMMARY,
            [
                (
                    session.key,
                    version.text,
                    None if version.up_to_turn is None else min(version.up_to_turn, last_turn),
                    version.origin,
                    int(n == current),
                    version.created_at or now,
                )
                for n, version in enumerate(kept.summaries)
            ],
        )


def _find_valid_tags(names: Iterable[str]) -> Iterator[str]:
    """Yield the tags that a person could have added. Anyone may have written the file."""
    for name in names:
        with suppress(BadValue):
            yield validate_tag(name)
