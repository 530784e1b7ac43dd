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


# ── rows, wherever they are kept ──────────────────────────────────────────────────────────────────


class AdkDatabase(Protocol):
    "The little in which databases differ; all above it is the same."

    @property
    def tables(self) -> Mapping[str, frozenset[str]]:
        """The columns of each."""
        ...

    def select(self, sql: str, **values: str) -> Iterator[AdkRow]:
        """Streamed; JSON as text, times as text or epoch."""
        ...

    def fingerprints(self, table: str, by: Sequence[str]) -> dict[tuple[str, ...], str]:
        """For each group of rows something that differs when anything in them does."""
        ...

    def json_number_sql(self, column: str, name: str) -> str:
        """SQL for a number in a column of JSON; null where there is none."""
        ...

    @property
    def append_order(self) -> str:
        """What breaks a tie between rows that were appended at the same moment."""
        ...


class SqliteDatabase:
    append_order = "rowid"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.tables = sqlite.read_tables(connection)

    def select(self, sql: str, **values: str) -> Iterator[AdkRow]:
        try:
            yield from map(dict, self._connection.execute(sql, values))
        except sqlite3.Error as reason:
            raise Unreadable(f"It cannot be read any further: {reason}.") from None

    def fingerprints(self, table: str, by: Sequence[str]) -> dict[tuple[str, ...], str]:
        """In the order of the file, each group's rows hashed as they come."""
        told: dict[tuple[str, ...], str] = {}
        for row in self.select(f"select * from {table}"):
            group = tuple(row[name] for name in by)
            told[group] = sqlite.digest(told.get(group), *row.values())
        return told

    def json_number_sql(self, column: str, name: str) -> str:
        return f"case when json_valid({column}) then json_extract({column}, '$.{name}') end"


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# ── a store ───────────────────────────────────────────────────────────────────────────────────────


