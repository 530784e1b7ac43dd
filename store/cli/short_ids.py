"""This module shortens session ids to as few characters as identify a session."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from store.cli import output
from store.model.session import Session

if TYPE_CHECKING:
    from store.store import Store

MIN_HEX_PREFIX = 8
_HEX_PREFIX = re.compile("[0-9a-f]{8}")
MIN_PREFIX = 20

_ADJACENT_IDS_SQL = """
    select * from (select id from sessions where id <= ?1 and key != ?2 order by id desc limit 1)
    union all select * from (select id from sessions where id >= ?1 and key != ?2 order by id limit 1)
    union all select * from (
        select native_id from sessions where native_id <= ?1 and key != ?2 order by native_id desc limit 1)
    union all select * from (
        select native_id from sessions where native_id >= ?1 and key != ?2 order by native_id limit 1)
"""


def shorten_ids(store: Store, sessions: Iterable[Session]) -> dict[str, str]:
    """Return a short id for each session id. Where stdout is not a terminal, ids stay complete."""
    if not output.stdout_is_terminal():
        return {session.id: session.id for session in sessions}
    return {session.id: _shorten_id(store, session) for session in sessions}


def _shorten_id(store: Store, session: Session) -> str:
    """Cut the native id one character after its common prefix with the ids next to it in alphabetical order."""
    native_id = session.native_id
    neighbours = [neighbour for (neighbour,) in store.rows(_ADJACENT_IDS_SQL, native_id, session.key)]
    if native_id in neighbours:
        return session.id
    if len(native_id) <= MIN_PREFIX:
        return native_id
    minimum = MIN_HEX_PREFIX if _HEX_PREFIX.match(native_id) else MIN_PREFIX
    return native_id[: max([minimum, *(_common_prefix_length(native_id, other) + 1 for other in neighbours)])]


def _common_prefix_length(left: str, right: str) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((position for position, (a, b) in pairs if a != b), len(left))
