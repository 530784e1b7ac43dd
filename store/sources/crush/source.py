"""This module defines the source of Crush, which keeps one SQLite file per project.

A message is a JSON list of parts. It is rewritten while the model answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from store.sources.contract import ResumeCommand, SourceReader
from store.sources.crush.files import find_projects
from store.sources.kit.sqlite_source import SqliteSource
from store.sources.kit.stamps import quiet_stamp

if TYPE_CHECKING:
    import sqlite3

    from store.model.session import Session


class Crush(SqliteSource):
    """Finds and opens the databases of Crush."""

    name = "crush"
    has_local_ids = True
    where = "the projects in ~/.local/share/crush/projects.json or $CRUSH_GLOBAL_DATA/projects.json"
    signatures = (
        {
            "sessions": "id parent_session_id title prompt_tokens completion_tokens created_at updated_at".split(),
            "messages": "id session_id role parts model created_at updated_at".split(),
        },
    )

    def roots(self) -> Iterator[str]:
        yield from (str(project.data_folder / "crush.db") for project in find_projects())

    def stamp(self, locator: str) -> str:
        return quiet_stamp(Path(locator))

    def make_reader(self, connection: sqlite3.Connection, path: Path) -> SourceReader:
        from store.sources.crush.reader import CrushReader

        return CrushReader(connection, path)

    def resume(self, session: Session) -> ResumeCommand:
        if session.relation:
            return ResumeCommand(None, hint="Crush started this session itself; resume the session that it belongs to.")
        data_folder = session.environment_path
        has_other_folder = data_folder and session.cwd and Path(data_folder) != Path(session.cwd) / ".crush"
        folder_option = ("--data-dir", data_folder) if has_other_folder else ()
        argv = ("crush", *folder_option, "--session", session.native_id)
        return ResumeCommand(
            argv, session.cwd, skip_permission_flags=("--yolo",), install_command="npm install -g @charmland/crush"
        )
