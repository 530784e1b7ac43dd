"""A foreign store as it is written to: backed up, compared row by row, swapped in one short transaction.

Here is what all databases share, and SQLite's files. Text in them that is not UTF-8 comes and goes as it is, in
surrogates, so that it is compared and put back byte for byte.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from store.database.backup import copy_database, delete_backups
from store.errors import Busy, ChangedMeanwhile, Refused, WriteFailed
from store.sources.kit import sqlite
from store.sources.kit.write_plan import CascadeRule, RowChange
from store.text.validate import utc_timestamp

BACKUPS_KEPT = 5
LOCK_TIMEOUT_SECONDS = 1.0
MAX_TRANSACTION_SECONDS = 3.0
"""For a program that writes meanwhile; it may have no patience of its own, and lose what it would write."""
MAX_EXCLUSIVE_SECONDS = 120.0

_PROC = Path("/proc")
_SELECT_TABLES = "select name from sqlite_master where type = 'table'"


class WriteBackend(Protocol):
    "What a module does for the foreign stores of one kind of database."

    def open_rows(self, locator: str) -> AbstractContextManager[DatabaseRows]:
        """The store as it is now; nothing of it is touched."""
        ...

    def swap_rows(self, locator: str, changes: Sequence[RowChange], *, exclusive: bool) -> None:
        """All of it or nothing, in one transaction of milliseconds, after every row was compared with what was seen."""
        ...

    def back_up(self, folder: Path, name: str, locator: str, changes: Sequence[RowChange]) -> Path:
        """0600; of each store the newest few are kept. Its name tells which store it is of."""
        ...


class DatabaseRows(ABC):
    "What is the same in every database."

    def __init__(self) -> None:
        self._cached_columns = cache(self._read_columns)
        self.cascade_rules = cache(self._find_cascading)
        self._cached_order = cache(self._order_newest_first)

    @abstractmethod
    def _read_columns(self, table: str) -> Sequence[tuple[str, int]]:
        """Its columns but for those that are computed, which nobody can write; and their places in the primary key,
        from 1."""

    @abstractmethod
    def _find_cascading(self, table: str) -> list[CascadeRule]:
        """Those that go with a row of this one without a word."""

    @abstractmethod
    def _order_newest_first(self, table: str) -> str:
        """So that rows put back one by one, the last first, stand in the order they had."""

    @abstractmethod
    def _execute(self, sql: str, values: Iterable[Any]) -> Sequence[Sequence[Any]]: ...
    @abstractmethod
    def _equality_sql(self, name: str, value: Any) -> str: ...
    @abstractmethod
    def _placeholder(self, value: Any) -> str: ...

    def columns(self, table: str) -> list[str]:
        return [name for name, _ in self._cached_columns(table)]

    def primary_key(self, table: str) -> list[str]:
        """In order; all columns of a table that has none."""
        described = self._cached_columns(table)
        return [name for name, place in sorted(described, key=lambda one: one[1]) if place] or self.columns(table)

    def select(self, table: str, condition: str, *values: Any) -> list[dict[str, Any]]:
        """Whole rows, the newest first; none where there is no such table."""
        return self._select_rows(table, f"{condition} {self._cached_order(table)}", values)

    def find(self, table: str, key: Mapping[str, Any]) -> list[dict[str, Any]]:
        return self._select_rows(table, self._where_sql(key), key.values())

    def _select_rows(self, table: str, which: str, values: Iterable[Any]) -> list[dict[str, Any]]:
        columns = self.columns(table)
        if not columns:
            return []
        sql = f"select {', '.join(map(quote_name, columns))} from {quote_name(table)} where {which}"
        return [dict(zip(columns, row, strict=True)) for row in self._execute(sql, values)]

    def normalize_change(self, change: RowChange) -> RowChange:
        return change

    def _where_sql(self, key: Mapping[str, Any]) -> str:
        return " and ".join(self._equality_sql(name, value) for name, value in key.items())

    def write(self, change: RowChange) -> None:
        table, where = quote_name(change.table), self._where_sql(change.key)
        if change.after is None:
            self._execute(f"delete from {table} where {where}", change.key.values())
        elif change.before is None:
            row = {**change.key, **change.after}
            names, marks = ", ".join(map(quote_name, row)), ", ".join(map(self._placeholder, row.values()))
            self._execute(f"insert into {table} ({names}) values ({marks})", row.values())
        else:
            swaps = ", ".join(
                f"{quote_name(name)} = {self._placeholder(value)}" for name, value in change.after.items()
            )
            self._execute(f"update {table} set {swaps} where {where}", [*change.after.values(), *change.key.values()])


class SqliteRows(DatabaseRows):
    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self.connection = connection
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")

    def _execute(self, sql: str, values: Iterable[Any]) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, [_encode_parameter(value) for value in values]).fetchall()

    def _equality_sql(self, name: str, value: Any) -> str:
        return f"{quote_name(name)} is {self._placeholder(value)}"

    def _placeholder(self, value: Any) -> str:
        """Bytes that stand for text go in as text."""
        return "cast(? as text)" if isinstance(value, str) and isinstance(_encode_parameter(value), bytes) else "?"

    def _read_columns(self, table: str) -> list[tuple[str, int]]:
        return [(row[1], row[5]) for row in self._execute(f"pragma table_info({quote_name(table)})", ())]

    def _order_newest_first(self, table: str) -> str:
        try:
            self._execute(f"select rowid from {quote_name(table)} limit 0", ())
        except sqlite3.OperationalError:
            return ""  # a table without rowids stands in the order of its key
        return "order by rowid desc"

    def _find_cascading(self, table: str) -> list[CascadeRule]:
        found = []
        for (other,) in self._execute(_SELECT_TABLES, ()):
            pointers: dict[int, dict[str, str]] = {}
            for number, seq, target, column, to, _, on_delete, _ in self._execute(
                f"pragma foreign_key_list({quote_name(other)})", ()
            ):
                if target.lower() == table.lower() and on_delete == "CASCADE":
                    pointers.setdefault(number, {})[column] = to or self.primary_key(table)[seq]
            found += [CascadeRule(other, columns) for columns in pointers.values()]
        return found


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _encode_parameter(value: Any) -> Any:
    """Text with surrogates is bytes that were never UTF-8."""
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
            for change in changes:
                verify_unchanged(rows, change, locator)
                rows.write(change)
    except sqlite3.Error as reason:
        name = getattr(reason, "sqlite_errorname", "") or ""
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise Busy(f"Another program is writing to {locator}; try again in a moment.") from None
        raise WriteFailed(f"{locator} could not be written, and is as it was: {reason}.") from None


@contextmanager
def _open_for_writing(locator: str, exclusive: bool) -> Iterator[SqliteRows]:
    uri = f"{Path(locator).absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=LOCK_TIMEOUT_SECONDS)) as connection:
        connection.execute("pragma foreign_keys = on")
        connection.execute("begin exclusive" if exclusive else "begin immediate")
        deadline = time.monotonic() + (MAX_EXCLUSIVE_SECONDS if exclusive else MAX_TRANSACTION_SECONDS)
        connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
        try:
            if exclusive:
                # Whoever opened it before is seen now, and whoever opens it from now on waits and reads what is new.
                refuse_while_open(locator)
            yield SqliteRows(connection)
            connection.execute("commit")
        except BaseException:
            connection.set_progress_handler(None, 0)
            if connection.in_transaction:
                connection.execute("rollback")
            raise


def verify_unchanged(rows: DatabaseRows, change: RowChange, locator: str) -> None:
    found = rows.find(change.table, change.key)
    same = len(found) == (change.before is not None) and all(
        row.get(name) == value for row in found for name, value in (change.before or {}).items()
    )
    if change.after is None:
        # What came to hang on it since would go with it unseen, and no undo would bring it back.
        same = same and not any(
            hanging.find_rows(rows, row) for hanging in rows.cascade_rules(change.table) for row in found
        )
    if not same:
        named = " ".join(sqlite.as_text(value) for value in change.key.values())
        raise ChangedMeanwhile(
            f"{change.table} {named} in {locator} was changed meanwhile, so nothing was written there; sync first.",
            found,
        )


# ── before it is written to ───────────────────────────────────────────────────────────────────────


def back_up(folder: Path, name: str, locator: str, _: Sequence[RowChange]) -> Path:
    """As a whole."""
    path = Path(locator)
    target = folder / f"{utc_timestamp().replace(':', '')}-{name}-{path.name}"
    with sqlite.private_copy(path) as copy, closing(sqlite3.connect(copy)) as connection:
        copy_database(path, connection, target)
    delete_backups(list_backups(folder, name)[BACKUPS_KEPT:])
    return target


def list_backups(folder: Path, name: str) -> list[Path]:
    """Newest first."""
    return sorted(folder.glob(f"*-{name}-*"), reverse=True)


def refuse_while_open(locator: str) -> None:
    if holders := find_processes_using(Path(locator)):
        raise Busy(f"{locator} is open in process {holders[0]}; end that program first.")


def find_processes_using(path: Path) -> list[int]:
    """The other processes that have the file, or one beside it, open, as far as this person may see."""
    files = [Path(f"{path}{ending}") for ending in ("", "-wal", "-shm", "-journal")]
    there = [file for file in files if file.exists()]
    found = _search_proc(there) if (_PROC / "self").exists() else _run_lsof(there)
    return sorted(found - {os.getpid()})


def _search_proc(files: Iterable[Path]) -> set[int]:
    """By what the file is and not by its name: it may have another one where the process runs."""
    wanted = {(stat.st_dev, stat.st_ino) for stat in map(os.stat, files)}
    holders = set()
    for handles in _PROC.glob("[0-9]*/fd"):
        with suppress(OSError):
            for handle in handles.iterdir():
                with suppress(OSError):
                    stat = handle.stat()
                    if (stat.st_dev, stat.st_ino) in wanted:
                        holders.add(int(handles.parent.name))
    return holders


def _run_lsof(files: Sequence[Path]) -> set[int]:
    program = shutil.which("lsof")
    if program is None:
        raise Refused(f"Whether a program has {files[0]} open cannot be told here; install lsof.")
    ran = subprocess.run([program, "-t", "--", *map(str, files)], capture_output=True, text=True)
    return set(map(int, ran.stdout.split()))
