"""Looks for damage, and names what it finds. Nothing is mended here: what is wrong with a conversation is for a person
to judge, and what is merely derived has a way of its own to be made again."""

from __future__ import annotations

import re
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from zstandard import ZstdError

from store.conversations.derive import compute_digest
from store.conversations.parts import decode_parts
from store.conversations.record_blocks import decompress_block
from store.database.backup import list_backups
from store.database.connection import translate_errors
from store.errors import StoreError
from store.model.session import Session, entry_id
from store.search.index import conversation_text

if TYPE_CHECKING:
    from store.store import Store

_SCOPE_PLACEHOLDER = re.compile(r"\{only ([\w.]+)\}")
UNPAIRED_ADVICE = "vendors refuse to continue such a session, and `backscroll rebuild` mends it."
REINDEX_ADVICE = "run `backscroll doctor --reindex`"


@dataclass(frozen=True, slots=True)
class Finding:
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class _CheckScope:
    """What is looked at: the whole store, or one session of it."""

    store: Store
    session: Session | None

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """One after the other, since all may not fit into memory. `{only …}` names the column that tells a session."""
        key = self.session.key if self.session else None
        scoped = _SCOPE_PLACEHOLDER.sub("1" if key is None else r"\1 = :session", sql)
        with translate_errors(self.store.path):
            yield from self.store.connection.execute(scoped, {"session": key})


def check_store(store: Store, session: Session | None = None) -> list[Finding]:
    """Everything that is not as it should be; of one session, or of the store and all that is in it."""
    ward = _CheckScope(store, session)
    checks = _SESSION_CHECKS if session else (*_FILE_CHECKS, *_SESSION_CHECKS, *_STORE_CHECKS)
    with _read_snapshot(store):
        found = [finding for check in checks for finding in _run_check(check, ward)]
    if session is None:
        # A write of sorts, so not within the snapshot.
        found += _run_check(_damaged_indexes, ward)
    return found


@contextmanager
def _read_snapshot(store: Store) -> Iterator[None]:
    """One moment of the store, so that what is written meanwhile looks like no damage, and nobody waits for us."""
    if store.connection.in_transaction:
        store.search.flush()
        yield
        return
    with translate_errors(store.path):
        store.connection.execute("begin")
    try:
        yield
    finally:
        store.connection.execute("rollback")


def _run_check(check: Callable[[_CheckScope], Iterable[Finding]], ward: _CheckScope) -> list[Finding]:
    """A check that runs into the damage has found it, and must not keep the others from looking."""
    found: list[Finding] = []
    try:
        found.extend(check(ward))
    except Exception as error:
        what = check.__name__.strip("_").replace("_", " ")
        found.append(Finding("store", f"Its {what} could not be examined: {_describe_error(error)}"))
    return found


def _describe_error(error: Exception) -> str:
    if isinstance(error.__cause__, sqlite3.Error):
        return f"SQLite says: {error.__cause__}."
    return str(error) if isinstance(error, StoreError) else f"{type(error).__name__}."


# ── the file ──────────────────────────────────────────────────────────────────────────────────────


def _integrity(ward: _CheckScope) -> Iterator[Finding]:
    for (told,) in ward.rows("pragma integrity_check"):
        if told != "ok":
            yield Finding("store", f"SQLite says: {told}.")


def _foreign_keys(ward: _CheckScope) -> Iterator[Finding]:
    for table, row, parent, _ in ward.rows("pragma foreign_key_check"):
        which = f"row {row}" if row is not None else "a row"
        yield Finding(table, f"{which} points at something in {parent} that is not there.")


def _schema(ward: _CheckScope) -> Iterator[Finding]:
    """Against a schema made anew: the invariants hold only as long as their triggers and indexes are there."""
    from sqlite_utils import Database

    from store.database.migrations import migrations

    fresh = Database(memory=True)
    migrations.apply(fresh)
    shape = "select name, type, sql from sqlite_master where sql is not null"
    expected = {name: (kind, sql) for name, kind, sql in fresh.execute(shape)}
    fresh.close()
    actual = {name: (kind, sql) for name, kind, sql in ward.rows(shape)}
    for name, (kind, sql) in expected.items():
        if name not in actual:
            yield Finding("store", f"The {kind} {name} is missing.")
        # The search engine's own tables are spelled as the version that made them spelled them.
        elif kind != "table" and actual[name] != (kind, sql):
            yield Finding("store", f"The {kind} {name} is not as it was made.")


