"""This module checks a store for damage and reports what it finds.

It repairs nothing: a person decides about a damaged conversation, and derived data can be rebuilt by other commands.
"""

from __future__ import annotations

import re
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from zstandard import ZstdError

from store.conversations.derive import compute_digest
from store.conversations.parts import decode_thoughts
from store.conversations.record_blocks import decompress_block
from store.conversations.records import HEADER_VERSIONS
from store.conversations.tool_calls import FROM_CALLS
from store.database.backup import list_backups
from store.database.connection import translate_errors
from store.errors import Damaged, StoreError
from store.model.session import Session, entry_id
from store.search.index import conversation_text

if TYPE_CHECKING:
    from store.store import Store

_SCOPE_PLACEHOLDER = re.compile(r"\{only ([\w.]+)\}")
UNPAIRED_ADVICE = "Model APIs reject this. Use `backscroll rebuild` to get a repaired copy."
REINDEX_ADVICE = "Run `backscroll doctor --reindex`."

_SELECT_TEXT_COLUMNS = """
    select tables.name, columns.name, not tables.wr
    from pragma_table_list as tables, pragma_table_info(tables.name) as columns
    where tables.schema = 'main' and tables.type = 'table' and lower(columns.type) = 'text'
"""


@dataclass(frozen=True, slots=True)
class Finding:
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class _CheckScope:
    """Selects what is checked: the complete store, or one session."""

    store: Store
    session: Session | None

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query. They may not all fit into memory.

        `{only column}` in the query becomes a condition that selects the session by this column.
        """
        key = self.session.key if self.session else None
        scoped = _SCOPE_PLACEHOLDER.sub("1" if key is None else r"\1 = :session", sql)
        with translate_errors(self.store.path):
            yield from self.store.connection.execute(scoped, {"session": key})


def check_store(store: Store, session: Session | None = None) -> list[Finding]:
    """Check one session, or the complete store, and return all findings."""
    scope = _CheckScope(store, session)
    checks = _SESSION_CHECKS if session else (*_FILE_CHECKS, *_SESSION_CHECKS, *_STORE_CHECKS)
    with _read_snapshot(store):
        findings = [finding for check in checks for finding in _run_check(check, scope)]
    if session is None:
        # SQLite treats this check as a write, which is not possible in the snapshot.
        findings += _run_check(_check_index_integrity, scope)
    return findings


@contextmanager
def _read_snapshot(store: Store) -> Iterator[None]:
    """Let all checks see the same state of the store. Other programs can write in the meantime."""
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


def _run_check(check: Callable[[_CheckScope], Iterable[Finding]], scope: _CheckScope) -> list[Finding]:
    """Return the findings of one check. An error in it is a finding, too, and does not stop the other checks."""
    findings: list[Finding] = []
    try:
        findings.extend(check(scope))
    except Exception as error:
        name = check.__name__.removeprefix("_check_").replace("_", " ")
        findings.append(Finding("store", f"The check of its {name} failed: {_describe_error(error)}"))
    return findings


def _describe_error(error: Exception) -> str:
    if isinstance(error.__cause__, sqlite3.Error):
        return f"SQLite says: {error.__cause__}."
    if isinstance(error, Damaged):
        return error.damage
    return str(error) if isinstance(error, StoreError) else f"{type(error).__name__}."


# ── the file ──────────────────────────────────────────────────────────────────────────────────────


def _check_integrity(scope: _CheckScope) -> Iterator[Finding]:
    for (result,) in scope.rows("pragma integrity_check"):
        if result != "ok":
            yield Finding("store", f"SQLite says: {result}.")


def _check_foreign_keys(scope: _CheckScope) -> Iterator[Finding]:
    for table, row, parent, _ in scope.rows("pragma foreign_key_check"):
        which = f"Row {row}" if row is not None else "A row"
        yield Finding(table, f"{which} refers to a missing row of {parent}.")


def _check_text(scope: _CheckScope) -> Iterator[Finding]:
    """Find texts that are not UTF-8. SQLite does not mind them, but no command can show them."""
    for table, column, has_rowid in list(scope.rows(_SELECT_TEXT_COLUMNS)):
        key = "rowid" if has_rowid else "null"
        sql = f'select {key}, cast("{column}" as blob) from "{table}" where typeof("{column}") = \'text\''
        for row, data in scope.rows(sql):
            try:
                data.decode()
            except UnicodeDecodeError:
                which = f"row {row}" if row is not None else "a row"
                yield Finding(table, f"The text of {column} in {which} is not UTF-8. Restore a backup.")


def _check_schema(scope: _CheckScope) -> Iterator[Finding]:
    """Compare the schema with that of a new store, because triggers and indexes enforce the rules of the store."""
    from store.database.migrations import migrations

    fresh = sqlite3.connect(":memory:", isolation_level=None)
    migrations.apply(fresh)
    select_schema = "select name, type, sql from sqlite_master where sql is not null"
    expected = {name: (kind, sql) for name, kind, sql in fresh.execute(select_schema)}
    fresh.close()
    actual = {name: (kind, sql) for name, kind, sql in scope.rows(select_schema)}
    for name, (kind, sql) in expected.items():
        if name not in actual:
            yield Finding("store", f"The {kind} {name} is missing.")
        # The SQL of the search engine's own tables depends on the version of SQLite that created them.
        elif kind != "table" and actual[name] != (kind, sql):
            yield Finding("store", f"The {kind} {name} was changed.")


def _check_permissions(scope: _CheckScope) -> Iterator[Finding]:
    path = scope.store.path
    log_files = [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm")]
    for file in [path, *log_files, *list_backups(path)]:
        if file.exists() and stat.S_IMODE(file.stat().st_mode) & 0o077:
            yield Finding(str(file), "Other users can access it. Run `chmod 600` on it.")


_FILE_CHECKS = (_check_integrity, _check_text, _check_foreign_keys, _check_schema, _check_permissions)

# ── chains ────────────────────────────────────────────────────────────────────────────────────────

_CHAIN_LINKS = """
    select sessions.id, sessions.head, sessions.tail, entries.key, entries.parent, entries.seq, entries.kind
    from sessions left join entries on entries.session = sessions.key
    where {only sessions.key} and (sessions.depth = 'full' or sessions.head is not null)
    order by sessions.key, entries.seq