class AdkReader(SourceReader):
    def __init__(self, rows: AdkDatabase) -> None:
        super().__init__()
        if not any(sqlite.has_columns(rows.tables, signature) for signature in Adk.signatures):
            raise Unreadable("It does not hold google-adk's tables.")
        self._database = rows
        names = sorted(rows.tables["events"])
        self._has_event_json = "event_data" in names
        measured = {"actions": 'length("actions") as actions_bytes'}
        self._event_columns = ", ".join(measured.get(name) or _quote_name(name) for name in names)
        # Only SqliteSessionService breaks ties by the order of appending; it alone of the JSON layouts has no metadata.
        told_by_id = "adk_internal_metadata" in rows.tables or not self._has_event_json
        self._event_order = f'"timestamp", {"id" if told_by_id else rows.append_order}'

    def scan(self) -> Iterator[SessionRef]:
        told = self._database.fingerprints("events", ("app_name", "user_id", "session_id"))
        for places, row in self._read_keyed_rows("sessions", SESSION_KEY, "create_time, update_time"):
            content = sqlite.digest(told.get(places), row["create_time"])
            yield SessionRef(join_native_id(*places), content, sqlite.normalize_time(row["update_time"]))

    def _read_keyed_rows(
        self, table: str, key: Sequence[str], columns: str
    ) -> Iterator[tuple[tuple[str, ...], AdkRow]]:
        for row in self._database.select(f"select {', '.join(key)}, {columns} from {table}"):
            places = tuple(row[name] for name in key)
            if all(isinstance(place, str) for place in places):
                yield places, row
            else:
                self.problems.append(Problem(table, f"The row {places} is not named by text."))

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        app, user, name = split_native_id(ref.native_id)
        select = "select * from sessions where app_name = :app and user_id = :user and id = :session"
        session = next(self._database.select(select, app=app, user=user, session=name), None)
        if session is None:
            raise Unreadable("Its row cannot be found by its name.")
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
        """By the moment in the event itself. Beside it stands a column in local time, which a change of the clocks
        puts out of order; only then are a session's rows gathered to be sorted."""
        places = {"app": app, "user": user, "session": session}
        rows = self._database.select(
            f"select {self._event_columns} from events where {_SESSION_CONDITION} order by {self._event_order}",
            **places,
        )
        if not self._has_event_json:
            return rows
        moment = self._database.json_number_sql("event_data", "timestamp")
        told = self._database.select(
            f"select {moment} as at from events where {_SESSION_CONDITION} order by {self._event_order}", **places
        )
        moments = list(accumulate((row["at"] for row in told), _time_or_previous, initial=0.0))[1:]
        if moments == sorted(moments):
            return rows
        by_moment = sorted(zip(moments, rows, strict=True), key=lambda pair: pair[0])
        return (row for _, row in by_moment)

    def _parse_event_row(self, events: EventParser, row: AdkRow, fallback: str) -> tuple[list[NewEntry], list[Problem]]:
        record = _make_record(row, "events", str(row["id"]))
        problems: list[Problem] = []
        body = "event_data" if self._has_event_json else "content"
        event: Mapping[str, Json] = {}
        try:
            found = parse_json_as(row[body], dict | None) if row[body] is not None else None
            event = found or {} if self._has_event_json else _event_from_columns(row, found, problems)
        except BadValue as reason:
            problems.append(Problem(f"events:{row['id']}", f"{body} cannot be read: {reason}"))
        at = sqlite.normalize_time(event.get("timestamp")) or sqlite.normalize_time(row["timestamp"]) or fallback
        if problems and not event:
            unread = (Opaque(body, _encode_value(row[body])),)
            return [NewEntry(kind="unknown", parts=unread, record=record, created_at=at)], problems
        return events.parse_event(event, record, at), problems

    # ── what outlives a session ───────────────────────────────────────────────────────────────────

    def facts(self) -> Iterable[ForeignFact]:
        for table, key in STATE_KEYS.items():
            yield from self._read_state_facts(table, key)

    def _read_state_facts(self, table: str, key: tuple[str, ...]) -> Iterator[ForeignFact]:
        if not {*key, "state"} <= self._database.tables.get(table, frozenset()):
            return
        for places, row in self._read_keyed_rows(table, key, "state, update_time"):
            at = sqlite.normalize_time(row["update_time"])
            for name, value in self._parse_state(row["state"], f"{table}:{join_native_id(*places)}").items():
                yield ForeignFact(
                    format_state_place(table, places, name),
                    format_state(name, value),
                    scope=_fact_scope(places),
                    category="state",
                    native_session=join_native_id(*places) if table == "sessions" else "",
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


def _fact_scope(places: Sequence[str]) -> str:
    if len(places) == 1:
        return f"app:{places[0]}"
    return user_scope(*places) if len(places) == 2 else "session"


def _build_header_batch(row: AdkRow) -> Batch:
    made = sqlite.normalize_time(row["create_time"]) or sqlite.normalize_time(row["update_time"])
    kept = {name: value for name, value in row.items() if name not in ("state", "update_time")}
    record = _make_record(kept, "sessions", join_native_id(row["app_name"], row["user_id"], row["id"]))
    return Batch(
        header=NewEntry(kind="header", record=record, created_at=made),
        fields={
            "channel": row["app_name"],
            "channel_id": row["id"],
            "user": row["user_id"],
            "created_at": made,
            "updated_at": sqlite.normalize_time(row["update_time"]) or made,
        },
    )


def _make_record(row: AdkRow, place: str, position: str) -> NewRecord:
    return NewRecord(encode_derived({name: _encode_value(value) for name, value in row.items()}), place, position)


def _encode_value(value: object) -> object:
    """What no column of ADK's own holds stays recognisable."""
    if isinstance(value, bytes):
        return {"$base64": base64.b64encode(value).decode()}
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _time_or_previous(before: float, at: object) -> float:
    """A row without a moment of its own stays behind the one it followed. To the microsecond, as the column is."""
    return round(float(at), 6) if isinstance(at, int | float) else before


# ── an event's row ────────────────────────────────────────────────────────────────────────────────


def _event_from_columns(row: AdkRow, content: Json, problems: list[Problem]) -> Mapping[str, Json]:
    event = {name: row.get(name) for name in ("author", "error_code", "error_message")} | {"content": content}
    for column, name in _V0_JSON_COLUMNS.items():
        try:
            event[name] = parse_json_as(row[column], dict | list | None) if row.get(column) else None
        except BadValue as reason:
            problems.append(Problem(f"events:{row['id']}", f"{column} cannot be read: {reason}"))
    return event
