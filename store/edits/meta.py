"""Shelf: values that belong to no session, by key. The key `facts` is not kept here: it reads as the blob of shared
knowledge that agents expect, and writing it edits the facts behind it line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.conversations.sessions import UNSEEN
from store.errors import ChangedMeanwhile
from store.text.validate import exact_id, exact_text, now

if TYPE_CHECKING:
    from store.store import Store

FACTS = "facts"


class Meta:
    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, key: str, default: str = "") -> str:
        if exact_id(key, "key") == FACTS:
            return self._store.facts.blob() or default
        value = self._kept(key)
        return default if value is None else value

    def set(self, key: str, value: str, *, seen: str = UNSEEN) -> None:
        if exact_id(key, "key") == FACTS:
            self._store.facts.consolidate(value, seen=seen)
            return
        exact_text(value, "value")
        with self._store.journal.edit("meta") as edit:
            current = self._kept(key)
            if seen is not UNSEEN and seen != (current or ""):
                raise ChangedMeanwhile(f"The value of {key!r} was changed meanwhile.", current or "")
            if current is None:
                edit.insert("meta", key=key, value=value, updated_at=now())
            elif current != value:
                edit.update("meta", key, value=value, updated_at=now())

    def keys(self) -> list[str]:
        kept = {key for (key,) in self._store.rows("select key from meta")}
        return sorted(kept | ({FACTS} if self._store.facts.blob() else set()))

    def _kept(self, key: str) -> str | None:
        row = self._store.row("select value from meta where key = ?", key)
        return None if row is None else str(row[0])
