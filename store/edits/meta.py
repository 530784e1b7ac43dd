"""This module stores values that belong to no session, by key.

The key `facts` is special. Reading it returns the global facts as lines, and writing it edits these facts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.conversations.sessions import UNSEEN
from store.errors import ChangedMeanwhile
from store.search.saved_searches import KEY_PREFIX
from store.text.validate import utc_timestamp, validate_id, validate_text

if TYPE_CHECKING:
    from store.store import Store

FACTS_KEY = "facts"


class Meta:
    """Reads and edits values by key. This is the collection `store.meta`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, key: str, default: str = "") -> str:
        if validate_id(key, "key") == FACTS_KEY:
            return self._store.facts.blob() or default
        value = self._read_value(key)
        return default if value is None else value

    def set(self, key: str, value: str, *, seen: str = UNSEEN) -> None:
        if validate_id(key, "key") == FACTS_KEY:
            self._store.facts.consolidate(value, seen=seen)
            return
        validate_text(value, "value")
        with self._store.journal.edit("meta") as edit:
            current = self._read_value(key)
            if seen is not UNSEEN and seen != (current or ""):
                raise ChangedMeanwhile(f"The value of {key!r} was changed elsewhere.", current or "")
            if current is None:
                edit.insert("meta", key=key, value=value, updated_at=utc_timestamp())
            elif current != value:
                edit.update("meta", key, value=value, updated_at=utc_timestamp())

    def keys(self) -> list[str]:
        stored = {key for (key,) in self._store.rows("select key from meta") if not key.startswith(KEY_PREFIX)}
        return sorted(stored | ({FACTS_KEY} if self._store.facts.blob() else set()))

    def _read_value(self, key: str) -> str | None:
        row = self._store.row("select value from meta where key = ?", key)
        return None if row is None else str(row[0])
