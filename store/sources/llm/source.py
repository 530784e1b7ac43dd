"""llm keeps one SQLite file: the threads of version 0.32 and later, and the conversations of earlier versions.

A conversation that is continued in a newer llm becomes a thread with the same id, which repeats all messages before.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from store.probes import read_variable
from store.sources.contract import ResumeCommand, SourceReader
from store.sources.kit.sqlite_source import SqliteSource
from store.sources.llm.signatures import LOG_PREFIX, LOG_SIGNATURES, RESPONSES_SIGNATURE, THREADS_SIGNATURE

if TYPE_CHECKING:
    import sqlite3

    from store.model.session import Session
    from store.sources.contract import UsageReader


class Llm(SqliteSource):
    """Reads sessions of llm."""

    name = "llm"
    reader_version = 2
    where = "~/.config/io.datasette.llm/logs.db or $LLM_USER_PATH/logs.db"
    signatures = (THREADS_SIGNATURE, RESPONSES_SIGNATURE, *LOG_SIGNATURES)

    def roots(self) -> Iterator[str]:
        if folder := read_variable("LLM_USER_PATH"):
            yield f"{folder}/logs.db"
        elif sys.platform == "darwin":
            yield str(Path.home() / "Library/Application Support/io.datasette.llm/logs.db")
        else:
            yield f"{read_variable('XDG_CONFIG_HOME') or Path.home() / '.config'}/io.datasette.llm/logs.db"

    def make_reader(self, connection: sqlite3.Connection, path: Path) -> SourceReader:
        from store.sources.llm.reader import LlmReader

        return LlmReader(connection, str(path))

    def usage_reader(self) -> UsageReader:
        from store.sources.kit.usage import read_each_record
        from store.sources.llm.usage import read_usage

        return read_each_record(read_usage)

    def resume(self, session: Session) -> ResumeCommand:
        if session.native_id.startswith(LOG_PREFIX):
            return ResumeCommand(None, hint="llm cannot read logs of 2023 any more; start a new conversation.")
        if "/" in session.native_id:
            return ResumeCommand(
                None, hint="llm can continue only the end of a thread, and this is an abandoned branch."
            )
        path = session.environment_path
        database = ("-d", path) if path and path != os.path.realpath(next(self.roots())) else ()
        return ResumeCommand(
            ("llm", "chat", "--cid", session.native_id, *database), install_command="uv tool install llm"
        )
