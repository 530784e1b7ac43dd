"""This module converts values of the store to JSON. Programs rely on the fields: add one, but never rename one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from store.model.entry import Entry, Json, PairedCall, Turn, part_to_json
from store.model.knowledge import Edit, ExposedSecret, Fact, Hit, Note, PublishedFile, SecretInfo, Summary
from store.model.leak import Leak, NotScanned
from store.model.redaction import Redaction, RedactionPlace, RedactionPreview, RedactionReport
from store.model.session import Session, entry_id
from store.model.status import find_status
from store.model.usage import MICRO_DOLLARS
from store.text.validate import encode

if TYPE_CHECKING:
    from store.formats.changed_files import ChangedFile, SessionChanges
    from store.formats.comparison import Comparison
    from store.formats.file_changes import Hunk
    from store.model.statistics import Figures, TableInfo
    from store.model.tool_stats import ToolStats
    from store.store import Store

JsonObject = dict[str, Json]

_SESSION_FIELDS = (
    *("id", "source", "native_id", "parent_id", "relation", "forked_at", "title", "agent_title", "model", "provider"),
    *("cwd", "channel", "channel_id", "user", "environment_name", "environment_type", "environment_path"),
    *("created_at", "updated_at", "turns", "entries", "tool_calls", "errors"),
)
"""Names the fields of a session that JSON has unchanged."""

_TAGS_SQL = "select session, name from tags where session in (select value from json_each(?)) order by name"
_SUMMARIES_SQL = """
    select session, text, up_to_turn from summaries where current = 1 and session in (select value from json_each(?))
"""
_OWNERS_SQL = """
    select team_shares.session, team_machines.name, team_machines.machine from team_shares
    join team_machines on team_machines.machine = substr(team_shares.id, 1, instr(team_shares.id, '/') - 1)
    where ended_at is null and team_shares.session in (select value from json_each(?))
