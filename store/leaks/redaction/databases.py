"""This module rewrites SQLite databases of agents: the rows in one transaction, then the free pages.

A sealed copy of the database is kept until the values are forgotten, so that an undo restores every byte. If the agent
has written to the database since, the undo restores only the rows.
"""

from __future__ import annotations

import base64
import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_bytes
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from store.database.backup import atomic_backup_file
from store.errors import SecretDamaged, WriteFailed
from store.leaks.redaction.replacer import Replacer, Spans
from store.leaks.redaction.text_files import SEGMENT_BYTES, create_beside, finish_file
from store.paths import sync_folder
from store.sources.kit.private_copy import private_copy
from store.sources.kit.stamps import sidecar_path
from store.sources.kit.write_plan import RowChange
from store.text.json import decode
from store.write_back.sqlite import (
    LOCK_TIMEOUT_SECONDS,
    SqliteRows,
    open_rows,
    quote_name,
    refuse_while_open,
    swap_rows,
)

_NONCE_BYTES = 12
_ROWS_PER_CHECK = 500
_SELECT_TABLES = """
    select name from sqlite_master as tables where type = 'table' and name not like 'sqlite\\_%' escape '\\'
        and sql like 'create table%' and not exists (
            select 1 from sqlite_master as indexes where indexes.sql like 'create virtual table%'
                and substr(tables.name, 1, length(indexes.name) + 1) = indexes.name || '_'
                and not (indexes.sql like '% using fts%' and tables.name = indexes.name || '_content'))
"""
"""Leaves out the tables in which search indexes keep their words, but not those in which some keep texts."""

_SELECT_SEARCH_INDEXES = """
    select name, name || '_content' in (select name from sqlite_master) from sqlite_master
    where type = 'table' and sql like 'create virtual table%'
"""
"""Selects each index, and whether it keeps texts."""

_ROW_NUMBER = "rowid"
_SELECT_FREE_ROWIDS = """
    select name from pragma_table_list as tables where schema = 'main' and type = 'table' and wr = 0
        and name not like 'sqlite\\_%' escape '\\' and not exists (
            select 1 from pragma_table_info(tables.name) where pk = 1 and lower(type) = 'integer'
                and (select sum(pk > 0) from pragma_table_info(tables.name)) = 1)
"""


class Cell(NamedTuple):
    """Names the value of a column in one row of a foreign database."""

    table: str
    column: str
    key: Mapping[str, Any]


class FoundCell(NamedTuple):
    """Holds a value in which something is to be replaced."""

    cell: Cell
    data: bytes
    value: Any
    "Is the value as the database returned it."


def find_cells(path: Path, replacer: Replacer) -> tuple[list[FoundCell], list[str]]:
    """Return the cells that have a value, and the columns of keys that have one and cannot be changed."""
    found: list[FoundCell] = []
    fixed: list[str] = []
    with open_rows(str(path)) as rows:
        for (table,) in rows.connection.execute(_SELECT_TABLES).fetchall():
            keys = _list_keys(rows, table)
            for cell in _read_cells(rows, table, keys, replacer):
                if cell.cell.column in keys:
                    fixed.append(f"{table}.{cell.cell.column}")
                else:
                    found.append(cell)
    return found, sorted(set(fixed))


def _list_keys(rows: SqliteRows, table: str) -> list[str]:
    """Return the columns by which a row is found. A table without a key has only the numbers of its rows."""
    return rows.primary_key(table) if rows.has_primary_key(table) else [_ROW_NUMBER]


def _read_cells(rows: SqliteRows, table: str, keys: Sequence[str], replacer: Replacer) -> Iterator[FoundCell]:
    columns = rows.columns(table)
    names = list(dict.fromkeys([*columns, *keys]))
    cursor = rows.connection.execute(f"select {', '.join(map(quote_name, names))} from {quote_name(table)}")
    while batch := cursor.fetchmany(_ROWS_PER_CHECK):
        for row in batch:
            named = dict(zip(names, row, strict=True))
            for name in columns:
                value = named[name]
                data = to_bytes(value)
                if data and replacer.may_contain(data) and replacer.find(data):
                    yield FoundCell(Cell(table, name, {key: named[key] for key in keys}), data, value)


