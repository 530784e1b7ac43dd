"""This module reads the card of a session, with what other tables hold about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.errors import NotFound
from store.model.session import Session, entry_id
from store.model.session_card import RelatedSession, SessionCard

if TYPE_CHECKING:
    from store.store import Store

_SELECT_SEQ = "select seq from entries where key = ?"
_SELECT_HEADER_TEXT = "select text from entries where session = ? and seq = -1 and kind = 'header'"
_SELECT_FILE = """
    select coalesce(places.name, records.place) as file
    from entries join records on records.key = entries.record left join places on places.key = records.place_key
    where entries.session = ?1 and records.session = ?1 and file like '/%' order by entries.seq desc limit 1
"""
_SELECT_LOCATOR = "select locator from sources where key = ?"


def read_session_card(store: Store, key: int) -> SessionCard:
    """Read the card as it is now. Raise NotFound if the session was purged."""
    with store.snapshot():
        session = store.sessions.by_key(key)
        names = {secret.key for secret in store.secrets.names(session)}
        names |= {secret.key for secret in store.secrets.exposed(session)}
        return SessionCard(
            session=session,
            head=_read_entry_id(store, session, session.head),
            tail=_read_entry_id(store, session, session.tail),
            system_prompt=session.system_prompt or _read_text(store, _SELECT_HEADER_TEXT, key),
            source_place=_read_text(store, _SELECT_FILE, key) or _read_text(store, _SELECT_LOCATOR, session.source_key),
            parent=_read_parent(store, session),
            children=tuple(
                RelatedSession(child.id, child.relation or "", child.title)
                for child in store.sessions.children(session.id)
                if not child.deleted
            ),
            summary=store.summaries.current(session),
            published_files=tuple(store.published.list_published(session)),
            secret_names=tuple(sorted(names)),
            tags=tuple(store.notes.tags(session)),
            notes=tuple(store.notes.notes(session)),
            owner=store.team.find_owner(session.id),
            shared_with=store.team.find_audience(session.id),
        )


def _read_entry_id(store: Store, session: Session, entry: int | None) -> str:
    row = store.row(_SELECT_SEQ, entry)
    return entry_id(session.id, row[0]) if row else ""


def _read_text(store: Store, sql: str, key: int | None) -> str:
    row = store.row(sql, key)
    return row[0] if row else ""


def _read_parent(store: Store, session: Session) -> RelatedSession | None:
    if not session.parent_id:
        return None
    try:
        title = store.sessions.get(session.parent_id).title
    except NotFound:
        title = ""
    return RelatedSession(session.parent_id, session.relation or "", title)
