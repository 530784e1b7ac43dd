"""Runs migrations and keeps the book of them as sqlite-utils does, without the time that it takes to be imported: a new
store is made before anything is on the screen."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from store.coding import now

Migration = Callable[[sqlite3.Connection], None]

_IS_KEPT = "select 1 from sqlite_master where name = '_sqlite_migrations'"
_BOOK = (
    """CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
)""",
    """CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name")""",
)
_APPLIED = "select name from _sqlite_migrations where migration_set = ? order by rowid"
_APPLY = "insert into _sqlite_migrations (migration_set, name, applied_at) values (?, ?, ?)"


class Migrations:
    """`@migrations()` adds one, named as its function is."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.all: dict[str, Migration] = {}

    def __call__(self) -> Callable[[Migration], Migration]:
        def add(migration: Migration) -> Migration:
            self.all[migration.__name__] = migration
            return migration

        return add

    def applied(self, connection: sqlite3.Connection) -> list[str]:
        if not connection.execute(_IS_KEPT).fetchone():
            return []
        return [name for (name,) in connection.execute(_APPLIED, (self.name,))]

    def apply(self, connection: sqlite3.Connection, *, stop_before: str = "") -> None:
        """Those that are missing, in the transaction of whoever calls."""
        if not connection.execute(_IS_KEPT).fetchone():
            for statement in _BOOK:
                connection.execute(statement)
        done = {*self.applied(connection)}
        for name, migration in self.all.items():
            if name == stop_before:
                return
            if name not in done:
                migration(connection)
                connection.execute(_APPLY, (self.name, name, now()))
