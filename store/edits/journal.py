"""This module records every edit in the journal, with each row before and after, in the same transaction.

An undo is an edit that swaps before and after. So it works for titles, facts, secrets and everything else, and an undo
can be undone, too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, cast

from sqlite_utils.db import NotFoundError

from store.errors import ChangedMeanwhile, NotFound, NothingToUndo, Refused
from store.model.entry import Json
from store.model.knowledge import FOREIGN_TABLE, REDACTIONS_TABLE, Change, Edit
from store.text.validate import decode, encode, utc_timestamp

if TYPE_CHECKING:
    from sqlite_utils.db import Table

    from store.store import Store

UNDO = "undo"

_COLUMNS = "id, kind, at, sessions, before, after, undoes, undone_by, blanked, author"
_TOUCHES_SESSION = "exists (select 1 from json_each(edits.sessions) where value = ?)"
_SELECT_LATER_EDITS = f"""
    select {_COLUMNS} from edits where id > ? and undone_by is null and blanked = 0 and kind != ? order by id
"""
_SELECT_SHARED_FACT = """
    select 1 from facts where id = ? and scope is not (select 'session:' || id from sessions where key = ?)
"""


class PendingEdit:
    """Changes rows for an edit that is not recorded yet, and remembers their old values."""

    def __init__(
        self,
        store: Store,
        kind: str = "",
        sessions: tuple[int, ...] = (),
        undoes: int | None = None,
        author: str = "",
    ) -> None:
        self._store = store
        self.kind = kind
        self.sessions = sessions
        self.undoes = undoes
        self.author = author
        self.changes: list[Change] = []

    def update(self, table: str, key: Json, **columns: Json) -> bool:
        """Update a row. Return False if it already has these values."""
        row = self._read_row(table, key)
        if row is None:
            raise NotFound(f"No such row in {table}: {key!r}.")
        before = {name: row[name] for name in columns}
        if before == columns:
            return False
        self._table(table).update(_to_primary_key(key), columns)
        self.changes.append(Change(table, key, before, columns))
        return True

    def insert(self, table: str, **columns: Json) -> Any:
        """Insert a row and return its key. The whole row is recorded, so that an undo notices every later change."""
        self._table(table).insert(columns)
        key_values = [columns.get(name) for name in self._table(table).pks]
        if key_values == [None]:
            key_values = [self._store.row("select last_insert_rowid()")[0]]
        key = key_values[0] if len(key_values) == 1 else key_values
        self.changes.append(Change(table, key, None, self._read_row(table, key)))
        return key

    def delete(self, table: str, key: Json) -> None:
        row = self._read_row(table, key)
        if row is None:
            raise NotFound(f"No such row in {table}: {key!r}.")
        self._table(table).delete(_to_primary_key(key))
        self.changes.append(Change(table, key, row, None))

    def revert(self, change: Change) -> None:
        """Restore a row, or raise ChangedMeanwhile if it is no longer as the edit left it."""
        row = self._read_row(change.table, change.key)
        if change.after is None:
            if row is not None:
                raise ChangedMeanwhile("The row was created again.", row)
            self._table(change.table).insert(change.before or {})
            self.changes.append(Change(change.table, change.key, None, change.before))
        elif row is None or any(row[name] != value for name, value in change.after.items()):
            raise ChangedMeanwhile("The row has changed since.", row)
        elif change.before is None:
            self.delete(change.table, change.key)
        else:
            self.update(change.table, change.key, **change.before)

    def repeat(self, change: Change) -> None:
        """Make a change that was lost, unless the row has changed since."""
        row = self._read_row(change.table, change.key)
        if change.before is None:
            columns = change.after or {}
            if row is not None:  # another row has its key now
                columns = {name: value for name, value in columns.items() if name not in self._table(change.table).pks}
            self.insert(change.table, **columns)
        elif row is not None and all(row[name] == value for name, value in change.before.items()):
            if change.after is None:
                self.delete(change.table, change.key)
            else:
                self.update(change.table, change.key, **change.after)

    def add_foreign_change(self, change: Change) -> None:
        """Record a change that a write-back makes in a foreign store, or a redaction anywhere."""
        self.changes.append(change)

    def _read_row(self, table: str, key: Json) -> dict[str, Any] | None:
        try:
            return dict(self._table(table).get(_to_primary_key(key)))
        except NotFoundError:
            return None

    def _table(self, name: str) -> Table:
        return self._store.db.table(name)


class Journal:
    """Records, lists and undoes edits. This is the collection `store.journal`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @contextmanager
    def edit(self, kind: str, *sessions: int, undoes: int | None = None, author: str = "") -> Iterator[PendingEdit]:
        """Run an edit in one transaction and record it, unless nothing changed.

        `sessions` are the keys of the sessions that the edit belongs to. `author` names the member of the team who made
        the edit elsewhere.
        """
        with self._store.transaction():
            pending = PendingEdit(self._store, kind, sessions, undoes, author)
            yield pending
            if pending.changes:
                self._insert_edit(pending)

    def _insert_edit(self, edit: PendingEdit) -> None:
        inserted = self._store.connection.execute(
            "insert into edits (kind, at, sessions, before, after, undoes, author) values (?, ?, ?, ?, ?, ?, ?)",
            (
                edit.kind,
                utc_timestamp(),
                encode(list(edit.sessions)).decode(),
                *_encode_changes(edit.changes),
                edit.undoes,
                edit.author,
            ),
        )
        if edit.undoes is not None:
            self._update_undone_by(cast("int", inserted.lastrowid), edit.undoes)

    def repeat(self, kind: str, sessions: Iterable[int], undoes: int | None, changes: Iterable[Change]) -> None:
        """Make and record an edit of a foreign store that was lost here after it was made there."""
        with self.edit(kind, *sessions, undoes=undoes) as pending:
            for change in changes:
                if change.table == FOREIGN_TABLE:
                    pending.add_foreign_change(change)
                    continue
                with suppress(sqlite3.IntegrityError), self._store.transaction():
                    pending.repeat(change)

    def has_edit(self, changes: Sequence[Change], *, after: int) -> bool:
        """Return whether one of the edits after a number consists of these changes."""
        query = "select 1 from edits where id > ? and before = ? and after = ?"
        return self._store.row(query, after, *_encode_changes(changes)) is not None

    def _update_undone_by(self, undoing_id: int, edit_id: int | None) -> None:
        """Mark an edit as undone. If it was itself an undo, its edit is active again, and so on down the chain."""
        is_active = False
        while edit_id is not None:
            self._store.connection.execute(
                "update edits set undone_by = ? where id = ?", (None if is_active else undoing_id, edit_id)
            )
            (undone_id,) = self._store.row("select undoes from edits where id = ?", edit_id)
            undoing_id, edit_id, is_active = edit_id, undone_id, not is_active

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def list_edits(self, session: int | None = None, *, limit: int = 100, before: int | None = None) -> list[Edit]:
        """Return edits, newest first. Pass the last edit of a page as `before` to get the next page."""
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
            raise NotFound(f"No such edit: {edit_id}.")
        return self._edit_from_row(row)

    def list_edits_of_row(self, table: str, key: Json) -> list[Edit]:
        """Return the edits that changed one row, oldest first."""
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
        edit_id, kind, at, sessions, _, _, undoes, undone_by, blanked, author = row
        ids_by_key = dict(
            self._store.rows("select key, id from sessions where key in (select value from json_each(?))", sessions)
        )
        session_ids = tuple(ids_by_key[key] for key in decode(sessions) if key in ids_by_key)
        undone_kind, is_redo = self._find_undone_kind(undoes)
        changes = _parse_changes(row)
        return Edit(
            edit_id, kind, at, session_ids, changes, undoes, undone_by, bool(blanked), author, undone_kind, is_redo
        )

    def _find_undone_kind(self, undone: int | None) -> tuple[str, bool]:
        """Return the kind of the edit that an undo reversed, and whether it is done again by that."""
        kind, is_redo = "", True
        while undone is not None:
            kind, undone = self._store.row("select kind, undoes from edits where id = ?", undone)
            is_redo = not is_redo
        return kind, bool(kind) and is_redo

    # ── undo ──────────────────────────────────────────────────────────────────────────────────────

    def undo(self, edit_id: int | None = None) -> Edit:
        """Undo an edit, or the newest one of one's own that is not undone. Return the edit that was undone."""
        self._store.settle_write_backs()
        chosen = self.get(edit_id) if edit_id is not None else self._get_newest_undoable()
        if chosen.is_redaction:
            return self._undo_redaction(self._get_undoable(chosen.id))
        foreign_changes = [change for change in chosen.changes if change.table == FOREIGN_TABLE]
        with self._prepare_foreign_undo(chosen, foreign_changes) as undo_foreign, self._store.transaction():
            edit = self._get_undoable(chosen.id)
            sessions = decode(self._store.row("select sessions from edits where id = ?", edit.id)[0])
            with self.edit(UNDO, *sessions, undoes=edit.id) as pending:
                self._revert_changes(edit, pending)
                for change in reversed(foreign_changes):
                    pending.add_foreign_change(Change(FOREIGN_TABLE, change.key, change.after, change.before))
                # It comes last, so that an earlier failure leaves the foreign store untouched.
                undo_foreign(pending)
        return edit

    def _undo_redaction(self, edit: Edit) -> Edit:
        if edit.kind == UNDO:
            raise Refused("This cannot be undone. Run `backscroll leaks redact` to redact the values again.")
        run = self._store.leaks.redactions.begin_undo(cast("int", edit.changes[0].key))
        for _ in run.steps():
            pass
        return edit

    def undo_all(self, edit_ids: Iterable[int]) -> list[Edit]:
        """Undo several edits, newest first, all or none. Edits of foreign stores are undone one by one."""
        edits = [self.get(edit_id) for edit_id in sorted(edit_ids, reverse=True)]
        is_local = all(
            change.table not in (FOREIGN_TABLE, REDACTIONS_TABLE) for edit in edits for change in edit.changes
        )
        with self._store.transaction() if is_local else nullcontext():
            return [self.undo(edit.id) for edit in edits]

    def list_dependent_edits(self, edit_id: int) -> list[Edit]:
        """Return the active edits that changed the same data later, directly or through each other, newest first."""
        changed = _collect_changed_columns(self.get(edit_id).changes)
        dependent: list[Edit] = []
        for row in self._store.rows(_SELECT_LATER_EDITS, edit_id, UNDO):
            later = _collect_changed_columns(_parse_changes(row))
            if any(_has_overlap(columns, changed.get(key)) for key, columns in later.items()):
                for key, columns in later.items():
                    changed[key] = changed.get(key, set()) | columns
                dependent.insert(0, self._edit_from_row(row))
        return dependent

    def _get_undoable(self, edit_id: int) -> Edit:
        edit = self.get(edit_id)
        if edit.undone_by is not None:
            raise NothingToUndo(f"Edit {edit.id} is already undone.")
        if edit.blanked:
            raise Refused(f"Edit {edit.id} cannot be undone: its data was purged.")
        return edit

    def _prepare_foreign_undo(
        self, edit: Edit, changes: list[Change]
    ) -> AbstractContextManager[Callable[[PendingEdit], None]]:
        """Return a context that yields a function which restores the rows of the foreign stores, if there are any."""
        if not changes:
            return nullcontext(lambda _: None)
        self._get_undoable(edit.id)
        return self._store.write_back.prepare_undo(changes)

    def _revert_changes(self, edit: Edit, pending: PendingEdit) -> None:
        try:
            for change in reversed(edit.changes):
                if change.table == FOREIGN_TABLE:
                    continue
                try:
                    pending.revert(change)
                except ChangedMeanwhile as conflict:
                    later = self._find_later_edit(edit.id, change)
                    hint = f" Undo edit {later} first." if later else ""
                    message = f"Edit {edit.id} cannot be undone: the same data was changed later.{hint}"
                    raise ChangedMeanwhile(message, conflict.current) from None
        except sqlite3.IntegrityError as error:
            raise Refused(f"Edit {edit.id} cannot be undone now: {error}.") from None

    def _find_later_edit(self, edit_id: int, change: Change) -> int | None:
        """Return the newest active edit of the same row. Undos do not count; undoing them would restore even more."""
        edits = self.list_edits_of_row(change.table, change.key)
        active = [edit.id for edit in edits if edit.undone_by is None and edit.kind != UNDO]
        return max((active_id for active_id in active if active_id > edit_id), default=None)

    def _get_newest_undoable(self) -> Edit:
        row = self._store.row(
            f"""
            select {_COLUMNS} from edits
            where undone_by is null and blanked = 0 and kind != ? and author = '' order by id desc limit 1
            """,
            UNDO,
        )
        if row is None:
            raise NothingToUndo("Nothing to undo.")
        return self._edit_from_row(row)

    def blank_session(self, session: int) -> None:
        """Remove the data of a session from its edits within a purge. The edits themselves stay."""
        rows = self._store.rows(f"select id, before, after from edits where {_TOUCHES_SESSION}", session)
        for edit_id, *columns in rows:
            sides = [decode(column) for column in columns]
            # An edit that was written back is blanked completely: a partial undo would make the two stores differ.
            if any(item["table"] == FOREIGN_TABLE for item in sides[0]):
                sides = [[], []]
            before, after = (
                [_unlink_session(item, session) for item in side if self._survives_purge(item, session)]
                for side in sides
            )
            self._store.connection.execute(
                "update edits set before = ?, after = ?, blanked = ? where id = ?",
                (encode(before).decode(), encode(after).decode(), not before, edit_id),
            )

    def _survives_purge(self, item: dict[str, Json], session: int) -> bool:
        """Return whether a row stays when the session is purged: it is another session's row, a shared fact, or a
        redaction."""
        table, key = item["table"], item["key"]
        if table == REDACTIONS_TABLE:
            return True
        if table == "facts":
            return self._store.row(_SELECT_SHARED_FACT, key, session) is not None
        if isinstance(key, list):
            return bool(key[0] != session)
        return bool(table == "sessions" and key != session)


