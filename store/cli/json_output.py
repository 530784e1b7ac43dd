"""What the store holds, as the JSON that other programs rely on: fields may be added, never renamed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from store.model.entry import Entry, Json, PairedCall, Turn, part_to_json
from store.model.knowledge import Edit, ExposedSecret, Fact, Hit, Note, Published, SecretName, Summary
from store.model.session import Session, entry_id
from store.text.validate import encode

if TYPE_CHECKING:
    from store.model.tool_stats import Tally
    from store.store import Store

Shape = dict[str, Json]

_TAGS = "select session, name from tags where session in (select value from json_each(?)) order by name"
_SUMMARIES = """
    select session, text from summaries where current = 1 and session in (select value from json_each(?))
"""


def sessions(store: Store, page: Sequence[Session]) -> list[Shape]:
    """Tags and summaries of the whole page are read at once."""
    keys = encode([session.key for session in page]).decode()
    summaries = dict(store.rows(_SUMMARIES, keys))
    tags: dict[int, list[str]] = {}
    for key, name in store.rows(_TAGS, keys):
        tags.setdefault(key, []).append(name)
    return [_session(one, summaries.get(one.key), tags.get(one.key, [])) for one in page]


def session(store: Store, one: Session) -> Shape:
    return sessions(store, [one])[0]


def _session(one: Session, summary: str | None, tags: list[str]) -> Shape:
    return {
        "id": one.id,
        "source": one.source,
        "native_id": one.native_id,
        "parent_id": one.parent_id,
        "relation": one.relation,
        "forked_at": one.forked_at,
        "title": one.title,
        "agent_title": one.agent_title,
        "model": one.model,
        "provider": one.provider,
        "cwd": one.cwd,
        "channel": one.channel,
        "user": one.user,
        "created_at": one.created_at,
        "updated_at": one.updated_at,
        "turns": one.turns,
        "entries": one.entries,
        "tool_calls": one.tool_calls,
        "errors": one.errors,
        "tokens": {
            "input": one.tokens_input,
            "output": one.tokens_output,
            "cached": one.tokens_cached,
            "total": one.tokens_total,
        },
        "cost": one.cost,
        "summary": summary,
        "tags": tags,
        "pinned": bool(one.pinned),
        "archived": bool(one.archived),
        "deleted": bool(one.deleted),
        "gone": bool(one.gone),
        "expires_at": one.expires_at or None,
    }


def turn(session_id: str, one: Turn) -> Shape:
    return {
        "n": one.n,
        "prompt": one.prompt,
        "started_at": one.started_at,
        "ended_at": one.ended_at,
        "entries": [entry(session_id, link) for link in one.entries],
        "tool_calls": [tool_call(call) for call in one.tool_calls],
    }


def entry(session_id: str, one: Entry) -> Shape:
    return {
        "id": entry_id(session_id, one.seq),
        "seq": one.seq,
        "kind": one.kind,
        "role": one.role,
        "author": one.author,
        "model": one.model,
        "at": one.created_at,
        "text": one.text,
        "parts": [part_to_json(part) for part in one.parts],
    }


def tool_call(one: PairedCall) -> Shape:
    return {
        "call_id": one.call_id,
        "name": one.name,
        "arguments": one.arguments,
        "result": one.result,
        "status": one.status,
        "duration_ms": one.duration_ms,
        "entry": one.entry,
        "result_entry": one.result_entry,
    }


def call_of_any_session(one: PairedCall) -> Shape:
    return {"session": one.session_id, "turn": one.turn, "at": one.at, **tool_call(one)}


def tally(one: Tally) -> Shape:
    return {
        "name": one.name,
        "calls": one.calls,
        "failed": one.failed,
        "share": one.share,
        "median_ms": one.median_ms,
        "slowest_ms": one.slowest_ms,
        "last_at": one.last_at,
    }


def hit(one: Hit) -> Shape:
    return {
        "session": one.session_id,
        "entry": one.entry,
        "turn": one.turn,
        "role": one.role,
        "field": one.field,
        "at": one.at,
        "snippet": one.snippet,
    }


def note(one: Note) -> Shape:
    return {"id": one.id, "entry": one.entry, "text": one.text, "at": one.created_at}


def summary(one: Summary) -> Shape:
    return {
        "id": one.key,
        "text": one.text,
        "up_to_turn": one.up_to_turn,
        "origin": one.origin,
        "current": one.current,
        "at": one.created_at,
    }


def fact(one: Fact) -> Shape:
    return {
        "id": one.id,
        "text": one.text,
        "scope": one.scope,
        "category": one.category,
        "session": one.session_id,
        "entry": one.entry,
        "foreign_place": one.foreign_place,
        "foreign_text": one.foreign_text,
        "created_at": one.created_at,
        "updated_at": one.updated_at,
        "retired_at": one.retired_at,
    }


def exposed_secret(one: ExposedSecret) -> Shape:
    return {"session": one.session_id, "key": one.key, "locator": one.locator, "place": one.place}


def secret(one: SecretName) -> Shape:
    return {"session": one.session_id, "key": one.key, "version": one.version, "created_at": one.created_at}


def published(one: Published) -> Shape:
    return {
        "id": one.id,
        "session": one.session_id,
        "filename": one.filename,
        "path": one.path,
        "created_at": one.created_at,
    }


def edit(one: Edit) -> Shape:
    return {
        "id": one.id,
        "kind": one.kind,
        "at": one.at,
        "sessions": list(one.session_ids),
        "changes": [
            {"table": change.table, "key": change.key, "before": change.before, "after": change.after}
            for change in one.changes
        ],
        "undoes": one.undoes,
        "undone_by": one.undone_by,
        "purged": one.blanked,
    }