def _permissions(ward: _CheckScope) -> Iterator[Finding]:
    path = ward.store.path
    beside = [path.with_name(path.name + ending) for ending in ("-wal", "-shm")]
    for file in [path, *beside, *list_backups(path)]:
        if file.exists() and stat.S_IMODE(file.stat().st_mode) & 0o077:
            yield Finding(str(file), "Others can reach it; run chmod 600 on it.")


_FILE_CHECKS = (_integrity, _foreign_keys, _schema, _permissions)

# ── chains ────────────────────────────────────────────────────────────────────────────────────────

_CHAIN_LINKS = """
    select sessions.id, sessions.head, sessions.tail, entries.key, entries.parent, entries.seq, entries.kind
    from sessions left join entries on entries.session = sessions.key
    where {only sessions.key} and (sessions.depth = 'full' or sessions.head is not null)
    order by sessions.key, entries.seq
"""


def _chains(ward: _CheckScope) -> Iterator[Finding]:
    for session_id, rows in groupby(ward.rows(_CHAIN_LINKS), itemgetter(0)):
        yield from _broken_links(session_id, list(rows))


def _broken_links(session_id: str, rows: list[tuple[Any, ...]]) -> Iterator[Finding]:
    """From the head, by parent, to the tail; whoever was not met on the way has strayed."""
    _, head, tail, *_ = rows[0]
    links = {key: (parent, seq, kind) for *_, key, parent, seq, kind in rows if key is not None}
    child_of = {parent: key for key, (parent, _, _) in links.items()}
    if head not in links:
        yield Finding(session_id, "Its head is not among its entries.")
        return
    met: set[int] = set()
    at, last = head, head
    while at is not None and at not in met:
        _, seq, kind = links[at]
        if seq != len(met) - 1:
            yield Finding(entry_id(session_id, seq), f"It should be number {len(met) - 1} of the chain.")
        if (kind == "header") is not (at == head):
            yield Finding(entry_id(session_id, seq), "A chain begins with its one header and has no other.")
        met.add(at)
        at, last = child_of.get(at), at
    if last != tail:
        yield Finding(session_id, "Its tail is not where its chain ends.")
    for key in links.keys() - met:
        yield Finding(entry_id(session_id, links[key][1]), "It hangs on no entry of its session's chain.")


# ── what is derived ───────────────────────────────────────────────────────────────────────────────

_COUNTS = """
    with
    said as (
        select session, count(*) as entries, sum(json_extract(tokens, '$[0]')) as input,
            sum(json_extract(tokens, '$[1]')) as output, sum(json_extract(tokens, '$[2]')) as cached
        from entries where {only session} and inherited = 0 and kind != 'header' group by session
    ),
    taken as (
        select turns.session, count(*) as turns from turns join entries on entries.key = turns.entry
        where {only turns.session} and entries.inherited = 0 group by turns.session
    ),
    called as (
        select tool_calls.session, sum(tool_calls.entry is not null and tool_calls.inherited = 0) as tool_calls,
            sum(tool_calls.status = 'error' and answered.inherited = 0) as errors
        from tool_calls left join entries as answered on answered.key = tool_calls.result_entry
        where {only tool_calls.session} group by tool_calls.session
    )
    select sessions.id,
        sessions.turns, coalesce(taken.turns, 0), sessions.entries, coalesce(said.entries, 0),
        sessions.tool_calls, coalesce(called.tool_calls, 0), sessions.errors, coalesce(called.errors, 0),
        sessions.tokens_input, coalesce(said.input, 0), sessions.tokens_output, coalesce(said.output, 0),
        sessions.tokens_cached, coalesce(said.cached, 0)
    from sessions left join said on said.session = sessions.key left join taken on taken.session = sessions.key
    left join called on called.session = sessions.key
    where {only sessions.key} and (sessions.depth = 'full' or sessions.head is not null)
"""
_COUNT_NAMES = ("turns", "entries", "tool calls", "errors")
_TOKEN_NAMES = ("input tokens", "output tokens", "cached tokens")


def _counts(ward: _CheckScope) -> Iterator[Finding]:
    for session_id, *numbers in ward.rows(_COUNTS):
        pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
        for name, (told, actual) in zip(_COUNT_NAMES, pairs[:4], strict=True):
            if told != actual:
                yield Finding(session_id, f"It says {told:,} {name}, and has {actual:,}.")
        for name, (told, actual) in zip(_TOKEN_NAMES, pairs[4:], strict=True):
            # More is no fault: an agent may tell a count of its own.
            if told < actual:
                yield Finding(session_id, f"It says {told:,} {name}, and its entries {actual:,}.")


