"""This module reads opencode's databases and files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import takewhile
from pathlib import Path

from store.model.entry import NewEntry
from store.model.session import SessionFields
from store.sources.contract import Batch, Problem, SessionRef, SourceReader
from store.sources.kit import sqlite
from store.sources.kit.jsonl import as_str
from store.sources.opencode.entries import OpencodeEntry, OpencodeEntryReader, take_settled
from store.sources.opencode.export import ExportStorage
from store.sources.opencode.files import SIGNATURE, find_databases, is_export
from store.sources.opencode.outputs import OUTPUTS_FOLDER
from store.sources.opencode.storage import DatabaseStorage, FileStorage, SessionInfo, SessionStorage


@contextmanager
def open_reader(path: Path) -> Iterator[OpencodeReader]:
    """Open opencode's folder, one of its databases, or a session that it exported."""
    problems: list[Problem] = []
    is_folder = os.path.isdir(path)
    with ExitStack() as stack:
        is_export_file = not is_folder and is_export(path)
        databases = find_databases(path) if is_folder else [] if is_export_file else [path]
        connections = [stack.enter_context(sqlite.snapshot(database)) for database in databases]
        storages: list[SessionStorage] = [
            DatabaseStorage(connection, problems)
            for connection in connections
            if sqlite.has_columns(sqlite.read_tables(connection), SIGNATURE)
        ]
        if is_folder:
            storages.append(FileStorage(path, problems))
        if is_export_file:
            storages.append(ExportStorage(path, problems))
        yield OpencodeReader(storages, (path if is_folder else path.parent) / OUTPUTS_FOLDER, problems)


class OpencodeReader(SourceReader):
    """Reads the sessions in opencode's databases and files."""

    def __init__(self, storages: list[SessionStorage], outputs_folder: Path, problems: list[Problem]) -> None:
        super().__init__()
        self.problems = problems
        self._storages = storages
        self._outputs_folder = outputs_folder
        self._storage_by_session: dict[str, SessionStorage] = {}
        self._sub_agent_calls = cache(self._find_sub_agent_calls)

    def scan(self) -> Iterator[SessionRef]:
        """Yield the sessions of the newest storage first.

        An older storage still has the sessions that were copied out of it, as they were then; these are skipped.
        """
        for storage in self._storages:
            for ref in storage.list_refs():
                if self._storage_by_session.setdefault(ref.native_id, storage) is not storage:
                    continue
                yield ref
                info = storage.read_info(ref.native_id)
                if info is not None and (reverted := as_str(info.revert.get("messageID"))):
                    yield SessionRef(f"{ref.native_id}/{reverted}", ref.stamp, ref.updated_at)

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        session_id, _, reverted = ref.native_id.partition("/")
        storage = self._storage_by_session.get(session_id)
        info = storage.read_info(session_id) if storage else None
        if info is None:
            return
        problems: list[Problem] = []
        is_quiet = sqlite.is_quiet(ref.updated_at)
        fields: SessionFields = {**info.fields}
        shared_count = sum(1 for _ in _take_until_revert(self._read_entries(session_id, []), info)) if reverted else 0
        if reverted:
            fields |= {"parent_id": session_id, "relation": "fork", "forked_at": shared_count - 1}
            fields.pop("cost", None)  # The cost is that of the whole session.
        elif session_id in (calls := self._sub_agent_calls(fields.get("parent_id", ""))):
            fields["forked_at"] = calls[session_id]
        yield Batch(header=info.header, fields=fields, archived=info.archived)
        entries = take_settled(self._read_entries(session_id, problems), include_unsettled=is_quiet)
        shown_entries = entries if reverted else _take_until_revert(entries, info)
        yield from sqlite.build_batches(
            _complete_entries(shown_entries, shared_count, fields.get("created_at", "")), problems
        )

    def _read_entries(self, session: str, problems: list[Problem]) -> Iterator[OpencodeEntry]:
        storage = self._storage_by_session[session]
        reader = OpencodeEntryReader(
            lambda message: storage.read_parts(session, message, problems), self._outputs_folder
        )
        return reader.read_entries(storage.read_messages(session, problems))

    def _find_sub_agent_calls(self, session: str) -> dict[str, int]:
        """Return the positions in a session's chain of the calls that started sub-agents, by their session."""
        if session not in self._storage_by_session:
            return {}
        return {
            entry.sub_agent_id: position
            for position, entry in enumerate(self._read_entries(session, []))
            if entry.sub_agent_id
        }


def _take_until_revert(entries: Iterable[OpencodeEntry], info: SessionInfo) -> Iterator[OpencodeEntry]:
    """Yield the entries that were not reverted."""
    message_id, part_id = (as_str(info.revert.get(name)) for name in ("messageID", "partID"))
    return takewhile(
        lambda entry: not message_id or entry.message_id != message_id or part_id not in ("", entry.part_id), entries
    )


def _complete_entries(entries: Iterable[OpencodeEntry], shared_count: int, created_at: str) -> Iterator[list[NewEntry]]:
    """Mark the inherited entries, and give every entry without a time the time of the one before."""
    for position, (entry, *_) in enumerate(entries):
        entry.inherited = position < shared_count
        created_at = entry.created_at = entry.created_at or created_at
        yield [entry]
