"""This module reads Kiso's tables independently of their version.

Missing columns read as null, and records stay the same when an upgrade adds columns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from urllib.parse import quote, unquote

from store.model.entry import NewRecord
from store.sources.kit import sqlite
from store.sources.kit.sqlite import RowLike

_COLUMNS = {
    "sessions": "session connector webhook description summary project_id created_at updated_at",
    "messages": "id session user role content trusted source timestamp",
    "plans": "id session message_id goal status total_input_tokens total_output_tokens llm_calls created_at",
    "tasks": "id plan_id session type detail skill tool wrapper server method args command status output stderr"
    " input_tokens output_tokens llm_calls duration_ms parallel_group created_at updated_at",
    "facts": "id content session category project_id created_at",
    "projects": "id name",
    "meta": "key value updated_at",
    "secrets": "id session key created_at",
    "published": "id session filename path created_at",
}
"""The columns to read from each table. The values of `secrets` are left out on purpose."""
_REQUIRED_COLUMNS = {
    "plans": {"id", "session", "message_id"},
    "tasks": {"id", "session", "plan_id", "type"},
    "facts": {"id", "content"},
    "projects": {"id", "name"},
    "meta": {"key", "value"},
    "secrets": {"id", "session", "key"},
    "published": {"id", "session", "filename", "path"},
}
"""A table without these columns belongs to another program and is ignored."""
_CHANGING_COLUMNS = {
    "sessions": {"updated_at"},
    "messages": {"processed"},
    "plans": {"total_input_tokens", "total_output_tokens", "model", "install_proposal", "awaits_input"},
}
_DEFAULTS = {"source": "user", "retry_count": 0, "input_tokens": 0, "output_tokens": 0}
"""The values that an upgrade writes into existing rows. They count as missing, or else every record would change."""

FACTS_KEY = "facts"
"""The key of `meta` under which the documented layout keeps its facts, a line each."""
_META_PREFIX = "meta:"

_PLANS_SQL = """
    select coalesce(cast(message_id as integer), 0) as message_id, id from plans where session = ?1
    union all
    select (select coalesce(max(cast(message_id as integer)), 0) from plans where session = ?1 and id < tasks.plan_id),
        plan_id
    from tasks where session = ?1 and plan_id not in (select id from plans) group by plan_id
    order by message_id, id
"""


class KisoTables:
    """Reads Kiso's tables by column name."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._columns = {
            table: columns
            for table, columns in sqlite.read_tables(connection).items()
            if table in _COLUMNS and columns >= _REQUIRED_COLUMNS.get(table, set())
        }

    @property
    def has_plans(self) -> bool:
        return {"plans", "tasks"} <= self._columns.keys()

    def rows(self, table: str, clause: str = "", *values: object) -> Iterator[RowLike]:
        """Yield rows with all their columns. A missing table has no rows."""
        nulls = "".join(f", null as {name}" for name in self._missing_columns(table))
        return self._select(f"*{nulls}", table, clause, values)

    def select_known_columns(self, table: str, clause: str = "", *values: object) -> Iterator[RowLike]:
        """Yield rows with only the columns listed for the table."""
        missing = self._missing_columns(table)
        names = [f"null as {name}" if name in missing else name for name in _COLUMNS[table].split()]
        return self._select(", ".join(names), table, clause, values)

    def make_stable_getter(self, table: str) -> Callable[[RowLike], object]:
        """Return a function that takes the columns out of a row that change only when the conversation does."""
        stable = self._columns.get(table, frozenset()) - _CHANGING_COLUMNS.get(table, set())
        return itemgetter(*sorted(stable | {"session"}))

    def first_row(self, table: str, clause: str, *values: object) -> RowLike | None:
        return next(self.rows(table, f"{clause} limit 1", *values), None)

    def list_plans(self, session: str) -> list[RowLike]:
        """Return the `message_id` and `id` of each plan in order, also of plans of which only the tasks are left."""
        return self._connection.execute(_PLANS_SQL, (session,)).fetchall() if self.has_plans else []

    def _missing_columns(self, table: str) -> set[str]:
        return set(_COLUMNS[table].split()) - self._columns.get(table, frozenset())

    def _select(self, columns: str, table: str, clause: str, values: Iterable[object]) -> Iterator[RowLike]:
        if table not in self._columns:
            return iter(())
        return self._connection.execute(f"select {columns} from {table} {clause}", tuple(values))


def make_record(row: RowLike, table: str, key: object, *exclude: str) -> NewRecord:
    """Return the row as a record, without empty columns and without those that change on their own."""
    unset = {name for name in row.keys() if row[name] is None or row[name] == _DEFAULTS.get(name)}  # noqa: SIM118
    return sqlite.record_from_row(row, table, key, exclude=unset.union(_CHANGING_COLUMNS.get(table, ()), exclude))


def make_meta_place(key: str, line: str) -> str:
    """Return the place of a line of `meta`. It has a digest of its text, because lines are inserted and moved."""
    return f"{_META_PREFIX}{quote(key, safe='')}:{sqlite.digest(line)}"


def parse_meta_key(place: str) -> str | None:
    """Return the key of `meta` that a place belongs to, or None if it belongs to another table."""
    return unquote(place.removeprefix(_META_PREFIX).partition(":")[0]) if place.startswith(_META_PREFIX) else None


def as_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def as_count(value: object) -> int:
    return value if isinstance(value, int) and 0 < value < 2**53 else 0