"""


class _ChainLink(NamedTuple):
    """Holds the columns of `_CHAIN_LINKS`. The last four are None for a session without entries."""

    session_id: str
    head: int | None
    tail: int | None
    key: int
    parent: int | None
    seq: int
    kind: str


def _check_chains(scope: _CheckScope) -> Iterator[Finding]:
    for session_id, links in groupby(map(_ChainLink._make, scope.rows(_CHAIN_LINKS)), attrgetter("session_id")):
        yield from _find_broken_links(session_id, list(links))


def _find_broken_links(session_id: str, rows: list[_ChainLink]) -> Iterator[Finding]:
    """Follow the chain from its head to its tail, and report entries that are not on the way."""
    head, tail = rows[0].head, rows[0].tail
    links = {link.key: link for link in rows if link.key is not None}
    children = {link.parent: key for key, link in links.items()}
    if head not in links:
        yield Finding(session_id, "Its head is not one of its entries.")
        return
    visited: set[int] = set()
    key: int | None = head
    last: int | None = head
    while key is not None and key not in visited:
        link = links[key]
        if link.seq != len(visited) - 1:
            yield Finding(entry_id(session_id, link.seq), f"It should be number {len(visited) - 1} of the chain.")
        if (link.kind == "header") is not (key == head):
            yield Finding(entry_id(session_id, link.seq), "A session must begin with a header and can have only one.")
        visited.add(key)
        key, last = children.get(key), key
    if last != tail:
        yield Finding(session_id, "Its tail is not the last entry of its chain.")
    for lost in links.keys() - visited:
        yield Finding(entry_id(session_id, links[lost].seq), "It is not connected to the chain of its session.")


# ── derived rows ──────────────────────────────────────────────────────────────────────────────────

_COUNTS = """
    with
    entry_counts as (
        select session, count(*) as entries, sum(json_extract(tokens, '$[0]')) as input,
            sum(json_extract(tokens, '$[1]')) as output, 
            sum(json_extract(tokens, '$[2]') + coalesce(json_extract(tokens, '$[3]'), 0)) as cached,
            sum(json_extract(tokens, '$[3]')) as cache_write
        from entries where {only session} and inherited = 0 and kind != 'header' group by session
    ),
    turn_counts as (
        select turns.session, count(*) as turns from turns join entries on entries.key = turns.entry
        where {only turns.session} and entries.inherited = 0 group by turns.session
    ),
    call_counts as (
        select tool_calls.session, sum(tool_calls.entry is not null and tool_calls.inherited = 0) as tool_calls,
            sum(tool_calls.status = 'error' and answered.inherited = 0) as errors
        from tool_calls left join entries as answered on answered.key = tool_calls.result_entry
        where {only tool_calls.session} group by tool_calls.session
    )
    select sessions.id,
        sessions.turns, coalesce(turn_counts.turns, 0), sessions.entries, coalesce(entry_counts.entries, 0),
        sessions.tool_calls, coalesce(call_counts.tool_calls, 0), sessions.errors, coalesce(call_counts.errors, 0),
        sessions.tokens_input, coalesce(entry_counts.input, 0),
        sessions.tokens_output, coalesce(entry_counts.output, 0),
        sessions.tokens_cached, coalesce(entry_counts.cached, 0),
        coalesce(sessions.tokens_cache_write, entry_counts.cache_write, 0), coalesce(entry_counts.cache_write, 0)
    from sessions left join entry_counts on entry_counts.session = sessions.key
    left join turn_counts on turn_counts.session = sessions.key
    left join call_counts on call_counts.session = sessions.key
    where {only sessions.key} and (sessions.depth = 'full' or sessions.head is not null)
