"""The `SQLiteSession` of the OpenAI Agents SDK keeps the items of a conversation in SQLite, where its program wants."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from store.sources.contract import ResumeCommand, SourceReader
from store.sources.kit.sqlite_source import SqliteSource

if TYPE_CHECKING:
    import sqlite3

    from store.model.session import Session


class OpenAIAgents(SqliteSource):
    """Reads sessions of the OpenAI Agents SDK."""

    name = "openai-agents"
    has_local_ids = True
    where = "the database that you name"
    signatures = (
        {
            "agent_sessions": "session_id created_at updated_at".split(),
            "agent_messages": "id session_id message_data created_at".split(),
        },
    )

    def make_reader(self, connection: sqlite3.Connection, path: Path) -> SourceReader:
        from store.sources.openai_agents.reader import OpenAIAgentsReader

        return OpenAIAgentsReader(connection)

    def resume(self, session: Session) -> ResumeCommand:
        hint = f"Run its program with SQLiteSession({session.native_id!r}) and the same database."
        return ResumeCommand(None, cwd=session.cwd, hint=hint)
