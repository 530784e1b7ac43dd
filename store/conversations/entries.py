"""Shelf: the entry chains of sessions, and the turns and tool calls derived from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from store.conversations import append as appending
from store.conversations.derive import DerivedRows
from store.conversations.superseded import recount
from store.errors import NotFound
from store.model.entry import (
    Entry,
    NewEntry,
    PairedCall,
    Part,
    Text,
    Tokens,
    ToolCall,
    ToolResult,
    Turn,
    part_from_json,
)
from store.model.session import entry_id
from store.text.validate import decode, encode

if TYPE_CHECKING:
    from store.store import Store

_ENTRY_COLUMNS = ", ".join(f"entries.{name}" for name in Entry._fields)
_RECORD_COLUMN = Entry._fields.index("record")
_ENTRIES_BY_KEYS = f"""
    select sessions.id, {_ENTRY_COLUMNS} from json_each(?) as wanted
    cross join entries on entries.key = wanted.value cross join sessions on sessions.key = entries.session
"""
_ENTRIES_BETWEEN = f"select {_ENTRY_COLUMNS} from entries where session = ? and seq between ? and ? order by seq"
_SELECT_CALLS = """
    select tool_calls.key, sessions.id, tool_calls.turn, tool_calls.call_id, tool_calls.name, tool_calls.status,
        tool_calls.duration_ms, asked.seq, answered.seq, asked.parts, asked.record,
        tool_calls.part, answered.parts, answered.record, tool_calls.result_part,
        coalesce(asked.created_at, answered.created_at) as at
    from tool_calls join sessions on sessions.key = tool_calls.session
    left join entries as asked on asked.key = tool_calls.entry
    left join entries as answered on answered.key = tool_calls.result_entry