_TURNS = """
    with spans as (
        select session, turn, min(seq) as first, max(seq) as last, count(*) as entries
        from entries where {only session} and turn > 0 group by session, turn
    ),
    everything as (select session, n from turns where {only session} union select session, turn from spans)
    select sessions.id, everything.n, turns.n is null, spans.turn is null
    from everything join sessions on sessions.key = everything.session
    left join turns on turns.session = everything.session and turns.n = everything.n
    left join spans on spans.session = everything.session and spans.turn = everything.n
    left join entries as opening on opening.key = turns.entry
    where {only sessions.key} and (
        opening.session is not sessions.key or opening.seq is not turns.first_seq or opening.turn is not turns.n
        or spans.first is not turns.first_seq or spans.last is not turns.last_seq
        or spans.entries is not turns.last_seq - turns.first_seq + 1
    ) order by sessions.key, everything.n
"""


def _turns(ward: _CheckScope) -> Iterator[Finding]:
    for session_id, n, untold, empty in ward.rows(_TURNS):
        what = "is not listed" if untold else "has no entries" if empty else "is not listed as its entries are"
        yield Finding(session_id, f"Turn {n} {what}.")


_CALLS = """
    select sessions.id, tool_calls.name, tool_calls.call_id
    from tool_calls join sessions on sessions.key = tool_calls.session
    left join entries as asked on asked.key = tool_calls.entry
    left join entries as answered on answered.key = tool_calls.result_entry
    where {only sessions.key} and (
        (tool_calls.entry is not null and asked.session is not tool_calls.session)
        or (tool_calls.result_entry is not null and answered.session is not tool_calls.session)
        or (tool_calls.entry is null) != (tool_calls.status = 'orphan')
        or (tool_calls.result_entry is null) != (tool_calls.status = 'pending')
    )
"""
# Calls of one message wait together; the session went on when another message of the model's, or a new turn, followed.
_UNPAIRED = """
    select sessions.id, coalesce(asked.seq, answered.seq), tool_calls.name, tool_calls.status
    from tool_calls join sessions on sessions.key = tool_calls.session
    left join entries as asked on asked.key = tool_calls.entry
    left join entries as answered on answered.key = tool_calls.result_entry
    where {only sessions.key} and (tool_calls.status = 'orphan' or (tool_calls.status = 'pending' and exists (
        select 1 from entries as later
        where later.session = tool_calls.session and later.seq > asked.seq and later.kind = 'message' and (
            later.turn > tool_calls.turn or (later.role = 'assistant'
                and (later.record is null or later.record is not asked.record)
                and (later.message_key = '' or later.message_key != asked.message_key))
        )
    ))) order by sessions.key, 2
"""


def _tool_calls(ward: _CheckScope) -> Iterator[Finding]:
    for session_id, name, call_id in ward.rows(_CALLS):
        yield Finding(session_id, f"The listed call {call_id!r} of {name!r} does not fit its entries.")
    for session_id, seq, name, status in ward.rows(_UNPAIRED):
        what = (
            f"The call of {name!r} was never answered, though the session went on"
            if status == "pending"
            else "It holds a tool's result that nobody asked for"
        )
        yield Finding(entry_id(session_id, seq), f"{what}; {UNPAIRED_ADVICE}")


_PARTS = """
    select sessions.id, entries.seq from entries join sessions on sessions.key = entries.session
    where {only sessions.key} and entries.parts is not null and not json_valid(cast(entries.parts as text))
"""
_PARTS_BEHIND = """
    select sessions.id, entries.seq from entries join sessions on sessions.key = entries.session
    join records on records.key = entries.record
    where {only sessions.key} and substr(entries.parts, 2, 1) between x'30' and x'39'
    and json_valid(cast(entries.parts as text)) and records.behind <
        json_extract(cast(entries.parts as text), '$[0]') + json_extract(cast(entries.parts as text), '$[1]')
"""


def _parts(ward: _CheckScope) -> Iterator[Finding]:
    for session_id, seq in (*ward.rows(_PARTS), *ward.rows(_PARTS_BEHIND)):
        yield Finding(entry_id(session_id, seq), "Its parts cannot be read.")


# ── records ───────────────────────────────────────────────────────────────────────────────────────

