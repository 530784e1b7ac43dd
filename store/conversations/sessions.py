"""This module creates, finds, edits, forks and purges sessions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack, cast
from uuid import uuid4

from store.errors import AlreadyExists, Ambiguous, BadValue, ChangedMeanwhile, NotFound
from store.model.session import LIBRARY_SOURCE, Session, SessionFields, delegate_parent_id
from store.search.query import Query
from store.search.sql import build_listed_condition, build_session_condition
from store.text.validate import encode, utc_timestamp, validate_amount, validate_id, validate_integer, validate_text

if TYPE_CHECKING:
    from store.model.entry import NewEntry
    from store.search.list_rows import Order
    from store.store import Store

_COLUMNS = ", ".join(Session._fields)
_BY_ID = f"select {_COLUMNS} from sessions where id = ?"
_BY_KEY = f"select {_COLUMNS} from sessions where key = ?"
_BY_KEYS = f"select {_COLUMNS} from sessions where key in (select value from json_each(?))"
_NOT_SUPERSEDED = "relation is not 'superseded'"
_NEWEST = f"""
    select {_COLUMNS} from sessions where deleted = 0 and {_NOT_SUPERSEDED}
    order by updated_at desc, key desc limit ? offset ?
"""
_COMPLETE_HEADER = """
    update entries set text = {text}, created_at = :created_at
    where session = :session and seq = -1 and kind = 'header' and (text != {text} or created_at != :created_at)
