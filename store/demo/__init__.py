"""This package fills a store with invented conversations of several agents and people, to look around in.

The conversations are data in the TOML files of this folder. Their times are relative to now. Everything else is the
same each time.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from store.demo.generated import GENERATED_OUTPUTS, build_tutor_conversation
from store.demo.past_year import build_past_year
from store.demo.script import (
    ScriptedConversation,
    ScriptPlayer,
    format_time,
    make_native_id,
    make_session_id,
    parse_conversation,
)
from store.errors import Refused
from store.model.session import GLOBAL_SCOPE, Session

if TYPE_CHECKING:
    from store.store import Store

THEMES = ("alpha", "quill", "upkeep", "codex", "pingu", "teams", "rooms", "world")


def fill_store(store: Store) -> None:
    """Fill an empty store in one transaction. Raise Refused if it is not empty."""
    if store.sessions.newest(1) or store.sessions.trash() or store.facts.current(None, retired=True):
        raise Refused(f"{store.path} is not empty; give the path of a new store for the demo.")
    now = datetime.now(UTC)
    with store.transaction():
        sessions: dict[str, Session] = {}
        for conversation in load_conversations():
            sessions[conversation.name] = _create_session(store, conversation, sessions, now)
        _apply_edits(store, sessions)


def load_conversations() -> Iterator[ScriptedConversation]:
    """Yield the conversations, parents before their forks and sub-agents."""
    for theme in THEMES:
        for table in _load_toml(theme)["session"]:
            yield parse_conversation(table, GENERATED_OUTPUTS)
    yield build_tutor_conversation(_load_toml("verbs"))
    yield from build_past_year()


def _load_toml(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__name__).joinpath(f"{name}.toml").read_text("utf-8"))


def _create_session(
    store: Store, conversation: ScriptedConversation, sessions: dict[str, Session], now: datetime
) -> Session:
    started_at = now - timedelta(days=conversation.days_ago)
    fields = conversation.session_fields.copy()
    fields["source"] = conversation.source
    fields["native_id"] = make_native_id(conversation.source, conversation.name)
    fields["created_at"] = fields["updated_at"] = format_time(started_at)
    parent = sessions.get(conversation.parent)
    if parent:
        fields["parent_id"] = parent.id
    if parent and conversation.fork_after:
        fields.setdefault("relation", "fork")
        fields["forked_at"] = store.chains.turns(parent.key, conversation.fork_after)[0].entries[-1].seq
    session = store.sessions.create(make_session_id(conversation.source, conversation.name), **fields)
    if parent and conversation.fork_after:
        store.chains.copy_to_fork(parent.key, session.key, fields["forked_at"])
    store.chains.append(session.key, list(ScriptPlayer(conversation, started_at).build_entries()))
    return session


# ── edits by a person ─────────────────────────────────────────────────────────────────────────────


def _apply_edits(store: Store, sessions: dict[str, Session]) -> None:
    edits = _load_toml("edits")
    for name, tagged in edits["tags"].items():
        store.notes.tag([sessions[session] for session in tagged], [name])
    for name, title in edits["titles"].items():
        store.sessions.set_title(sessions[name], title)
    for summary in edits["summary"]:
        store.summaries.set(
            sessions[summary["session"]],
            summary["text"],
            up_to_turn=summary.get("up_to_turn"),
            origin=summary.get("origin", "person"),
        )
    for note in edits["note"]:
        store.notes.add_note(sessions[note["session"]], note["text"], note.get("entry"))
    for fact in edits["fact"]:
        _learn_fact(store, sessions, fact)
    for secret in edits["secret"]:
        for value in secret["values"]:
            store.secrets.set(sessions[secret["session"]], secret["key"], value)
    store.sessions.pin([sessions[name] for name in edits["pinned"]])
    store.sessions.archive([sessions[name] for name in edits["archived"]])
    store.sessions.delete([sessions[name] for name in edits["trashed"]])


def _learn_fact(store: Store, sessions: dict[str, Session], fact: dict[str, Any]) -> None:
    learned = store.facts.learn(
        fact["text"],
        session=sessions.get(fact.get("session", "")),
        entry_seq=fact.get("entry"),
        scope=fact.get("scope", GLOBAL_SCOPE),
        category=fact.get("category", ""),
    )
    for new_fact in learned.facts:
        if "edited" in fact:
            store.facts.edit(new_fact.id, fact["edited"])
        if fact.get("retired"):
            store.facts.retire(new_fact.id)