def _encode_changes(changes: Sequence[Change]) -> tuple[str, str]:
    """Return the rows before and after the changes, as the journal stores them."""
    before = [{"table": change.table, "key": change.key, "columns": change.before} for change in changes]
    after = [{"table": change.table, "key": change.key, "columns": change.after} for change in changes]
    return encode(before).decode(), encode(after).decode()


def _parse_changes(row: tuple[Any, ...]) -> tuple[Change, ...]:
    _, _, _, _, before, after, *_ = row
    return tuple(
        Change(old["table"], old["key"], old["columns"], new["columns"])
        for old, new in zip(decode(before), decode(after), strict=True)
    )


_ALL_COLUMNS = "*"


def _collect_changed_columns(changes: Iterable[Change]) -> dict[tuple[str, bytes], set[str]]:
    """Return the changed columns of each row. For a row that was inserted or deleted these are all columns."""
    columns_by_row: dict[tuple[str, bytes], set[str]] = {}
    for change in changes:
        is_full_row = change.before is None or change.after is None
        columns = {_ALL_COLUMNS} if is_full_row else set(change.after or {})
        columns_by_row.setdefault((change.table, encode(change.key)), set()).update(columns)
    return columns_by_row


def _has_overlap(columns: set[str], others: set[str] | None) -> bool:
    return others is not None and (_ALL_COLUMNS in columns | others or not columns.isdisjoint(others))


def _unlink_session(item: dict[str, Json], session: int) -> dict[str, Json]:
    """Remove the origin from a fact that was learnt in the session."""
    columns = item["columns"]
    if item["table"] == "facts" and columns and columns.get("session") == session:
        return item | {"columns": columns | {"session": None, "entry_seq": None}}
    return item


def _to_primary_key(key: Json) -> Any:
    """Return the key as sqlite-utils needs it. The journal stores compound keys as JSON lists."""
    return tuple(key) if isinstance(key, list) else key
