"""Every edit, with what each row said before and after, in the transaction that makes it. Undo is the same edit turned
round, so one mechanism serves titles, facts, secrets and all the rest, and an undo can itself be undone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, cast

from sqlite_utils.db import NotFoundError

from store.errors import ChangedMeanwhile, NotFound, NothingToUndo, Refused
from store.model.entry import Json
from store.model.knowledge import FOREIGN_TABLE, Change, Edit
from store.text.validate import decode, encode, utc_timestamp

if TYPE_CHECKING:
    from sqlite_utils.db import Table

    from store.store import Store

UNDO = "undo"

_COLUMNS = "id, kind, at, sessions, before, after, undoes, undone_by, blanked"
_TOUCHES_SESSION = "exists (select 1 from json_each(edits.sessions) where value = ?)"
_SELECT_LATER_EDITS = f"""
    select {_COLUMNS} from edits where id > ? and undone_by is null and blanked = 0 and kind != ? order by id
"""
_SELECT_SHARED_FACT = """
    select 1 from facts where id = ? and scope is not (select 'session:' || id from sessions where key = ?)
"""


class PendingEdit:
    """One edit in the making: shelves change rows through it, and it remembers how they were."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.changes: list[Change] = []

    def update(self, table: str, key: Json, **columns: Json) -> bool:
        """False, and nothing written, when the row says that already."""
        row = self._read_row(table, key)
        if row is None:
            raise NotFound(f"There is no {key!r} in {table}.")
        before = {name: row[name] for name in columns}
        if before == columns:
            return False
        self._table(table).update(_to_primary_key(key), columns)
        self.changes.append(Change(table, key, before, columns))
        return True

    def insert(self, table: str, **columns: Json) -> Any:
        """The whole row is remembered, defaults too, so that undo sees every later change to it."""
        self._table(table).insert(columns)
        shelf = self._table(table)
        key = [columns.get(name) for name in shelf.pks]
        if key == [None]:
            key = [self._store.row("select last_insert_rowid()")[0]]
        kept = key[0] if len(key) == 1 else key
        self.changes.append(Change(table, kept, None, self._read_row(table, kept)))
        return kept

    def delete(self, table: str, key: Json) -> None:
        row = self._read_row(table, key)
        if row is None:
            raise NotFound(f"There is no {key!r} in {table}.")
        self._table(table).delete(_to_primary_key(key))
        self.changes.append(Change(table, key, row, None))

    def revert(self, change: Change) -> None:
        """Put a row back as it was, if it still says what the edit left it saying."""
        row = self._read_row(change.table, change.key)
        if change.after is None:
            if row is not None:
                raise ChangedMeanwhile("Something by that name is there again.", row)
            self._table(change.table).insert(change.before or {})
            self.changes.append(Change(change.table, change.key, None, change.before))
        elif row is None or any(row[name] != value for name, value in change.after.items()):
            raise ChangedMeanwhile("It has been changed since.", row)
        elif change.before is None:
            self.delete(change.table, change.key)
        else:
            self.update(change.table, change.key, **change.before)

    def add_foreign_change(self, change: Change) -> None:
        """A change that somebody else makes, in a store of somebody else's."""
        self.changes.append(change)

    def _read_row(self, table: str, key: Json) -> dict[str, Any] | None:
        try:
            return dict(self._table(table).get(_to_primary_key(key)))
        except NotFoundError:
            return None

    def _table(self, name: str) -> Table:
        return self._store.db.table(name)


