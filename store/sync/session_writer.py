"""Writes the entries of a session that is read: skips those that the store has, and appends the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.conversations.derive import DerivedRows, compute_digest, encode_tokens
from store.conversations.superseded import Correction, correct_entries, supersede
from store.model.entry import NewEntry
from store.model.session import Session
from store.sources.contract import Batch

if TYPE_CHECKING:
    from store.store import Store

_SELECT_STORED = """
    select records.digest, entries.turn > lag(entries.turn, 1, 0) over (order by entries.seq), entries.inherited,
        coalesce(entries.tokens, '')
    from entries left join records on records.key = entries.record
    where entries.session = ? and entries.seq >= 0 order by entries.seq
"""
_SELECT_REDACTED = """
    select entries.seq, redacted_places.original, redacted_places.redacted
    from redacted_places join entries on entries.record = redacted_places.record
    where redacted_places.record is not null and entries.session = ? and entries.seq >= 0
"""


class SessionWriter:
    """Compares the entries of one session with its stored chain, and appends those that are new."""

    def __init__(self, store: Store, session: Session, *, is_append: bool = False, extend_only: bool = False) -> None:
        self.store = store
        self.session = session
        self.has_appended = False
        self.superseded: list[Session] = []
        self._extend_only = extend_only
        "When set, entries that differ from the stored ones are an older copy of the session, and change nothing."
        self._stored: list[tuple[bytes | None, int, int, str]] = (
            [] if is_append else store.rows(_SELECT_STORED, session.key)
        )
        "Holds the digest of each stored entry, whether it begins a turn, whether it is inherited, and its tokens."
        self._redacted = self._load_redacted() if self._stored else {}
        "Holds the digests that the record of an entry has had before and after it was redacted, by seq."
        self._position = 0
        self._corrections: dict[int, Correction] = {}
        "Maps seqs to what a newer reader, or one that knows more files, says otherwise than the store."

    def _load_redacted(self) -> dict[int, set[bytes]]:
        redacted: dict[int, set[bytes]] = {}
        if self.store.row("select 1 from redacted_places where record is not null limit 1"):
            for seq, *digests in self.store.rows(_SELECT_REDACTED, self.session.key):
                redacted.setdefault(seq, set()).update(digests)
        return redacted

    def write(self, batch: Batch) -> None:
        if batch.begins_with_parent:
            self.store.chains.begin_with_parent(self.session)
        if batch.derived_rows is not None:
            self._write_derived(batch.derived_rows)
            return
        entries = batch.entries
        start = 0
        while start < len(entries) and self._position < len(self._stored) and self._matches_stored(entries[start]):
            correction = Correction(int(entries[start].inherited), encode_tokens(entries[start].tokens))
            if correction != self._stored[self._position][2:]:
                self._corrections[self._position] = correction
            start += 1
            self._position += 1
        if start == len(entries) or (self._extend_only and self._position < len(self._stored)):
            return
        self.supersede_rest()
        # An interrupted import leaves no mark behind, so that the next one reads the session from its beginning.
        self.store.connection.execute("update sessions set mark = '' where key = ?", (self.session.key,))
        self.store.chains.append(self.session.key, entries[start:], durable=False)
        self.has_appended = True

    def _write_derived(self, rows: DerivedRows) -> None:
        if rows.block is not None:
            self.store.records.add_block(rows.block)
        self.store.chains.append_rows(self.session.key, rows, durable=False)
        if rows.block is not None:
            rows.block.stored_count += len(rows.records)

    def _matches_stored(self, entry: NewEntry) -> bool:
        """Return whether an entry is the stored one. It is not if it begins a turn now, or does so no more: what
        follows a record may show what it is."""
        digest, begins_turn, *_ = self._stored[self._position]
        is_same_turn = self._extend_only or entry.begins_turn() == bool(begins_turn)
        if entry.record is None or not is_same_turn:
            return False
        read = compute_digest(entry.record.data)
        # A file in which a value was not redacted, or was restored, still has the same record.
        return read == digest or read in self._redacted.get(self._position, ())

    def finish(self) -> None:
        """Follow the source where it has less than the store, or says something else about the same records."""
        self.supersede_rest()
        if self._extend_only:
            self._corrections.clear()
        if self._corrections:
            correct_entries(self.store, self.session.key, self._corrections)

    @property
    def has_recounted(self) -> bool:
        """Is true when the counts of the session were computed from its entries again."""
        return bool(self.superseded or self._corrections)

    def supersede_rest(self) -> None:
        """Move the remaining stored entries into a superseded session, because the source has them no more."""
        if self._position < len(self._stored) and not self._extend_only:
            self.superseded.append(supersede(self.store, self.session, self._position - 1))
            self._stored = self._stored[: self._position]
