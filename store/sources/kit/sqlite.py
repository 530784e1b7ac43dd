"""This module reads SQLite files of other programs without disturbing them and without trusting their schemas."""

from __future__ import annotations

import base64
import re
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from store.errors import Unreadable
from store.model.entry import NewEntry, NewRecord
from store.model.session import SessionFields
from store.sources.contract import Batch, SourceReader
from store.sources.kit.private_copy import is_sqlite, raise_if_too_large, used_bytes
from store.sources.kit.private_copy import private_copy as private_copy
from store.sources.kit.problem import Problem
from store.sources.kit.stamps import QUIET_SECONDS
from store.sources.kit.stamps import database_stamp as database_stamp
from store.sources.kit.stamps import digest as digest
from store.sources.kit.stamps import quiet_stamp as quiet_stamp
from store.sources.kit.stamps import to_one_line as to_one_line

RowLike = Mapping[str, Any] | sqlite3.Row
"""Is a row, with values by the names of its columns."""

SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""These are raised for damage that no check found; the second for a name in the schema that is no text."""

MAX_VALUE_BYTES = 64 * 1024 * 1024
STATEMENT_TIMEOUT_SECONDS = 60.0

MIN_OPENING_SECONDS = 10.0
CHECKED_BYTES_PER_SECOND = 4 * 1024 * 1024
"""Opening a database, with its check, may take ten seconds and longer for a large one. Slow disks are faster."""

BATCH_ENTRIES = 500
BATCH_BYTES = 1024 * 1024


class SqliteReader(SourceReader):
    """Reads one SQLite file of another program."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._connection = connection
        self._tables = read_tables(connection)


# ── snapshots ─────────────────────────────────────────────────────────────────────────────────────


def is_quiet(timestamp: str) -> bool:
    """Return whether a time, in the store's format, is long enough ago. An empty time is.

    So is a time far in the future. It was written before the clock was set back, and would not be past for long.
    """
    now = time.time()
    return not _format_epoch(now - QUIET_SECONDS) <= timestamp <= _format_epoch(now + QUIET_SECONDS)


def raise_if_damaged(path: Path) -> None:
    """Raise Unreadable for a damaged SQLite database. Files of other kinds are ignored."""
    if is_sqlite(path):
        with snapshot(path):
            pass


@contextmanager
def snapshot(path: Path, *, check: bool = True) -> Iterator[sqlite3.Connection]:
    """Yield a connection to a copy of the database as it was at one moment. It may stay open for any time."""
    with private_copy(path) as copy:
        try:
            with closing(_open_guarded(copy, path, check)) as connection:
                # Only the open connection needs the files. Unlinked, they disappear even if this process is killed.
                for file in copy.parent.iterdir():
                    file.unlink()
                yield connection
        except SQLITE_ERRORS as reason:
            raise Unreadable(f"{path} cannot be read: {to_one_line(reason)}.") from None


_PRAGMAS = (
    "trusted_schema = off",
    "cell_size_check = on",
    "ignore_check_constraints = on",
    "query_only = on",
    "mmap_size = 0",
)
_OPENING_PRAGMAS = frozenset({"quick_check", "table_xinfo"})
_READING_PRAGMAS = frozenset({"table_info", "foreign_key_list"})
_SELECT_DISGUISED_TABLE = """
    select 1 from sqlite_master where rootpage > 0
        and not (sql like 'create table %' or sql like 'create index %' or sql like 'create unique index %')
"""
_VIRTUAL_GENERATED = 2
_ALLOWED_ACTIONS = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)


def _open_guarded(copy: Path, path: Path, check: bool) -> sqlite3.Connection:
    """Open a copy for selects only, with limits on time and size, without trusting its schema.

    The limits come before the first look at the schema, because the schema decides how long a look takes.
    """
    connection = sqlite3.connect(copy, isolation_level=None)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.row_factory = sqlite3.Row
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    seconds = MIN_OPENING_SECONDS + used_bytes(copy.stat()) / CHECKED_BYTES_PER_SECOND
    try:
        _interrupt_after(connection, seconds)
        for pragma in _PRAGMAS:
            connection.execute(f"pragma {pragma}")
        _allow_reading_only(connection, _OPENING_PRAGMAS)
        computed = _find_computed_columns(connection)
        if check:
            _raise_if_check_fails(connection, path, {table for table, _ in computed})
        _allow_reading_only(connection, _READING_PRAGMAS, computed)
        _set_statement_timeout(connection, STATEMENT_TIMEOUT_SECONDS)
    except BaseException as reason:
        connection.close()
        if getattr(reason, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            raise Unreadable(f"{path} takes longer than {seconds:.0f} seconds to open, so it is not read.") from None
        raise
    return connection


def _interrupt_after(connection: sqlite3.Connection, seconds: float) -> None:
    """Interrupt whatever the connection does after some time."""
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)


