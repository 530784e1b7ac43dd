"""This module writes to foreign SQLite databases: back up, compare row by row, swap in one short transaction.

It also holds what all kinds of databases share. Text that is not UTF-8 is read and written with surrogates, so that it
is compared and restored byte for byte.
"""

from __future__ import annotations

import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from store.database.backup import backup_time, copy_database, delete_backups, sort_newest_first
from store.errors import BadValue, Busy, ChangedMeanwhile, Refused, StoreError, WriteFailed
from store.sources.kit import sqlite
from store.sources.kit.private_copy import read_super_journal
from store.sources.kit.stamps import sidecar_path
from store.sources.kit.write_plan import CascadeRule, RowChange, SecretText
from store.write_back.processes import find_processes_using
from store.write_back.side_effects import refuse_prevented_change, refuse_side_effects, watch_changes

BACKUPS_KEPT = 5
LOCK_TIMEOUT_SECONDS = 1.0
MAX_TRANSACTION_SECONDS = 3.0
"""Limits a transaction while the agent runs: it may not wait for a lock, and lose what it wanted to write."""
MAX_EXCLUSIVE_SECONDS = 120.0

_SELECT_TABLES = "select name from sqlite_master where type = 'table'"
_SELECT_TRIGGERS = "select name from sqlite_master where type = 'trigger' and lower(tbl_name) = lower(?)"

_AFFINITIES = (
    ("integer", ("INT",)),
    ("text", ("CHAR", "CLOB", "TEXT")),
    ("blob", ("BLOB",)),
    ("real", ("REAL", "FLOA", "DOUB")),
)
"""Lists the affinities of SQLite and the words in a declared type that select them. The first match decides."""


class RowSwapper(Protocol):
    """Describes the functions of a module that replaces rows, or files, by others."""

    def swap_rows(self, locator: str, changes: Sequence[RowChange], *, exclusive: bool) -> None:
        """Compare every row with its expected content and write all changes in one short transaction, or none.

        Raises Refused if the database would change other rows as well.
        """
        ...

    def back_up(self, folder: Path, name: str, locator: str, changes: Sequence[RowChange]) -> Path:
        """Back up the store to a file with mode 0600 that has `name` in its name. Only the newest backups are kept."""
        ...


class WriteBackend(RowSwapper, Protocol):
    """Describes the functions of a module that writes to one kind of database."""

    def open_rows(self, locator: str) -> AbstractContextManager[DatabaseRows]:
        """Open the current rows for reading."""
        ...

    def find_side_effects(self, locator: str, changes: Sequence[RowChange], triggers: Sequence[str]) -> list[str]:
        """Return what these triggers would do besides the changes, in a sentence each. Nothing is written."""
        ...