"""
_COUNT_NAMES = ("turns", "entries", "tool calls", "errors")
_TOKEN_NAMES = ("input tokens", "output tokens", "cached tokens", "tokens written to a cache")


def _check_counts(scope: _CheckScope) -> Iterator[Finding]:
    for session_id, *numbers in scope.rows(_COUNTS):
        pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
        for name, (stored, actual) in zip(_COUNT_NAMES, pairs[:4], strict=True):
            if stored != actual:
                yield Finding(session_id, f"It lists {stored:,} {name}, but has {actual:,}.")
        for name, (stored, actual) in zip(_TOKEN_NAMES, pairs[4:], strict=True):
            # A larger number is correct: an agent may report a count of its own.
            if stored < actual:
                yield Finding(session_id, f"It lists {stored:,} {name}, but its entries have {actual:,}.")


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


def _check_turns(scope: _CheckScope) -> Iterator[Finding]:
    for session_id, n, is_missing, is_empty in scope.rows(_TURNS):
        what = "is not listed" if is_missing else "has no entries" if is_empty else "does not match its entries"
        yield Finding(session_id, f"Turn {n} {what}.")


_CALLS = f"""
    select sessions.id, tool_calls.name, tool_calls.call_id
    {FROM_CALLS}
    where {{only sessions.key}} and (
        (tool_calls.entry is not null and asked.session is not tool_calls.session)
        or (tool_calls.result_entry is not null and answered.session is not tool_calls.session)
        or (tool_calls.entry is null) != (tool_calls.status = 'orphan')
        or (tool_calls.result_entry is null) != (tool_calls.status = 'pending')
    )
