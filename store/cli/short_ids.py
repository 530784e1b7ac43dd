"""Short names of sessions: as few characters as `find` needs to know which one is meant."""

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
    """By id. Whole ids where nobody reads but a program."""
    if not output.stdout_is_terminal():
        return {session.id: session.id for session in sessions}
    return {session.id: _shorten_id(store, session) for session in sessions}


def _shorten_id(store: Store, session: Session) -> str:
    """The native id, cut one character after it parts from its neighbours in the order of names."""
    name = session.native_id
    neighbours = [other for (other,) in store.rows(_ADJACENT_IDS_SQL, name, session.key)]
    if name in neighbours:
        return session.id
    if len(name) <= MIN_PREFIX:
        return name
    shortest = MIN_HEX_PREFIX if _HEX_PREFIX.match(name) else MIN_PREFIX
    return name[: max([shortest, *(_common_prefix_length(name, other) + 1 for other in neighbours)])]


def _common_prefix_length(one: str, other: str) -> int:
    """How many characters both begin with."""
    return next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))