def read_cell(rows: SqliteRows, cell: Cell) -> Any:
    """Return the value of a cell, or None if its row is gone."""
    found = rows.look_up(cell.table, cell.key)
    return found[0].get(cell.column) if len(found) == 1 else None


def make_change(cell: Cell, before: Any, after: bytes) -> RowChange:
    value: Any = after if isinstance(before, bytes) else after.decode("utf-8", "surrogateescape")
    return RowChange(cell.table, cell.key, {cell.column: before}, {cell.column: value})


def write_changes(path: Path, changes: Sequence[RowChange]) -> None:
    """Change the rows in one transaction, and overwrite their old values in the file. Its time stays as it is."""
    refuse_while_open(str(path))
    status = path.stat()
    if changes:
        swap_rows(str(path), _order_changes(path, merge_changes(changes)), exclusive=True)
    scrub(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _order_changes(path: Path, changes: Sequence[RowChange]) -> list[RowChange]:
    """Put the texts of search indexes last. They are not compared, because a trigger may have replaced them before."""
    with _open(path) as database:
        texts = {f"{index}_content" for index, _ in _list_search_indexes(database)}
    in_tables = [change for change in changes if change.table not in texts]
    return in_tables + [replace(change, before={}) for change in changes if change.table in texts]


def scrub(path: Path) -> None:
    """Clear what deleted rows left in the file, its search indexes and its log.

    The file is only rewritten if that leaves the numbers of all rows as they are: an agent may refer to rows by them.
    """
    status = path.stat()
    try:
        with _open(path) as database:
            for index, has_texts in _list_search_indexes(database):
                name, command = quote_name(index), "rebuild" if has_texts else "optimize"
                with suppress(sqlite3.Error):  # another kind of virtual table has no such command
                    database.execute(f"insert into {name} ({name}) values ('{command}')")
            if _keeps_rowids(database, path):
                database.execute("vacuum")
            database.execute("pragma wal_checkpoint(truncate)").fetchall()
    except sqlite3.Error as error:
        raise WriteFailed(f"The free pages of {path} could not be cleared: {error}.") from None
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def has_residue(path: Path, replacer: Replacer) -> bool:
    """Return whether a value is anywhere in the bytes of a file, although no row has it."""
    with path.open("rb") as file:
        return any(replacer.may_contain(data) for data in iter(lambda: file.read(SEGMENT_BYTES), b""))


def settle(path: Path) -> None:
    """Move what is in the log of a database into the database, as its agent would do when it opens it."""
    try:
        with _open(path) as database:
            database.execute("pragma wal_checkpoint(truncate)").fetchall()
    except sqlite3.Error as error:
        raise WriteFailed(f"{path} cannot be opened: {error}.") from None


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    uri = f"{path.absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=LOCK_TIMEOUT_SECONDS)) as database:
        for pragma in ("secure_delete = on", "temp_store = memory"):
            database.execute(f"pragma {pragma}")
        yield database


def _list_search_indexes(database: sqlite3.Connection) -> list[tuple[str, bool]]:
    return database.execute(_SELECT_SEARCH_INDEXES).fetchall()


def _keeps_rowids(database: sqlite3.Connection, path: Path) -> bool:
    """Return whether the number of every row stays when the file is rewritten. If that is not sure, a copy is tried."""
    tables = [name for (name,) in database.execute(_SELECT_FREE_ROWIDS).fetchall()]
    if not tables:
        return True
    with private_copy(path) as copy, closing(sqlite3.connect(copy, isolation_level=None)) as tried:
        tried.text_factory = bytes
        before = _read_rowids(tried, tables)
        tried.execute("vacuum")
        return _read_rowids(tried, tables) == before


def _read_rowids(database: sqlite3.Connection, tables: Sequence[str]) -> list[bytes]:
    """Return a digest of the row numbers of each table, with the values of its rows."""
    digests = []
    for table in tables:
        hasher = hashlib.sha256()
        for row in database.execute(f"select rowid, * from {quote_name(table)} order by rowid"):
            hasher.update(repr(row).encode("utf-8", "surrogatepass"))
        digests.append(hasher.digest())
    return digests


def describe_fixed(columns: Sequence[str]) -> str:
    return f"A value is in a key of the database ({', '.join(columns)})." if columns else ""


def merge_changes(changes: Sequence[RowChange]) -> list[RowChange]:
    """Return one change for each row."""
    merged: dict[tuple[str, tuple[Any, ...]], RowChange] = {}
    for change in changes:
        key = (change.table, tuple(change.key.values()))
        known = merged.get(key)
        if known is not None:
            before = {**(known.before or {}), **(change.before or {})}
            after = {**(known.after or {}), **(change.after or {})}
            change = RowChange(change.table, change.key, before, after)
        merged[key] = change
    return list(merged.values())


def to_bytes(value: Any) -> bytes:
    match value:
        case str():
            return value.encode("utf-8", "surrogateescape")
        case bytes():
            return value
    return b""


# ── cells as JSON ─────────────────────────────────────────────────────────────────────────────────


def encode_cells(cells: Iterable[tuple[Cell, Spans]]) -> list[Any]:
    """Return cells with their spans as JSON. Keys may be bytes."""
    return [
        [cell.table, cell.column, {name: _encode_key(value) for name, value in cell.key.items()}, spans]
        for cell, spans in cells
    ]


def decode_cells(spans: str) -> Iterator[tuple[Cell, Spans]]:
    values = decode(spans)
    for table, column, key, cell_spans in values if isinstance(values, list) else ():
        yield Cell(table, column, {name: _decode_key(value) for name, value in key.items()}), cell_spans


def _encode_key(value: Any) -> Any:
    return {"$base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _decode_key(value: Any) -> Any:
    return base64.b64decode(value["$base64"]) if isinstance(value, dict) else value


# ── sealed copies ─────────────────────────────────────────────────────────────────────────────────


def seal_copy(path: Path, target: Path, key: bytes) -> bytes:
    """Write an encrypted copy of a database that is settled, and return the digest of the database."""
    cipher, hasher = AESGCM(key), hashlib.sha256()
    with atomic_backup_file(path, target) as partial, partial.open("wb") as copy, path.open("rb") as original:
        for number, data in enumerate(iter(lambda: original.read(SEGMENT_BYTES), b"")):
            hasher.update(data)
            nonce = token_bytes(_NONCE_BYTES)
            sealed = cipher.encrypt(nonce, data, b"%d" % number)
            copy.write(len(sealed).to_bytes(8, "big") + nonce + sealed)
        copy.flush()
        os.fsync(copy.fileno())
    return hasher.digest()


def restore_copy(path: Path, copy: Path, key: bytes) -> None:
    """Replace a database by its sealed copy. It is whole at any moment, because its log is empty."""
    refuse_while_open(str(path))
    status = path.stat()
    settle(path)
    with create_beside(path) as (file, partial):
        for data in _read_copy(copy, key):
            file.write(data)
        finish_file(file, status)
        for suffix in ("-wal", "-shm"):
            sidecar_path(path, suffix).unlink(missing_ok=True)
        os.rename(partial, path)
        sync_folder(path.parent)


def _read_copy(path: Path, key: bytes) -> Iterator[bytes]:
    cipher = AESGCM(key)
    with path.open("rb") as copy:
        number = 0
        while length := copy.read(8):
            nonce = copy.read(_NONCE_BYTES)
            try:
                yield cipher.decrypt(nonce, copy.read(int.from_bytes(length, "big")), b"%d" % number)
            except InvalidTag:
                raise SecretDamaged(f"The sealed copy {path} is damaged.") from None
            number += 1
