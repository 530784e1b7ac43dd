"""This module gives sessions their public ids.

A session that was exported to a file keeps the id that it had, wherever the file is read: it is the same session. If
its agent's store is here as well, the agent's own session has the id, and the one from the file has another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from store.model.identity import foreign_session_id
from store.model.session import EXPORTED_SOURCE
from store.text.validate import encode

if TYPE_CHECKING:
    from store.sources.contract import Source
    from store.store import Store

_SELECT_SOURCE = "select source from sessions where id = ?"
_SELECT_COPIES = "select id from sessions where id in (select value from json_each(?)) and source = ?"
_RENAME = "update sessions set id = ?1 || ':' || id where id = ?2"
_RENAME_PARENT = "update sessions set parent_id = ?1 || ':' || parent_id where parent_id = ?2 and source = ?1"


def choose_public_id(store: Store, source: Source, native_id: str, store_identity: str) -> str:
    """Return the public id of a foreign session."""
    own_id = foreign_session_id(source.name, native_id, store_identity if source.has_local_ids else "")
    kept_id = source.find_kept_id(native_id)
    if not kept_id or store.row(_SELECT_SOURCE, own_id):
        return own_id
    taken = store.row(_SELECT_SOURCE, kept_id)
    return kept_id if taken is None or taken[0] == source.name else own_id


def free_ids(store: Store, source: Source, ids: Sequence[str]) -> None:
    """Give other ids to the sessions from exported files that have ids of an agent's own sessions.

    This must be in the transaction that adds the agent's sessions.
    """
    if source.name == EXPORTED_SOURCE:
        return
    for (session_id,) in store.rows(_SELECT_COPIES, encode(list(ids)).decode(), EXPORTED_SOURCE):
        store.connection.execute(_RENAME, (EXPORTED_SOURCE, session_id))
        store.connection.execute(_RENAME_PARENT, (EXPORTED_SOURCE, session_id))
