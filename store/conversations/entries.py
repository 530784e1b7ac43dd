"""This module reads and copies the entries of sessions, and the turns and tool calls that are derived from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from store.conversations.append import append_entries, append_rows
from store.conversations.derive import DerivedRows
from store.conversations.parts import decode_parts
from store.conversations.superseded import recount
from store.conversations.tool_calls import JOIN_CALL_ENTRIES, select_calls
from store.errors import BadValue, NotFound
from store.model.entry import Entry, NewEntry, PairedCall, Tokens, Turn
from store.text.validate import decode, encode
from store.usage.rows import move_usage

if TYPE_CHECKING:
    from store.model.session import Session
    from store.store import Store

HEADER_TEXT = """
    iif(entries.seq = -1 and entries.text = '',
        coalesce((select system_prompt from sessions as owners where owners.key = entries.session), ''), entries.text)
"""
"""Selects the text of an entry. A header without one has that of its session: the system prompt."""

_ENTRY_COLUMNS = ", ".join(HEADER_TEXT if name == "text" else f"entries.{name}" for name in Entry._fields)
_RECORD_COLUMN = Entry._fields.index("record")
_ENTRIES_BY_KEYS = f"""
    select sessions.id, {_ENTRY_COLUMNS} from json_each(?) as keys
    cross join entries on entries.key = keys.value cross join sessions on sessions.key = entries.session
"""
_ENTRIES_BETWEEN = f"select {_ENTRY_COLUMNS} from entries where session = ? and seq between ? and ? order by seq"
_FIRST_OF_NEWEST_MESSAGES = """
    select min(seq) from (
        select seq from entries where session = ? and kind = 'message' order by seq desc limit ?
    )
"""
_FIRST_OF_NEWEST_TURNS = "select min(seq) from entries where session = ? and turn > ?"
_TURN_ZERO_SPAN = """
    select 0, min(seq), max(seq), min(created_at), max(created_at) from entries where session = ? and turn = 0
