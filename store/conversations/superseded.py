"""This module handles sessions whose source rewrote or deleted entries.

The session follows its source. The old entries move to a hidden fork, so that they are not lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from store.model.session import Session
from store.usage.rows import move_usage, recount_usage

if TYPE_CHECKING:
    from store.store import Store

_RECOUNT = """
    update sessions set
        turns = (select count(*) from turns join entries on entries.key = turns.entry
            where turns.session = :session and entries.inherited = 0),
        entries = (select count(*) from entries where session = :session and inherited = 0 and kind != 'header'),
        tool_calls = (select count(*) from tool_calls where session = :session and inherited = 0 and entry is not null),
        errors = (select count(*) from tool_calls join entries on entries.key = tool_calls.result_entry
            where tool_calls.session = :session and entries.inherited = 0 and tool_calls.status = 'error'),
        tokens_input = sums.input, tokens_output = sums.output, tokens_cached = sums.cached,
        tokens_cache_write = sums.cache_write, tokens_total = sums.input + sums.output + sums.cached
    from (
        select coalesce(sum(json_extract(tokens, '$[0]')), 0) as input,
            coalesce(sum(json_extract(tokens, '$[1]')), 0) as output,
            coalesce(sum(json_extract(tokens, '$[2]') + coalesce(json_extract(tokens, '$[3]'), 0)), 0) as cached,
            case when total(json_array_length(tokens) < 4 and json_extract(tokens, '$[2]') > 0) = 0
                then coalesce(sum(json_extract(tokens, '$[3]')), 0) end as cache_write
        from entries where session = :session and inherited = 0
    ) as sums
    where key = :session
"""
_FORGET_FIRST_PROMPT = """
    update sessions set first_prompt = '' where key = ?1 and not exists (select 1 from turns where session = ?1)
"""
_CORRECT_CALLS = """
    update tool_calls set inherited = entries.inherited from entries
    where tool_calls.session = ? and entries.key = coalesce(tool_calls.entry, tool_calls.result_entry)
"""


def recount(store: Store, session: int) -> None:
    """Compute the counts of a session from its rows again."""
    store.connection.execute(_RECOUNT, {"session": session})
    recount_usage(store.connection, session)


class Correction(NamedTuple):
    """Holds what is derived from a record and may be derived otherwise later."""

    inherited: int
    tokens: str


def correct_entries(store: Store, session: int, corrections: Mapping[int, Correction]) -> None:
    """Change what is derived from the records of entries, by seq, with all that depends on it.

    Usage is derived again later, because an entry that is not inherited any more has no row of usage yet.
    """
    with store.transaction(durable=False) as connection:
        store.search.delete_rows(*store.search.build_rows(session))
        connection.executemany(
            "update entries set inherited = ?, tokens = nullif(?, '') where session = ? and seq = ?",
            [(*correction, session, seq) for seq, correction in corrections.items()],
        )
        connection.execute(_CORRECT_CALLS, (session,))
        connection.execute("update sessions set usage_version = 0 where key = ?", (session,))
        recount(store, session)
        store.search.queue_rows(*store.search.build_rows(session))


def supersede(store: Store, session: Session, last_kept: int) -> Session:
    """End the session after the seq `last_kept`. Move the later entries to a hidden fork, and return the fork."""
    with store.transaction(durable=False):
        fork = store.sessions.create(
            f"{session.id}~{uuid4().hex[:8]}",
            native_id=session.native_id,
            source=session.source,
            parent_id=session.id,
            relation="superseded",
            forked_at=last_kept,
            agent_title=session.title,
            cwd=session.cwd,
            model=session.model,
        )
        conversation, tools = store.search.build_rows(session.key)
        store.search.delete_rows(conversation, tools)
        (last_seq,) = store.row("select max(seq) from entries where session = ?", session.key)
        store.chains.copy_to_fork(session.key, fork.key, last_seq)
        _unmark_inherited(store, fork.key, last_kept)
        move_usage(store.connection, session.key, fork.key, last_kept + 1, last_seq)
        _delete_entries_after(store, session.key, last_kept)
        store.connection.execute(_FORGET_FIRST_PROMPT, (session.key,))
        for key in (session.key, fork.key):
            recount(store, key)
            store.search.queue_rows(*store.search.build_rows(key))
        return store.sessions.by_key(fork.key)


def _unmark_inherited(store: Store, fork: int, after: int) -> None:
    """Mark the entries that only the fork will have as its own, with their calls and records."""
    store.connection.execute("update entries set inherited = 0 where session = ? and seq > ?", (fork, after))
    store.connection.execute(
        """
        update tool_calls set inherited = 0 where session = ?1
            and coalesce(entry, result_entry) in (select key from entries where session = ?1 and inherited = 0)
        """,
        (fork,),
    )
    store.connection.execute(
        "update records set session = ?1 where key in"
        " (select record from entries where session = ?1 and inherited = 0 and seq > ?2)",
        (fork, after),
    )


def _delete_entries_after(store: Store, session: int, after: int) -> None:
    connection = store.connection
    deleted_keys = "(select key from entries where session = ?1 and seq > ?2)"
    values = (session, after)
    connection.execute(
        f"delete from tool_calls where session = ?1 and coalesce(entry, result_entry) in {deleted_keys}", values
    )
    connection.execute(
        "update tool_calls set status = 'pending', result_entry = null, result_part = null, duration_ms = null"
        f" where session = ?1 and result_entry in {deleted_keys}",
        values,
    )
    connection.execute("delete from turns where session = ? and first_seq > ?", values)
    connection.execute("update turns set last_seq = ?2 where session = ?1 and last_seq > ?2", values)
    connection.execute("insert into purging (session) values (?)", (session,))
    connection.execute("delete from entries where session = ? and seq > ?", values)
    connection.execute("delete from purging where session = ?", (session,))
    connection.execute(
        "update sessions set tail = (select key from entries where session = ?1 and seq = ?2) where key = ?1", values
    )


# ── duplicates ────────────────────────────────────────────────────────────────────────────────────

_OWN_DIGESTS = """
    select records.digest from entries join records on records.key = entries.record
    where entries.session = ? and entries.inherited = 0 and entries.seq >= 0
"""
_FAMILY_DIGESTS = """
    select records.digest from sessions join entries on entries.session = sessions.key and entries.inherited = 0
    join records on records.key = entries.record
    where sessions.source = ?1 and (native_id = ?2 or (native_id > ?2 || '/' and native_id < ?2 || '0'))
    and sessions.gone = 0 and sessions.relation is not 'superseded'
"""
_HAS_USER_DATA = """
    select 1 from sessions where key = ?1 and (own_title != '' or pinned or deleted)
    union all select 1 from tags where session = ?1 union all select 1 from notes where session = ?1
    union all select 1 from secrets where session = ?1 union all select 1 from published where session = ?1
    union all select 1 from summaries where session = ?1 and origin != 'source'
    union all select 1 from sessions as children join sessions as parents on children.parent_id = parents.id
        where parents.key = ?1
"""


def drop_if_duplicated(store: Store, session: Session, family: str) -> None:
    """Delete a session that its source no longer lists, if other sessions of the family contain all its records.

    Sessions to which a person added something are kept. The family are the sessions with this native id or below it.
    """
    own = {digest for (digest,) in store.rows(_OWN_DIGESTS, session.key)}
    in_family = {digest for (digest,) in store.rows(_FAMILY_DIGESTS, session.source, family)}
    if own <= in_family and not store.row(_HAS_USER_DATA, session.key):
        store.sessions.drop_without_tombstone(session)