_RECORDS = """
    select block, key, start, length, behind, data, digest from records
    where key in (select record from entries where {only session}) order by block, start
"""
_LOST_RECORDS = """
    select sessions.id, entries.seq from entries join sessions on sessions.key = entries.session
    where entries.record is not null and entries.record not in (select key from records) and {only session}
"""
_UNUSED_BLOCKS = "select key from blocks where key not in (select block from records where block is not null)"
_UNUSED_RECORDS = "select key from records where key not in (select record from entries where record is not null)"


def _records(ward: _CheckScope) -> Iterator[Finding]:
    """Each block is opened once."""
    for session_id, seq in ward.rows(_LOST_RECORDS):
        yield Finding(entry_id(session_id, seq), "Its record is lost.")
    for block, rows in groupby(ward.rows(_RECORDS), itemgetter(0)):
        whole = b""
        if block is not None:
            packed = ward.store.row("select data from blocks where key = ?", block)
            opened = _try_decompress(packed[0]) if packed else ward.store.pending_blocks.read_block(block)
            if opened is None:
                yield Finding(f"block {block}", "It cannot be opened, and the records in it are lost.")
                continue
            whole = opened
        for _, key, start, length, behind, loose, digest in rows:
            data = loose if block is None else whole[start : start + length + behind]
            if len(data) != length + behind or compute_digest(data[:length]) != digest:
                yield Finding(f"record {key}", "It is not what was written.")


def _try_decompress(packed: bytes) -> bytes | None:
    try:
        return decompress_block(packed)
    except ZstdError:
        return None


def _leftovers(ward: _CheckScope) -> Iterator[Finding]:
    for (key,) in ward.rows(_UNUSED_BLOCKS):
        yield Finding(f"block {key}", "No record lies in it.")
    for (key,) in ward.rows(_UNUSED_RECORDS):
        yield Finding(f"record {key}", "No entry was made from it.")
    for (key,) in ward.rows("select session from purging"):
        yield Finding("store", f"A purge of session {key} was never finished.")


_SESSION_CHECKS = (_chains, _counts, _turns, _tool_calls, _parts, _records)

# ── the indexes ───────────────────────────────────────────────────────────────────────────────────

_IS_INDEXED = "inherited = 0 and kind in ('message', 'compaction')"
_TEXT_KEYS = f"select key from entries where {_IS_INDEXED} and text != ''"
# Only thinking can bring an entry without text into the index, and it may be empty too.
_POSSIBLE_THINKING = f"""
    select key, parts from entries
    where {_IS_INDEXED} and text = '' and instr(parts, cast('"type":"thinking"' as blob)) > 0
"""
_TOOL_KEYS = f"""
    select key from entries where {_IS_INDEXED}
    and (key in (select entry from tool_calls) or key in (select result_entry from tool_calls))
"""


def _indexes(ward: _CheckScope) -> Iterator[Finding]:
    told = ward.rows(_POSSIBLE_THINKING)
    thought = {key for key, parts in told if conversation_text("", decode_parts("", parts)) is not None}
    for index, expected in (
        ("conversation_fts", {key for (key,) in ward.rows(_TEXT_KEYS)} | thought),
        ("tools_fts", {key for (key,) in ward.rows(_TOOL_KEYS)}),
    ):
        present = {key for (key,) in ward.rows(f"select id from {index}_docsize")}
        if missing := len(expected - present):
            yield Finding(f"index {index}", f"{missing:,} entries cannot be found by their words; {REINDEX_ADVICE}.")
        if extra := len(present - expected):
            yield Finding(f"index {index}", f"{extra:,} are found that are not there; {REINDEX_ADVICE}.")


def _damaged_indexes(ward: _CheckScope) -> Iterator[Finding]:
    for index in ("conversation_fts", "tools_fts"):
        try:
            with ward.store.transaction() as connection:
                connection.execute(f"insert into {index} ({index}, rank) values ('integrity-check', 0)")
        except StoreError as error:
            if not isinstance(error.__cause__, sqlite3.DatabaseError) or "CORRUPT" not in _sqlite_error_name(
                error.__cause__
            ):
                raise
            yield Finding(f"index {index}", f"It is damaged; {REINDEX_ADVICE}.")


def _sqlite_error_name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", "") or ""


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────


def _secrets(ward: _CheckScope) -> Iterator[Finding]:
    """As far as they are open: nobody is asked for a passphrase just to look."""
    if not ward.store.secrets.is_locked:
        for problem in ward.store.secrets.verify():
            yield Finding("secrets", problem)


_STORE_CHECKS = (_leftovers, _indexes, _secrets)
