"""Carries edits into the store a session came from: shows the exact rows first, backs up, compares, swaps, journals."""

from __future__ import annotations

import base64
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from store import sources
from store.coding import now
from store.connecting import create_private
from store.errors import Busy, ChangedMeanwhile, Refused, WriteFailed
from store.journal import FOREIGN, Editing
from store.model import Change, Session, foreign_id
from store.paths import private_folder
from store.sources import reading
from store.sources.shape import ForeignSummary, Source
from store.sources.writing import RowChange, Wanted, WantedFact, WantedSecret, WantedText, Writable, WritePlan

if TYPE_CHECKING:
    from store.store import Store

BACKUPS_KEPT = 5
_BUSY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Preview:
    session: Session
    source: str
    locator: str
    plan: WritePlan


class WritingBack:
    def __init__(self, store: Store) -> None:
        self._store = store

    # ── what would change ─────────────────────────────────────────────────────────────────────────

    def preview(self, session: Session) -> Preview:
        """Opens the foreign store and changes nothing."""
        source, locator = self._origin(session)
        if not isinstance(source, Writable):
            raise Refused(f"{source.LABEL} takes no edits back; they stay here.")
        wanted = self._wanted(session)
        with _foreign(locator, writing=False) as rows:
            plan = source.plan(rows, wanted)
        return Preview(session, source.NAME, locator, plan)

    def _origin(self, session: Session) -> tuple[Source, str]:
        row = self._store.row("select kind, locator from sources where key = ?", session.source_key or 0)
        source = sources.by_name(row[0]) if row else None
        if source is None:
            raise Refused("That session did not come from a foreign store; there is nothing to write back to.")
        return source, row[1]

    def _wanted(self, session: Session) -> Wanted:
        title = None
        if session.own_title and session.own_title != session.agent_title:
            title = WantedText(session.own_title, session.agent_title)
        summary, seen = self._wanted_summary(session)
        return Wanted(
            native_id=session.native_id,
            title=title,
            summary=summary,
            summary_seen=seen,
            facts=tuple(self._wanted_facts(session)),
            secrets=tuple(self._wanted_secrets(session)),
            delete=bool(session.deleted),
        )

    def _wanted_summary(self, session: Session) -> tuple[ForeignSummary | None, str]:
        current = self._store.summaries.current(session)
        told = next((old for old in self._store.summaries.history(session) if old.origin == "source"), None)
        seen = told.text if told else ""
        if current is None or current.origin == "source" or current.text == seen:
            return None, seen
        return ForeignSummary(current.text, current.up_to_turn), seen

    def _wanted_facts(self, session: Session) -> Iterator[WantedFact]:
        """Those of the whole foreign store: most belong to no one session."""
        prefix = self._fact_prefix(session)
        rows = self._store.rows(
            """
            select substr(foreign_place, length(?1) + 1), text, foreign_text, category, retired_at from facts
            where foreign_place >= ?1 and foreign_place < ?1 || char(1114111) order by id
            """,
            prefix,
        )
        for place, text, told, category, retired in rows:
            if retired is not None or text != told:
                yield WantedFact(place, None if retired is not None else text, told, category)

    def _fact_prefix(self, session: Session) -> str:
        source, locator = self._origin(session)
        return foreign_id(source.NAME, "", locator) + "/"

    def _wanted_secrets(self, session: Session) -> Iterator[WantedSecret]:
        for name in self._store.secrets.names(session):
            yield WantedSecret(name.key, self._store.secrets.get(session, name.key), name.version)

    # ── doing it ──────────────────────────────────────────────────────────────────────────────────

    def write(self, preview: Preview) -> Path | None:
        """Carries the plan out, if everything is still as the plan saw it. Gives the backup that was taken."""
        if preview.plan.conflicts:
            raise ChangedMeanwhile(f"{preview.plan.conflicts[0]} Sync first.", preview.plan.conflicts)
        if not preview.plan.changes:
            return None
        self._refuse_while_open(preview)
        copy = _back_up(self._store, preview.locator)
        with self._store.journal.edit("write-back", preview.session.key) as edit:
            for change in preview.plan.changes:
                edit.note(self._journaled(preview, change))
            self._mark_written(preview, edit)
            # Last, so that whatever fails before it has touched nothing of theirs.
            _apply(preview.locator, preview.plan.changes)
        return copy

    def _refuse_while_open(self, preview: Preview) -> None:
        source = sources.by_name(preview.source)
        if isinstance(source, Writable) and not source.LIVE_WRITES and (holders := open_by(Path(preview.locator))):
            raise Busy(f"{preview.locator} is open in process {holders[0]}; end that program first.")

    def _mark_written(self, preview: Preview, edit: Editing) -> None:
        """What was carried over is now what the source says, too."""
        wanted = self._wanted(preview.session)
        if wanted.title and preview.plan.titled:
            edit.update("sessions", preview.session.key, agent_title=wanted.title.new)
        prefix = self._fact_prefix(preview.session)
        for fact in wanted.facts:
            row = self._store.row("select id, text from facts where foreign_place = ?", prefix + fact.place)
            if row and fact.text is not None:
                place = prefix + preview.plan.moves.get(fact.place, fact.place)
                edit.update("facts", row[0], foreign_text=row[1], foreign_place=place)

    def _journaled(self, preview: Preview, change: RowChange) -> Change:
        """As the journal may keep it: a secret by its sealed version, never by its value."""
        where = {"locator": preview.locator, "table": change.table, "key": dict(change.key)}
        before, after = (_in_json(side) for side in (change.before, change.after))
        if change.secret is not None:
            name = change.secret.key
            if before and "value" in before:
                version = self._store.secrets.keep(preview.session, name, before["value"])
                before["value"] = {"$secret": [preview.session.id, name, version]}
            if after and "value" in after:
                after["value"] = {"$secret": [preview.session.id, name, change.secret.version]}
        return Change(FOREIGN, where, before, after)

    def reverse(self, changes: Sequence[Change]) -> None:
        """Undo of a write-back: the foreign rows as they were, if they still are as we left them."""
        back = [
            RowChange(where["table"], where["key"], self._opened(change.after), self._opened(change.before))
            for change in changes
            for where in [change.key]
        ]
        _apply(changes[0].key["locator"], back)

    def _opened(self, columns: Mapping[str, Any] | None) -> dict[str, Any] | None:
        if columns is None:
            return None
        columns = {name: _from_json(value) for name, value in columns.items()}
        sealed = columns.get("value")
        if not isinstance(sealed, Mapping) or "$secret" not in sealed:
            return columns
        session_id, key, version = sealed["$secret"]
        return {**columns, "value": self._store.secrets.get(self._store.sessions.get(session_id), key, version)}


