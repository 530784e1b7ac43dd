"""A session's chain while it is read again: what is there already is skipped, the rest appended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.conversations.derive import Derived, digest_of
from store.conversations.superseded import supersede
from store.model.entry import NewEntry
from store.model.session import Session
from store.sources.contract import Batch

if TYPE_CHECKING:
    from store.store import Store

_DIGESTS = """
    select records.digest from entries left join records on records.key = entries.record
    where entries.session = ? and entries.seq >= 0 order by entries.seq
"""


class Chain:
    def __init__(self, store: Store, session: Session, *, behind: bool = False, only_on: bool = False) -> None:
        self.store = store
        self.session = session
        self.went_on = False
        self.superseded: list[Session] = []
        self._only_on = only_on
        "What tells less, or something else, is another's past, and changes nothing."
        self._stored: list[bytes | None] = [] if behind else [digest for (digest,) in store.rows(_DIGESTS, session.key)]
        self._at = 0

    def take(self, batch: Batch) -> None:
        if batch.rows is not None:
            self._lay(batch.rows)
            return
        entries = batch.entries
        fresh = 0
        while fresh < len(entries) and self._at < len(self._stored) and self._same(entries[fresh]):
            fresh += 1
            self._at += 1
        if fresh == len(entries) or (self._only_on and self._at < len(self._stored)):
            return
        self.end()
        # Until all is told nobody may go on from where it was left.
        self.store.connection.execute("update sessions set mark = '' where key = ?", (self.session.key,))
        self.store.chains.append(self.session.key, entries[fresh:], durable=False)
        self.went_on = True

    def _lay(self, rows: Derived) -> None:
        if rows.parcel is not None:
            self.store.records.receive(rows.parcel)
        self.store.chains.append_derived(self.session.key, rows, durable=False)
        if rows.parcel is not None:
            rows.parcel.laid += len(rows.records)

    def _same(self, entry: NewEntry) -> bool:
        return entry.record is not None and digest_of(entry.record.data) == self._stored[self._at]

    def end(self) -> None:
        """What the store holds beyond this point the source does not tell any more."""
        if self._at < len(self._stored) and not self._only_on:
            self.superseded.append(supersede(self.store, self.session, self._at - 1))
            self._stored = self._stored[: self._at]
