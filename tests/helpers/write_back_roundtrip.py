"""This module tests write-backs into a foreign store: it compares all its rows, and opens it in another process."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import ANY

from foreign_databases import sync_paths

from store.model.knowledge import Edit
from store.model.session import Session
from store.sources.kit.write_plan import RowChange
from store.store import Store
from store.write_back.service import WriteBackPreview

Dump = dict[str, list[dict[str, Any]]]

_HOLDER_PROGRAM = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement).fetchall()
print("ready", flush=True)
sys.stdin.read()
"""
_COMPARED_COLUMNS = {
    "entries": "session, seq, text",
    "facts where retired_at is null": "id, text, foreign_place, foreign_text",
    "summaries": "session, text, up_to_turn, origin, current",
    "sessions": "id, relation, agent_title, own_title, gone, deleted",
}
_SHADOW_TABLE_SUFFIXES = ("_data", "_idx", "_content", "_docsize", "_config")


def dump_tables(path: Path) -> Dump:
    """Return every row of every table, with surrogates for text that is not UTF-8. A search index is only checked for
    integrity, because equal indexes may have different rows."""
    with closing(sqlite3.connect(path)) as live, closing(sqlite3.connect(":memory:")) as connection:
        live.backup(connection)
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        connection.row_factory = sqlite3.Row
        tables = dict(connection.execute("select name, sql from sqlite_master where type = 'table'").fetchall())
        indexes = [name for name, sql in tables.items() if "virtual table" in sql.lower()]
        shadows = {index + ending for index in indexes for ending in _SHADOW_TABLE_SUFFIXES}
        for index in indexes:
            connection.execute(f"insert into {index}({index}, rank) values ('integrity-check', 1)")
        return {
            table: _sorted(map(dict, connection.execute(f'select * from "{table}"')))
            for table in tables.keys() - shadows - set(indexes)
        }


def _sorted(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


def apply_changes(before: Dump, changes: Iterable[RowChange]) -> Dump:
    """Return the expected rows after exactly these changes."""
    after = deepcopy(before)
    for change in changes:
        rows = after[change.table]
        matches = [row for row in rows if all(row[name] == value for name, value in change.key.items())]
        assert len(matches) == (change.before is not None)
        assert all(row[name] == value for row in matches for name, value in (change.before or {}).items())
        if change.after is None:
            rows.remove(matches[0])
        elif change.before is None:
            rows.append({**change.key, **change.after})
        else:
            matches[0].update(change.after)
    return {table: _sorted(rows) for table, rows in after.items()}


@dataclass
class WriteBackCase:
    """Has a foreign store, and a store of ours that has read it."""

    store: Store
    path: Path
    session_name: str = "s"
    is_readable: bool = True
    "Is set when the store can be read without problems."

    def __post_init__(self) -> None:
        assert bool(self.sync()) != self.is_readable

    def sync(self) -> list[Any]:
        return sync_paths(self.store, self.path).problems

    @property
    def session(self) -> Session:
        return self.store.sessions.find(self.session_name)

    def set_title(self, title: str = "Mine") -> WriteBackCase:
        self.store.sessions.set_title(self.session, title)
        return self

    def set_summary(self, text: str = "In short.", up_to_turn: int | None = None) -> WriteBackCase:
        self.store.summaries.set(self.session, text, up_to_turn=up_to_turn)
        return self

    def delete_session(self) -> WriteBackCase:
        self.store.sessions.delete([self.session])
        return self

    def fact_id(self, text: str) -> int:
        return next(fact.id for fact in self.store.facts.current(None, retired=True) if fact.text == text)

    def foreign_rows(self) -> Dump:
        return dump_tables(self.path)

    def preview(self) -> WriteBackPreview:
        return self.store.write_back.preview(self.session)

    def write(self) -> Path | None:
        return self.store.write_back.write(self.preview())

    def check_backup(self, backup: Path, before: Dump, preview: WriteBackPreview) -> None:
        """Check that the backup holds the rows from before."""
        assert dump_tables(backup) == before

    def newest_edit(self) -> Edit:
        return self.store.journal.list_edits(limit=1)[0]

    def stored_rows(self) -> dict[str, list[Any]]:
        """Return the rows that a sync must neither duplicate nor lose."""
        return {
            table: self.store.rows(f"select {columns} from {table}") for table, columns in _COMPARED_COLUMNS.items()
        }


def check_round_trip(case: WriteBackCase) -> WriteBackPreview:
    """Preview a write-back, write it, sync, undo it, redo it, and undo it again after another sync."""
    before, stored_before = case.foreign_rows(), case.stored_rows()
    preview = case.preview()
    assert preview.plan.conflicts == []
    assert case.foreign_rows() == before
    expected = apply_changes(before, preview.plan.changes)
    backup = case.store.write_back.write(preview)
    edit = case.newest_edit()
    assert backup is not None
    case.check_backup(backup, before, preview)
    assert expected != before
    assert case.foreign_rows() == expected
    _check_nothing_to_write(case)
    case.store.journal.undo(edit.id)
    assert case.foreign_rows() == before
    if case.session.deleted:
        assert case.sync() == []  # its facts were retired with it, and the next sync brings them back
    assert case.stored_rows() == stored_before
    assert case.preview().plan.changes == preview.plan.changes
    case.store.journal.undo(case.newest_edit().id)
    assert case.foreign_rows() == expected
    _check_nothing_to_write(case)
    case.store.journal.undo(edit.id)
    assert case.foreign_rows() == before
    case.sync()
    assert case.stored_rows() == stored_before
    return preview


def _check_nothing_to_write(case: WriteBackCase) -> None:
    """Check that both stores agree: there is nothing to write and nothing to read."""
    assert case.preview().plan.changes == []
    assert case.preview().plan.conflicts == []
    rows = case.stored_rows()
    assert case.sync() == []
    if case.session.deleted:
        rows["facts where retired_at is null"] = ANY
    assert case.stored_rows() == rows
    assert case.store.rows("select id from sessions where relation = 'superseded'") == []


@contextmanager
def open_in_other_process(path: Path, *statements: str) -> Iterator[int]:
    """Open the database in another process that has run these statements; yield its process id."""
    command = [sys.executable, "-c", _HOLDER_PROGRAM, str(path), *statements]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        try:
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.stdin.close()
