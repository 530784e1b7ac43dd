"""This module converts what is shown of a team to JSON."""

from __future__ import annotations

from store.cli.json_output import JsonObject
from store.model.team import Share, TeamHit, TeamMachine, TeamStatus, TeamSync, ValueConflict


def status_to_json(status: TeamStatus) -> JsonObject:
    return {
        "locator": status.locator,
        "name": status.name,
        "machine": status.machine,
        "joined_at": status.joined_at,
        "shared": status.shared,
        "received": status.received,
        "waiting": status.waiting,
        "conflicts": status.conflicts,
        "shared_role": status.shares_role,
        "plain": status.is_plain,
        "held": [{"session": share.session_id, "reason": share.held} for share in status.held],
        "refused": list(status.refused),
        "members": [machine_to_json(machine) for machine in status.machines],
    }


def machine_to_json(machine: TeamMachine) -> JsonObject:
    return {
        "name": machine.name,
        "machine": machine.machine,
        "own": machine.is_own,
        "trusted_at": machine.trusted_at,
        "left": machine.has_left,
        "unread": machine.waiting,
    }


def share_to_json(share: Share) -> JsonObject:
    return {
        "session": share.session_id,
        "owner": share.owner,
        "machine": share.machine,
        "own": share.is_own,
        "with": list(share.audience) if share.is_own else None,
        "held": share.held or None,
    }


def sync_to_json(result: TeamSync) -> JsonObject:
    return {
        "pushed": result.pushed,
        "pulled": result.pulled,
        "new": list(result.new_sessions),
        "removed": list(result.ended_sessions),
        "refused": list(result.refused),
        "conflicts": result.conflicts,
    }


def team_hit_to_json(hit: TeamHit) -> JsonObject:
    return {
        "session": hit.session_id,
        "title": hit.title,
        "owner": hit.owner,
        "machine": hit.machine,
        "role": hit.role,
        "at": hit.at,
        "snippet": hit.snippet,
        "highlights": [list(span) for span in hit.highlights],
    }


def conflict_to_json(conflict: ValueConflict) -> JsonObject:
    return {
        "id": conflict.key,
        "name": conflict.name,
        "session": conflict.session_id,
        "kept": conflict.kept,
        "lost": conflict.lost,
        "author": conflict.author,
    }
