"""This module writes to foreign PostgreSQL databases: lock, compare and swap rows in one short transaction.

Every value is read and written as text in the format of the server, so that values of any type can be compared,
journaled and restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from store.database.backup import atomic_backup_file, backup_time, delete_backups
from store.errors import BadValue, Refused
from store.sources.kit import postgres
from store.sources.kit.locator import locator_name
from store.sources.kit.write_plan import CascadeRule, RowChange
from store.text.validate import encode
from store.write_back.side_effects import describe_triggers
from store.write_back.sqlite import BACKUPS_KEPT, DatabaseRows, list_backups, quote_name, verify_unchanged

if TYPE_CHECKING:
    from sqlalchemy import Connection

_SELECT_COLUMNS = """
    select attname, format_type(atttypid, atttypmod), array_position(cast(indkey as smallint[]), attnum) + 1
    from pg_class join pg_attribute on attrelid = pg_class.oid
        left join pg_index on indrelid = pg_class.oid and indisprimary
    where pg_class.oid = to_regclass(quote_ident(?)) and relkind in ('r', 'p')
        and attnum > 0 and not attisdropped and attgenerated = ''
    order by attnum
"""
_SELECT_CASCADING = """
    select pg_constraint.oid, relname, theirs.attname, ours.attname
    from pg_constraint
        join pg_class on pg_class.oid = conrelid
        cross join lateral unnest(conkey, confkey) as pair (pointing, pointed)
        join pg_attribute as theirs on theirs.attrelid = conrelid and theirs.attnum = pointing
        join pg_attribute as ours on ours.attrelid = confrelid and ours.attnum = pointed
    where contype = 'f' and confdeltype = 'c' and confrelid = to_regclass(quote_ident(?))
        and pg_table_is_visible(conrelid)
"""
_SELECT_TRIGGERS = """
    select tgname from pg_trigger
    where tgrelid = to_regclass(quote_ident(?)) and not tgisinternal and tgenabled != 'D'
"""


class PostgresRows(DatabaseRows):
    """Reads and writes rows of a PostgreSQL database."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        _load_all_as_text(connection)

    def find(self, table: str, key: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows with that key, locked until the transaction ends."""
        return self._select_rows(table, f"{self._where_sql(key)} for update", key.values())

    def normalize_change(self, change: RowChange) -> RowChange:
        """Return the change with its new values in the format of the server. JSONB, for example, reorders objects."""
        from sqlalchemy.exc import DataError

        if change.before is None or change.after is None:
            return change
        types = {name: kind for name, kind, _ in self._execute(_SELECT_COLUMNS, (change.table,))}
        casts = ", ".join(f"cast(cast(? as {types[name]}) as text)" for name in change.after)
        try:
            (row,) = self._execute(f"select {casts}", change.after.values())
        except DataError as error:
            reason, *_ = str(error.orig).strip().splitlines()
            raise BadValue(f"PostgreSQL cannot store a value of {change.table}: {reason}.") from None
        return replace(change, after=dict(zip(change.after, row, strict=True)))

    def _execute(self, sql: str, values: Iterable[Any]) -> Sequence[Sequence[Any]]:
        result = self._connection.exec_driver_sql(sql.replace("%", "%%").replace("?", "%s"), tuple(values))
        return result.all() if result.returns_rows else []

    def _equality_sql(self, name: str, value: Any) -> str:
        return f"{quote_name(name)} {'is not distinct from' if value is None else '='} ?"

    def _placeholder(self, value: Any) -> str:
        return "?"

    def _read_columns(self, table: str) -> list[tuple[str, int]]:
        return [(name, int(position or 0)) for name, _, position in self._execute(_SELECT_COLUMNS, (table,))]

    def _find_triggers(self, table: str) -> list[str]:
        return [name for (name,) in self._execute(_SELECT_TRIGGERS, (table,))]

    def _order_newest_first(self, table: str) -> str:
        return "order by ctid desc"

    def _find_cascading(self, table: str) -> list[CascadeRule]:
        foreign_keys: dict[tuple[str, str], dict[str, str]] = {}
        for constraint, other, pointing, pointed in self._execute(_SELECT_CASCADING, (table,)):
            foreign_keys.setdefault((constraint, other), {})[pointing] = pointed
        return [CascadeRule(other, columns) for (_, other), columns in foreign_keys.items()]


def _load_all_as_text(connection: Connection) -> None:
    from psycopg.types.string import TextLoader

    adapters: Any = getattr(connection.connection.dbapi_connection, "adapters", None)
    for postgres_type in adapters.types:
        for oid in filter(None, (postgres_type.oid, postgres_type.array_oid)):
            adapters.register_loader(oid, TextLoader)


# ── reading and writing ───────────────────────────────────────────────────────────────────────────


@contextmanager
def open_rows(locator: str) -> Iterator[PostgresRows]:
    with postgres.connect(locator) as connection:
        yield PostgresRows(connection)


def swap_rows(locator: str, changes: Sequence[RowChange], *, exclusive: bool) -> None:
    """Swap rows. `exclusive` has no effect: a server always has other clients, and no source asks for it."""
    with postgres.connect(locator, writing=True) as connection:
        rows = PostgresRows(connection)
        for reason in find_side_effects(locator, changes, rows.triggers(changes)):
            raise Refused(reason)
        for change in changes:
            verify_unchanged(rows, change, locator)
            rows.write(change)


def find_side_effects(_: str, __: Sequence[RowChange], triggers: Sequence[str]) -> list[str]:
    """Refuse every trigger: what it does on a server cannot be tried without doing it."""
    if not triggers:
        return []
    return [f"{describe_triggers(triggers)} could change other rows. Nothing can be written while it is enabled."]


def back_up(folder: Path, name: str, locator: str, changes: Sequence[RowChange]) -> Path:
    """Write the rows that will change to a JSON file, since there is no database file to copy."""
    target = folder / f"{backup_time()}-{name}-{locator_name(locator)}.json"
    rows = [{"table": change.table, "key": change.key, "columns": change.before} for change in changes if change.before]
    with atomic_backup_file(locator, target) as unfinished:
        unfinished.write_bytes(encode({"locator": locator, "rows": rows}))
    delete_backups(list_backups(folder, name)[BACKUPS_KEPT:])
    return target
