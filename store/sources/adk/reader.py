"""This module reads google-adk databases."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol

from store.errors import BadValue, Unreadable
from store.formats.genai import EventParser, format_state
from store.model.entry import Json, NewEntry, NewRecord, Opaque
from store.model.identity import join_native_id
from store.model.knowledge import user_scope
from store.sources.adk.source import Adk
from store.sources.adk.state import SESSION_KEY, STATE_KEYS, format_state_place, parse_json_as, split_native_id
from store.sources.contract import (
    Batch,
    ForeignFact,
    Problem,
    SessionRef,
    SourceReader,
)
from store.sources.kit import sqlite
from store.text.validate import encode_derived

AdkRow = Mapping[str, Any]

_SESSION_CONDITION = "app_name = :app and user_id = :user and session_id = :session"
_V0_JSON_COLUMNS = {
    "usage_metadata": "usage_metadata",
    "long_running_tool_ids_json": "long_running_tool_ids",
    "input_transcription": "input_transcription",
    "output_transcription": "output_transcription",
}


# ── rows of either database ───────────────────────────────────────────────────────────────────────


class AdkDatabase(Protocol):
    """Declares what the reader needs from a database. SQLite and PostgreSQL implement it."""

    @property
    def tables(self) -> Mapping[str, frozenset[str]]:
        """Return the columns of each table."""
        ...

    def select(self, sql: str, **values: str) -> Iterator[AdkRow]:
        """Yield rows one by one: JSON as text, times as text or as seconds since the epoch."""
        ...

    def fingerprints(self, table: str, by: Sequence[str]) -> dict[tuple[str, ...], str]:
        """Return a fingerprint for each group of rows. It differs when anything in the group differs."""
        ...

    def json_number_sql(self, column: str, name: str) -> str:
        """Return SQL for a number in a column of JSON. Its value is null where there is none."""
        ...

    @property
    def append_order(self) -> str:
        """Return the column that orders rows with equal times, as they were appended."""
        ...


class SqliteDatabase:
    """Reads rows from a SQLite file."""

    append_order = "rowid"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.tables = sqlite.read_tables(connection)

    def select(self, sql: str, **values: str) -> Iterator[AdkRow]:
        try:
            yield from map(dict, self._connection.execute(sql, values))
        except sqlite3.Error as reason:
            raise Unreadable(f"The database cannot be read further: {reason}.") from None

    def fingerprints(self, table: str, by: Sequence[str]) -> dict[tuple[str, ...], str]:
        """Hash the rows in the order of the file, each into the fingerprint of its group."""
        digests: dict[tuple[str, ...], str] = {}
        for row in self.select(f"select * from {table}"):
            group = tuple(row[name] for name in by)
            digests[group] = sqlite.digest(digests.get(group), *row.values())
        return digests

    def json_number_sql(self, column: str, name: str) -> str:
        return f"case when json_valid({column}) then json_extract({column}, '$.{name}') end"


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# ── a store ───────────────────────────────────────────────────────────────────────────────────────


class AdkReader(SourceReader):
    """Reads the sessions, events and states of a google-adk database."""

    def __init__(self, database: AdkDatabase) -> None:
        super().__init__()
        if not any(sqlite.has_columns(database.tables, signature) for signature in Adk.signatures):
            raise Unreadable("The database has no google-adk tables.")
        self._database = database
        names = sorted(database.tables["events"])
        self._has_event_json = "event_data" in names
        replaced_columns = {"actions": 'length("actions") as actions_bytes'}
        self._event_columns = ", ".join(replaced_columns.get(name) or _quote_name(name) for name in names)
        # Only SqliteSessionService orders events with equal times as they were appended. Of the JSON layouts, only its
        # layout has no metadata table.
        orders_by_id = "adk_internal_metadata" in database.tables or not self._has_event_json
        self._event_order = f'"timestamp", {"id" if orders_by_id else database.append_order}'

    def scan(self) -> Iterator[SessionRef]:
        event_digests = self._database.fingerprints("events", ("app_name", "user_id", "session_id"))
        for key, row in self._read_keyed_rows("sessions", SESSION_KEY, "create_time, update_time"):
            stamp = sqlite.digest(event_digests.get(key), row["create_time"])
            yield SessionRef(join_native_id(*key), stamp, sqlite.normalize_time(row["update_time"]))

    def _read_keyed_rows(
        self, table: str, key_columns: Sequence[str], columns: str
    ) -> Iterator[tuple[tuple[str, ...], AdkRow]]:
        for row in self._database.select(f"select {', '.join(key_columns)}, {columns} from {table}"):
            key = tuple(row[name] for name in key_columns)
            if all(isinstance(value, str) for value in key):
                yield key, row
            else:
                self.problems.append(Problem(table, f"The key of row {key} is not text."))

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        app, user, name = split_native_id(ref.native_id)
        select = "select * from sessions where app_name = :app and user_id = :user and id = :session"
        session = next(self._database.select(select, app=app, user=user, session=name), None)
        if session is None:
            raise Unreadable("The session is not in the database any more.")
        yield _build_header_batch(session)
        events, batch, size = EventParser(), Batch(), 0
        for row in self._read_event_rows(app, user, name):
            entries, problems = self._parse_event_row(events, row, sqlite.normalize_time(session["create_time"]))
            batch.entries += entries
            batch.problems += problems
            size += len(entries[0].record.data) if entries[0].record else 0
            if len(batch.entries) >= sqlite.BATCH_ENTRIES or size >= sqlite.BATCH_BYTES:
                yield batch
                batch, size = Batch(), 0
        yield batch

    def _read_event_rows(self, app: str, user: str, session: str) -> Iterator[AdkRow]:
        """Return the events of a session, ordered by the time in the event itself.

        The database orders by a column in local time, which is wrong around a change of the clocks. Only then are all
        rows of the session loaded and sorted.
        """
        session_key = {"app": app, "user": user, "session": session}
        rows = self._database.select(
            f"select {self._event_columns} from events where {_SESSION_CONDITION} order by {self._event_order}",
            **session_key,
        )
        if not self._has_event_json:
            return rows
        time_sql = self._database.json_number_sql("event_data", "timestamp")
        time_rows = self._database.select(
            f"select {time_sql} as at from events where {_SESSION_CONDITION} order by {self._event_order}",
            **session_key,
        )
        times = list(accumulate((row["at"] for row in time_rows), _time_or_previous, initial=0.0))[1:]
        if times == sorted(times):
            return rows
        by_time = sorted(zip(times, rows, strict=True), key=lambda pair: pair[0])
        return (row for _, row in by_time)

    def _parse_event_row(self, events: EventParser, row: AdkRow, fallback: str) -> tuple[list[NewEntry], list[Problem]]:
        record = _make_record(row, "events", str(row["id"]))
        problems: list[Problem] = []
        body = "event_data" if self._has_event_json else "content"
        event: Mapping[str, Json] = {}
        try:
            value = parse_json_as(row[body], dict | None) if row[body] is not None else None
            event = value or {} if self._has_event_json else _event_from_columns(row, value, problems)
        except BadValue as reason:
            problems.append(Problem(f"events:{row['id']}", f"{body} cannot be read: {reason}"))
        at = sqlite.normalize_time(event.get("timestamp")) or sqlite.normalize_time(row["timestamp"]) or fallback
        if problems and not event:
            parts = (Opaque(body, _encode_value(row[body])),)
            return [NewEntry(kind="unknown", parts=parts, record=record, created_at=at)], problems
        return events.parse_event(event, record, at), problems

    # ── facts ─────────────────────────────────────────────────────────────────────────────────────

    def facts(self) -> Iterable[ForeignFact]:
        for table, key in STATE_KEYS.items():
            yield from self._read_state_facts(table, key)

    def _read_state_facts(self, table: str, key_columns: tuple[str, ...]) -> Iterator[ForeignFact]:
        if not {*key_columns, "state"} <= self._database.tables.get(table, frozenset()):
            return
        for key, row in self._read_keyed_rows(table, key_columns, "state, update_time"):
            at = sqlite.normalize_time(row["update_time"])
            for name, value in self._parse_state(row["state"], f"{table}:{join_native_id(*key)}").items():
                yield ForeignFact(
                    format_state_place(table, key, name),
                    format_state(name, value),
                    scope=_fact_scope(key),
                    category="state",
                    native_session=join_native_id(*key) if table == "sessions" else "",
                    created_at=at,
                    updated_at=at,
                )

    def _parse_state(self, text: object, where: str) -> Mapping[str, Json]:
        try:
            state: Mapping[str, Json] = parse_json_as(text, dict)
            return state
        except BadValue as reason:
            self.problems.append(Problem(where, f"The state cannot be read: {reason}"))
            return {}


def _fact_scope(key: Sequence[str]) -> str:
    if len(key) == 1:
        return f"app:{key[0]}"
    return user_scope(*key) if len(key) == 2 else "session"


def _build_header_batch(row: AdkRow) -> Batch:
    created_at = sqlite.normalize_time(row["create_time"]) or sqlite.normalize_time(row["update_time"])
    stable_columns = {name: value for name, value in row.items() if name not in ("state", "update_time")}
    record = _make_record(stable_columns, "sessions", join_native_id(row["app_name"], row["user_id"], row["id"]))
    return Batch(
        header=NewEntry(kind="header", record=record, created_at=created_at),
        fields={
            "channel": row["app_name"],
            "channel_id": row["id"],
            "user": row["user_id"],
            "created_at": created_at,
            "updated_at": sqlite.normalize_time(row["update_time"]) or created_at,
        },
    )


def _make_record(row: AdkRow, table: str, key: str) -> NewRecord:
    return NewRecord(encode_derived({name: _encode_value(value) for name, value in row.items()}), table, key)


def _encode_value(value: object) -> object:
    """Return a value that JSON can hold. Types that ADK itself does not store become text."""
    if isinstance(value, bytes):
        return {"$base64": base64.b64encode(value).decode()}
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _time_or_previous(previous: float, value: object) -> float:
    """Return the time to the microsecond, as the column has it. A row without a time gets the previous one."""
    return round(float(value), 6) if isinstance(value, int | float) else previous


# ── layout v0 ─────────────────────────────────────────────────────────────────────────────────────


def _event_from_columns(row: AdkRow, content: Json, problems: list[Problem]) -> Mapping[str, Json]:
    """Build an event from the columns of layout v0, as v1 stores it in JSON."""
    event = {name: row.get(name) for name in ("author", "error_code", "error_message")} | {"content": content}
    for column, name in _V0_JSON_COLUMNS.items():
        try:
            event[name] = parse_json_as(row[column], dict | list | None) if row.get(column) else None
        except BadValue as reason:
            problems.append(Problem(f"events:{row['id']}", f"{column} cannot be read: {reason}"))
    return event