def _raise_if_check_fails(connection: sqlite3.Connection, path: Path, computed_tables: Collection[str]) -> None:
    """Raise Unreadable for a damaged database.

    The check computes virtual columns, which could cost any amount of work. So a table that has some is not checked;
    damage in it is found when it is read.
    """
    subjects = ["1"]
    if computed_tables or connection.execute(_SELECT_DISGUISED_TABLE).fetchone():
        names = [name for name in _table_names(connection) if name not in computed_tables]
        # SQLite takes a name that begins with a digit for a number, and then checks all tables.
        subjects = [_quote_identifier(name) for name in names if name[:1].isidentifier()]
    for subject in subjects:
        if (result := _quick_check(connection, subject)) != "ok":
            raise Unreadable(f"{path} is damaged: {to_one_line(result)}.")


def _quick_check(connection: sqlite3.Connection, subject: str) -> str:
    try:
        return str(connection.execute(f"pragma quick_check({subject})").fetchone()[0])
    except sqlite3.DataError:
        # A value that is too large ends the check, but it is no damage: its row will be left out.
        return "ok"


def _find_computed_columns(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """Return the table and name of each virtual column."""
    return {
        (table, row["name"])
        for table in _table_names(connection)
        for row in connection.execute(f"pragma table_xinfo({_quote_identifier(table)})")
        if row["hidden"] == _VIRTUAL_GENERATED
    }


def _allow_reading_only(
    connection: sqlite3.Connection, pragmas: Collection[str], computed: Collection[tuple[str, str]] = ()
) -> None:
    """Deny everything but reads. Computed columns read as null, because they could cost any amount of work."""

    def authorize(action: int, first: str | None, second: str | None, *_: object) -> int:
        if action == sqlite3.SQLITE_READ and (first, second) in computed:
            return sqlite3.SQLITE_IGNORE
        if action == sqlite3.SQLITE_PRAGMA:
            return sqlite3.SQLITE_OK if first in pragmas else sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK if action in _ALLOWED_ACTIONS else sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)


def _set_statement_timeout(connection: sqlite3.Connection, seconds: float) -> None:
    """Interrupt a statement that returns no row for some time.

    A hostile view can run forever; a table returns rows, and with them text, quickly.
    """
    waiting_since: list[float] = []

    def decode_text(data: bytes) -> str:
        waiting_since.clear()
        return data.decode("utf-8", "replace")

    def is_timed_out() -> bool:
        if not waiting_since:
            waiting_since.append(time.monotonic())
        return time.monotonic() - waiting_since[0] > seconds

    connection.text_factory = decode_text
    connection.set_trace_callback(lambda _: waiting_since.clear())
    connection.set_progress_handler(is_timed_out, 100_000)


