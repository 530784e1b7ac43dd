"""A foreign store that edits are carried into: every value of its rows, and another process that has it open."""

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
    """Every row, text that is no UTF-8 in surrogates. An index is checked instead: its tables have many forms."""
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
    """What the rows must be when exactly these changes were made."""
    after = deepcopy(before)
    for change in changes:
        rows = after[change.table]
        found = [row for row in rows if all(row[name] == value for name, value in change.key.items())]
        assert len(found) == (change.before is not None)
        assert all(row[name] == value for row in found for name, value in (change.before or {}).items())
        if change.after is None:
            rows.remove(found[0])
        elif change.before is None:
            rows.append({**change.key, **change.after})
        else:
            found[0].update(change.after)
    return {table: _sorted(rows) for table, rows in after.items()}


@dataclass
class WriteBackCase:
    """A foreign store and ours, which has read it."""

    store: Store
    path: Path
    session_name: str = "s"
    is_readable: bool = True
    "Whether it is read without a problem."

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
        """It holds what there was."""
        assert dump_tables(backup) == before

    def newest_edit(self) -> Edit:
        return self.store.journal.list_edits(limit=1)[0]

    def stored_rows(self) -> dict[str, list[Any]]:
        """What a sync must neither double nor lose."""
        return {
            table: self.store.rows(f"select {columns} from {table}") for table, columns in _COMPARED_COLUMNS.items()
        }


def check_round_trip(world: WriteBackCase) -> WriteBackPreview:
    """The whole life of a write-back: shown, written, read again, undone, done again, undone after another sync."""
    before, ours = world.foreign_rows(), world.stored_rows()
    preview = world.preview()
    assert preview.plan.conflicts == []
    assert world.foreign_rows() == before
    expected = apply_changes(before, preview.plan.changes)
    backup = world.store.write_back.write(preview)
    edit = world.newest_edit()
    assert backup is not None
    world.check_backup(backup, before, preview)
    assert expected != before
    assert world.foreign_rows() == expected
    _check_nothing_to_write(world)
    world.store.journal.undo(edit.id)
    assert world.foreign_rows() == before
    if world.session.deleted:
        assert world.sync() == []  # what was known of it went with it, and stands again once it is told again
    assert world.stored_rows() == ours
    assert world.preview().plan.changes == preview.plan.changes
    world.store.journal.undo(world.newest_edit().id)
    assert world.foreign_rows() == expected
    _check_nothing_to_write(world)
    world.store.journal.undo(edit.id)
    assert world.foreign_rows() == before
    world.sync()
    assert world.stored_rows() == ours
    return preview


def _check_nothing_to_write(world: WriteBackCase) -> None:
    """The two stores say the same: there is nothing to write, and nothing to read."""
    assert world.preview().plan.changes == []
    assert world.preview().plan.conflicts == []
    told = world.stored_rows()
    assert world.sync() == []
    if world.session.deleted:
        told["facts where retired_at is null"] = ANY
    assert world.stored_rows() == told
    assert world.store.rows("select id from sessions where relation = 'superseded'") == []


@contextmanager
def open_in_other_process(path: Path, *statements: str) -> Iterator[int]:
    """Open in another process, which has run these statements; its id."""
    command = [sys.executable, "-c", _HOLDER_PROGRAM, str(path), *statements]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin
        assert other.stdout
        try:
            assert other.stdout.readline() == b"ready\n"
            yield other.pid
        finally:
            other.stdin.close()
