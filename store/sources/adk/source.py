"""google-adk, which DAK is built on: events of apps and their users, in three layouts, in SQLite or PostgreSQL.

Since v1 an event carries its own moment. In v0 it has a local time whose zone nobody wrote down: it is taken for UTC,
so it may stand hours off the session's own times, which are. The pickled `actions` of v0 are measured and never read,
since a pickle runs what it pleases.
"""

from __future__ import annotations

import base64
import shlex
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

from store.errors import BadValue, Unreadable
from store.formats.genai import Events, state_line
from store.model.entry import Json, NewEntry, NewRecord, Opaque
from store.model.identity import joined_id
from store.model.knowledge import user_scope
from store.model.session import Session
from store.sources.adk.state import SESSION_KEY, STATE_KEYS, parsed, places_of, state_place
from store.sources.adk.write_back import plan
from store.sources.contract import Batch, Continuing, ForeignFact, ForeignFile, ForeignSecret, Problem, Ref
from store.sources.kit import homes, postgres, sqlite
from store.text.validate import encode_derived

__all__ = ["LABEL", "LIVE_WRITES", "LOCAL_IDS", "NAME", "READER", "detect", "open", "plan", "resume", "roots", "stamp"]

NAME = "adk"
LABEL = "google-adk"
READER = 1
LOCAL_IDS = True
LIVE_WRITES = True

Row = Mapping[str, Any]

_SIGNATURES = [
    {
        "sessions": ("app_name", "user_id", "id", "state", "create_time", "update_time"),
        "events": ("app_name", "user_id", "session_id", "id", "timestamp", body),
    }
    for body in ("event_data", "content")
]
_OF_SESSION = "app_name = :app and user_id = :user and session_id = :session"
_V0_JSON = {
    "usage_metadata": "usage_metadata",
    "long_running_tool_ids_json": "long_running_tool_ids",
    "input_transcription": "input_transcription",
    "output_transcription": "output_transcription",
}

roots = homes.adk


def detect(locator: str) -> bool:
    """A server that does not answer may well be ADK's; opening it tells why it does not."""
    if not postgres.is_address(locator):
        return any(sqlite.looks_like(locator, signature) for signature in _SIGNATURES)
    try:
        with postgres.opened(locator) as rows:
            return _is_adks(rows.tables)
    except Unreadable:
        return True


def _is_adks(tables: Mapping[str, frozenset[str]]) -> bool:
    return any(
        all(tables.get(name, frozenset()).issuperset(columns) for name, columns in signature.items())
        for signature in _SIGNATURES
    )


def stamp(locator: str) -> str:
    if not postgres.is_address(locator):
        return sqlite.file_stamp(Path(locator))
    try:
        with postgres.opened(locator) as rows:
            return rows.visible()
    except Unreadable:
        return ""


@contextmanager
def open(locator: str) -> Iterator[Adk]:  # noqa: A001 the shape's own word
    if postgres.is_address(locator):
        with postgres.opened(locator) as rows:
            yield Adk(rows)
    else:
        with sqlite.snapshot(Path(locator)) as connection:
            yield Adk(_Sqlite(connection))


def resume(session: Session) -> Continuing:
    places = places_of(session.native_id)
    if len(places) != 3:
        return Continuing(None, hint="It was not read from an ADK database, so ADK knows nothing of it.")
    app, user, name = places
    hint = f"Send DAK the header X-Session-ID: {name}"
    if name == f"session_{user}":
        hint = f"Start DAK with `--username {shlex.quote(user)}`, or send it the header X-Session-ID: {name}"
    adk = "`adk web --session_service_uri` with the address of this database"
    return Continuing(None, hint=f"{hint}; with ADK itself, {adk}, then app {app!r}, user {user!r}, session {name!r}.")


# ── rows, wherever they are kept ──────────────────────────────────────────────────────────────────


