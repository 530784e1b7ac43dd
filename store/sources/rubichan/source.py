"""Rubichan keeps messages of content blocks in SQLite. Long results are in blobs, and resume prefers a snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from store.sources.contract import ResumeCommand, SourceReader
from store.sources.kit.home import Home
from store.sources.kit.sqlite_source import SqliteSource

if TYPE_CHECKING:
    import sqlite3

    from store.model.session import Session
    from store.sources.kit.write_plan import ForeignRows, WriteBackEdits, WritePlan


class Rubichan(SqliteSource):
    """Reads and writes back sessions of Rubichan."""

    name = "rubichan"
    reader_version = 2
    has_local_ids = True
    home = Home("~/.config/rubichan/rubichan.db")
    signatures = (
        {
            "sessions": "id title model working_dir system_prompt created_at updated_at".split(),
            "messages": "id session_id seq role content created_at".split(),
        },
    )

    def make_reader(self, connection: sqlite3.Connection, path: Path) -> SourceReader:
        from store.sources.rubichan.reader import RubichanReader

        return RubichanReader(connection)

    def resume(self, session: Session) -> ResumeCommand:
        argv = ("rubichan", "--resume", session.native_id)
        return ResumeCommand(argv, session.cwd, fork_argv=(*argv, "--fork"))

    def plan_write_back(self, rows: ForeignRows, edits: WriteBackEdits) -> WritePlan:
        from store.sources.rubichan.write_back import plan_write_back

        return plan_write_back(rows, edits)