class DatabaseRows(ABC):
    """Reads and writes rows of a foreign database. Subclasses add what differs between databases."""

    _or_abort = ""
    "Says in SQL that a conflict is an error."

    def __init__(self) -> None:
        self._cached_columns = cache(self._read_columns)
        self.cascade_rules = cache(self._find_cascading)
        self._cached_order = cache(self._order_newest_first)

    @abstractmethod
    def _read_columns(self, table: str) -> Sequence[tuple[str, int]]:
        """Return the columns that can be written, each with its position in the primary key: 1, 2 …, or 0."""

    @abstractmethod
    def _find_cascading(self, table: str) -> list[CascadeRule]:
        """Return the foreign keys that delete rows of other tables together with a row of this table."""

    @abstractmethod
    def _find_triggers(self, table: str) -> list[str]:
        """Return the names of the triggers that run when a row of this table changes."""

    @abstractmethod
    def _order_newest_first(self, table: str) -> str:
        """Return an `order by` clause. Rows that are deleted newest first are restored in their old order."""

    @abstractmethod
    def _execute(self, sql: str, values: Iterable[Any]) -> Sequence[Sequence[Any]]: ...
    @abstractmethod
    def _equality_sql(self, name: str, value: Any) -> str: ...
    @abstractmethod
    def _placeholder(self, value: Any) -> str: ...

    def columns(self, table: str) -> list[str]:
        return [name for name, _ in self._cached_columns(table)]

    def has_primary_key(self, table: str) -> bool:
        return any(position for _, position in self._cached_columns(table))

    def primary_key(self, table: str) -> list[str]:
        """Return the columns of the primary key in order; all columns if the table has none."""
        by_position = sorted(self._cached_columns(table), key=lambda column: column[1])
        return [name for name, position in by_position if position] or self.columns(table)

    def triggers(self, changes: Iterable[RowChange]) -> list[str]:
        """Return the names of the triggers that run when these changes are written."""
        tables = dict.fromkeys(change.table for change in changes)
        return [name for table in tables for name in self._find_triggers(table)]

    def select(self, table: str, condition: str, *values: Any) -> list[dict[str, Any]]:
        """Return complete rows, newest first; none if there is no such table."""
        return self._select_rows(table, f"{condition} {self._cached_order(table)}", values)

    def look_up(self, table: str, key: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows with that key."""
        return self._select_rows(table, self._where_sql(key), key.values())

    def find(self, table: str, key: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows with that key. The transaction keeps other programs from changing them."""
        return self.look_up(table, key)

    def has_content(self, table: str, found: Sequence[Mapping[str, Any]], columns: Mapping[str, Any] | None) -> bool:
        """Return whether the found rows are one row with these columns, or none if there are no columns."""
        return len(found) == (columns is not None) and all(
            name in row and self.is_stored_as(table, name, row[name], value)
            for row in found
            for name, value in (columns or {}).items()
        )

    def _select_rows(self, table: str, condition: str, values: Iterable[Any]) -> list[dict[str, Any]]:
        columns = self.columns(table)
        if not columns:
            return []
        sql = f"select {', '.join(map(quote_name, columns))} from {quote_name(table)} where {condition}"
        return [dict(zip(columns, row, strict=True)) for row in self._execute(sql, values)]

    def normalize_change(self, change: RowChange) -> RowChange:
        """Return the change with its values as the database will return them."""
        return change

    def is_stored_as(self, table: str, name: str, stored: Any, value: Any) -> bool:
        """Return whether a column that was given this value has the stored one."""
        return bool(stored == value)

    def _where_sql(self, key: Mapping[str, Any]) -> str:
        return " and ".join(self._equality_sql(name, value) for name, value in key.items())

    def write(self, change: RowChange) -> None:
        table, where = quote_name(change.table), self._where_sql(change.key)
        if change.after is None:
            self._execute(f"delete from {table} where {where}", change.key.values())
        elif change.before is None:
            row = {**change.key, **change.after}
            names, placeholders = ", ".join(map(quote_name, row)), ", ".join(map(self._placeholder, row.values()))
            self._execute(f"insert {self._or_abort} into {table} ({names}) values ({placeholders})", row.values())
        else:
            assignments = ", ".join(
                f"{quote_name(name)} = {self._placeholder(value)}" for name, value in change.after.items()
            )
            self._execute(
                f"update {self._or_abort} {table} set {assignments} where {where}",
                [*change.after.values(), *change.key.values()],
            )


class SqliteRows(DatabaseRows):
    """Reads and writes rows of a SQLite database."""

    # A table can be declared so that a conflict replaces, and thereby deletes, another row.
    _or_abort = "or abort"

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self.connection = connection
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")

    def _execute(self, sql: str, values: Iterable[Any]) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, [_encode_parameter(value) for value in values]).fetchall()

    def _equality_sql(self, name: str, value: Any) -> str:
        return f"{quote_name(name)} is {self._placeholder(value)}"

    def _placeholder(self, value: Any) -> str:
        """Cast text to text if it is passed as bytes because it is not UTF-8."""
        return "cast(? as text)" if isinstance(value, str) and isinstance(_encode_parameter(value), bytes) else "?"

    def _read_columns(self, table: str) -> list[tuple[str, int]]:
        return [(row[1], row[5]) for row in self._execute(f"pragma table_info({quote_name(table)})", ())]

    def _find_triggers(self, table: str) -> list[str]:
        return [name for (name,) in self._execute(_SELECT_TRIGGERS, (table,))]

    def _order_newest_first(self, table: str) -> str:
        try:
            self._execute(f"select rowid from {quote_name(table)} limit 0", ())
        except sqlite3.OperationalError:
            return ""  # a table without rowids is always in the order of its key
        return "order by rowid desc"

    def normalize_change(self, change: RowChange) -> RowChange:
        """Return the change with its new values as the columns will store them.

        A value keeps the storage class of the one it replaces if it can, and a column with an affinity converts it: the
        text "12" becomes a number in an INTEGER column. The journal needs what is stored, else an undo finds a change.
        """
        if change.after is None:
            return change
        before = change.before or {}
        after = {name: _keep_storage_class(before.get(name), value) for name, value in change.after.items()}
        return replace(change, after=self._convert_values(change.table, after))

    def is_stored_as(self, table: str, name: str, stored: Any, value: Any) -> bool:
        """Compare with the converted value as well, because version 0.1.0 journaled values before their conversion."""
        return _is_same(stored, value) or _is_same(stored, self._convert_values(table, {name: value})[name])

    def _convert_values(self, table: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values as the columns store them. SQLite itself converts them, in a table with these columns."""
        affinities = self._affinities(table)
        with closing(sqlite3.connect(":memory:")) as connection:
            rows = SqliteRows(connection)
            columns = ", ".join(f"{quote_name(name)} {affinities.get(name, 'blob')}" for name in values)
            rows._execute(f"create table converted ({columns})", ())
            rows.write(RowChange("converted", {}, None, values))
            (stored,) = rows._select_rows("converted", "true", ())
        for name, value in values.items():
            if isinstance(value, SecretText) and not _is_same(value, stored[name]):
                raise BadValue(f"The column {name} of {table} would not store this secret as text. Change the secret.")
        return {name: value if _is_same(value, stored[name]) else stored[name] for name, value in values.items()}

    def _affinities(self, table: str) -> dict[str, str]:
        """Return the affinity of each column."""
        definitions = self._execute(
            "select sql from sqlite_master where type = 'table' and lower(name) = lower(?)", (table,)
        )
        is_strict = any("strict" in (sql or "").rpartition(")")[2].lower() for (sql,) in definitions)
        columns = self._execute(f"pragma table_info({quote_name(table)})", ())
        return {name: _find_affinity(declared, is_strict) for _, name, declared, *_ in columns}

    def _find_cascading(self, table: str) -> list[CascadeRule]:
        rules = []
        for (other,) in self._execute(_SELECT_TABLES, ()):
            foreign_keys: dict[int, dict[str, str]] = {}
            for number, seq, target, column, to, _, on_delete, _ in self._execute(
                f"pragma foreign_key_list({quote_name(other)})", ()
            ):
                if target.lower() == table.lower() and on_delete == "CASCADE":
                    foreign_keys.setdefault(number, {})[column] = to or self.primary_key(table)[seq]
            rules += [CascadeRule(other, columns) for columns in foreign_keys.values()]
        return rules


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _find_affinity(declared_type: str, is_strict: bool) -> str:
    """Return the affinity of a column by the rules of SQLite. Only in a strict table, ANY means that none applies."""
    declared = declared_type.upper()
    if not declared or (is_strict and declared == "ANY"):
        return "blob"
    return next((name for name, words in _AFFINITIES if any(word in declared for word in words)), "numeric")


def _keep_storage_class(before: Any, value: Any) -> Any:
    """Return a new text as the kind of value that it replaces, if that kind can represent it exactly."""
    if type(value) is str and isinstance(before, int | float):
        with suppress(ValueError, OverflowError):
            number = type(before)(value)
            if str(number) == value and -(2**63) <= number < 2**63:
                return number
    if type(value) is str and isinstance(before, bytes):
        return value.encode("utf-8", "surrogateescape")
    return value


def _is_same(value: Any, other: Any) -> bool:
    """Return whether two values are equal and have the same storage class: 3 and 3.0 are equal, but stored apart."""
    return value == other and (type(value) is type(other) or (isinstance(value, str) and isinstance(other, str)))


def _encode_parameter(value: Any) -> Any:
    """Turn text with surrogates back into the bytes it was read from, which are not UTF-8."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogateescape")
    return value


