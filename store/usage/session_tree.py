"""This module finds which sub-agents work for which session, however deep they are nested."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from store.store import Store

SESSION_TREE = """
    tree (asked, session) as (
        select value, value from json_each(?)
        union
        select tree.asked, children.key from tree join sessions as parents on parents.key = tree.session
        join sessions as children on children.parent_id = parents.id
            and children.relation in ('delegate', 'sidechain') and children.deleted = 0
    )
"""
"""Is a common table expression: the sessions whose keys it gets, each with itself and the sub-agents below it."""

_SELECT_SUBAGENTS = """
    select children.id, parents.id from sessions as children join sessions as parents on parents.id = children.parent_id
    where children.parent_id is not null and children.relation in ('delegate', 'sidechain')
"""


def find_roots(store: Store) -> dict[str, str]:
    """Return the session that each sub-agent works for, by their ids. One whose parent is not stored is left out."""
    parents: dict[str, str] = dict(store.rows(_SELECT_SUBAGENTS))
    return {session: _find_root(session, parents) for session in parents}


def _find_root(session: str, parents: dict[str, str]) -> str:
    passed = {session}
    root = session
    while (parent := parents.get(root)) is not None:
        if parent in passed:
            return session  # foreign sessions may form a circle
        passed.add(parent)
        root = parent
    return root
