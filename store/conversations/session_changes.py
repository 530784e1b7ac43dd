"""This module reads which files a session and its sub-agents changed, from their tool calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from store.conversations.tool_calls import get_call, iter_session_calls
from store.errors import StoreError
from store.formats.changed_files import CallChange, SessionChanges, collect_files, resolve_path
from store.formats.file_changes import FileChange, find_changes, find_command, locate_hunks
from store.model.entry import Json, PairedCall
from store.model.session import Session
from store.text.validate import decode

if TYPE_CHECKING:
    from store.store import Store

MAX_RECORD_BYTES = 4_000_000
"""Limits the record in which a diff is looked for."""

SUB_AGENT_RELATIONS = ("delegate", "sidechain")

_RESULT_RECORDS = """
    select tool_calls.key, entries.record
    from tool_calls join entries on entries.key = tool_calls.result_entry
    where tool_calls.session = ? and entries.record is not null
"""
_CALL_ID_FIELDS = ("id", "callId", "callID", "call_id", "tool_use_id", "toolCallId")
_REPLACE_ALL_FIELDS = ("replace_all", "replaceAll")
_MAX_DEPTH = 8


class ResultRecords:
    """Reads what an agent recorded with the result of a call. Some agents put a diff with line numbers there."""

    def __init__(self, store: Store, session: int) -> None:
        self._store = store
        self._records: dict[int, int] = dict(store.rows(_RESULT_RECORDS, session))
        self._uses = Counter(self._records.values())

    def read(self, call: PairedCall) -> Json:
        """Return the record if it belongs to this call only, else the part of it that names the call."""
        key = self._records.get(call.key)
        if key is None:
            return None
        with suppress(StoreError):
            data = self._store.records.get(key)
            record = decode(data) if len(data) <= MAX_RECORD_BYTES else None
            return record if self._uses[key] == 1 else _find_part_of_call(record, call.call_id)
        return None


def _find_part_of_call(record: Json, call_id: str, depth: int = _MAX_DEPTH) -> Json:
    if isinstance(record, Mapping) and any(record.get(name) == call_id for name in _CALL_ID_FIELDS):
        return record
    values = record.values() if isinstance(record, Mapping) else record if isinstance(record, list) else ()
    parts = (_find_part_of_call(value, call_id, depth - 1) for value in values if depth)
    return next((part for part in parts if part is not None), None)


def read_session_changes(store: Store, session: Session) -> SessionChanges:
    """Read the changes of a session and its sub-agents, in the order of their time."""
    counts: Counter[str] = Counter()
    with store.snapshot():
        changes = [
            change
            for member in _iter_with_sub_agents(store, session)
            for change in _iter_changes(store, member, session, counts)
        ]
    if all(change.at for change in changes):
        changes.sort(key=lambda change: change.at)
    return SessionChanges(collect_files(changes), counts["error"], counts["pending"], counts["shell"])


def _iter_with_sub_agents(store: Store, session: Session) -> Iterator[Session]:
    waiting, seen = [session], {session.id}
    while waiting:
        yield (member := waiting.pop(0))
        for child in store.sessions.children(member.id):
            if child.relation in SUB_AGENT_RELATIONS and not child.deleted and child.id not in seen:
                seen.add(child.id)
                waiting.append(child)


def _iter_changes(store: Store, member: Session, root: Session, counts: Counter[str]) -> Iterator[CallChange]:
    records = ResultRecords(store, member.key)
    title = "" if member.key == root.key else member.title or member.id
    for call in iter_session_calls(store, member.key):
        changes = find_changes(call.name, call.arguments)
        if not changes:
            counts["shell"] += find_command(call.name, call.arguments) is not None
        elif call.status != "ok":
            counts[call.status] += 1
        else:
            for change in _locate(store, call, changes, records):
                yield CallChange(
                    _resolve(change, member.cwd, root.cwd),
                    member.id,
                    title,
                    call.turn,
                    call.entry,
                    call.name,
                    call.at,
                    _replaces_all(call.arguments),
                )


def _locate(
    store: Store, call: PairedCall, changes: tuple[FileChange, ...], records: ResultRecords
) -> tuple[FileChange, ...]:
    """Return the changes with line numbers, if the record or the result tells them."""
    if all(hunk.old_start is not None for change in changes for hunk in change.hunks) and not _is_write(changes):
        return changes
    changes = find_changes(call.name, call.arguments, records.read(call))
    if all(hunk.old_start is not None for change in changes for hunk in change.hunks):
        return changes
    return locate_hunks(changes, get_call(store, call.key).result)


def _replaces_all(arguments: Json) -> bool:
    return isinstance(arguments, Mapping) and any(arguments.get(name) is True for name in _REPLACE_ALL_FIELDS)


def _is_write(changes: tuple[FileChange, ...]) -> bool:
    """Return whether a whole file was written. Only the record tells what it replaced."""
    return any(change.kind == "write" for change in changes)


def _resolve(change: FileChange, cwd: str, root: str) -> FileChange:
    moved_to = resolve_path(change.moved_to, cwd, root)
    return replace(change, path=resolve_path(change.path, cwd, root), moved_to=moved_to)