"""
_TURN_SPANS = "select n, first_seq, last_seq, started_at, ended_at from turns where session = ? order by n"

_SEQ = re.compile(r"-?[0-9]{1,18}")

MAX_SEQ = 2**62


class TurnSpan(NamedTuple):
    """Holds the number of a turn, the seqs of its first and last entry, and its times."""

    n: int
    first_seq: int
    last_seq: int
    started_at: str
    ended_at: str


class Chains:
    """Is the collection of the entries of all sessions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def append(self, session: int, entries: Sequence[NewEntry], *, durable: bool = True) -> range:
        return append_entries(self._store, session, entries, durable=durable)

    def append_rows(self, session: int, rows: DerivedRows, *, durable: bool = True) -> range:
        return append_rows(self._store, session, rows, durable=durable)

    # ── entries ───────────────────────────────────────────────────────────────────────────────────

    def entries(self, session: int, first: int = -1, last: int = MAX_SEQ) -> list[Entry]:
        return [self._entry_from_row(row) for row in self._store.rows(_ENTRIES_BETWEEN, session, first, last)]

    def entry(self, session: int, seq: int) -> Entry:
        entries = self.entries(session, seq, seq)
        if not entries:
            raise NotFound(f"No such entry: {seq}.")
        return entries[0]

    def entry_by_id(self, public_id: str) -> Entry:
        session_id, separator, seq = public_id.rpartition("#")
        if not separator or not _SEQ.fullmatch(seq):
            raise NotFound(f"No such entry: {public_id!r}. Its id is that of its session, `#` and a number.")
        return self.entry(self._store.sessions.get(session_id).key, int(seq))

    def entries_by_keys(self, keys: Sequence[int]) -> list[tuple[str, Entry]]:
        """Return the entries with these keys, in this order, each with the public id of its session.

        Entries that no longer exist are left out.
        """
        entries = {
            row[1]: (row[0], self._entry_from_row(row[1:]))
            for row in self._store.rows(_ENTRIES_BY_KEYS, encode(keys).decode())
        }
        return [entries[key] for key in keys if key in entries]

    def first_of_newest_messages(self, session: int, limit: int) -> int:
        """Return the seq at which the newest messages begin."""
        (first,) = self._store.row(_FIRST_OF_NEWEST_MESSAGES, session, _validate_limit(limit))
        return MAX_SEQ if first is None else int(first)

    def first_of_newest_turns(self, session: int, limit: int) -> int:
        """Return the seq at which the newest turns begin."""
        (first,) = self._store.row(_FIRST_OF_NEWEST_TURNS, session, self.last_turn(session) - _validate_limit(limit))
        return MAX_SEQ if first is None else int(first)

    def entry_by_key(self, key: int) -> tuple[str, Entry]:
        entries = self.entries_by_keys([key])
        if not entries:
            raise NotFound(f"No such entry: {key}.")
        return entries[0]

    def _entry_from_row(self, row: Sequence[Any]) -> Entry:
        *columns, text, parts_column, inherited, tokens_column, created_at = row
        parts = decode_parts(text, self._store.records.load_parts(parts_column, columns[_RECORD_COLUMN]))
        tokens = Tokens(*decode(tokens_column)) if tokens_column else None
        return Entry._make((*columns, text, parts, bool(inherited), tokens, created_at))

    # ── turns ─────────────────────────────────────────────────────────────────────────────────────

    def turns(self, session: int, only: int | None = None) -> list[Turn]:
        """Return all turns of the session in order, or only one. The entries before the first prompt are turn 0."""
        with self._store.snapshot():
            spans = self._turn_spans(session)
            if only is not None:
                last = spans[-1].n if spans else 0
                spans = [span for span in spans if span.n == only]
                if not spans:
                    raise NotFound(f"No such turn: {only}. The last turn is {last}.")
            if not spans:
                return []
            entries = self.entries(session, spans[0].first_seq, spans[-1].last_seq)
            calls = self.tool_calls(session, turn=only)
        calls_by_turn: dict[int, list[PairedCall]] = {}
        for call in calls:
            calls_by_turn.setdefault(call.turn, []).append(call)
        base = entries[0].seq
        return [
            Turn(
                n,
                entries[first_seq - base].text if n else "",
                started_at,
                ended_at,
                tuple(entries[first_seq - base : last_seq + 1 - base]),
                tuple(calls_by_turn.get(n, ())),
            )
            for n, first_seq, last_seq, started_at, ended_at in spans
        ]

    def _turn_spans(self, session: int) -> list[TurnSpan]:
        turn_zero = TurnSpan._make(self._store.row(_TURN_ZERO_SPAN, session))
        spans = list(map(TurnSpan._make, self._store.rows(_TURN_SPANS, session)))
        return spans if turn_zero.first_seq is None else [turn_zero, *spans]

    def last_turn(self, session: int) -> int:
        """Return the number of the newest turn, or 0 when there is no prompt."""
        (n,) = self._store.row("select coalesce(max(n), 0) from turns where session = ?", session)
        return int(n)

    # ── tool calls ────────────────────────────────────────────────────────────────────────────────

    def tool_calls(self, session: int, turn: int | None = None) -> list[PairedCall]:
        where = "where tool_calls.session = ?" + (" and tool_calls.turn = ?" if turn is not None else "")
        values = (session,) if turn is None else (session, turn)
        return select_calls(self._store, f"{where} order by tool_calls.key", *values)

    def all_tool_calls(self, condition: str = "1", values: Iterable[Any] = (), limit: int = 100) -> list[PairedCall]:
        """Return calls of all sessions, newest first, without inherited copies."""
        return select_calls(
            self._store,
            f"where tool_calls.inherited = 0 and sessions.deleted = 0 and {condition}"
            " order by at desc, tool_calls.key desc limit ?",
            *values,
            limit,
        )

    # ── forks ─────────────────────────────────────────────────────────────────────────────────────

    def copy_to_fork(self, parent: int, child: int, last_seq: int) -> None:
        """Copy the parent's entries, turns and calls behind the child's header.

        The copies are marked as inherited and refer to the same records.
        """
        with self._store.transaction() as connection:
            (first_key,) = connection.execute("select max(key) + 1 from entries").fetchone()
            (head,) = connection.execute("select head from sessions where key = ?", (child,)).fetchone()
            copied = connection.execute(
                """
                insert into entries (key, session, parent, seq, record, turn, kind, role, author, model, message_key,
                    text, parts, inherited, tokens, created_at)
                select :first_key + seq, :child, case seq when 0 then :head else :first_key + seq - 1 end, seq, record,
                    turn, kind, role, author, model, message_key, text, parts, 1, tokens, created_at
                from entries where session = :parent and seq between 0 and :last_seq order by seq
                """,
                {"first_key": first_key, "child": child, "head": head, "parent": parent, "last_seq": last_seq},
            ).rowcount
            if copied <= 0:
                return
            values = {"first_key": first_key, "child": child, "parent": parent, "last_seq": copied - 1}
            connection.execute(_COPY_TURNS, values)
            connection.execute(_COPY_CALLS, values)
            connection.execute("update sessions set tail = ? where key = ?", (first_key + copied - 1, child))

    def begin_with_parent(self, session: Session) -> None:
        """Begin the chain of a new session with the entries of its parent, up to the one where it was forked."""
        parent = self._store.row(_SELECT_PARENT, session.parent_id)
        last_seq = -1 if session.forked_at is None else session.forked_at
        if parent is None or parent[1] < last_seq:
            raise NotFound("The beginning of the session, which is in its parent, is missing.")
        with self._store.transaction(durable=False) as connection:
            self.copy_to_fork(parent[0], session.key, last_seq)
            connection.execute(_INHERIT_FIELDS, {"child": session.key, "parent": parent[0]})

    def reassign_shared_entries(self, session: int) -> None:
        """Make the oldest fork the owner of the entries that it shares with the session, which is being purged."""
        connection = self._store.connection
        taken_seq = -1
        for heir, last_seq in connection.execute(_FORKS_SHARING_ENTRIES, (session,)).fetchall():
            if last_seq <= taken_seq:
                continue
            values = {"heir": heir, "session": session, "taken": taken_seq}
            self._store.search.delete_rows(*self._store.search.build_rows(heir))
            for statement in (_TAKE_OVER_ENTRIES, _TAKE_OVER_CALLS, _TAKE_OVER_RECORDS):
                connection.execute(statement, values)
            move_usage(connection, session, heir, taken_seq + 1, last_seq)
            recount(self._store, heir)
            self._store.search.queue_rows(*self._store.search.build_rows(heir))
            taken_seq = last_seq
        self.reassign_shared_records(session)

    def reassign_shared_records(self, session: int) -> None:
        """Give the records that other sessions use too, such as forks of forks, to one of these sessions.

        This is done before a session is deleted.
        """
        self._store.connection.execute(_REASSIGN_RECORDS, (session,))


