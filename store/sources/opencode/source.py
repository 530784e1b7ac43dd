"""opencode keeps a database in its folder, and the files of older releases, which hold the same sessions. A session
that `opencode export` wrote can be read by itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from store.probes import is_folder, read_variable
from store.sources.contract import ResumeCommand, Source, SourceReader
from store.sources.kit.home import user_data_folder
from store.sources.kit.stamps import SQLITE_MAGIC, digest, quiet_stamp, tree_stamp
from store.sources.opencode.files import (
    FILE_TREES,
    SIGNATURE,
    find_databases,
    find_storage,
    is_export,
    is_storage,
    list_storages,
)

if TYPE_CHECKING:
    from store.model.session import Session
    from store.sources.contract import UsageReader


class Opencode(Source):
    """Reads sessions of opencode."""

    name = "opencode"
    reader_version = 2
    where = "~/.local/share/opencode, and the database in $OPENCODE_DB"

    def roots(self) -> Iterator[str]:
        """Return opencode's folder, which is the same on every system, and a database elsewhere if one is named."""
        folder = f"{user_data_folder()}/opencode"
        yield folder
        database = read_variable("OPENCODE_DB")
        if os.path.isabs(database) and Path(database).parent != Path(folder):
            yield database

    def detect(self, locator: str) -> bool:
        from store.sources.kit import sqlite

        path = Path(locator)
        if not os.path.isdir(path):
            return sqlite.has_tables(locator, SIGNATURE) or is_export(path)
        return any(sqlite.has_tables(str(database), SIGNATURE) for database in find_databases(path)) or any(
            map(is_storage, list_storages(path))
        )

    def knows(self, path: Path, beginning: bytes) -> bool:
        if path.suffix == ".json":
            return find_storage(path) is not None or is_export(path)
        return beginning.startswith(SQLITE_MAGIC) and self.detect(str(path))

    def find_store(self, path: Path, top: Path) -> Path:
        """Return opencode's folder, which has the database and the storages; else a storage or database by itself."""
        storage = find_storage(path) if path.suffix == ".json" else None
        if storage is None:
            return path.parent if path.name.startswith("opencode") and path.suffix != ".json" else path
        folders = (folder for folder in storage.parents[3::-1] if folder.is_relative_to(top))
        return next((folder for folder in folders if storage in list_storages(folder)), storage)

    def stamp(self, locator: str) -> str:
        path = Path(locator)
        if not is_folder(locator):
            return quiet_stamp(path)
        databases = map(quiet_stamp, find_databases(path))
        return digest(*databases, *(tree_stamp(path / tree, suffixes=(".json",)) for tree in FILE_TREES))

    def open(self, locator: str) -> AbstractContextManager[SourceReader]:
        from store.sources.opencode.reader import open_reader

        return open_reader(Path(locator))

    def usage_reader(self) -> UsageReader:
        from store.sources.opencode.usage import read_recorded_usage

        return read_recorded_usage

    def resume(self, session: Session) -> ResumeCommand:
        name, _, reverted = session.native_id.partition("/")
        if reverted:
            return ResumeCommand(None, session.cwd, f"This part was reverted. Resume session {name} and enter /redo.")
        folder = (session.cwd,) if session.cwd else ()
        argv = ("opencode", *folder, "--session", name)
        return ResumeCommand(
            argv, session.cwd, fork_argv=(*argv, "--fork"), install_command="npm install -g opencode-ai"
        )
