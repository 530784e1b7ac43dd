"""This module applies migrations in their order, and notes in the database which of them it has.

The names are stored in the table that sqlite-utils uses for migrations, so that its tools can read them. Its own class
is not used: a new store would wait three times as long for the import of sqlite-utils as for its tables.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

_CREATE_TABLE = """
create table if not exists "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
)
"""
_CREATE_INDEX = """
CREATE UNIQUE INDEX if not exists "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name")"""
"""Is spelled as sqlite-utils does, because the doctor compares the indexes of a store with those of a new one."""
_HAS_TABLE = "select 1 from sqlite_master where type = 'table' and name = '_sqlite_migrations'"
_SELECT_APPLIED = "select name from _sqlite_migrations where migration_set = ?"
_INSERT_APPLIED = "insert into _sqlite_migrations (migration_set, name, applied_at) values (?, ?, ?)"


class Database(Protocol):
    """Executes SQL: a connection, or a database of sqlite-utils."""

    def execute(self, sql: str, parameters: Any = ..., /) -> Any: ...


class Migration(NamedTuple):
    name: str
    run: Callable[[Database], None]


class MigrationSet:
    """Holds the migrations in their order, and applies those that a database does not have yet."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.migrations: list[Migration] = []

    def add(self, run: Callable[[Database], None]) -> Callable[[Database], None]:
        """Add a function as the last migration. It is named after the function."""
        self.migrations.append(Migration(run.__name__, run))
        return run

    def pending(self, db: Database) -> list[Migration]:
        """Return the migrations that the database does not have yet."""
        applied = set()
        if db.execute(_HAS_TABLE).fetchone():
            applied = {name for (name,) in db.execute(_SELECT_APPLIED, (self._name,))}
        return [migration for migration in self.migrations if migration.name not in applied]

    def apply(self, db: Database, stop_before: str = "") -> None:
        """Run the pending migrations, or only those before the named one. The caller has begun a transaction."""
        db.execute(_CREATE_TABLE)
        db.execute(_CREATE_INDEX)
        for migration in self.pending(db):
            if migration.name == stop_before:
                return
            migration.run(db)
            db.execute(_INSERT_APPLIED, (self._name, migration.name, str(datetime.now(UTC))))