def read_tables(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    """Return the tables and their columns, without views and virtual tables."""
    return {
        name: frozenset(row[1] for row in connection.execute(f"pragma table_info({_quote_identifier(name)})"))
        for name in _table_names(connection)
    }


def _table_names(connection: sqlite3.Connection) -> list[str]:
    """Return the names of tables. SQLite normalizes the spelling of `create table`, so that the pattern matches."""
    rows = connection.execute("select name from sqlite_master where type = 'table' and sql like 'create table %'")
    return [name for (name,) in rows.fetchall()]


def _quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def has_tables(locator: str, signature: Mapping[str, Iterable[str]]) -> bool:
    """Return whether the file is a SQLite database with these tables and columns. The name does not matter.

    Raises Busy when the file is being written to and cannot be read yet, and Unreadable when it is too large.
    """
    path = Path(locator)
    if is_sqlite(path):
        raise_if_too_large(path)
    try:
        schema = _read_schema(path, database_stamp(path))
    except Unreadable:
        return False
    return has_columns(schema, signature)


def raise_if_unknowable(path: Path) -> None:
    """Raise Unreadable for a SQLite database that is so damaged that its tables cannot be listed."""
    if is_sqlite(path):
        _read_schema(path, database_stamp(path))


def has_columns(schema: Mapping[str, frozenset[str]], signature: Mapping[str, Iterable[str]]) -> bool:
    return all(set(columns) <= schema.get(table, frozenset()) for table, columns in signature.items())


@lru_cache(maxsize=32)
def _read_schema(path: Path, stamp: str) -> dict[str, frozenset[str]]:
    """Return tables and columns. They are cached, because every source asks whether the file is its own."""
    with snapshot(path, check=False) as connection:
        return read_tables(connection)


# ── rows and records ──────────────────────────────────────────────────────────────────────────────


def read_rows(
    connection: sqlite3.Connection, table: str, problems: list[Problem], clause: str = "order by rowid", *values: object
) -> Iterator[dict[str, Any]]:
    """Yield complete rows. A row that is too large is reported as a problem and left out."""
    count = 0
    cursor = connection.cursor()
    cursor.row_factory = None
    try:
        rows = cursor.execute(f"select * from {table} {clause}", values)
        names = [column[0] for column in rows.description]
        for row in rows:
            count += 1
            yield dict(zip(names, row, strict=False))
    except sqlite3.DataError:
        rowids = connection.execute(f"select rowid from {table} {clause}", values).fetchall()
        yield from _read_rows_one_by_one(connection, table, problems, [rowid for (rowid,) in rowids[count:]])


def _read_rows_one_by_one(
    connection: sqlite3.Connection, table: str, problems: list[Problem], rowids: Iterable[int]
) -> Iterator[dict[str, Any]]:
    for rowid in rowids:
        try:
            row = connection.execute(f"select * from {table} where rowid = ?", (rowid,)).fetchone()
        except sqlite3.DataError:
            reason = f"It is larger than {MAX_VALUE_BYTES >> 20} MB and is left out."
            problems.append(Problem(f"{table}:{rowid}", reason))
        else:
            yield dict(row)


def scan_columns(connection: sqlite3.Connection, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rowid and these columns of every row, in the order of the file; null for a row that is too large."""
    cursor = connection.cursor()
    cursor.row_factory = None
    select = f"select rowid, {', '.join(columns)} from {table}"
    last: int | None = -(2**63)
    while last is not None:
        try:
            for row in cursor.execute(f"{select} where rowid > ? order by rowid", (last,)):
                last = row[0]
                yield row
            return
        except sqlite3.DataError:
            (last,) = cursor.execute(f"select min(rowid) from {table} where rowid > ?", (last,)).fetchone()
            yield (last, *(None for _ in columns))


def find_orphan_rows(connection: sqlite3.Connection, table: str) -> Iterator[Problem]:
    """Yield a problem for each missing session that rows of the table refer to, at the first of these rows."""
    session_exists = f"select 1 from sessions where sessions.id = {table}.session_id"
    try:
        rows = connection.execute(
            f"select min(rowid), session_id from {table} group by session_id having not exists ({session_exists})"
        ).fetchall()
    except sqlite3.DataError:
        return
    for rowid, session in rows:
        yield Problem(f"{table}:{rowid}", f"There is no session {session!r}.")


def as_text(value: object) -> str:
    """Return the value of a text column as text, even if it has another type."""
    if type(value) is str:
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def record_from_row(
    row: RowLike,
    place: str,
    position: object,
    *,
    exclude: Collection[str] = (),
    replacements: Mapping[str, object] | None = None,
) -> NewRecord:
    """Return the row verbatim as a JSON object, without the excluded columns and with some values replaced."""
    columns = row if type(row) is dict and not exclude and not replacements else dict(row) | dict(replacements or {})
    for name in exclude:
        columns.pop(name, None)
    return NewRecord(orjson.dumps(columns, default=_encode_blob), place, str(position))


def _encode_blob(value: object) -> object:
    if not isinstance(value, bytes):
        raise TypeError
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"$base64": base64.b64encode(value).decode()}


# ── times ─────────────────────────────────────────────────────────────────────────────────────────


_match_milliseconds = re.compile(r"....-..-..T..:..:..\....Z").fullmatch
"""Matches the usual format of times, which lacks only three digits of the store's format."""


@lru_cache(maxsize=4096)
def normalize_time(value: object) -> str:
    """Return a foreign time in the store's format; empty when it is none. Without a zone it is UTC."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
            return f"{value[:23]}000Z" if _match_milliseconds(value) else _format_time(moment)
        except (ValueError, OverflowError):
            return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _format_epoch(float(value))
    return ""


def _format_epoch(seconds: float) -> str:
    if abs(seconds) > 1e11:  # milliseconds
        seconds /= 1000
    try:
        return _format_time(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return ""


def _format_time(moment: datetime) -> str:
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="microseconds") + "Z"


def time_fields(created: object, updated: object) -> SessionFields:
    """Return the times of a session as fields; nothing when neither time is valid."""
    created_at = normalize_time(created) or normalize_time(updated)
    updated_at = normalize_time(updated) or created_at
    return {"created_at": created_at, "updated_at": updated_at} if created_at else {}


def build_batches(records: Iterable[Sequence[NewEntry]], problems: list[Problem]) -> Iterator[Batch]:
    """Group the entries of records into batches of limited size. A batch also has the problems found so far."""
    batch, size = Batch(), 0
    for entries in records:
        batch.entries += entries
        size += len(entries[0].record.data) if entries and entries[0].record else 0
        if len(batch.entries) >= BATCH_ENTRIES or size >= BATCH_BYTES:
            batch.problems = problems.copy()
            problems.clear()
            yield batch
            batch, size = Batch(), 0
    batch.problems = problems
    yield batch


def chunked(sequence: Sequence[Any], size: int = BATCH_ENTRIES) -> Iterator[Sequence[Any]]:
    for start in range(0, len(sequence), size):
        yield sequence[start : start + size]


def read_session_rows(
    connection: sqlite3.Connection, problems: list[Problem], child_table: str
) -> Iterator[dict[str, Any]]:
    """Yield the rows of `sessions` that have a text id. Other rows and orphans in the child table become problems."""
    for row in read_rows(connection, "sessions", problems):
        if isinstance(row["id"], str):
            yield row
        else:
            problems.append(Problem("sessions", f"The id of session {row['id']!r} is not text."))
    problems += find_orphan_rows(connection, child_table)