class Journal:
    def __init__(self, store: Store) -> None:
        self._store = store

    @contextmanager
    def edit(self, kind: str, *sessions: int, undoes: int | None = None) -> Iterator[PendingEdit]:
        """One transaction, one row of the journal; no row when nothing changed. `sessions` are those it touches."""
        with self._store.transaction():
            editing = PendingEdit(self._store)
            yield editing
            if editing.changes:
                self._insert_edit(kind, sessions, editing.changes, undoes)

    def _insert_edit(self, kind: str, sessions: tuple[int, ...], changes: list[Change], undoes: int | None) -> None:
        sides = [
            encode([{"table": change.table, "key": change.key, "columns": side} for change, side in pairs]).decode()
            for pairs in (
                [(change, change.before) for change in changes],
                [(change, change.after) for change in changes],
            )
        ]
        written = self._store.connection.execute(
            "insert into edits (kind, at, sessions, before, after, undoes) values (?, ?, ?, ?, ?, ?)",
            (kind, utc_timestamp(), encode(list(sessions)).decode(), *sides, undoes),
        )
        if undoes is not None:
            self._update_undone_by(cast("int", written.lastrowid), undoes)

    def _update_undone_by(self, undoer: int, number: int | None) -> None:
        """Down the chain of undos: the edit is undone, so what it had undone stands again, and so on in turn."""
        stands = False
        while number is not None:
            self._store.connection.execute(
                "update edits set undone_by = ? where id = ?", (None if stands else undoer, number)
            )
            (below,) = self._store.row("select undoes from edits where id = ?", number)
            undoer, number, stands = number, below, not stands

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def list_edits(self, session: int | None = None, *, limit: int = 100, before: int | None = None) -> list[Edit]:
        """Newest first; `before` goes on from an edit that was shown."""
        conditions, values = ([_TOUCHES_SESSION], [session]) if session is not None else ([], [])
        if before is not None:
            conditions.append("id < ?")
            values.append(before)
        where = " and ".join(conditions) or "1"
        rows = self._store.rows(f"select {_COLUMNS} from edits where {where} order by id desc limit ?", *values, limit)
        return [self._edit_from_row(row) for row in rows]

    def get(self, edit_id: int) -> Edit:
        row = self._store.row(f"select {_COLUMNS} from edits where id = ?", edit_id)
        if row is None:
            raise NotFound(f"There is no edit {edit_id}.")
        return self._edit_from_row(row)

    def list_edits_of_row(self, table: str, key: Json) -> list[Edit]:
        """The edits that changed one row, oldest first: its history."""
        rows = self._store.rows(
            f"""
            select {_COLUMNS} from edits where exists (
                select 1 from json_each(edits.after)
                where json_extract(value, '$.table') = ? and json_extract(value, '$.key') = ?
            ) order by id
            """,
            table,
            encode(key).decode() if isinstance(key, list) else key,
        )
        return [self._edit_from_row(row) for row in rows]

    def _edit_from_row(self, row: tuple[Any, ...]) -> Edit:
        number, kind, at, sessions, _, _, undoes, undone_by, blanked = row
        keys = decode(sessions)
        known = dict(
            self._store.rows("select key, id from sessions where key in (select value from json_each(?))", sessions)
        )
        names = tuple(known[key] for key in keys if key in known)
        return Edit(number, kind, at, names, _parse_changes(row), undoes, undone_by, bool(blanked))

    # ── undo ──────────────────────────────────────────────────────────────────────────────────────

    def undo(self, edit_id: int | None = None) -> Edit:
        """Take back that edit, or the newest that still stands; gives the edit that was taken back."""
        chosen = self.get(edit_id) if edit_id is not None else self._get_newest_undoable()
        foreign = [change for change in chosen.changes if change.table == FOREIGN_TABLE]
        with self._reverting_foreign_rows(chosen, foreign) as put_theirs_back, self._store.transaction():
            edit = self._get_undoable(chosen.id)
            sessions = decode(self._store.row("select sessions from edits where id = ?", edit.id)[0])
            with self.edit(UNDO, *sessions, undoes=edit.id) as editing:
                self._revert_changes(edit, editing)
                put_theirs_back()
                for change in reversed(foreign):
                    editing.add_foreign_change(Change(FOREIGN_TABLE, change.key, change.after, change.before))
        return edit

    def undo_all(self, edit_ids: Iterable[int]) -> list[Edit]:
        """Newest first. All or none of them, but for what was carried into foreign stores: that goes one by one."""
        edits = [self.get(number) for number in sorted(edit_ids, reverse=True)]
        is_ours = all(change.table != FOREIGN_TABLE for edit in edits for change in edit.changes)
        with self._store.transaction() if is_ours else nullcontext():
            return [self.undo(edit.id) for edit in edits]

    def list_dependent_edits(self, edit_id: int) -> list[Edit]:
        """Edits that stand and changed again what this one left, or what another of them did; newest first."""
        touched = _collect_touched_columns(self.get(edit_id).changes)
        found: list[Edit] = []
        for row in self._store.rows(_SELECT_LATER_EDITS, edit_id, UNDO):
            again = _collect_touched_columns(_parse_changes(row))
            if any(_has_overlap(columns, touched.get(place)) for place, columns in again.items()):
                for place, columns in again.items():
                    touched[place] = touched.get(place, set()) | columns
                found.insert(0, self._edit_from_row(row))
        return found

    def _get_undoable(self, edit_id: int) -> Edit:
        edit = self.get(edit_id)
        if edit.undone_by is not None:
            raise NothingToUndo(f"Edit {edit.id} is undone already.")
        if edit.blanked:
            raise Refused(f"What edit {edit.id} changed was purged, and is gone for good.")
        return edit

    def _reverting_foreign_rows(self, edit: Edit, foreign: list[Change]) -> AbstractContextManager[Callable[[], None]]:
        """What puts rows of a foreign store back; in an edit of our own rows alone, nothing."""
        if not foreign:
            return nullcontext(lambda: None)
        self._get_undoable(edit.id)
        return self._store.write_back.prepare_undo(foreign)

    def _revert_changes(self, edit: Edit, editing: PendingEdit) -> None:
        try:
            for change in reversed(edit.changes):
                if change.table == FOREIGN_TABLE:
                    continue
                try:
                    editing.revert(change)
                except ChangedMeanwhile as clash:
                    later = self._find_later_edit(edit.id, change)
                    hint = f"; undo edit {later} first" if later else ""
                    message = f"What edit {edit.id} changed has been changed since{hint}."
                    raise ChangedMeanwhile(message, clash.current) from None
        except sqlite3.IntegrityError as reason:
            raise Refused(f"Edit {edit.id} cannot be undone as things are now: {reason}.") from None

    def _find_later_edit(self, edit_id: int, change: Change) -> int | None:
        """The newest edit of the same row that stands; to undo an undo would only bring more back."""
        touching = self.list_edits_of_row(change.table, change.key)
        standing = [edit.id for edit in touching if edit.undone_by is None and edit.kind != UNDO]
        return max((number for number in standing if number > edit_id), default=None)

    def _get_newest_undoable(self) -> Edit:
        row = self._store.row(
            f"""
            select {_COLUMNS} from edits
            where undone_by is null and blanked = 0 and kind != ? order by id desc limit 1
            """,
            UNDO,
        )
        if row is None:
            raise NothingToUndo("There is no edit to undo.")
        return self._edit_from_row(row)

    def blank_session(self, session: int) -> None:
        """Within a purge: its edits say no more of that session than that they were."""
        rows = self._store.rows(f"select id, before, after from edits where {_TOUCHES_SESSION}", session)
        for number, *spelled in rows:
            sides = [decode(side) for side in spelled]
            # Half an undo of what was written back would part what the two stores say.
            if any(item["table"] == FOREIGN_TABLE for item in sides[0]):
                sides = [[], []]
            kept = [
                [_unlink_session(item, session) for item in side if self._survives_purge(item, session)]
                for side in sides
            ]
            self._store.connection.execute(
                "update edits set before = ?, after = ?, blanked = ? where id = ?",
                (*(encode(side).decode() for side in kept), not kept[0], number),
            )

    def _survives_purge(self, item: dict[str, Json], session: int) -> bool:
        """Whether the row stays when the session goes: another session's, or a fact that others may know."""
        table, key = item["table"], item["key"]
        if table == "facts":
            return self._store.row(_SELECT_SHARED_FACT, key, session) is not None
        if isinstance(key, list):
            return bool(key[0] != session)
        return bool(table == "sessions" and key != session)


