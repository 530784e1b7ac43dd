"""What the store holds, as the JSON that other programs rely on: fields may be added, never renamed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from store.model.entry import Entry, Json, PairedCall, Turn, part_to_json
from store.model.knowledge import Edit, ExposedSecret, Fact, Hit, Note, PublishedFile, SecretInfo, Summary
from store.model.session import Session, entry_id
from store.text.validate import encode

if TYPE_CHECKING:
    from store.model.tool_stats import ToolStats
    from store.store import Store

JsonObject = dict[str, Json]

_TAGS_SQL = "select session, name from tags where session in (select value from json_each(?)) order by name"
_SUMMARIES_SQL = """
    select session, text from summaries where current = 1 and session in (select value from json_each(?))
"""


def sessions_to_json(store: Store, page: Sequence[Session]) -> list[JsonObject]:
    """Tags and summaries of the whole page are read at once."""
    keys = encode([session.key for session in page]).decode()
    summaries = dict(store.rows(_SUMMARIES_SQL, keys))
    tags: dict[int, list[str]] = {}
    for key, name in store.rows(_TAGS_SQL, keys):
        tags.setdefault(key, []).append(name)
    return [_session_to_json(one, summaries.get(one.key), tags.get(one.key, [])) for one in page]


def session_to_json(store: Store, one: Session) -> JsonObject:
    return sessions_to_json(store, [one])[0]


def _session_to_json(one: Session, summary: str | None, tags: list[str]) -> JsonObject:
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


def turn_to_json(session_id: str, one: Turn) -> JsonObject:
    return {
        "n": one.n,
        "prompt": one.prompt,
        "started_at": one.started_at,
        "ended_at": one.ended_at,
        "entries": [entry_to_json(session_id, link) for link in one.entries],
        "tool_calls": [tool_call_to_json(call) for call in one.tool_calls],
    }


def entry_to_json(session_id: str, one: Entry) -> JsonObject:
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


def tool_call_to_json(one: PairedCall) -> JsonObject:
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


def call_with_session_to_json(one: PairedCall) -> JsonObject:
    return {"session": one.session_id, "turn": one.turn, "at": one.at, **tool_call_to_json(one)}


def tool_stats_to_json(one: ToolStats) -> JsonObject:
    return {
        "name": one.name,
        "calls": one.calls,
        "failed": one.failed,
        "share": one.failure_rate,
        "median_ms": one.median_ms,
        "slowest_ms": one.slowest_ms,
        "last_at": one.last_at,
    }


def hit_to_json(one: Hit) -> JsonObject:
    return {
        "session": one.session_id,
        "entry": one.entry,
        "turn": one.turn,
        "role": one.role,
        "field": one.field,
        "at": one.at,
        "snippet": one.snippet,
    }


def note_to_json(one: Note) -> JsonObject:
    return {"id": one.id, "entry": one.entry, "text": one.text, "at": one.created_at}


def summary_to_json(one: Summary) -> JsonObject:
    return {
        "id": one.key,
        "text": one.text,
        "up_to_turn": one.up_to_turn,
        "origin": one.origin,
        "current": one.current,
        "at": one.created_at,
    }


def fact_to_json(one: Fact) -> JsonObject:
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


def exposed_secret_to_json(one: ExposedSecret) -> JsonObject:
    return {"session": one.session_id, "key": one.key, "locator": one.locator, "place": one.place}


def secret_to_json(one: SecretInfo) -> JsonObject:
    return {"session": one.session_id, "key": one.key, "version": one.version, "created_at": one.created_at}


def published_to_json(one: PublishedFile) -> JsonObject:
    return {
        "id": one.id,
        "session": one.session_id,
        "filename": one.filename,
        "path": one.path,
        "created_at": one.created_at,
    }


def edit_to_json(one: Edit) -> JsonObject:
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