"""
_ENDS_SQL = "select key, seq from entries where key in (select value from json_each(?))"


def sessions_to_json(store: Store, page: Sequence[Session]) -> list[JsonObject]:
    """Convert sessions. The tags, summaries and ends of all of them are read with one query each."""
    keys = encode([session.key for session in page]).decode()
    summaries = {key: (text, up_to) for key, text, up_to in store.rows(_SUMMARIES_SQL, keys)}
    tags: dict[int, list[str]] = {}
    for key, name in store.rows(_TAGS_SQL, keys):
        tags.setdefault(key, []).append(name)
    ends = encode([key for session in page for key in (session.head, session.tail) if key is not None]).decode()
    positions = dict(store.rows(_ENDS_SQL, ends))
    ids = encode([session.id for session in page]).decode()
    owners = {session: (name, machine) for session, name, machine in store.rows(_OWNERS_SQL, ids)}
    costs = store.usage.session_costs([session.key for session in page])
    return [
        _session_to_json(
            session,
            *summaries.get(session.key, (None, None)),
            tags.get(session.key, []),
            positions,
            costs[session.key].own if session.key in costs else None,
            owners.get(session.id, (None, None)),
        )
        for session in page
    ]


def session_to_json(store: Store, session: Session) -> JsonObject:
    return sessions_to_json(store, [session])[0]


def _session_to_json(
    session: Session,
    summary: str | None,
    up_to_turn: int | None,
    tags: list[str],
    positions: dict[int, int],
    usage: Figures | None,
    owner: tuple[str | None, str | None],
) -> JsonObject:
    """Convert a session. `positions` are the positions of the first and last entries, by the keys of the entries."""
    head, tail = (
        entry_id(session.id, positions[key]) if key in positions else None for key in (session.head, session.tail)
    )
    return {
        **select_fields(session, *_SESSION_FIELDS),
        "webhook": session.masked_webhook,
        "head": head,
        "tail": tail,
        "tokens": {
            "input": session.tokens_input,
            "output": session.tokens_output,
            "cached": session.tokens_cached,
            "cache_read": session.tokens_cache_read,
            "cache_write": session.tokens_cache_write,
            "cache_write_5m": usage.tokens.cache_write_5m if usage else 0,
            "cache_write_1h": usage.tokens.cache_write_1h if usage else 0,
            "reasoning": usage.tokens.reasoning if usage else 0,
            "total": session.tokens_total,
        },
        "cost": session.cost,
        "cost_usd": dollars(usage.cost) if usage else None,
        "summary": summary,
        "summary_up_to": up_to_turn,
        "tags": tags,
        "pinned": bool(session.pinned),
        "archived": bool(session.archived),
        "owner": owner[0],
        "machine": owner[1],
        "deleted": bool(session.deleted),
        "gone": bool(session.gone),
        "status": find_status(session, datetime.now(UTC)),
        "failed": session.activity == "failed",
        "expires_at": session.expires_at or None,
    }


def select_fields(value: object, *names: str) -> JsonObject:
    """Return the fields of a value that JSON has unchanged."""
    return {name: getattr(value, name) for name in names}


def dollars(cost: int | None) -> float | None:
    """Convert micro-dollars to dollars with six decimals."""
    return None if cost is None else round(cost / MICRO_DOLLARS, 6)


def figures_to_json(figures: Figures) -> JsonObject:
    return {
        "sessions": figures.sessions,
        "turns": figures.turns,
        "tool_calls": figures.tool_calls,
        "errors": figures.errors,
        "active_seconds": figures.active_seconds,
        "responses": figures.responses,
        "tokens": {**figures.tokens._asdict(), "total": figures.tokens.total},
        "cost_usd": dollars(figures.cost),
        "unpriced_tokens": figures.unpriced_tokens,
        "reported_cost_usd": dollars(figures.reported_cost),
        "estimated": figures.is_estimated,
    }


def prices_to_json(table: TableInfo) -> JsonObject:
    return {"version": table.version, "digest": table.digest, "date": table.date, "name": table.name}


def current_prices_to_json() -> JsonObject:
    """Return the rate table in use. It is loaded here, because a list on the terminal has no costs."""
    from store.usage.prices import load_table

    return prices_to_json(load_table().info)


def turn_to_json(session_id: str, turn: Turn) -> JsonObject:
    return {
        "n": turn.n,
        "prompt": turn.prompt,
        "started_at": turn.started_at,
        "ended_at": turn.ended_at,
        "entries": [entry_to_json(session_id, entry) for entry in turn.entries],
        "tool_calls": [tool_call_to_json(call) for call in turn.tool_calls],
    }


def entry_to_json(session_id: str, entry: Entry) -> JsonObject:
    return {
        "id": entry_id(session_id, entry.seq),
        "seq": entry.seq,
        "kind": entry.kind,
        "role": entry.role,
        "author": entry.author,
        "model": entry.model,
        "at": entry.created_at,
        "text": entry.text,
        "parts": [part_to_json(part) for part in entry.parts],
    }


def tool_call_to_json(call: PairedCall) -> JsonObject:
    return {
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.arguments,
        "result": call.result,
        "status": call.status,
        "duration_ms": call.duration_ms,
        "entry": call.entry,
        "result_entry": call.result_entry,
    }


def call_with_session_to_json(call: PairedCall) -> JsonObject:
    return {"session": call.session_id, "turn": call.turn, "at": call.at, **tool_call_to_json(call)}


def tool_stats_to_json(stats: ToolStats) -> JsonObject:
    return {
        "name": stats.name,
        "calls": stats.calls,
        "failed": stats.failed,
        "share": stats.failure_rate,
        "median_ms": stats.median_ms,
        "slowest_ms": stats.slowest_ms,
        "last_at": stats.last_at,
    }


def hit_to_json(hit: Hit) -> JsonObject:
    return {
        "session": hit.session_id,
        "entry": hit.entry,
        "turn": hit.turn,
        "role": hit.role,
        "field": hit.field,
        "at": hit.at,
        "snippet": hit.snippet,
    }


def comparison_to_json(comparison: Comparison) -> JsonObject:
    """Convert a comparison. The kinds "left" and "right" become "a" and "b", as the command names its arguments."""
    return {
        "a": comparison.left,
        "b": comparison.right,
        "equal": comparison.is_equal,
        "sections": [
            {
                "kind": {"left": "a", "right": "b"}.get(section.kind, section.kind),
                "a": section.left.title if section.left else None,
                "b": section.right.title if section.right else None,
                "count": section.count,
                "hunks": [hunk_to_json(hunk) for hunk in section.compare()],
            }
            for section in comparison.sections
        ],
        "notes": list(comparison.notes),
    }


def hunk_to_json(hunk: Hunk) -> JsonObject:
    lines = [line.sign + line.text for line in hunk.lines]
    return {"old_start": hunk.old_start, "new_start": hunk.new_start, "lines": lines}


def changes_to_json(session_id: str, changes: SessionChanges) -> JsonObject:
    return {
        "session": session_id,
        "files": [changed_file_to_json(file) for file in changes.files],
        "added": changes.added,
        "removed": changes.removed,
        "unknown_line_numbers": changes.unknown_hunks,
        "failed_calls": changes.failed_calls,
        "pending_calls": changes.pending_calls,
        "shell_calls": changes.shell_calls,
    }


def changed_file_to_json(file: ChangedFile) -> JsonObject:
    return {
        "path": file.path,
        "added": file.added,
        "removed": file.removed,
        "changes": [
            {
                "session": change.session_id,
                "turn": change.turn,
                "entry": change.entry,
                "tool": change.tool,
                "at": change.at,
                "kind": change.change.kind,
                "moved_to": change.change.moved_to or None,
                "left_out": change.reason_left_out or None,
                "hunks": [hunk_to_json(hunk) for hunk in change.change.hunks],
            }
            for change in file.changes
        ],
    }


def note_to_json(note: Note) -> JsonObject:
    return {
        "id": note.id,
        "entry": note.entry,
        "text": note.text,
        "at": note.created_at,
        "author": note.author,
        "comment": note.is_comment,
    }


def summary_to_json(summary: Summary) -> JsonObject:
    return {
        "id": summary.key,
        "text": summary.text,
        "up_to_turn": summary.up_to_turn,
        "origin": summary.origin,
        "current": summary.current,
        "at": summary.created_at,
    }


def fact_to_json(fact: Fact) -> JsonObject:
    return {
        "id": fact.id,
        "text": fact.text,
        "scope": fact.scope,
        "category": fact.category,
        "session": fact.session_id,
        "entry": fact.entry,
        "foreign_place": fact.foreign_place,
        "foreign_text": fact.foreign_text,
        "created_at": fact.created_at,
        "updated_at": fact.updated_at,
        "retired_at": fact.retired_at,
    }


def exposed_secret_to_json(secret: ExposedSecret) -> JsonObject:
    return {"session": secret.session_id, "key": secret.key, "locator": secret.locator, "place": secret.place}


def secret_to_json(secret: SecretInfo) -> JsonObject:
    return {"session": secret.session_id, "key": secret.key, "version": secret.version, "created_at": secret.created_at}


def published_to_json(file: PublishedFile) -> JsonObject:
    return {
        "id": file.id,
        "session": file.session_id,
        "filename": file.filename,
        "path": file.path,
        "created_at": file.created_at,
    }


def edit_to_json(edit: Edit) -> JsonObject:
    return {
        "id": edit.id,
        "kind": edit.kind,
        "at": edit.at,
        "sessions": list(edit.session_ids),
        "changes": [
            {"table": change.table, "key": change.key, "before": change.before, "after": change.after}
            for change in edit.changes
        ],
        "undoes": edit.undoes,
        "undone_by": edit.undone_by,
        "purged": edit.blanked,
        "author": edit.author or None,
    }


def leaks_to_json(
    leaks: Sequence[Leak], scanned: Mapping[str, int], not_scanned: Sequence[NotScanned], limits: str
) -> JsonObject:
    return {
        "leaks": [leak_to_json(leak) for leak in leaks],
        "scanned": dict(scanned),
        "not_scanned": [item._asdict() for item in not_scanned],
        "limits": limits or None,
    }


def redaction_preview_to_json(preview: RedactionPreview) -> JsonObject:
    return {
        "values": [value._asdict() for value in preview.values],
        "places": [_redaction_place_to_json(place) for place in preview.places],
        "count": preview.count,
        "backups": list(preview.backups),
        "shared": list(preview.shared),
        "not_scanned": [item._asdict() for item in preview.not_scanned],
    }


def redaction_report_to_json(report: RedactionReport) -> JsonObject:
    return {
        "id": report.id,
        "state": report.state,
        "count": report.count,
        "left": [_redaction_place_to_json(place) for place in report.left],
        "remaining": [leak_to_json(leak) for leak in report.remaining],
        "backups": list(report.backups),
        "shared": list(report.shared),
        "not_scanned": [item._asdict() for item in report.not_scanned],
    }


def redaction_to_json(redaction: Redaction) -> JsonObject:
    return {
        "id": redaction.id,
        "at": redaction.at,
        "state": redaction.state,
        "values": [value._asdict() for value in redaction.values],
        "count": redaction.count,
        "left": [_redaction_place_to_json(place) for place in redaction.left],
        "edit": redaction.edit,
        "forgotten": redaction.is_forgotten,
    }


def _redaction_place_to_json(place: RedactionPlace) -> JsonObject:
    return {
        "kind": place.kind,
        "session": place.session_id,
        "entry": place.entry,
        "field": place.field,
        "path": place.path,
        "count": place.times,
        "problem": place.problem or None,
    }


def leak_to_json(leak: Leak) -> JsonObject:
    return {
        "fingerprint": leak.fingerprint,
        "rule": leak.rule,
        "tier": leak.tier,
        "masked": leak.masked,
        "places": [
            {
                "session": place.session_id,
                "entry": place.entry,
                "field": place.field,
                "path": place.path,
                "line": place.line,
            }
            for place in leak.places
        ],
        "first_at": leak.first_at,
        "last_at": leak.last_at,
        "ignored": leak.ignored,
        "rotated": leak.rotated,
    }
