"""google-adk, on which DAK is built, keeps events of apps and their users in SQLite or PostgreSQL, in three layouts.

Since v1 an event has its own time. In v0 it has a local time without a zone. That time is taken for UTC, so it may
differ by hours from the times of the session, which are in UTC. The pickled `actions` of v0 are measured and never
read, because unpickling can run any code.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from store import probes
from store.errors import Unreadable
from store.sources.contract import ResumeCommand, SourceReader
from store.sources.kit import postgres
from store.sources.kit.sqlite_source import SqliteSource

if TYPE_CHECKING:
    import sqlite3

    from store.model.session import Session
    from store.sources.kit.write_plan import ForeignRows, WriteBackEdits, WritePlan

_DATABASE = ".adk/session.db"
"""Is in the folder of an agent."""


class Adk(SqliteSource):
    """Reads and writes back sessions of google-adk."""

    name = "adk"
    has_local_ids = True
    allows_live_writes = True
    where = ".adk/session.db in or just below the current folder, and $SESSION_SERVICE_URI"
    signatures = tuple(
        {
            "sessions": ("app_name", "user_id", "id", "state", "create_time", "update_time"),
            "events": ("app_name", "user_id", "session_id", "id", "timestamp", body),
        }
        for body in ("event_data", "content")
    )

    def roots(self) -> Iterator[str]:
        """Return the configured service, and the sessions of agents in, or just below, the current folder."""
        if uri := probes.read_variable("SESSION_SERVICE_URI"):
            yield uri
        if folder := probes.find_working_folder():
            own = os.path.join(folder, _DATABASE)
            yield from [own] if probes.find_kind(own) else []
            for agent in probes.split_answer(probes.list_folders_with(folder, _DATABASE)):
                yield os.path.join(folder, agent, _DATABASE)

    def detect(self, locator: str) -> bool:
        """Return whether this is an ADK database. A server that does not answer counts as one, so that opening it
        reports why it does not answer."""
        from store.sources.kit import sqlite

        if not postgres.is_postgres_url(locator):
            return super().detect(locator)
        try:
            with postgres.open_database(locator) as database:
                return any(sqlite.has_columns(database.tables, signature) for signature in self.signatures)
        except Unreadable:
            return True

    def stamp(self, locator: str) -> str:
        if not postgres.is_postgres_url(locator):
            return super().stamp(locator)
        try:
            with postgres.open_database(locator) as database:
                return database.snapshot_id()
        except Unreadable:
            return ""

    def open(self, locator: str) -> AbstractContextManager[SourceReader]:
        return self._open_postgres(locator) if postgres.is_postgres_url(locator) else super().open(locator)

    @contextmanager
    def _open_postgres(self, locator: str) -> Iterator[SourceReader]:
        from store.sources.adk.reader import AdkReader

        with postgres.open_database(locator) as database:
            yield AdkReader(database)

    def make_reader(self, connection: sqlite3.Connection, path: Path) -> SourceReader:
        from store.sources.adk.reader import AdkReader, SqliteDatabase

        return AdkReader(SqliteDatabase(connection))

    def resume(self, session: Session) -> ResumeCommand:
        from store.sources.adk.state import split_native_id

        names = split_native_id(session.native_id)
        if len(names) != 3:
            return ResumeCommand(None, hint="This session did not come from an ADK database, so ADK cannot resume it.")
        app, user, name = names
        hint = f"Send DAK the header X-Session-ID: {name}"
        if name == f"session_{user}":
            import shlex

            hint = f"Start DAK with `--username {shlex.quote(user)}`, or send it the header X-Session-ID: {name}"
        adk = "`adk web --session_service_uri` with the address of this database"
        return ResumeCommand(
            None, hint=f"{hint}; with ADK itself, {adk}, then app {app!r}, user {user!r}, session {name!r}."
        )

    def plan_write_back(self, rows: ForeignRows, edits: WriteBackEdits) -> WritePlan:
        from store.sources.adk.write_back import plan_write_back

        return plan_write_back(rows, edits)
