"""This module keeps the rows of redactions: their values, which are sealed, and the places that they changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from store.errors import NotFound, Refused
from store.leaks.redaction.own_texts import StoredText
from store.leaks.redaction.replacer import LeakedValue, Spellings
from store.leaks.rules import Tier
from store.leaks.scanner import mask
from store.model.redaction import RedactedValue, Redaction, RedactionPlace, RedactionState
from store.text.json import decode, encode
from store.text.validate import utc_timestamp

if TYPE_CHECKING:
    from store.store import Store

COPY_KEY = ""
"""Takes the place of a fingerprint in the row with the key of sealed copies."""

_SELECT_REDACTIONS = "select id, at, state, times, edit, forgotten from redactions"
_SELECT_VALUES = """
    select redacted_values.fingerprint, redacted_values.rule, coalesce(leaks.tier, ?2)
    from redacted_values left join leaks on leaks.fingerprint = redacted_values.fingerprint
    where redaction = ?1 and redacted_values.fingerprint != '' order by 1
"""
_SELECT_PLACES = """
    select key, kind, target, record, times, spans, original, redacted, pending, problem from redacted_places
    where redaction = ? order by key
"""
_SELECT_PENDING = "select 1 from redacted_places where redaction = ? and pending = 1 limit 1"
_INSERT_PLACE = """
    insert into redacted_places (redaction, kind, target, record, times, spans, original, redacted, pending, problem)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class RedactedPlace(NamedTuple):
    """Is a row of `redacted_places`."""

    key: int
    kind: str
    target: str
    record: int | None
    times: int
    spans: str
    original: bytes | None
    redacted: bytes | None
    pending: int
    problem: str

    @property
    def text(self) -> StoredText:
        table, column, key = decode(self.target)
        return StoredText(table, column, tuple((name, value) for name, value in key))


class RedactionRow(NamedTuple):
    """Is a row of `redactions`."""

    id: int
    at: str
    state: RedactionState
    times: int
    edit: int | None
    forgotten: int


class RedactionRows:
    """Reads and writes the rows of one redaction."""

    def __init__(self, store: Store, redaction: int) -> None:
        self._store = store
        self.id = redaction

    @property
    def row(self) -> RedactionRow:
        row = self._store.row(f"{_SELECT_REDACTIONS} where id = ?", self.id)
        if row is None:
            raise NotFound(f"No such redaction: {self.id}.")
        return RedactionRow._make(row)

    def set_state(self, state: RedactionState) -> None:
        self._execute("update redactions set state = ? where id = ?", state, self.id)

    # ── values ────────────────────────────────────────────────────────────────────────────────────

    def add_values(self, values: Iterable[LeakedValue], copy_key: str) -> None:
        sql = "insert into redacted_values (redaction, fingerprint, rule) values (?, ?, ?)"
        for value in values:
            self._execute(sql, self.id, value.fingerprint, value.rule)
        self._execute(sql, self.id, COPY_KEY, "")
        self._store.secrets.seal_redacted(self.id, COPY_KEY, copy_key)

    def seal(self, values: Iterable[LeakedValue], spellings: Spellings) -> None:
        """Seal the values with every spelling that was found so far."""
        for value in values:
            found = [spelling.decode("latin-1") for spelling in spellings.by_fingerprint.get(value.fingerprint, ())]
            sealed = json.dumps({"text": value.text, "spellings": found})
            self._store.secrets.seal_redacted(self.id, value.fingerprint, sealed)

    def open_values(self) -> tuple[list[LeakedValue], Spellings]:
        """Return the values with their spellings. Raise Refused if they were forgotten."""
        values, spellings = [], Spellings()
        for value in list_values(self._store, self.id):
            sealed = self._store.secrets.open_redacted(self.id, value.fingerprint)
            if sealed is None:
                raise Refused(f"The values of redaction {self.id} were forgotten.")
            content = json.loads(sealed)
            values.append(LeakedValue(value.fingerprint, value.rule, content["text"]))
            spellings.by_fingerprint[value.fingerprint] = [text.encode("latin-1") for text in content["spellings"]]
        return values, spellings

    def open_copy_key(self) -> bytes:
        return bytes.fromhex(self._store.secrets.open_redacted(self.id, COPY_KEY) or "")

    # ── places ────────────────────────────────────────────────────────────────────────────────────

    def places(self) -> list[RedactedPlace]:
        return [RedactedPlace._make(row) for row in self._store.rows(_SELECT_PLACES, self.id)]

    def has_pending(self) -> bool:
        """Return whether files are still to be rewritten."""
        return self._store.row(_SELECT_PENDING, self.id) is not None

    def add_record(self, record: int, times: int, spans: Any, original: bytes, redacted: bytes) -> None:
        self._add("record", str(record), record, times, spans, original, redacted)

    def add_text(self, text: StoredText, times: int, spans: Any) -> None:
        self._add("text", encode([text.table, text.column, [*map(list, text.key)]]).decode(), None, times, spans)

    def add_file(self, kind: str, path: str, times: int, problem: str = "") -> int:
        """Add a file that is to be rewritten, and return the key of its row."""
        return self._add(kind, path, None, times, {}, pending=1, problem=problem)

    def _add(
        self,
        kind: str,
        target: str,
        record: int | None,
        times: int,
        spans: Any,
        original: bytes | None = None,
        redacted: bytes | None = None,
        pending: int = 0,
        problem: str = "",
    ) -> int:
        values = (self.id, kind, target, record, times, encode(spans).decode())
        return self._execute(_INSERT_PLACE, *values, original, redacted, pending, problem)

    def update_place(self, key: int, **columns: Any) -> None:
        if "spans" in columns:
            columns["spans"] = encode(columns["spans"]).decode()
        names = ", ".join(f"{name} = ?" for name in columns)
        self._execute(f"update redacted_places set {names} where key = ?", *columns.values(), key)

    def _execute(self, sql: str, *values: Any) -> int:
        with self._store.transaction() as connection:
            return int(connection.execute(sql, values).lastrowid or 0)


def create_redaction(store: Store, times: int) -> RedactionRows:
    with store.transaction() as connection:
        sql = "insert into redactions (at, state, times) values (?, 'running', ?)"
        return RedactionRows(store, int(connection.execute(sql, (utc_timestamp(), times)).lastrowid or 0))


def list_values(store: Store, redaction: int) -> tuple[RedactedValue, ...]:
    rows = store.rows(_SELECT_VALUES, redaction, str(Tier.LIKELY))
    return tuple(RedactedValue(fingerprint, rule, tier, mask(rule)) for fingerprint, rule, tier in rows)


def list_redactions(store: Store, states: Sequence[RedactionState] = ()) -> Iterator[Redaction]:
    """Yield the redactions, newest first, or only those in some states."""
    for row in map(RedactionRow._make, store.rows(f"{_SELECT_REDACTIONS} order by id desc")):
        if states and row.state not in states:
            continue
        yield Redaction(
            row.id,
            row.at,
            row.state,
            list_values(store, row.id),
            row.times,
            tuple(list_left(store, row.id)),
            row.edit,
            bool(row.forgotten),
        )


def list_left(store: Store, redaction: int) -> Iterator[RedactionPlace]:
    """Yield the files that are still to be rewritten, or could not be restored completely, with the reason."""
    for place in RedactionRows(store, redaction).places():
        if (place.pending or place.problem) and place.kind in ("file", "database"):
            kind: Literal["database", "file"] = "database" if place.kind == "database" else "file"
            yield RedactionPlace(kind, path=place.target, times=place.times, problem=place.problem)
