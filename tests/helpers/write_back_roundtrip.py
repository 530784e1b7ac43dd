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

from foreign_databases import pull

from store.model.knowledge import Edit
from store.model.session import Session
from store.sources.kit.write_plan import RowChange
from store.store import Store
from store.write_back.service import Preview

Dump = dict[str, list[dict[str, Any]]]

_HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement).fetchall()
print("ready", flush=True)
sys.stdin.read()
"""
_TOLD = {
    "entries": "session, seq, text",
    "facts where retired_at is null": "id, text, foreign_place, foreign_text",
    "summaries": "session, text, up_to_turn, origin, current",
    "sessions": "id, relation, agent_title, own_title, gone, deleted",
}
_SHADOWS = ("_data", "_idx", "_content", "_docsize", "_config")


def dump(path: Path) -> Dump:
    """Every row, text that is no UTF-8 in surrogates. An index is checked instead: its tables have many forms."""
    with closing(sqlite3.connect(path)) as live, closing(sqlite3.connect(":memory:")) as connection:
        live.backup(connection)
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        connection.row_factory = sqlite3.Row
        tables = dict(connection.execute("select name, sql from sqlite_master where type = 'table'").fetchall())
        indexes = [name for name, sql in tables.items() if "virtual table" in sql.lower()]
        shadows = {index + ending for index in indexes for ending in _SHADOWS}
        for index in indexes:
            connection.execute(f"insert into {index}({index}, rank) values ('integrity-check', 1)")
        return {
            table: _sorted(map(dict, connection.execute(f'select * from "{table}"')))
            for table in tables.keys() - shadows - set(indexes)
        }


def _sorted(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


def applied(before: Dump, changes: Iterable[RowChange]) -> Dump:
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
class World:
    """A foreign store and ours, which has read it."""

    store: Store
    path: Path
    name: str = "s"
    sound: bool = True
    "Whether it is read without a problem."

    def __post_init__(self) -> None:
        assert bool(self.pull()) != self.sound

    def pull(self) -> list[Any]:
        return pull(self.store, self.path).problems

    @property
    def session(self) -> Session:
        return self.store.sessions.find(self.name)

    def titled(self, title: str = "Mine") -> World:
        self.store.sessions.set_title(self.session, title)
        return self

    def summed_up(self, text: str = "In short.", up_to_turn: int | None = None) -> World:
        self.store.summaries.set(self.session, text, up_to_turn=up_to_turn)
        return self

    def deleted(self) -> World:
        self.store.sessions.delete([self.session])
        return self

    def fact(self, text: str) -> int:
        return next(fact.id for fact in self.store.facts.current(None, retired=True) if fact.text == text)

    def rows(self) -> Dump:
        return dump(self.path)

    def preview(self) -> Preview:
        return self.store.writing_back.preview(self.session)

    def write(self) -> Path | None:
        return self.store.writing_back.write(self.preview())

    def check_backup(self, backup: Path, before: Dump, preview: Preview) -> None:
        """It holds what there was."""
        assert dump(backup) == before

    def newest_edit(self) -> Edit:
        return self.store.journal.newest(limit=1)[0]

    def told(self) -> dict[str, list[Any]]:
        """What a sync must neither double nor lose."""
        return {table: self.store.rows(f"select {columns} from {table}") for table, columns in _TOLD.items()}


def there_and_back(world: World) -> Preview:
    """The whole life of a write-back: shown, written, read again, undone, done again, undone after another sync."""
    before, ours = world.rows(), world.told()
    preview = world.preview()
    assert preview.plan.conflicts == []
    assert world.rows() == before
    expected = applied(before, preview.plan.changes)
    backup = world.store.writing_back.write(preview)
    edit = world.newest_edit()
    assert backup is not None
    world.check_backup(backup, before, preview)
    assert expected != before
    assert world.rows() == expected
    _nothing_is_left(world)
    world.store.journal.undo(edit.id)
    assert world.rows() == before
    if world.session.deleted:
        assert world.pull() == []  # what was known of it went with it, and stands again once it is told again
    assert world.told() == ours
    assert world.preview().plan.changes == preview.plan.changes
    world.store.journal.undo(world.newest_edit().id)
    assert world.rows() == expected
    _nothing_is_left(world)
    world.store.journal.undo(edit.id)
    assert world.rows() == before
    world.pull()
    assert world.told() == ours
    return preview


def _nothing_is_left(world: World) -> None:
    """The two stores say the same: there is nothing to write, and nothing to read."""
    assert world.preview().plan.changes == []
    assert world.preview().plan.conflicts == []
    told = world.told()
    assert world.pull() == []
    if world.session.deleted:
        told["facts where retired_at is null"] = ANY
    assert world.told() == told
    assert world.store.rows("select id from sessions where relation = 'superseded'") == []


@contextmanager
def held(path: Path, *statements: str) -> Iterator[int]:
    """Open in another process, which has run these statements; its id."""
    command = [sys.executable, "-c", _HOLD, str(path), *statements]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin
        assert other.stdout
        try:
            assert other.stdout.readline() == b"ready\n"
            yield other.pid
        finally:
            other.stdin.close()
