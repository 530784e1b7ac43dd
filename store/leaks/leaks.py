"""This module lists the leaks of a store, and keeps what a person decided about them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from store.errors import BadValue, NotFound
from store.leaks.found_values import find_fact_with, read_found_values, read_own_values
from store.leaks.masking import LeakMask
from store.leaks.rules import Tier
from store.leaks.scanner import mask
from store.leaks.store_scan import StoreScan
from store.model.knowledge import Fact
from store.model.leak import Leak, LeakPlace
from store.model.session import entry_id
from store.text.validate import encode, utc_timestamp, validate_text

if TYPE_CHECKING:
    from store.leaks.redaction.redactions import Redactions
    from store.store import Store

_SELECT_PLACES = """
    select leaks.fingerprint, leaks.rule, leaks.tier, leaks.ignored, leaks.rotated_at, sessions.id,
        leak_places.entry_seq, leak_places.field, leak_places.path, leak_places.line, leak_places.at
    from leaks join leak_places on leak_places.fingerprint = leaks.fingerprint
        left join sessions on sessions.key = leak_places.session
"""
_SELECT_REDACTED = """
    select leaks.fingerprint, leaks.rule, leaks.tier, leaks.ignored, leaks.rotated_at, max(redactions.at)
    from leaks join redacted_values on redacted_values.fingerprint = leaks.fingerprint
        join redactions on redactions.id = redacted_values.redaction
    where redactions.state != 'undone' and leaks.fingerprint not in (select fingerprint from leak_places)
    group by leaks.fingerprint
"""
_IN_SESSIONS = "where leak_places.session in (select value from json_each(?))"
_IN_ORDER = "order by leak_places.at, leak_places.key"
_MAX_SESSIONS = 1_000_000
_SELECT_TURNS = """
    select distinct sessions.id, leak_places.entry_seq, entries.turn from leak_places
        join sessions on sessions.key = leak_places.session
        join entries on entries.session = leak_places.session and entries.seq = leak_places.entry_seq
"""


class Leaks:
    """Finds, lists and judges leaks. This is the collection `store.leaks`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @cached_property
    def redactions(self) -> Redactions:
        """Removes leaked values from every place."""
        from store.leaks.redaction.redactions import Redactions

        return Redactions(self._store)

    def begin_scan(self, *, is_idle: bool = False) -> StoreScan:
        """Return a scan of everything that is not scanned yet. An idle one leaves out what takes long."""
        return StoreScan(self._store, is_idle=is_idle)

    def list_leaks(self, query: str = "") -> list[Leak]:
        """Return the leaks, or only those in sessions that match a query. Open ones come first, then the surest.

        A value that was redacted has no places any more. It stays open until a person has replaced it.
        """
        rows = self._read_rows(query)
        by_fingerprint: dict[str, list[Any]] = {}
        for row in rows:
            by_fingerprint.setdefault(row[0], []).append(row)
        found = [*map(_build_leak, by_fingerprint.values()), *([] if query else self._list_redacted())]
        leaks = sorted(found, key=lambda leak: leak.last_at, reverse=True)
        return sorted(leaks, key=lambda leak: (not leak.is_open, Tier(leak.tier).rank))

    def _list_redacted(self) -> list[Leak]:
        return [
            Leak(fingerprint, rule, tier, mask(rule), (), at, at, ignored or None, rotated_at or None)
            for fingerprint, rule, tier, ignored, rotated_at, at in self._store.rows(_SELECT_REDACTED)
        ]

    def list_turns(self) -> dict[str, int]:
        """Return the turn of every entry in which a leak was found."""
        return {entry_id(session, seq): turn for session, seq, turn in self._store.rows(_SELECT_TURNS)}

    def _read_rows(self, query: str) -> list[Any]:
        if not query:
            return self._store.rows(f"{_SELECT_PLACES} {_IN_ORDER}")
        sessions, _ = self._store.sessions.matching(query, _MAX_SESSIONS)
        keys = encode([session.key for session in sessions]).decode()
        return self._store.rows(f"{_SELECT_PLACES} {_IN_SESSIONS} {_IN_ORDER}", keys)

    def read_mask(self, *sessions: int) -> LeakMask:
        """Return what hides the values that were found in some sessions, and those of the store's own secrets.

        It is false if there are none.
        """
        values = read_own_values(self._store)
        for session in sessions:
            values |= read_found_values(self._store, session)
        return LeakMask(values)

    def find_fact(self, fingerprint: str, session_id: str | None) -> Fact | None:
        """Return the newest fact of a session, or of none, that has a value; None if none has it any more."""
        session = self._store.sessions.get(session_id).key if session_id else None
        number = find_fact_with(self._store, fingerprint, session)
        return self._store.facts.get(number) if number is not None else None

    def find(self, fingerprint: str) -> str:
        """Return the complete fingerprint of a leak that begins so."""
        rows = self._store.rows(
            "select fingerprint from leaks where substr(fingerprint, 1, ?) = ? limit 2", len(fingerprint), fingerprint
        )
        if not fingerprint or not rows:
            raise NotFound(f"No such leak: {fingerprint!r}.")
        if len(rows) > 1:
            raise NotFound(f"More than one leak begins with {fingerprint!r}. Type more of the fingerprint.")
        return str(rows[0][0])

    def ignore(self, fingerprint: str, reason: str) -> None:
        """Ignore a leak, because it is no secret or does not matter. An empty reason is refused."""
        if not validate_text(reason, "reason").strip():
            raise BadValue("Say why the leak can be ignored.")
        self._update("ignore leak", fingerprint, ignored=reason.strip())

    def set_rotated(self, fingerprint: str) -> None:
        """Note that the value is no longer valid, because its vendor replaced it."""
        self._update("mark leak as rotated", fingerprint, rotated_at=utc_timestamp())

    def reopen(self, fingerprint: str) -> None:
        """List a leak among the open ones again, because it matters after all or is still valid."""
        self._update("reopen leak", fingerprint, ignored="", rotated_at="")

    def _update(self, kind: str, fingerprint: str, **columns: str) -> None:
        with self._store.journal.edit(kind) as edit:
            edit.update("leaks", self.find(fingerprint), **columns)


def _build_leak(rows: list[Any]) -> Leak:
    fingerprint, rule, tier, ignored, rotated_at, *_ = rows[0]
    places = tuple(dict.fromkeys(_build_place(row) for row in rows))
    times = [row[-1] for row in rows]
    return Leak(
        fingerprint, rule, tier, mask(rule), places, min(times), max(times), ignored or None, rotated_at or None
    )


def _build_place(row: Any) -> LeakPlace:
    session, seq, field, path, line = row[5:10]
    entry = entry_id(session, seq) if session and seq is not None else None
    return LeakPlace(session, entry, field or None, path or None, line)