"""
# The calls of one message are pending together. A call lacks its result when another message of the model, or a new
# turn, follows.
_UNPAIRED = f"""
    select sessions.id, coalesce(asked.seq, answered.seq), tool_calls.name, tool_calls.status
    {FROM_CALLS}
    where {{only sessions.key}} and (tool_calls.status = 'orphan' or (tool_calls.status = 'pending' and exists (
        select 1 from entries as later
        where later.session = tool_calls.session and later.seq > asked.seq and later.kind = 'message' and (
            later.turn > tool_calls.turn or (later.role = 'assistant'
                and (later.record is null or later.record is not asked.record)
                and (later.message_key = '' or later.message_key != asked.message_key))
        )
    ))) order by sessions.key, 2
"""


def _check_tool_calls(scope: _CheckScope) -> Iterator[Finding]:
    for session_id, name, call_id in scope.rows(_CALLS):
        yield Finding(session_id, f"The call {call_id!r} of {name!r} does not match its entries.")
    for session_id, seq, name, status in scope.rows(_UNPAIRED):
        what = (
            f"The call of {name!r} has no result, but the session continues"
            if status == "pending"
            else "It contains a tool result without a call"
        )
        yield Finding(entry_id(session_id, seq), f"{what}. {UNPAIRED_ADVICE}")


_PARTS = """
    select sessions.id, entries.seq from entries join sessions on sessions.key = entries.session
    where {only sessions.key} and entries.parts is not null and not json_valid(cast(entries.parts as text))
"""
_PARTS_BEHIND = """
    select sessions.id, entries.seq from entries join sessions on sessions.key = entries.session
    join records on records.key = entries.record
    where {only sessions.key} and json_valid(cast(entries.parts as text)) and records.behind < case
        when substr(entries.parts, 2, 1) between x'30' and x'39' then
            json_extract(cast(entries.parts as text), '$[0]') + json_extract(cast(entries.parts as text), '$[1]')
        when substr(entries.parts, 2, 1) = x'5b' then
            json_extract(cast(entries.parts as text), '$[0][0]') + json_extract(cast(entries.parts as text), '$[0][1]')
    end
"""


def _check_parts(scope: _CheckScope) -> Iterator[Finding]:
    for session_id, seq in (*scope.rows(_PARTS), *scope.rows(_PARTS_BEHIND)):
        yield Finding(entry_id(session_id, seq), "Its parts cannot be read.")


# ── records ───────────────────────────────────────────────────────────────────────────────────────

_RECORDS = f"""
    select block, key, start, length, behind, data, digest from records
    where key in (select record from entries where {{only session}}) or key in ({HEADER_VERSIONS}) order by block, start
"""
_LOST_RECORDS = """
    select sessions.id, entries.seq from entries join sessions on sessions.key = entries.session
    where entries.record is not null and entries.record not in (select key from records) and {only session}
"""
_UNUSED_BLOCKS = "select key from blocks where key not in (select block from records where block is not null)"
_UNUSED_RECORDS = f"""
    select key from records where key not in (select record from entries where record is not null)
        and key not in ({HEADER_VERSIONS})