"""
MAX_SEQ = 2**62


class Chains:
    def __init__(self, store: Store) -> None:
        self._store = store

    def append(self, session: int, entries: Sequence[NewEntry], *, durable: bool = True) -> range:
        return appending.append_entries(self._store, session, entries, durable=durable)

    def append_rows(self, session: int, rows: DerivedRows, *, durable: bool = True) -> range:
        return appending.append_rows(self._store, session, rows, durable=durable)

    # ── entries ───────────────────────────────────────────────────────────────────────────────────

    def entries(self, session: int, first: int = -1, last: int = MAX_SEQ) -> list[Entry]:
        return [self._entry_from_row(row) for row in self._store.rows(_ENTRIES_BETWEEN, session, first, last)]

    def entry(self, session: int, seq: int) -> Entry:
        found = self.entries(session, seq, seq)
        if not found:
            raise NotFound(f"That session has no entry {seq}.")
        return found[0]

    def entries_by_keys(self, keys: Sequence[int]) -> list[tuple[str, Entry]]:
        """In that order, each with the public id of its session; those that are not there any more are missing."""
        found = {
            row[1]: (row[0], self._entry_from_row(row[1:]))
            for row in self._store.rows(_ENTRIES_BY_KEYS, encode(keys).decode())
        }
        return [found[key] for key in keys if key in found]

    def entry_by_key(self, key: int) -> tuple[str, Entry]:
        found = self.entries_by_keys([key])
        if not found:
            raise NotFound(f"There is no entry {key}.")
        return found[0]

    def _entry_from_row(self, row: Sequence[Any]) -> Entry:
        *plain, text, column, inherited, tokens, created_at = row
        parts = decode_parts(text, self._store.records.load_parts(column, plain[_RECORD_COLUMN]))
        read = Tokens(*decode(tokens)) if tokens else None
        return Entry._make((*plain, text, parts, bool(inherited), read, created_at))

    # ── turns ─────────────────────────────────────────────────────────────────────────────────────

    def turns(self, session: int, only: int | None = None) -> list[Turn]:
        """Whole turns, in order; what came before the first prompt is turn 0."""
        with self._store.snapshot():
            spans = self._turn_spans(session)
            if only is not None:
                spans = [span for span in spans if span[0] == only]
                if not spans:
                    raise NotFound(f"That session has no turn {only}.")
            if not spans:
                return []
            entries = self.entries(session, spans[0][1], spans[-1][2])
            paired = self.tool_calls(session, turn=only)
        calls: dict[int, list[PairedCall]] = {}
        for call in paired:
            calls.setdefault(call.turn, []).append(call)
        base = entries[0].seq
        return [
            Turn(
                n,
                entries[first - base].text if n else "",
                started,
                ended,
                tuple(entries[first - base : last + 1 - base]),
                tuple(calls.get(n, ())),
            )
            for n, first, last, started, ended in spans
        ]

    def _turn_spans(self, session: int) -> list[tuple[int, int, int, str, str]]:
        before = self._store.rows(
            "select 0, min(seq), max(seq), min(created_at), max(created_at) from entries"
            " where session = ? and turn = 0",
            session,
        )
        told = self._store.rows(
            "select n, first_seq, last_seq, started_at, ended_at from turns where session = ? order by n",
            session,
        )
        return [span for span in before if span[1] is not None] + told

    def last_turn(self, session: int) -> int:
        """The number of the newest turn; 0 when nobody has asked anything."""
        (n,) = self._store.row("select coalesce(max(n), 0) from turns where session = ?", session)
        return int(n)

    # ── tool calls ────────────────────────────────────────────────────────────────────────────────

    def tool_calls(self, session: int, turn: int | None = None) -> list[PairedCall]:
        where = "where tool_calls.session = ?" + (" and tool_calls.turn = ?" if turn is not None else "")
        values = (session,) if turn is None else (session, turn)
        return list(
            map(self._call_from_row, self._store.rows(f"{_SELECT_CALLS} {where} order by tool_calls.key", *values))
        )

    def all_tool_calls(self, condition: str = "1", values: Iterable[Any] = (), limit: int = 100) -> list[PairedCall]:
        """Across sessions, newest first, each once however often it was inherited."""
        rows = self._store.rows(
            f"{_SELECT_CALLS} where tool_calls.inherited = 0 and sessions.deleted = 0 and {condition}"
            " order by at desc, tool_calls.key desc limit ?",
            *values,
            limit,
        )
        return list(map(self._call_from_row, rows))

    def _call_from_row(self, row: Sequence[Any]) -> PairedCall:
        *told, asked, asked_record, part, answered, answered_record, result_part, at = row
        records = self._store.records
        call = _decode_part(records.load_parts(asked, asked_record), part)
        return build_paired_call(
            told, at, call, _decode_part(records.load_parts(answered, answered_record), result_part)
        )

    # ── forks ─────────────────────────────────────────────────────────────────────────────────────

    def copy_to_fork(self, parent: int, child: int, last_seq: int) -> None:
        """Copies of the parent's rows after the child's header, marked, pointing at the same records."""
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
                {
                    "first_key": first_key,
                    "child": child,
                    "head": head,
                    "parent": parent,
                    "last_seq": last_seq,
                },
            ).rowcount
            if copied <= 0:
                return
            places = {
                "first_key": first_key,
                "child": child,
                "parent": parent,
                "last_seq": copied - 1,
            }
            connection.execute(_COPY_TURNS, places)
            connection.execute(_COPY_CALLS, places)
            connection.execute("update sessions set tail = ? where key = ?", (first_key + copied - 1, child))

    def reassign_shared_entries(self, session: int) -> None:
        """Within a purge: the past that forks share with the session becomes the own past of the oldest."""
        connection = self._store.connection
        taken = -1
        for heir, last in connection.execute(_FORKS_SHARING_ENTRIES, (session,)).fetchall():
            if last <= taken:
                continue
            places = {"heir": heir, "session": session, "taken": taken}
            self._store.search.delete_rows(*self._store.search.build_rows(heir))
            for statement in (_TAKE_OVER_ENTRIES, _TAKE_OVER_CALLS, _TAKE_OVER_RECORDS):
                connection.execute(statement, places)
            recount(self._store, heir)
            self._store.search.queue_rows(*self._store.search.build_rows(heir))
            taken = last
        self.reassign_shared_records(session)

    def reassign_shared_records(self, session: int) -> None:
        """Before a session goes: its records that others point at, forks of forks among them, belong to one of them."""
        self._store.connection.execute(_REASSIGN_RECORDS, (session,))


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
    select :child, n, :first_key + first_seq, first_seq, min(last_seq, :last_seq), started_at, ended_at
    from turns where session = :parent and first_seq <= :last_seq
"""
_COPY_CALLS = """
    insert into tool_calls (session, turn, call_id, name, status, duration_ms, entry, part, result_entry, result_part,
        inherited)
    select :child, tool_calls.turn, call_id, name,
        case when status in ('ok', 'error') and answered.seq > :last_seq then 'pending' else status end,
        case when answered.seq <= :last_seq then duration_ms end,
        :first_key + asked.seq, part,
        case when answered.seq <= :last_seq then :first_key + answered.seq end,
        case when answered.seq <= :last_seq then result_part end,
        1
    from tool_calls left join entries as asked on asked.key = tool_calls.entry
    left join entries as answered on answered.key = tool_calls.result_entry
    where tool_calls.session = :parent and coalesce(asked.seq, answered.seq) <= :last_seq
"""


def decode_parts(text: str, column: bytes | None) -> tuple[Part, ...]:
    if column is None:
        return (Text(text),)
    return tuple(map(part_from_json, decode(column)))


def build_paired_call(told: Sequence[Any], at: str, call: Part | None, result: Part | None) -> PairedCall:
    """Of a row's first columns, up to the places of call and result, and of what stands at these."""
    key, session_id, turn, call_id, name, status, duration, asked, answered = told
    return PairedCall(
        key,
        session_id,
        turn,
        call_id,
        name,
        status,
        duration,
        entry_id(session_id, asked) if asked is not None else None,
        entry_id(session_id, answered) if answered is not None else None,
        call.arguments if isinstance(call, ToolCall) else None,
        result.output if isinstance(result, ToolResult) else None,
        at,
    )


def _decode_part(column: bytes | None, index: int | None) -> Part | None:
    if column is None or index is None:
        return None
    return part_from_json(decode(column)[index])
