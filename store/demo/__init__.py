"""A rich, believable store to look around in: several agents, several people, weeks of work, all of it made up.

The conversations are data, in the TOML files of this folder. Times are counted back from now; everything else is the
same whenever and wherever it is made.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from store.demo.generated import MADE, tutor
from store.demo.script import Conversation, Player, conversation_of, native_id, session_id, stamp
from store.errors import Refused
from store.model.session import GLOBAL, Session

if TYPE_CHECKING:
    from store.store import Store

THEMES = ("alpha", "quill", "upkeep", "codex", "pingu", "teams", "rooms", "world")


def fill(store: Store) -> None:
    """All of it in one transaction; a store that holds anything is left alone."""
    if store.sessions.newest(1) or store.sessions.trash() or store.facts.current(None, retired=True):
        raise Refused(f"{store.path} is not empty; name a new store for the demo.")
    now = datetime.now(UTC)
    with store.transaction():
        sessions: dict[str, Session] = {}
        for conversation in conversations():
            sessions[conversation.name] = _tell(store, conversation, sessions, now)
        _look_after(store, sessions)


def conversations() -> Iterator[Conversation]:
    """Parents before those that came from them."""
    for theme in THEMES:
        for table in _data(theme)["session"]:
            yield conversation_of(table, MADE)
    yield tutor(_data("verbs"))


def _data(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__name__).joinpath(f"{name}.toml").read_text("utf-8"))


def _tell(store: Store, conversation: Conversation, sessions: dict[str, Session], now: datetime) -> Session:
    began = now - timedelta(days=conversation.days_ago)
    about = conversation.about.copy()
    about["source"] = conversation.source
    about["native_id"] = native_id(conversation.source, conversation.name)
    about["created_at"] = about["updated_at"] = stamp(began)
    parent = sessions.get(conversation.parent)
    if parent:
        about["parent_id"] = parent.id
    if parent and conversation.fork_after:
        about.setdefault("relation", "fork")
        about["forked_at"] = store.chains.turns(parent.key, conversation.fork_after)[0].entries[-1].seq
    session = store.sessions.create(session_id(conversation.source, conversation.name), **about)
    if parent and conversation.fork_after:
        store.chains.inherit(parent.key, session.key, about["forked_at"])
    store.chains.append(session.key, list(Player(conversation, began).play()))
    return session


# ── what a person did with it ─────────────────────────────────────────────────────────────────────


def _look_after(store: Store, sessions: dict[str, Session]) -> None:
    care = _data("shelves")
    for name, tagged in care["tags"].items():
        store.notes.tag([sessions[session] for session in tagged], [name])
    for name, title in care["titles"].items():
        store.sessions.set_title(sessions[name], title)
    for summary in care["summary"]:
        store.summaries.set(
            sessions[summary["session"]],
            summary["text"],
            up_to_turn=summary.get("up_to_turn"),
            origin=summary.get("origin", "person"),
        )
    for note in care["note"]:
        store.notes.note(sessions[note["session"]], note["text"], note.get("entry"))
    for fact in care["fact"]:
        _learn(store, sessions, fact)
    for secret in care["secret"]:
        for value in secret["values"]:
            store.secrets.set(sessions[secret["session"]], secret["key"], value)
    store.sessions.pin([sessions[name] for name in care["pinned"]])
    store.sessions.archive([sessions[name] for name in care["archived"]])
    store.sessions.delete([sessions[name] for name in care["trashed"]])


def _learn(store: Store, sessions: dict[str, Session], fact: dict[str, Any]) -> None:
    learned = store.facts.learn(
        fact["text"],
        session=sessions.get(fact.get("session", "")),
        entry_seq=fact.get("entry"),
        scope=fact.get("scope", GLOBAL),
        category=fact.get("category", ""),
    )
    for known in learned.facts:
        if "edited" in fact:
            store.facts.edit(known.id, fact["edited"])
        if fact.get("retired"):
            store.facts.retire(known.id)