_SELECT_PARENT = "select sessions.key, seq from sessions join entries on entries.key = tail where id = ?"
_INHERIT_FIELDS = """
    update sessions set
        first_prompt = case when exists (select 1 from turns where session = :child)
            then (select first_prompt from sessions where key = :parent) else first_prompt end,
        updated_at = max(updated_at, (select max(created_at) from entries where session = :child))
    where key = :child
"""
_FORKS_SHARING_ENTRIES = """
    select session, max(seq) from entries where inherited = 1 and session != ?1 and (
        session in (
            select children.key from sessions as purged join sessions as children on children.parent_id = purged.id
            where purged.key = ?1
        )
        or record in (select key from records where session = ?1)
    ) group by session order by session
"""
_REASSIGN_RECORDS = """
    update records set session = users.session from (
        select record, min(session) as session from entries
        where session != ?1 and record in (select key from records where session = ?1) group by record
    ) as users where records.key = users.record
"""
_TAKE_OVER_ENTRIES = """
    update entries set inherited = 0 where session = :heir and inherited = 1 and seq > :taken
        and seq in (select seq from entries where session = :session and inherited = 0)
"""
_TAKE_OVER_CALLS = """
    update tool_calls set inherited = 0 where session = :heir
        and coalesce(entry, result_entry) in (select key from entries where session = :heir and inherited = 0)
"""
_TAKE_OVER_RECORDS = """
    update records set session = :heir where session = :session
        and key in (select record from entries where session = :heir and inherited = 0)
"""
_COPY_TURNS = """
    insert into turns (session, n, entry, first_seq, last_seq, started_at, ended_at)
    select :child, n, :first_key + first_seq, first_seq, min(last_seq, :last_seq), started_at,
        case when last_seq <= :last_seq then ended_at else (
            select max(created_at) from entries where session = :parent and seq between first_seq and :last_seq
        ) end
    from turns where session = :parent and first_seq <= :last_seq
"""
_COPY_CALLS = f"""
    insert into tool_calls (session, turn, call_id, name, status, duration_ms, entry, part, result_entry, result_part,
        inherited)
    select :child, tool_calls.turn, call_id, name,
        case when status in ('ok', 'error') and answered.seq > :last_seq then 'pending' else status end,
        case when answered.seq <= :last_seq then duration_ms end,
        :first_key + asked.seq, part,
        case when answered.seq <= :last_seq then :first_key + answered.seq end,
        case when answered.seq <= :last_seq then result_part end,
        1
    from tool_calls {JOIN_CALL_ENTRIES}
    where tool_calls.session = :parent and coalesce(asked.seq, answered.seq) <= :last_seq
"""


def _validate_limit(limit: int) -> int:
    if limit < 0:
        raise BadValue(f"The limit must not be negative: {limit}.")
    return limit
