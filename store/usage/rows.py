"""This module writes the rows of the table `usage`, and decides which session counts a response.

A response may be in several sessions. An inherited entry has no row: the session that it comes from has it. Other
copies, such as those that a resume or a sidechain made, have rows, of which one is counted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from store.model.entry import Tokens
from store.model.usage import TOKEN_KINDS, Usage, mark_cache_write
from store.text.validate import replace_surrogates

MIN_UNIQUE_ID = 16
"""Is the length from which the id of a response is unique everywhere. Some servers only number their responses."""

UsageRow = tuple[Any, ...]
"""Holds: entry in its batch, call or 0, time, provider, model, a number for each kind, known, cost or -1."""

_MODEL = 4
_FIRST_NUMBER = 5
_KNOWN = _FIRST_NUMBER + len(TOKEN_KINDS)
_OUTPUT = _FIRST_NUMBER + TOKEN_KINDS.index("output")

_IS_COUNTED_ELSEWHERE = """
    exists (
        select 1 from usage as twins join sessions on sessions.key = twins.session
        where twins.call = {call} and twins.call < 0 and twins.counted = 1 and twins.session != {session}
            {condition}
    )
"""
# A session that is read again takes its responses over from the older version of itself, which is hidden.
_IS_TAKEN = _IS_COUNTED_ELSEWHERE.format(call="?2", session="?14", condition="and relation is not 'superseded'")
NUMBERS = ", ".join(TOKEN_KINDS)
"""Names the columns with the numbers of tokens."""

# ?1 to ?13 are the columns of a row; ?14 session, ?15 first entry of the batch.
_INSERT = f"""
    insert into usage (session, call, entry, model, at, {NUMBERS}, known, reported_cost, counted)
    values (?14, iif(?2 = 0, ?1 + ?15, ?2), ?1 + ?15,
        (select key from usage_models where provider = ?4 and model = ?5),
        coalesce(cast(strftime('%s', ?3) as integer), 0), ?6, ?7, ?8, ?9, ?10, ?11, ?12, nullif(?13, -1),
        ?2 >= 0 or not {_IS_TAKEN})
    on conflict (session, call) do update set entry = excluded.entry, model = excluded.model, at = excluded.at,
        {", ".join(f"{kind} = excluded.{kind}" for kind in TOKEN_KINDS)},
        known = excluded.known, reported_cost = excluded.reported_cost
    where excluded.output >= usage.output
"""
_ADD_MODEL = "insert or ignore into usage_models (provider, model) values (?, ?)"
# Where the other session has a row for the response already, that one stays.
_MOVE = """
    update or ignore usage set session = :to, entry = moved.new, call = iif(call = entry, moved.new, call)
    from (
        select theirs.key as old, own.key as new from entries as own
        join entries as theirs on theirs.session = :origin and theirs.seq = own.seq
        where own.session = :to and own.seq between :first_seq and :last_seq
    ) as moved
    where usage.session = :origin and usage.entry = moved.old
"""
_COUNT_NONE = "update usage set counted = 0 where session = ? and counted = 1"
_COUNT_OWN = f"""
    update usage set counted = 1
    where session = ?1 and (select inherited from entries where key = usage.entry) = 0
        and (call >= 0 or not {_IS_COUNTED_ELSEWHERE.format(call="usage.call", session="?1", condition="")})
"""
_DELETE_INHERITED = """
    delete from usage where session = ? and (select inherited from entries where key = usage.entry) = 1
"""
# Gives the responses that this session does not count to the oldest of the other sessions that have them.
_COUNT_TWINS = """
    update usage set counted = 1 where counted = 0 and (session, call) in (
        select min(twins.session), twins.call
        from usage as own cross join usage as twins on twins.call = own.call and twins.call < 0 and twins.counted = 0
        where own.session = ?1 and own.counted = 0 and own.call < 0 and twins.session != ?1
            and not exists (
                select 1 from usage as rivals where rivals.call = own.call and rivals.call < 0 and rivals.counted = 1)
        group by twins.call
    )
