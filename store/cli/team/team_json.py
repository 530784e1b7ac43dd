"""This module converts what is shown of a team to JSON."""

from __future__ import annotations

from store.cli.json_output import JsonObject, dollars, select_fields
from store.model.team import (
    MemberMetrics,
    MetricsRow,
    Share,
    TeamHit,
    TeamMachine,
    TeamRequest,
    TeamStatus,
    TeamSync,
    ValueConflict,
)


def status_to_json(status: TeamStatus) -> JsonObject:
    return select_fields(
        status, "locator", "name", "machine", "joined_at", "shared", "received", "waiting", "conflicts", "requests"
    ) | {
        "shared_role": status.shares_role,
        "plain": status.is_plain,
        "held": [{"session": share.session_id, "reason": share.held} for share in status.held],
        "refused": list(status.refused),
        "members": [machine_to_json(machine) for machine in status.machines],
    }


def machine_to_json(machine: TeamMachine) -> JsonObject:
    return select_fields(machine, "name", "machine", "trusted_at") | {
        "own": machine.is_own,
        "left": machine.has_left,
        "unread": machine.waiting,
    }


def share_to_json(share: Share) -> JsonObject:
    return select_fields(share, "owner", "machine") | {
        "session": share.session_id,
        "own": share.is_own,
        "with": list(share.audience) if share.is_own else None,
        "held": share.held or None,
    }


def sync_to_json(result: TeamSync) -> JsonObject:
    return select_fields(result, "pushed", "pulled", "conflicts") | {
        "new": list(result.new_sessions),
        "removed": list(result.ended_sessions),
        "refused": list(result.refused),
    }


def team_hit_to_json(hit: TeamHit) -> JsonObject:
    return select_fields(hit, "title", "owner", "machine", "role", "at", "snippet") | {
        "session": hit.session_id,
        "highlights": [list(span) for span in hit.highlights],
    }


def conflict_to_json(conflict: ValueConflict) -> JsonObject:
    return select_fields(conflict, "name", "kept", "lost", "kept_author", "author") | {
        "id": conflict.key,
        "session": conflict.session_id,
        "fact": conflict.fact_id,
    }


def request_to_json(request: TeamRequest) -> JsonObject:
    fields = select_fields(request, "number", "asker", "to", "session", "turn", "reason", "state")
    return fields | {"own": request.is_own}


def metrics_to_json(metrics: MemberMetrics) -> JsonObject:
    return select_fields(metrics, "member", "machine", "day") | {
        "total": _figures_to_json(metrics.total),
        "folders": [{"folder": row.name} | _figures_to_json(row) for row in metrics.folders],
        "tools": [{"tool": row.name} | _figures_to_json(row) for row in metrics.tools],
    }


def _figures_to_json(row: MetricsRow) -> JsonObject:
    counts = select_fields(row, "sessions", "turns", "tool_calls", "errors", "tokens")
    return counts | {"cost_usd": dollars(row.cost)}