class Rows(Protocol):
    "The little in which databases differ; all above it is the same."

    @property
    def tables(self) -> Mapping[str, frozenset[str]]:
        """The columns of each."""
        ...

    def select(self, sql: str, **values: str) -> Iterator[Row]:
        """Streamed; JSON as text, times as text or epoch."""
        ...

    def fingerprints(self, table: str, by: Sequence[str]) -> dict[tuple[str, ...], str]:
        """For each group of rows something that differs when anything in them does."""
        ...

    def number_in(self, column: str, name: str) -> str:
        """SQL for a number in a column of JSON; null where there is none."""
        ...

    @property
    def append_order(self) -> str:
        """What breaks a tie between rows that were appended at the same moment."""
        ...


class _Sqlite:
    append_order = "rowid"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.tables = sqlite.tables(connection)

    def select(self, sql: str, **values: str) -> Iterator[Row]:
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

    def number_in(self, column: str, name: str) -> str:
        return f"case when json_valid({column}) then json_extract({column}, '$.{name}') end"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# ── a store ───────────────────────────────────────────────────────────────────────────────────────


class Adk:
    def __init__(self, rows: Rows) -> None:
        if not _is_adks(rows.tables):
            raise Unreadable("It does not hold google-adk's tables.")
        self._rows = rows
        self.problems: list[Problem] = []
        names = sorted(rows.tables["events"])
        self._has_json = "event_data" in names
        measured = {"actions": 'length("actions") as actions_bytes'}
        self._columns = ", ".join(measured.get(name) or _quoted(name) for name in names)
        # Only SqliteSessionService breaks ties by the order of appending; it alone of the JSON layouts has no metadata.
        told_by_id = "adk_internal_metadata" in rows.tables or not self._has_json
        self._order = f'"timestamp", {"id" if told_by_id else rows.append_order}'

    def scan(self) -> Iterator[Ref]:
        told = self._rows.fingerprints("events", ("app_name", "user_id", "session_id"))
        for places, row in self._named("sessions", SESSION_KEY, "create_time, update_time"):
            content = sqlite.digest(told.get(places), row["create_time"])
            yield Ref(joined_id(*places), content, sqlite.utc(row["update_time"]))

    def _named(self, table: str, key: Sequence[str], columns: str) -> Iterator[tuple[tuple[str, ...], Row]]:
        for row in self._rows.select(f"select {', '.join(key)}, {columns} from {table}"):
            places = tuple(row[name] for name in key)
            if all(isinstance(place, str) for place in places):
                yield places, row
            else:
                self.problems.append(Problem(table, f"The row {places} is not named by text."))

    def read(self, ref: Ref) -> Iterator[Batch]:
        app, user, name = places_of(ref.native_id)
        select = "select * from sessions where app_name = :app and user_id = :user and id = :session"
        session = next(self._rows.select(select, app=app, user=user, session=name), None)
        if session is None:
            raise Unreadable("Its row cannot be found by its name.")
        yield _about(session)
        events, batch, size = Events(), Batch(), 0
        for row in self._events(app, user, name):
            entries, problems = self._entries(events, row, sqlite.utc(session["create_time"]))
            batch.entries += entries
            batch.problems += problems
            size += len(entries[0].record.data) if entries[0].record else 0
            if len(batch.entries) >= sqlite.BATCH_ENTRIES or size >= sqlite.BATCH_BYTES:
                yield batch
                batch, size = Batch(), 0
        yield batch

    def _events(self, app: str, user: str, session: str) -> Iterator[Row]:
        """By the moment in the event itself. Beside it stands a column in local time, which a change of the clocks
        puts out of order; only then are a session's rows gathered to be sorted."""
        places = {"app": app, "user": user, "session": session}
        rows = self._rows.select(
            f"select {self._columns} from events where {_OF_SESSION} order by {self._order}", **places
        )
        if not self._has_json:
            return rows
        moment = self._rows.number_in("event_data", "timestamp")
        told = self._rows.select(
            f"select {moment} as at from events where {_OF_SESSION} order by {self._order}", **places
        )
        moments = list(accumulate((row["at"] for row in told), _known_or_before, initial=0.0))[1:]
        if moments == sorted(moments):
            return rows
        by_moment = sorted(zip(moments, rows, strict=True), key=lambda pair: pair[0])
        return (row for _, row in by_moment)

    def _entries(self, events: Events, row: Row, fallback: str) -> tuple[list[NewEntry], list[Problem]]:
        record = _record(row, "events", str(row["id"]))
        problems: list[Problem] = []
        body = "event_data" if self._has_json else "content"
        event: Mapping[str, Json] = {}
        try:
            found = parsed(row[body], dict | None) if row[body] is not None else None
            event = found or {} if self._has_json else _event_of_columns(row, found, problems)
        except BadValue as reason:
            problems.append(Problem(f"events:{row['id']}", f"{body} cannot be read: {reason}"))
        at = sqlite.utc(event.get("timestamp")) or sqlite.utc(row["timestamp"]) or fallback
        if problems and not event:
            unread = (Opaque(body, _spelled(row[body])),)
            return [NewEntry(kind="unknown", parts=unread, record=record, created_at=at)], problems
        return events.entries(event, record, at), problems

    # ── what outlives a session ───────────────────────────────────────────────────────────────────

    def facts(self) -> Iterable[ForeignFact]:
        for table, key in STATE_KEYS.items():
            yield from self._states(table, key)

    def _states(self, table: str, key: tuple[str, ...]) -> Iterator[ForeignFact]:
        if not {*key, "state"} <= self._rows.tables.get(table, frozenset()):
            return
        for places, row in self._named(table, key, "state, update_time"):
            at = sqlite.utc(row["update_time"])
            for name, value in self._state(row["state"], f"{table}:{joined_id(*places)}").items():
                yield ForeignFact(
                    state_place(table, places, name),
                    state_line(name, value),
                    scope=_scope(places),
                    category="state",
                    native_session=joined_id(*places) if table == "sessions" else "",
                    created_at=at,
                    updated_at=at,
                )

    def _state(self, text: object, where: str) -> Mapping[str, Json]:
        try:
            state: Mapping[str, Json] = parsed(text, dict)
            return state
        except BadValue as reason:
            self.problems.append(Problem(where, f"The state cannot be read: {reason}"))
            return {}

    def secrets(self) -> Iterable[ForeignSecret]:
        return ()

    def published(self) -> Iterable[ForeignFile]:
        return ()