""".replace("{text}", "case when :text != '' then :text when :system_prompt != '' then '' else text end")
_TEXT_FIELDS = frozenset(
    [
        "channel",
        "channel_id",
        "user",
        "agent_title",
        "provider",
        "model",
        "cwd",
        "environment_name",
        "environment_type",
        "environment_path",
        "system_prompt",
        "webhook",
        "created_at",
        "updated_at",
        "native_id",
        "source",
        "parent_id",
        "relation",
    ]
)
_NUMBER_FIELDS = frozenset(
    ["tokens_input", "tokens_output", "tokens_cached", "tokens_cache_write", "tokens_total", "forked_at"]
)

UNSEEN: Any = object()
"""Is given as `seen` by an edit that does not check whether the value was changed elsewhere."""


class Sessions:
    """Is the collection of all sessions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # ── creating ──────────────────────────────────────────────────────────────────────────────────

    def create(
        self, session_id: str | None = None, *, header: NewEntry | None = None, **fields: Unpack[SessionFields]
    ) -> Session:
        """Create a session with its header entry, so that no session is without entries. The default id is random."""
        session_id = validate_id(session_id) if session_id is not None else str(uuid4())
        now = utc_timestamp()
        header = _build_header(header, fields, now)
        defaults = {"created_at": now, "updated_at": now, "source": LIBRARY_SOURCE, "native_id": session_id}
        columns = defaults | _validate_fields(fields) | {"id": session_id}
        if "parent_id" not in columns and (parent := delegate_parent_id(session_id)):
            columns |= {"parent_id": parent, "relation": "delegate"}
        with self._store.transaction() as connection:
            if connection.execute("select 1 from sessions where id = ?", (session_id,)).fetchone():
                raise AlreadyExists(f"The session {session_id!r} already exists.")
            names = ", ".join(columns)
            placeholders = ", ".join(f":{name}" for name in columns)
            key = connection.execute(f"insert into sessions ({names}) values ({placeholders})", columns).lastrowid
            self._store.chains.append(cast("int", key), [header])
            self._write_totals(cast("int", key), fields)
            return self.by_key(cast("int", key))

    def append_header(self, session: Session, header: NewEntry | None, fields: SessionFields) -> None:
        """Append the header to a session that was listed before its entries were read."""
        self._store.chains.append(session.key, [_build_header(header, fields, session.created_at)])

    def complete_header(self, session: Session, header: NewEntry | None, fields: SessionFields) -> None:
        """Give the stored header what its source wrote only later: its text, such as a system prompt, and its time.

        Its record follows the row that it was read from, and the older version of it is kept.
        """
        from store.model.entry import NewEntry  # imported here, because the first screen only lists sessions

        if header is not None and header.record is not None:
            self._store.records.renew_header(session.key, header.record)
        header = _build_header(header or NewEntry(kind="header"), fields, session.created_at)
        values = {"session": session.key, "text": header.text, "created_at": header.created_at}
        self._store.connection.execute(_COMPLETE_HEADER, values | {"system_prompt": fields.get("system_prompt", "")})

    def ensure(self, session_id: str, **fields: Unpack[SessionFields]) -> Session:
        """Create the session, or update it and its time if it exists."""
        with self._store.transaction():
            if self._store.row("select 1 from sessions where id = ?", validate_id(session_id)) is None:
                return self.create(session_id, **fields)
            return self.update(session_id, **fields)

    def update(self, session_id: str, **fields: Unpack[SessionFields]) -> Session:
        """Store what the session's agent reports about it. Changes of a person are edits instead; see below."""
        columns = {"now": utc_timestamp()} | _validate_fields(fields)
        # The clock may have been set back since the last entry.
        values = {"updated_at": "max(updated_at, :now)"} | {name: f":{name}" for name in columns if name != "now"}
        assignments = ", ".join(f"{name} = {value}" for name, value in values.items())
        with self._store.transaction() as connection:
            rows = connection.execute(
                f"update sessions set {assignments} where id = :id returning {_COLUMNS}",
                columns | {"id": validate_id(session_id)},
            ).fetchall()
            session = _session_from_rows(rows, session_id)
            self._write_totals(session.key, fields)
        return session

    def _write_totals(self, key: int, fields: SessionFields) -> None:
        from store.usage.session_totals import move_session_totals, write_session_totals

        if "tokens_total" in fields:
            write_session_totals(self._store.connection, key)
        elif "updated_at" in fields:
            move_session_totals(self._store.connection, key)

    # ── finding ───────────────────────────────────────────────────────────────────────────────────

    def get(self, session_id: str) -> Session:
        return _session_from_rows(self._store.rows(_BY_ID, validate_id(session_id)), session_id)

    def by_key(self, key: int) -> Session:
        row = self._store.row(_BY_KEY, key)
        if row is None:
            raise NotFound("The session is no longer in the store.")
        return Session._make(row)

    def find(self, name: str) -> Session:
        """Return the session with this id or native id, or with the only id that begins so."""
        validate_id(name)
        for condition, values in (
            ("id = ?", (name,)),
            (f"native_id = ? and {_NOT_SUPERSEDED}", (name,)),
            (
                f"((id >= ? and id < ?) or (native_id >= ? and native_id < ?)) and {_NOT_SUPERSEDED}",
                (name, name + "\U0010ffff") * 2,
            ),
        ):
            rows = self._store.rows(f"select {_COLUMNS} from sessions where {condition} limit 20", *values)
            if len(rows) > 1:
                raise Ambiguous(name, [Session._make(row).id for row in rows])
            if rows:
                return Session._make(rows[0])
        raise NotFound(f"No such session: {name!r}. Run `backscroll list` to see all sessions.")

    def newest(self, limit: int = 50, offset: int = 0) -> list[Session]:
        """Return sessions that are not in the trash, newest first."""
        return list(map(Session._make, self._store.rows(_NEWEST, limit, offset)))

    def matching(
        self, query: Query | str = "", limit: int = 50, *, order: Order = "newest", now: datetime | None = None
    ) -> tuple[list[Session], int]:
        """Return the first sessions that match the query, in this order, and the number of all that match.

        Archived sessions are left out, unless the query has words or names them.
        """
        from store.search.session_list import SESSION_ORDERS

        if order == "cost":
            self._store.usage.define_session_cost()
        query = Query.parse(query) if isinstance(query, str) else query
        condition, values = build_session_condition(query, now or datetime.now(UTC))
        where = f"where {build_listed_condition(query).sql} and {_NOT_SUPERSEDED} and {condition}"
        (total,) = self._store.row(f"select count(*) from sessions {where}", *values)
        rows = self._store.rows(
            f"select {_COLUMNS} from sessions {where} order by {SESSION_ORDERS[order]} limit ?",
            *values,
            limit,
        )
        return list(map(Session._make, rows)), total

    def count_archived(self, query: Query, *, now: datetime | None = None) -> int:
        """Count the sessions that match the query but are left out because they are archived."""
        return self._count_hidden("archived = 1 and deleted = 0", query, now) if query.hides_archived else 0

    def count_trashed(self, query: Query, *, now: datetime | None = None) -> int:
        """Count the sessions that match the query but are left out because they are in the trash.

        A query with words has none, because the trash would have to be searched at every letter.
        """
        return 0 if query.terms or query.shows_trash else self._count_hidden("deleted = 1", query, now)

    def _count_hidden(self, hidden: str, query: Query, now: datetime | None) -> int:
        condition, values = build_session_condition(query, now or datetime.now(UTC))
        where = f"{hidden} and {_NOT_SUPERSEDED} and {condition}"
        (count,) = self._store.row(f"select count(*) from sessions where {where}", *values)
        return int(count)

    def by_keys(self, keys: Sequence[int]) -> list[Session]:
        """Return the sessions with these keys in any order. Purged sessions are left out."""
        return list(map(Session._make, self._store.rows(_BY_KEYS, encode(list(keys)).decode())))

    def data_version(self) -> int:
        """Return a number that changes whenever another connection writes. Compare it only within one thread."""
        (version,) = self._store.row("pragma data_version")
        return int(version)

    def children(self, session_id: str) -> list[Session]:
        rows = self._store.rows(f"select {_COLUMNS} from sessions where parent_id = ? order by key", session_id)
        return list(map(Session._make, rows))

    def ancestors(self, session: Session) -> list[Session]:
        """Return the parent of a session, its parent and so on. Foreign stores may contain circles."""
        ancestors: list[Session] = []
        parent_id = session.parent_id
        while parent_id and parent_id not in {session.id, *(ancestor.id for ancestor in ancestors)}:
            rows = self._store.rows(_BY_ID, parent_id)
            if not rows:
                break
            ancestors.append(Session._make(rows[0]))
            parent_id = ancestors[-1].parent_id
        return ancestors

    def trash(self) -> list[Session]:
        return self._load_where("deleted = 1")

    def archived(self) -> list[Session]:
        return self._load_where("archived = 1 and deleted = 0")

    def _load_where(self, condition: str) -> list[Session]:
        rows = self._store.rows(f"select {_COLUMNS} from sessions where {condition} order by updated_at desc")
        return list(map(Session._make, rows))

    # ── editing ───────────────────────────────────────────────────────────────────────────────────

    def set_title(self, session: Session, title: str, seen: str = UNSEEN) -> None:
        title = _validate_title(title)
        with self._store.journal.edit("title", session.key) as edit:
            current = self.by_key(session.key).own_title
            if seen is not UNSEEN and seen != current:
                raise ChangedMeanwhile("The title was changed elsewhere.", current)
            edit.update("sessions", session.key, own_title=title)

    def set_titles(self, sessions: Sequence[Session], title: str) -> None:
        """Give all sessions the same title, as one edit."""
        title = _validate_title(title)
        with self._store.journal.edit("title", *(session.key for session in sessions)) as edit:
            for session in sessions:
                edit.update("sessions", session.key, own_title=title)

    def rename(self, titles: Sequence[tuple[Session, str]]) -> None:
        """Give each session its own title, as one edit. Refuse if one of them was changed after it was read."""
        with self._store.journal.edit("title", *(session.key for session, _ in titles)) as edit:
            for session, title in titles:
                current = self.by_key(session.key).own_title
                if current != session.own_title:
                    raise ChangedMeanwhile("A title was changed elsewhere.", current)
                edit.update("sessions", session.key, own_title=_validate_title(title))

    def pin(self, sessions: Sequence[Session], on: bool = True) -> None:
        self._set_flag("pin" if on else "unpin", sessions, pinned=int(on))

    def archive(self, sessions: Sequence[Session], on: bool = True) -> None:
        self._set_flag("archive" if on else "unarchive", sessions, archived=int(on))

    def delete(self, sessions: Sequence[Session]) -> None:
        """Move the sessions to the trash."""
        self._set_flag("delete", sessions, deleted=1)

    def restore(self, sessions: Sequence[Session]) -> None:
        self._set_flag("restore", sessions, deleted=0)

    def _set_flag(self, kind: str, sessions: Sequence[Session], **column: int) -> None:
        """Set a column of all sessions in one edit, so that one undo reverses it."""
        with self._store.journal.edit(kind, *(session.key for session in sessions)) as edit:
            for session in sessions:
                edit.update("sessions", session.key, **column)

    # ── forking ───────────────────────────────────────────────────────────────────────────────────

    def fork(self, session: Session, turn: int, session_id: str | None = None) -> Session:
        """Create a session that shares the past of this one up to the end of that turn."""
        from store.conversations.fork import fork_session

        return fork_session(self._store, session, turn, session_id=session_id)

    # ── purging ───────────────────────────────────────────────────────────────────────────────────

    def purge(self, sessions: Sequence[Session], *, vacuum: bool = True) -> bool:
        """Delete the sessions for good: from the tables, the index, the journal and the free space of the file.

        Return False if another program is reading the store, so that the WAL still contains a copy.
        """
        with self._store.transaction() as connection:
            for session in self._with_superseded(sessions):
                self._store.chains.reassign_shared_entries(session.key)
                is_received = bool(self._store.team.find_owner(session.id))
                self._delete_rows(session.key)
                if not is_received:  # the same conversation may be on this machine, too
                    connection.execute(
                        "insert or replace into tombstones (source, native_id, purged_at) values (?, ?, ?)",
                        (session.source, session.native_id, utc_timestamp()),
                    )
        self._store.search.optimize()
        for session in sessions:
            self._store.published.purge_session(session.key)
        return self._store.vacuum() if vacuum else self._store.checkpoint()

    def _with_superseded(self, sessions: Sequence[Session]) -> list[Session]:
        """Return the sessions and the older versions of them, which a source has replaced."""
        children = [child for session in sessions for child in self.children(session.id)]
        superseded = [child for child in children if child.relation == "superseded"]
        return list(dict.fromkeys([*superseded, *sessions]))

    def drop_without_tombstone(self, session: Session) -> None:
        """Delete a session whose entries are all in other sessions. Without a tombstone, a sync may import it again."""
        with self._store.transaction(durable=False):
            self._store.chains.reassign_shared_records(session.key)
            self._delete_rows(session.key)

    def _delete_rows(self, key: int) -> None:
        # Imported here, because the first screen only lists sessions.
        from store.leaks.rows import delete_leaks
        from store.search.quick_index import clear_index_if_unread
        from store.usage.rows import delete_usage

        connection = self._store.connection
        clear_index_if_unread(self._store, key)
        self._store.search.delete_rows(*self._store.search.build_rows(key))
        self._store.journal.blank_session(key)
        delete_usage(connection, key)
        delete_leaks(connection, key)
        connection.execute("insert into purging (session) values (?)", (key,))
        for table in ("turns", "tool_calls", "summaries", "tags", "notes", "published", "foreign_secrets"):
            connection.execute(f"delete from {table} where session = ?", (key,))
        if connection.execute("delete from secrets where session = ?", (key,)).rowcount:
            self._store.secrets.scrub()
        self._store.facts.purge_session(key)
        connection.execute("delete from entries where session = ?", (key,))
        self._store.records.delete_unused(key)
        connection.execute("delete from sessions where key = ?", (key,))
        connection.execute("delete from purging where session = ?", (key,))


