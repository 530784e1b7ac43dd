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
from store.sources.opencode.files import SIGNATURE, find_databases
from store.sources.opencode.outputs import OUTPUTS_FOLDER
from store.sources.opencode.storage import DatabaseStorage, FileStorage, SessionInfo, SessionStorage


@contextmanager
def open_reader(path: Path) -> Iterator[OpencodeReader]:
    """Open opencode's folder, or one of its databases."""
    problems: list[Problem] = []
    is_folder = os.path.isdir(path)
    with ExitStack() as stack:
        databases = find_databases(path) if is_folder else [path]
        connections = [stack.enter_context(sqlite.snapshot(database)) for database in databases]
        generations: list[SessionStorage] = [
            DatabaseStorage(connection, problems)
            for connection in connections
            if sqlite.has_columns(sqlite.read_tables(connection), SIGNATURE)
        ]
        if is_folder:
            generations.append(FileStorage(path, problems))
        yield OpencodeReader(generations, (path if is_folder else path.parent) / OUTPUTS_FOLDER, problems)


class OpencodeReader(SourceReader):
    def __init__(self, generations: list[SessionStorage], outputs: Path, problems: list[Problem]) -> None:
        super().__init__()
        self.problems = problems
        self._storages = generations
        self._outputs_folder = outputs
        self._storage_by_session: dict[str, SessionStorage] = {}
        self._sub_agent_calls = cache(self._find_sub_agent_calls)

    def scan(self) -> Iterator[SessionRef]:
        """The newest generation first: what was taken over from an older one stands there still, as it was then."""
        for generation in self._storages:
            for ref in generation.list_refs():
                if self._storage_by_session.setdefault(ref.native_id, generation) is not generation:
                    continue
                yield ref
                info = generation.read_info(ref.native_id)
                if info is not None and (reverted := as_str(info.revert.get("messageID"))):
                    yield SessionRef(f"{ref.native_id}/{reverted}", ref.stamp, ref.updated_at)

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        name, _, reverted = ref.native_id.partition("/")
        owner = self._storage_by_session.get(name)
        info = owner.read_info(name) if owner else None
        if info is None:
            return
        met: list[Problem] = []
        quiet = sqlite.is_quiet(ref.updated_at)
        fields: SessionFields = {**info.fields}
        kept = sum(1 for _ in _take_until_revert(self._read_entries(name, []), info)) if reverted else 0
        if reverted:
            fields |= {"parent_id": name, "relation": "fork", "forked_at": kept - 1}
            fields.pop("cost", None)  # which is the session's
        elif name in (calls := self._sub_agent_calls(fields.get("parent_id", ""))):
            fields["forked_at"] = calls[name]
        yield Batch(header=info.header, fields=fields, archived=info.archived)
        told = take_settled(self._read_entries(name, met), include_unsettled=quiet)
        shown = told if reverted else _take_until_revert(told, info)
        yield from sqlite.build_batches(_complete_entries(shown, kept, fields.get("created_at", "")), met)

    def _read_entries(self, session: str, met: list[Problem]) -> Iterator[OpencodeEntry]:
        owner = self._storage_by_session[session]
        telling = OpencodeEntryReader(lambda message: owner.read_parts(session, message, met), self._outputs_folder)
        return telling.read_entries(owner.read_messages(session, met))

    def _find_sub_agent_calls(self, session: str) -> dict[str, int]:
        """Where in a session's chain the calls stand that started another."""
        if session not in self._storage_by_session:
            return {}
        return {
            told.sub_agent_id: place for place, told in enumerate(self._read_entries(session, [])) if told.sub_agent_id
        }


def _take_until_revert(told: Iterable[OpencodeEntry], info: SessionInfo) -> Iterator[OpencodeEntry]:
    """What of a session was not taken back."""
    message, part = (as_str(info.revert.get(name)) for name in ("messageID", "partID"))
    return takewhile(lambda one: not message or one.message_id != message or part not in ("", one.part_id), told)


def _complete_entries(told: Iterable[OpencodeEntry], inherited: int, made: str) -> Iterator[list[NewEntry]]:
    """Where a time is none, the one before."""
    for place, (entry, *_) in enumerate(told):
        entry.inherited = place < inherited
        made = entry.created_at = entry.created_at or made
        yield [entry]
