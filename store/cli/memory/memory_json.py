"""This module converts what is known about memory files to JSON. Its names never change."""

from __future__ import annotations

from pathlib import Path

from store.cli.json_output import JsonObject, select_fields
from store.memory.merging import list_options
from store.model.memory import (
    AgentBudget,
    FileBlame,
    FilePush,
    KeyConflict,
    LineOrigin,
    LinePlace,
    ListedFile,
    LoadedFile,
    MemoryBudget,
    MergePlan,
    PullPlan,
    PushPlan,
)


def listed_file_to_json(listed: ListedFile) -> JsonObject:
    file = listed.file
    return {
        "path": file.path,
        "scope": listed.scope,
        "folder": listed.folder or None,
        "agents": list(listed.agents),
        "uses": [use._asdict() | {"folder": use.folder or None} for use in listed.uses],
        "problem": file.problem or None,
        "modified_at": file.modified_at or None,
        "digest": file.digest or None,
        "lines": [
            {"id": line.id, "line": line.number, "text": line.text, "kind": line.kind, "heading": line.heading}
            for line in file.lines
        ],
    }


def budget_to_json(budget: MemoryBudget) -> JsonObject:
    return {
        "folder": budget.folder,
        "agents": [_agent_to_json(agent) for agent in budget.agents],
        "duplicates": [
            {"text": found.text, "agents": list(found.agents), "places": _places_to_json(found.places)}
            for found in budget.duplicates
        ],
        "conflicts": [
            {"key": found.key, "agents": list(found.agents), "places": _places_to_json(found.places)}
            for found in budget.conflicts
        ],
        "problems": list(budget.problems),
    }


def _agent_to_json(agent: AgentBudget) -> JsonObject:
    files = [_loaded_file_to_json(file) for file in agent.files]
    return select_fields(agent, "agent", "tokens", "cut_bytes") | {"files": files}


def _loaded_file_to_json(file: LoadedFile) -> JsonObject:
    return select_fields(file, "path", "tier", "when", "bytes", "tokens", "cut_bytes") | {
        "reason": file.reason or None,
        "imported_by": file.imported_by or None,
    }


def _places_to_json(places: tuple[LinePlace, ...]) -> list[JsonObject]:
    return [{"path": place.path, "line": place.number, "text": place.text} for place in places]


def blame_to_json(blame: FileBlame) -> JsonObject:
    return {
        "path": blame.file.path,
        "lines": [
            {
                "id": found.line.id,
                "line": found.line.number,
                "text": found.line.text,
                "origin": _origin_to_json(found.origin),
                "earlier": [
                    {"text": earlier.text, "origin": _origin_to_json(earlier.origin)} for earlier in found.earlier
                ],
            }
            for found in blame.lines
        ],
        "loaded_by": {
            "total": blame.loading_count,
            "sessions": [
                {
                    "session": session.session_id,
                    "agent": session.agent,
                    "title": session.title,
                    "at": session.at,
                    "recorded": session.is_recorded,
                }
                for session in blame.loading
            ],
        },
        "unread_sessions": blame.unread_sessions,
    }


def _origin_to_json(origin: LineOrigin) -> JsonObject:
    match origin.kind:
        case "session":
            return select_fields(origin, "kind", "at", "agent", "title", "turn", "entry", "tool") | {
                "session": origin.session_id
            }
        case "commit":
            return select_fields(origin, "kind", "at", "commit", "author", "summary")
        case "fact":
            return {"kind": "fact", "at": None, "fact": origin.fact}
    return {"kind": "hand", "at": None}


def push_to_json(plan: PushPlan, backup: Path | None, dry_run: bool) -> JsonObject:
    return {
        "dry_run": dry_run,
        "files": [_planned_file_to_json(file) for file in plan.files],
        "backup": str(backup) if backup else None,
    }


def _planned_file_to_json(file: FilePush) -> JsonObject:
    return {
        "path": file.path,
        "changed": file.is_changed,
        "facts": [fact for fact, _ in file.lines],
        "diff": file.diff,
        "problem": file.problem or None,
        "notes": list(file.notes),
    }


def merge_to_json(conflict: KeyConflict, plan: MergePlan | None, backup: Path | None, dry_run: bool) -> JsonObject:
    return {
        "key": conflict.key,
        "options": [
            {"text": option.text, "places": _places_to_json(option.places)} for option in list_options(conflict)
        ],
        "text": plan.text if plan else None,
        **push_to_json(plan or PushPlan(()), backup, dry_run),
    }


def pull_to_json(plan: PullPlan, dry_run: bool) -> JsonObject:
    return {
        "dry_run": dry_run,
        "edits": [
            select_fields(edit, "path", "kind", "fact", "base", "there", "here") | {"conflict": edit.is_conflict}
            for edit in plan.edits
        ],
        "problems": list(plan.problems),
    }
