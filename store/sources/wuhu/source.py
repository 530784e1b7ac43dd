"""Wuhu keeps every session as a chain of JSON payloads in SQLite. The ids of all sessions are mixed in one table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from store.sources.contract import ResumeCommand, SourceReader
from store.sources.kit.home import read_settings_text
from store.sources.kit.sqlite_source import SqliteSource

if TYPE_CHECKING:
    import sqlite3

    from store.model.session import Session
    from store.sources.kit.write_plan import ForeignRows, WriteBackEdits, WritePlan

_DATABASE_SETTING = r"""^databasePath[ \t]*:[ \t]*(?:"([^"\n]*)"|'([^'\n]*)'|(.*?))[ \t\r]*(?:[ \t]#.*)?$"""


class Wuhu(SqliteSource):
    """Reads and writes back sessions of Wuhu."""

    name = "wuhu"
    has_local_ids = True
    where = "~/.wuhu/wuhu.sqlite, or the databasePath in ~/.wuhu/server.yml"
    signatures = (
        {"sessions": ("id",), "session_entries": ("id", "sessionID", "parentEntryID", "type", "payload", "createdAt")},
    )

    def roots(self) -> Iterator[str]:
        """Return the path in the server's configuration, else the server's own default."""
        folder = Path.home() / ".wuhu"
        database = Path("wuhu.sqlite")
        try:
            found = re.search(_DATABASE_SETTING, read_settings_text(folder / "server.yml"), re.MULTILINE)
            configured = next(filter(None, found.groups()), "") if found else ""
            if configured not in ("", "~", "null"):
                database = Path(configured).expanduser()
        except RuntimeError:
            pass
        yield str(folder / database)

    def make_reader(self, connection: sqlite3.Connection, path: Path) -> SourceReader:
        from store.sources.wuhu.reader import WuhuReader

        return WuhuReader(connection, path.parent / "blobs")

    def resume(self, session: Session) -> ResumeCommand:
        """Wuhu has no prompt of its own: a command sends one text to a server and cannot run without the text."""
        import shlex

        command = f'wuhu client prompt --session-id {shlex.quote(session.native_id)} "what you want to say"'
        return ResumeCommand(None, hint=f"While `wuhu server` is running, run `{command}`.")

    def plan_write_back(self, rows: ForeignRows, edits: WriteBackEdits) -> WritePlan:
        from store.sources.wuhu.write_back import plan_write_back

        return plan_write_back(rows, edits)
