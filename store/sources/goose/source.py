"""This module defines the source of Goose, which keeps all sessions in one SQLite file.

Before autumn 2025 each session was a file of JSON lines; those files are still read.

When the context grows too long, Goose rewrites the rows of a session. The messages stay, hidden from the model. A
summary follows, hidden from the person, and then the last prompt again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from store.probes import is_folder, read_variable
from store.sources.contract import ResumeCommand, Source, SourceReader
from store.sources.kit.home import user_data_folder
from store.sources.kit.layout import begins_with_object
from store.sources.kit.stamps import SQLITE_MAGIC, database_stamp, digest, plain_file_stamp, tree_stamp

if TYPE_CHECKING:
    from store.model.session import Session

_DATABASE_NAME = "sessions.db"
_SIGNATURE = {
    "sessions": "id working_dir created_at updated_at extension_data".split(),
    "messages": "id session_id role content_json created_timestamp".split(),
}


class Goose(Source):
    """Finds and opens the database and the older files of Goose."""

    name = "goose"
    reader_version = 2
    has_local_ids = True
    where = "~/.local/share/goose/sessions or $GOOSE_PATH_ROOT/data/sessions"

    def roots(self) -> Iterator[str]:
        root = read_variable("GOOSE_PATH_ROOT")
        yield f"{root}/data/sessions" if root else f"{user_data_folder()}/goose/sessions"

    def detect(self, locator: str) -> bool:
        """Recognize the folder of all sessions, or one of the files in it."""
        from store.sources.goose.files import is_transcript, list_transcripts
        from store.sources.kit import sqlite

        path = Path(locator)
        if path.suffix == ".jsonl":
            return is_transcript(path)
        if not os.path.isdir(path):
            return sqlite.has_tables(locator, _SIGNATURE)
        return sqlite.has_tables(str(path / _DATABASE_NAME), _SIGNATURE) or any(
            map(is_transcript, list_transcripts(path))
        )

    def knows(self, path: Path, beginning: bytes) -> bool:
        is_candidate = begins_with_object(beginning) if path.suffix == ".jsonl" else beginning.startswith(SQLITE_MAGIC)
        return is_candidate and self.detect(str(path))

    def find_store(self, path: Path, top: Path) -> Path:
        """Return the folder of all sessions, or a database with another name."""
        return path.parent if path.suffix == ".jsonl" or path.name == _DATABASE_NAME else path

    def stamp(self, locator: str) -> str:
        path = Path(locator)
        if not is_folder(locator):
            return plain_file_stamp(path) if path.suffix == ".jsonl" else database_stamp(path)
        return digest(database_stamp(path / _DATABASE_NAME), tree_stamp(path, depth=0))

    @contextmanager
    def open(self, locator: str) -> Iterator[SourceReader]:
        from store.sources.goose.files import is_transcript, list_transcripts
        from store.sources.goose.reader import GooseReader
        from store.sources.kit import sqlite

        path = Path(locator)
        is_folder = os.path.isdir(path)
        files = list(list_transcripts(path)) if is_folder else [path] if path.suffix == ".jsonl" else []
        database = path / _DATABASE_NAME if is_folder else path
        with ExitStack() as stack:
            has_database = database.exists() if is_folder else not files
            connection = stack.enter_context(sqlite.snapshot(database)) if has_database else None
            yield GooseReader(connection, {file.stem: file for file in files if is_transcript(file)})

    def resume(self, session: Session) -> ResumeCommand:
        argv = ("goose", "session", "--resume", "--session-id", session.native_id)
        return ResumeCommand(
            argv, session.cwd, fork_argv=(*argv, "--fork"), install_command="brew install block-goose-cli"
        )
