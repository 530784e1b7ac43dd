"""This module keeps a list of items as a session, of which the last can be taken back and all can be cleared.

Entries never change. So what is taken back stays in the conversation, followed by an event that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from store.errors import NotFound
from store.model.entry import Json, NewEntry, NewRecord
from store.text.validate import decode, encode, validate_id

if TYPE_CHECKING:
    from store.model.session import Session, SessionFields
    from store.store import Store

_EVENT_FIELD = "history"
_EVENT_TEXTS = {"pop": "The last item was taken back.", "clear": "The history was cleared."}

Convert = Callable[[Json, NewRecord], Sequence[NewEntry]]
"""Returns the entries of an item. All of them have the record."""


class ItemHistory:
    """Holds items of one kind in one session. The first item creates the session."""

    def __init__(self, store: Store, session_id: str, field: str, convert: Convert, **fields: Any) -> None:
        self._store = store
        self.session_id = validate_id(session_id)
        self._field = field
        "Names the items of this kind in records."
        self._convert = convert
        self._session_fields: SessionFields = fields  # type: ignore[assignment]

    def load(self) -> list[Json]:
        """Return the items in order, exactly as they were added."""
        try:
            session = self._store.sessions.get(self.session_id)
        except NotFound:
            return []
        items: list[Json] = []
        for _, data in self._store.records.iter_session(session.key):
            record = decode(data)
            if not isinstance(record, dict):
                continue
            match record.get(_EVENT_FIELD):
                case "pop":
                    del items[-1:]
                case "clear":
                    items.clear()
                case _:
                    items += record.get(self._field, ())
        return items

    def append(self, items: Sequence[Json]) -> None:
        """Add items, all or none."""
        entries = [entry for item in items for entry in self._build_entries(item)]
        if entries:
            with self._store.transaction():
                self._store.chains.append(self._ensure_session().key, entries)

    def _build_entries(self, item: Json) -> Sequence[NewEntry]:
        record = NewRecord(encode({self._field: [item]}))
        return self._convert(decode(record.data)[self._field][0], record) or [NewEntry(kind="event", record=record)]

    def pop(self) -> Json:
        """Take back the last item and return it, or None if there is none."""
        with self._store.transaction():
            items = self.load()
            if not items:
                return None
            self._append_event("pop")
            return items[-1]

    def clear(self) -> None:
        """Take back all items."""
        with self._store.transaction():
            if self.load():
                self._append_event("clear")

    def _append_event(self, event: Literal["pop", "clear"]) -> None:
        record = NewRecord(encode({_EVENT_FIELD: event}))
        entry = NewEntry(kind="event", text=_EVENT_TEXTS[event], record=record)
        self._store.chains.append(self._ensure_session().key, [entry])

    def _ensure_session(self) -> Session:
        return self._store.sessions.ensure(self.session_id, **self._session_fields)