# ── reading and writing ───────────────────────────────────────────────────────────────────────────


@contextmanager
def open_rows(locator: str) -> Iterator[SqliteRows]:
    with sqlite.snapshot(Path(locator)) as connection:
        connection.row_factory = None
        yield SqliteRows(connection)


def swap_rows(locator: str, changes: Sequence[RowChange], *, exclusive: bool) -> None:
    try:
        with _open_for_writing(locator, exclusive) as rows:
            counter = watch_changes(rows.connection)
            for change in changes:
                verify_unchanged(rows, change, locator)
                rows.write(change)
                refuse_prevented_change(rows.connection, rows.triggers(changes))
            refuse_side_effects(counter, changes, rows.triggers(changes))
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "") or ""
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise Busy(f"Another program is writing to {locator}. Try again in a moment.") from None
        raise WriteFailed(f"Cannot write to {locator}: {error}. Nothing was changed there.") from None


def find_side_effects(locator: str, changes: Sequence[RowChange], _: Sequence[str]) -> list[str]:
    """Try the changes in a private copy. A failure of another kind is left to the write-back, which reports it."""
    with sqlite.private_copy(Path(locator)) as copy:
        try:
            swap_rows(str(copy), changes, exclusive=False)
        except Refused as reason:
            return [str(reason)]
        except StoreError:
            pass
    return []


