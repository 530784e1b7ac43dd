"""This module finds out from which agent an exported session came. Its id tells that."""

from __future__ import annotations

from store.model.session import EXPORTED_SOURCE, LIBRARY_SOURCE, Session
from store.sources import load_source


def find_origin(session: Session) -> Session:
    """Return a session with the source and the native id that it had before it was exported."""
    if session.source != EXPORTED_SOURCE:
        return session
    name, _, native_id = session.native_id.partition(":")
    source = load_source(name)
    if source is None or name == EXPORTED_SOURCE:
        return session._replace(source=LIBRARY_SOURCE)
    if source.has_local_ids:
        native_id = native_id.rpartition("@")[0] or native_id
    return session._replace(source=name, native_id=native_id)
