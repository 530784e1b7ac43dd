"""This module inserts facts that look as if a sync had read them from a foreign store."""

from __future__ import annotations

from store.store import Store


def insert_foreign_fact(store: Store, text: str) -> int:
    """Insert a fact with the foreign row it was read from. Return its id."""
    inserted = store.connection.execute(
        "insert into facts (text, foreign_place, foreign_text, created_at, updated_at)"
        " values (?, 'facts/7', ?, 't', 't')",
        (text, text),
    )
    return int(inserted.lastrowid or 0)
