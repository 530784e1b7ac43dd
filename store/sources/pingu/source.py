"""Pingu keeps turns of a Responses API in SQLite. It stores only the last response of a tool loop, so a reply may be
missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from store.sources.contract import ResumeCommand, SourceReader
from store.sources.kit.home import path_setting, read_settings_text
from store.sources.kit.sqlite_source import SqliteSource

if TYPE_CHECKING:
    import sqlite3

    from store.model.session import Session
    from store.sources.kit.write_plan import ForeignRows, WriteBackEdits, WritePlan

_CONFIG = ".config/pingu/config.toml"
_DEFAULT_DATABASE = "~/.local/share/pingu/pingu.db"


class Pingu(SqliteSource):
    """Reads and writes back sessions of Pingu."""

    name = "pingu"
    has_local_ids = True
    allows_live_writes = True
    where = f"{_DEFAULT_DATABASE}, or the db.path in ~/{_CONFIG}"
    signatures = (
        {
            "sessions": "id channel channel_id title model summary summary_up_to created_at updated_at".split(),
            "turns": "id session_id user_message response_json model created_at".split(),
        },
    )

    def roots(self) -> Iterator[str]:
        """Return the configured path, else the default one. Pingu reads neither XDG nor any other variable."""
        path = _DEFAULT_DATABASE
        try:
            if config := read_settings_text(Path.home() / _CONFIG):
                import tomllib

                path = path_setting(tomllib.loads(config)["db"]["path"]) or path
        except (ValueError, LookupError, TypeError):
            pass
        yield str(Path.home() / path[2:]) if path.startswith("~/") else path

    def make_reader(self, connection: sqlite3.Connection, path: Path) -> SourceReader:
        from store.sources.pingu.reader import PinguReader

        return PinguReader(connection)

    def resume(self, session: Session) -> ResumeCommand:
        chat = session.native_id.removeprefix("telegram:")
        if chat != session.native_id and ":" not in chat:
            return ResumeCommand(None, hint=f"Write in the Telegram chat {chat}.")
        return ResumeCommand(
            None, hint=f"Run `pingu gateway` and send the chat request with session_id {session.native_id!r}."
        )

    def plan_write_back(self, rows: ForeignRows, edits: WriteBackEdits) -> WritePlan:
        from store.sources.pingu.write_back import plan_write_back

        return plan_write_back(rows, edits)