def _in_json(columns: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The journal is JSON; bytes stand in it as what they are."""
    if columns is None:
        return None
    return {
        name: {"$base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
        for name, value in columns.items()
    }


def _from_json(value: Any) -> Any:
    return base64.b64decode(value["$base64"]) if isinstance(value, Mapping) and "$base64" in value else value


# ── the foreign file ──────────────────────────────────────────────────────────────────────────────


class _SqliteRows:
    """Text that is not UTF-8 comes as it is, in surrogates, so that it can be compared and put back byte for byte."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        connection.row_factory = sqlite3.Row
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")

    def columns(self, table: str) -> frozenset[str]:
        return frozenset(row[1] for row in self.connection.execute(f'pragma table_info("{table}")'))

    def primary_key(self, table: str) -> tuple[str, ...]:
        """Its columns in order; all columns of a table that has none."""
        rows = list(self.connection.execute(f'pragma table_info("{table}")'))
        key = sorted((row[5], row[1]) for row in rows if row[5])
        return tuple(name for _, name in key) or tuple(row[1] for row in rows)

    def select(self, sql: str, *values: Any) -> Sequence[Mapping[str, Any]]:
        return [dict(row) for row in self.connection.execute(sql, tuple(map(_bound, values)))]


def _bound(value: Any) -> Any:
    """Text with surrogates is bytes that were never UTF-8."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogateescape")
    return value


@contextmanager
def _foreign(locator: str, *, writing: bool) -> Iterator[_SqliteRows]:
    if not writing:
        with reading.snapshot(Path(locator)) as connection:
            yield _SqliteRows(connection)
        return
    uri = f"{Path(locator).absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_SECONDS)) as connection:
        connection.execute("pragma foreign_keys = on")
        yield _SqliteRows(connection)


def _apply(locator: str, changes: Sequence[RowChange]) -> None:
    """All of it or nothing, in one transaction of milliseconds, after every row was compared with what was seen."""
    try:
        with _foreign(locator, writing=True) as rows:
            rows.connection.execute("begin immediate")
            try:
                for change in changes:
                    _swap(rows, change)
                rows.connection.execute("commit")
            except BaseException:
                rows.connection.execute("rollback")
                raise
    except sqlite3.Error as reason:
        raise WriteFailed(f"{locator} could not be written, and is as it was: {reason}.") from None


def _swap(rows: _SqliteRows, change: RowChange) -> None:
    where = " and ".join(f'"{name}" is ?' for name in change.key)
    key = tuple(map(_bound, change.key.values()))
    found = rows.select(f'select * from "{change.table}" where {where}', *change.key.values())
    if len(found) > 1 or bool(found) != (change.before is not None):
        raise ChangedMeanwhile(f"{change.table} in the foreign store has changed since it was read.", found)
    if found and change.before and any(found[0].get(name) != value for name, value in change.before.items()):
        raise ChangedMeanwhile(f"{change.table} in the foreign store has changed since it was read.", found)
    if change.after is None:
        rows.connection.execute(f'delete from "{change.table}" where {where}', key)
    elif change.before is None:
        columns = {**change.key, **change.after}
        names = ", ".join(f'"{name}"' for name in columns)
        marks = ", ".join("?" * len(columns))
        values = tuple(map(_bound, columns.values()))
        rows.connection.execute(f'insert into "{change.table}" ({names}) values ({marks})', values)
    else:
        assignments = ", ".join(f'"{name}" = {_mark(value)}' for name, value in change.after.items())
        values = (*map(_bound, change.after.values()), *key)
        rows.connection.execute(f'update "{change.table}" set {assignments} where {where}', values)


def _mark(value: Any) -> str:
    """Bytes that stand for text go in as text."""
    return "cast(? as text)" if isinstance(value, str) and isinstance(_bound(value), bytes) else "?"


def _back_up(store: Store, locator: str) -> Path:
    folder = private_folder(store.path.parent / f"{store.path.name}.backups" / "foreign")
    target = folder / f"{now().replace(':', '')}-{Path(locator).name}"
    create_private(target)
    with reading.private_copy(Path(locator)) as copy:
        shutil.copyfile(copy, target)
    for old in sorted(folder.iterdir(), reverse=True)[BACKUPS_KEPT:]:
        with suppress(OSError):
            old.unlink()
    return target


def open_by(path: Path) -> list[int]:
    """The processes that have the file, or one beside it, open, as far as this person may see."""
    wanted = {os.path.realpath(f"{path}{ending}") for ending in ("", "-wal", "-shm", "-journal")}
    holders = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(os.path.realpath(handle) in wanted for handle in (process / "fd").iterdir()):
                holders.append(int(process.name))
    return [holder for holder in holders if holder != os.getpid()]