@contextmanager
def _open_for_writing(locator: str, exclusive: bool) -> Iterator[SqliteRows]:
    _refuse_super_journal(locator)
    uri = f"{Path(locator).absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=LOCK_TIMEOUT_SECONDS)) as connection:
        connection.execute("pragma foreign_keys = on")
        connection.execute("pragma secure_delete = on")
        connection.execute("pragma temp_store = memory")
        connection.execute("begin exclusive" if exclusive else "begin immediate")
        deadline = time.monotonic() + (MAX_EXCLUSIVE_SECONDS if exclusive else MAX_TRANSACTION_SECONDS)
        connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
        try:
            if exclusive:
                # With the lock taken, no other program can open the file and read old rows after this check.
                refuse_while_open(locator)
            yield SqliteRows(connection)
            connection.execute("commit")
        except BaseException:
            connection.set_progress_handler(None, 0)
            if connection.in_transaction:
                connection.execute("rollback")
            raise


def _refuse_super_journal(locator: str) -> None:
    """Refuse a database with a journal that names another file: SQLite would delete that file."""
    with suppress(OSError):
        if read_super_journal(sidecar_path(Path(locator), "-journal")):
            raise Refused(f"{locator} has an unfinished transaction over several files. Open it in its agent first.")


def verify_unchanged(rows: DatabaseRows, change: RowChange, locator: str) -> None:
    """Raise ChangedMeanwhile if the row is not what the change expects."""
    found = rows.find(change.table, change.key)
    same = rows.has_content(change.table, found, change.before)
    if change.after is None:
        # A cascade would delete newer rows that depend on this one, and an undo would not restore them.
        same = same and not any(rule.find_rows(rows, row) for rule in rows.cascade_rules(change.table) for row in found)
    if not same:
        key = " ".join(sqlite.as_text(value) for value in change.key.values())
        raise ChangedMeanwhile(
            f"{change.table} {key} in {locator} has changed, so nothing was written. Sync first.",
            found,
        )


# ── before writing ────────────────────────────────────────────────────────────────────────────────


def back_up(folder: Path, name: str, locator: str, _: Sequence[RowChange]) -> Path:
    """Copy the complete database."""
    path = Path(locator)
    target = folder / f"{backup_time()}-{name}-{path.name}"
    with sqlite.private_copy(path) as copy, closing(sqlite3.connect(copy)) as connection:
        copy_database(path, connection, target)
    delete_backups(list_backups(folder, name)[BACKUPS_KEPT:])
    return target


def list_backups(folder: Path, name: str) -> list[Path]:
    """Return the backups with that name, newest first."""
    return sort_newest_first(folder.glob(f"*-{name}-*"))


def refuse_while_open(locator: str) -> None:
    if pids := find_processes_using(Path(locator)):
        raise Busy(f"{locator} is open in process {pids[0]}. Close that program first.")