def _scope(places: Sequence[str]) -> str:
    if len(places) == 1:
        return f"app:{places[0]}"
    return user_scope(*places) if len(places) == 2 else "session"


def _about(row: Row) -> Batch:
    made = sqlite.utc(row["create_time"]) or sqlite.utc(row["update_time"])
    kept = {name: value for name, value in row.items() if name not in ("state", "update_time")}
    record = _record(kept, "sessions", joined_id(row["app_name"], row["user_id"], row["id"]))
    return Batch(
        header=NewEntry(kind="header", record=record, created_at=made),
        fields={
            "channel": row["app_name"],
            "channel_id": row["id"],
            "user": row["user_id"],
            "created_at": made,
            "updated_at": sqlite.utc(row["update_time"]) or made,
        },
    )


def _record(row: Row, place: str, position: str) -> NewRecord:
    return NewRecord(encode_derived({name: _spelled(value) for name, value in row.items()}), place, position)


def _spelled(value: object) -> object:
    """What no column of ADK's own holds stays recognisable."""
    if isinstance(value, bytes):
        return {"$base64": base64.b64encode(value).decode()}
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _known_or_before(before: float, at: object) -> float:
    """A row without a moment of its own stays behind the one it followed. To the microsecond, as the column is."""
    return round(float(at), 6) if isinstance(at, int | float) else before


# ── an event's row ────────────────────────────────────────────────────────────────────────────────


def _event_of_columns(row: Row, content: Json, problems: list[Problem]) -> Mapping[str, Json]:
    event = {name: row.get(name) for name in ("author", "error_code", "error_message")} | {"content": content}
    for column, name in _V0_JSON.items():
        try:
            event[name] = parsed(row[column], dict | list | None) if row.get(column) else None
        except BadValue as reason:
            problems.append(Problem(f"events:{row['id']}", f"{column} cannot be read: {reason}"))
    return event