def _parse_changes(row: tuple[Any, ...]) -> tuple[Change, ...]:
    _, _, _, _, before, after, *_ = row
    return tuple(
        Change(old["table"], old["key"], old["columns"], new["columns"])
        for old, new in zip(decode(before), decode(after), strict=True)
    )


_ALL_COLUMNS = "*"


def _collect_touched_columns(changes: Iterable[Change]) -> dict[tuple[str, bytes], set[str]]:
    """By row, the columns; a row that came or went was touched whole."""
    found: dict[tuple[str, bytes], set[str]] = {}
    for change in changes:
        is_whole = change.before is None or change.after is None
        columns = {_ALL_COLUMNS} if is_whole else set(change.after or {})
        found.setdefault((change.table, encode(change.key)), set()).update(columns)
    return found


def _has_overlap(columns: set[str], others: set[str] | None) -> bool:
    return others is not None and (_ALL_COLUMNS in columns | others or not columns.isdisjoint(others))


def _unlink_session(item: dict[str, Json], session: int) -> dict[str, Json]:
    """A fact outlives the session that taught it, and then no longer says where it was learnt."""
    columns = item["columns"]
    if item["table"] == "facts" and columns and columns.get("session") == session:
        return item | {"columns": columns | {"session": None, "entry_seq": None}}
    return item


def _to_primary_key(key: Json) -> Any:
    """As sqlite-utils wants it; the journal keeps compound keys as JSON lists."""
    return tuple(key) if isinstance(key, list) else key
