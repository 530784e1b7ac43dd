"""Kiso keeps one SQLite file per instance: the messages of all sessions, and the plans and tasks that answered them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from store import probes
from store.sources.contract import PublishedFolder, ResumeCommand, SourceReader
from store.sources.kit.sqlite_source import SqliteSource
from store.sources.kit.stamps import quiet_stamp

if TYPE_CHECKING:
    import sqlite3

    from store.model.session import Session
    from store.sources.kit.write_plan import ForeignRows, WriteBackEdits, WritePlan

_INSTANCES = "instances"
_DATABASE = "store.db"


class Kiso(SqliteSource):
    """Reads and writes back sessions of Kiso."""

    name = "kiso"
    reader_version = 2  # 2: all keys of the table meta
    has_local_ids = True
    allows_live_writes = True
    where = "~/.kiso/store.db and ~/.kiso/instances/*/store.db"
    signatures = ({"sessions": ("session",), "messages": ("id", "session", "role", "content")},)

    def roots(self) -> Iterator[str]:
        folder = Path.home() / ".kiso"
        for instance in probes.split_answer(probes.list_folders_with(str(folder / _INSTANCES), _DATABASE)):
            yield str(folder / _INSTANCES / instance / _DATABASE)
        yield str(folder / _DATABASE)

    def stamp(self, locator: str) -> str:
        return quiet_stamp(Path(locator))

    def make_reader(self, connection: sqlite3.Connection, path: Path) -> SourceReader:
        from store.sources.kiso.reader import KisoReader

        return KisoReader(connection, str(path.parent) if path.parent.parent.name == _INSTANCES else "")

    def published_folders(self, locator: str, native_id: str) -> Iterator[PublishedFolder]:
        """Yield `sessions/{session}/pub`, next to the database and, for an instance, next to all instances."""
        if native_id in (".", "..") or "/" in native_id or "\0" in native_id:
            return
        folder = Path(locator).absolute().parent
        inside = f"sessions/{native_id}/pub"
        yield PublishedFolder(folder, inside)
        if folder.parent.name == _INSTANCES:
            yield PublishedFolder(folder.parent.parent, inside)

    def resume(self, session: Session) -> ResumeCommand:
        instance = Path(session.environment_path)
        name = session.native_id
        argv = (
            "kiso",
            *(("--instance", instance.name) if instance.parent.name == _INSTANCES else ()),
            *(("--session", name) if not name.startswith("-") else (f"--session={name}",)),
        )
        return ResumeCommand(argv, hint="Kiso's server must be running.")

    def plan_write_back(self, rows: ForeignRows, edits: WriteBackEdits) -> WritePlan:
        from store.sources.kiso.write_back import plan_write_back

        return plan_write_back(rows, edits)

    def read_secret(self, rows: ForeignRows, native_id: str, key: str) -> str | None:
        found = rows.select("secrets", "session = ? and key = ?", native_id, key)
        return found[0]["value"] if found else None