"""


class UsageRows:
    """Collects the rows of a batch of entries. A later report of the same response replaces an earlier one."""

    def __init__(self) -> None:
        self._rows: dict[int, UsageRow] = {}

    def add(self, n: int, usage: Usage, model: str, created_at: str) -> None:
        """Add the usage of an entry that is not inherited."""
        row = _build_row(n, usage, model, created_at)
        if not any(row[_FIRST_NUMBER:_KNOWN]) and usage.cost is None:
            return  # a request that failed, or whose numbers come later
        key = row[1] or n
        before = self._rows.get(key)
        if before is None or row[_OUTPUT] >= before[_OUTPUT]:
            self._rows[key] = row

    def rows(self) -> list[UsageRow]:
        return list(self._rows.values())


def usage_from_tokens(tokens: Tokens | None) -> Usage:
    """Return the usage of an agent whose reader knows nothing but tokens."""
    if tokens is None:
        return Usage()
    usage = Usage(tokens.input, tokens.cache_read, tokens.cache_write, output=tokens.output)
    return mark_cache_write(usage)


def _build_row(n: int, usage: Usage, model: str, created_at: str) -> UsageRow:
    numbers = usage.pack_numbers()
    names = (_clean_name(usage.provider), _clean_name(usage.model or model))
    cost = -1 if usage.cost is None else usage.cost
    return (n, _hash_call(usage), created_at, *names, *numbers, cost)


_clean_name = lru_cache(maxsize=1_000)(replace_surrogates)


def _hash_call(usage: Usage) -> int:
    """Return a number for the response: negative if it has a unique id, 0 if nothing identifies it.

    It has six bytes, because SQLite stores such a number in six. The chance that two of 300,000 responses get the same
    one is 1 : 3,000. A positive one is larger than any key of an entry.
    """
    name = usage.response_id or usage.report_id
    if not name:
        return 0
    number = int.from_bytes(blake2b(name.encode("utf-8", "replace"), digest_size=6).digest()) >> 1
    return ~number if len(usage.response_id) >= MIN_UNIQUE_ID else number | 1 << 46


def write_usage(connection: sqlite3.Connection, session: int, first_entry: int, rows: Iterable[UsageRow]) -> None:
    """Insert or replace the rows of a batch. The entries and their session are written before."""
    rows = list(rows)
    if not all(row[_MODEL] for row in rows):
        names = connection.execute("select provider, model from sessions where key = ?", (session,)).fetchone()
        rows = [row if row[_MODEL] else (*row[: _MODEL - 1], *names, *row[_MODEL + 1 :]) for row in rows]
    connection.executemany(_ADD_MODEL, {row[_MODEL - 1 : _MODEL + 1] for row in rows})
    connection.executemany(_INSERT, [(*row, session, first_entry) for row in rows])


def move_usage(connection: sqlite3.Connection, origin: int, to: int, first_seq: int, last_seq: int) -> None:
    """Move the rows of entries to another session, which has these entries under the same seqs."""
    values = {"origin": origin, "to": to, "first_seq": first_seq, "last_seq": last_seq}
    connection.execute(_MOVE, values)


def recount_usage(connection: sqlite3.Connection, session: int) -> None:
    """Decide again which responses the session counts, after its entries changed or became inherited."""
    connection.execute(_COUNT_NONE, (session,))
    connection.execute(_COUNT_OWN, (session,))
    connection.execute(_COUNT_TWINS, (session,))
    connection.execute(_DELETE_INHERITED, (session,))


def delete_usage(connection: sqlite3.Connection, session: int) -> None:
    """Delete the rows of a session. Other sessions that have the same responses count them from now on."""
    connection.execute(_COUNT_NONE, (session,))
    connection.execute(_COUNT_TWINS, (session,))
    connection.execute("delete from usage where session = ?", (session,))