"""


def _check_records(scope: _CheckScope) -> Iterator[Finding]:
    """Compare every record with its digest. Each block is decompressed once."""
    for session_id, seq in scope.rows(_LOST_RECORDS):
        yield Finding(entry_id(session_id, seq), "Its record is missing.")
    for block, rows in groupby(scope.rows(_RECORDS), itemgetter(0)):
        block_data = b""
        if block is not None:
            row = scope.store.row("select data from blocks where key = ?", block)
            decompressed = _try_decompress(row[0]) if row else scope.store.pending_blocks.read_block(block)
            if decompressed is None:
                yield Finding(f"block {block}", "It cannot be decompressed, so its records are lost.")
                continue
            block_data = decompressed
        for _, key, start, length, behind, loose_data, digest in rows:
            data = loose_data if block is None else block_data[start : start + length + behind]
            if len(data) != length + behind or compute_digest(data[:length]) != digest:
                yield Finding(f"record {key}", "Its data was changed.")


def _try_decompress(compressed: bytes) -> bytes | None:
    try:
        return decompress_block(compressed)
    except ZstdError:
        return None


def _check_leftovers(scope: _CheckScope) -> Iterator[Finding]:
    for (key,) in scope.rows(_UNUSED_BLOCKS):
        yield Finding(f"block {key}", "It contains no record.")
    for (key,) in scope.rows(_UNUSED_RECORDS):
        yield Finding(f"record {key}", "No entry uses it.")
    for (key,) in scope.rows("select session from purging"):
        yield Finding("store", f"A purge of session {key} was never finished.")


_SESSION_CHECKS = (_check_chains, _check_counts, _check_turns, _check_tool_calls, _check_parts, _check_records)

# ── the indexes ───────────────────────────────────────────────────────────────────────────────────

_IS_INDEXED = "inherited = 0 and kind in ('message', 'compaction')"
_TEXT_KEYS = f"select key from entries where {_IS_INDEXED} and text != ''"
# An entry without text is in the index only if it has thinking, which may be empty, too.
_POSSIBLE_THINKING = f"""
    select key, parts from entries
    where {_IS_INDEXED} and text = '' and instr(parts, cast('"type":"thinking"' as blob)) > 0
"""
_TOOL_KEYS = f"""
    select key from entries where {_IS_INDEXED}
    and (key in (select entry from tool_calls) or key in (select result_entry from tool_calls))
"""


def _check_indexes(scope: _CheckScope) -> Iterator[Finding]:
    possible = scope.rows(_POSSIBLE_THINKING)
    thinking = {key for key, parts in possible if conversation_text("", decode_thoughts(parts)) is not None}
    for index, expected in (
        ("conversation_fts", {key for (key,) in scope.rows(_TEXT_KEYS)} | thinking),
        ("tools_fts", {key for (key,) in scope.rows(_TOOL_KEYS)}),
    ):
        present = {key for (key,) in scope.rows(f"select id from {index}_docsize")}
        if missing := len(expected - present):
            yield Finding(f"index {index}", f"{missing:,} entries are missing from it. {REINDEX_ADVICE}")
        if extra := len(present - expected):
            yield Finding(f"index {index}", f"{extra:,} of its entries are not in the store. {REINDEX_ADVICE}")


def _check_index_integrity(scope: _CheckScope) -> Iterator[Finding]:
    for index in ("conversation_fts", "tools_fts"):
        try:
            with scope.store.transaction() as connection:
                connection.execute(f"insert into {index} ({index}, rank) values ('integrity-check', 0)")
        except StoreError as error:
            if not isinstance(error.__cause__, sqlite3.DatabaseError) or "CORRUPT" not in _sqlite_error_name(
                error.__cause__
            ):
                raise
            yield Finding(f"index {index}", f"It is damaged. {REINDEX_ADVICE}")


def _sqlite_error_name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", "") or ""


_UNFINISHED_REDACTIONS = """
    select redactions.id, coalesce(sum(redacted_places.pending), 0)
    from redactions left join redacted_places on redacted_places.redaction = redactions.id
    where redactions.state in ('running', 'undoing') group by redactions.id
"""

# ── secrets ───────────────────────────────────────────────────────────────────────────────────────


def _check_secrets(scope: _CheckScope) -> Iterator[Finding]:
    """Check that all sealed values can be opened.

    The values of locked secrets are skipped, because a check asks for no passphrase.
    """
    secrets = scope.store.secrets
    for problem in secrets.find_inconsistencies() if secrets.is_locked else secrets.verify():
        yield Finding("secrets", problem)


def _check_redactions(scope: _CheckScope) -> Iterator[Finding]:
    for redaction, pending in scope.rows(_UNFINISHED_REDACTIONS):
        files = f" {pending} of its files are left." if pending else ""
        yield Finding(f"redaction {redaction}", f"It was not finished.{files} Run `backscroll leaks redact`.")


_STORE_CHECKS = (_check_leftovers, _check_indexes, _check_secrets, _check_redactions)
