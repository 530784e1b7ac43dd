"""This module writes the usage of agents that report the tokens of a session, but not of its responses.

Their totals are one row of the table `usage`, which belongs to the header of the session.
"""

from __future__ import annotations

import sqlite3

from store.model.usage import MAX_COUNT, Usage
from store.usage.rows import NUMBERS

_ADD_SESSION_MODEL = """
    insert or ignore into usage_models (provider, model) select provider, model from sessions where key = ?
"""
# Some agents know the total only, which is then taken for input.
_WRITE_TOTALS = f"""
    insert into usage (session, call, entry, model, at, {NUMBERS}, known, reported_cost, counted)
    select key, head, head,
        (select key from usage_models where provider = sessions.provider and model = sessions.model),
        coalesce(cast(strftime('%s', updated_at) as integer), 0),
        min(iif(tokens_input + tokens_output > 0, tokens_input, tokens_total), {MAX_COUNT}),
        min(max(tokens_cached - coalesce(tokens_cache_write, 0), 0), {MAX_COUNT}),
        min(coalesce(tokens_cache_write, 0), {MAX_COUNT}), 0, min(tokens_output, {MAX_COUNT}), 0, :known,
        iif(cost between 0 and 1e6, cast(round(cost * 1e6) as integer), null), 1
    from sessions where key = :session and head is not null and tokens_total > 0
        and not exists (select 1 from usage where session = :session and call != sessions.head)
    on conflict (session, call) do update set at = excluded.at, model = excluded.model, input = excluded.input,
        cache_read = excluded.cache_read, cache_write_5m = excluded.cache_write_5m, output = excluded.output,
        reported_cost = excluded.reported_cost
"""
_KNOWN = Usage(0, 0, 0, output=0, estimated=("input", "cache_read", "cache_write_5m", "output")).pack_numbers()[-1]
_MOVE_TOTALS = """
    update usage set at = coalesce((select cast(strftime('%s', updated_at) as integer) from sessions where key = ?1), 0)
    where session = ?1 and call = (select head from sessions where key = ?1)
"""


def move_session_totals(connection: sqlite3.Connection, session: int) -> None:
    """Let the row of a session's totals, if there is one, have the new time of the session."""
    connection.execute(_MOVE_TOTALS, (session,))


def write_session_totals(connection: sqlite3.Connection, session: int) -> None:
    """Write a row for an agent that reports the tokens of a session, but not of its responses.

    It is an estimate: such totals may leave out requests, or be those of the last one.
    """
    connection.execute(_ADD_SESSION_MODEL, (session,))
    connection.execute(_WRITE_TOTALS, {"session": session, "known": _KNOWN})