def _session_from_rows(rows: Sequence[Any], session_id: str) -> Session:
    if not rows:
        raise NotFound(f"No such session: {session_id!r}.")
    return Session._make(rows[0])


def _build_header(header: NewEntry | None, fields: SessionFields, now: str) -> NewEntry:
    """Complete the header that a source read, or build one from the fields of the session.

    The text of a header is the system prompt. One that came from a source follows the session's, which is not stored
    twice: many agents write twenty kilobytes of it into every session. See `HEADER_TEXT`.
    """
    from store.model.entry import NewEntry, NewRecord  # imported here, because the first screen only lists sessions

    columns = _validate_fields(fields)
    system_prompt = columns.get("system_prompt", "")
    if header is None:
        header = NewEntry(kind="header", record=NewRecord(encode(columns)), text=system_prompt)
    elif header.text is None or header.text == system_prompt:
        header.text = ""
    header.created_at = columns.get("created_at", now)
    return header


def _validate_title(title: str) -> str:
    title = validate_text(title, "title").strip()
    if not title:
        raise BadValue("The title is empty.")
    return title


def _validate_fields(fields: SessionFields) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _TEXT_FIELDS:
            columns[name] = validate_text(cast("str", value), name.replace("_", " "))
        elif name in _NUMBER_FIELDS:
            columns[name] = validate_integer(cast("int", value), name.replace("_", " "))
        elif name == "cost":
            columns[name] = validate_amount(cast("float", value), name)
        else:
            raise BadValue(f"A session has no field {name!r}.")
    return columns
