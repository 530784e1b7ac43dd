"""This module checks a session before it is resumed: git branch, other processes, the agent's store, unwritten edits.

Nothing is changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from store import sources
from store.errors import StoreError
from store.model.session import Session
from store.resume.check_results import ProcessInfo, ResumeChecks, SourceState
from store.resume.command import ResumePlan
from store.resume.git import read_branch
from store.sources.contract import SessionRef, Source, SourceReader
from store.sources.kit.locator import is_url
from store.sources.kit.sqlite import SQLITE_ERRORS
from store.text.validate import decode
from store.write_back.processes import find_processes_running, find_processes_using, has_proc, read_process_name

if TYPE_CHECKING:
    from store.store import Store

RECORDS_SEARCHED = 50
"""How many of the last records are searched for a branch. Agents name it in every record, or only in the first."""

_SELECT_RECORDS = """
    select records.key, coalesce(places.name, records.place)
    from entries join records on records.key = entries.record left join places on places.key = records.place_key
    where entries.session = ?1 and records.session = ?1 and (entries.seq >= ?2 or entries.seq <= 0)
    order by entries.seq desc
"""


def check_resume(store: Store, plan: ResumePlan, *, is_shown: bool = True) -> ResumeChecks:
    """Run all checks. This may take long, so call it from a background thread.

    With `is_shown`, a person is looking at the conversation, so also check whether its agent has newer entries.
    """
    session = plan.session
    with suppress(StoreError):
        session = store.sessions.by_key(session.key)
    source = sources.load_source(session.source)
    records = store.rows(_SELECT_RECORDS, session.key, session.entries - RECORDS_SEARCHED)
    users, database_users = _find_processes(store, source, plan, [place for _, place in records])
    state = check_source_state(store, session) if is_shown else "unknown"
    return ResumeChecks(
        recorded_branch=_find_recorded_branch(store, source, [key for key, _ in records]),
        current_branch=read_branch(plan.folder) if plan.folder else None,
        session_processes=users,
        database_processes=database_users,
        can_see_processes=has_proc(),
        has_new_entries=state == "changed"
        or (session.updated_at, session.entries) != (plan.session.updated_at, plan.session.entries),
        gone=state == "gone" or bool(session.gone),
        unwritten_edits=store.write_back.list_unwritten(session),
        can_write_back=source is not None and source.can_write_back,
    )


# ── git ───────────────────────────────────────────────────────────────────────────────────────────


def _find_recorded_branch(store: Store, source: Source | None, records: Sequence[int]) -> str:
    """Return the branch in the newest record that names one, or an empty string."""
    if source is None:
        return ""
    for key in records:
        with suppress(StoreError, ValueError):
            if branch := source.git_branch(decode(store.records.get(key))):
                return branch
    return ""


# ── other processes ───────────────────────────────────────────────────────────────────────────────


def _find_processes(
    store: Store, source: Source | None, plan: ResumePlan, places: Sequence[str]
) -> tuple[tuple[ProcessInfo, ...], tuple[ProcessInfo, ...]]:
    """Return the processes that use this session, and those that have a database open that contains it."""
    session = plan.session
    session_files = [Path(place) for place in dict.fromkeys(places) if place.startswith("/")]
    program = Path(plan.argv[0]).name if plan.argv else ""
    users = {*_find_users(session_files)}
    if program:
        # Many agents open a session's file only while they write, so look at arguments and at the agent's own lists.
        processes = (source.list_processes() if source else None) or ()
        listed = {pid for native_id, pid in processes if native_id == session.native_id}
        users |= {
            pid for pid, arguments in find_processes_running(program) if pid in listed or session.native_id in arguments
        }
    databases = [] if session_files else _list_databases(_load_locator(store, session))
    database_users = {*_find_users(databases)} - users
    return _describe_processes(users), _describe_processes(database_users)


def _find_users(files: Sequence[Path]) -> Iterator[int]:
    """Yield the processes that have one of the files open; none if that cannot be found out."""
    for file in files:
        with suppress(StoreError, OSError):
            yield from find_processes_using(file)


def _describe_processes(pids: set[int]) -> tuple[ProcessInfo, ...]:
    return tuple(ProcessInfo(pid, read_process_name(pid)) for pid in sorted(pids))


def _list_databases(locator: str) -> list[Path]:
    """Return the database files of a locator, which is a file or a folder."""
    if not locator or is_url(locator):
        return []
    path = Path(locator)
    return sorted(path.glob("*.db")) if path.is_dir() else [path]


# ── the agent's own store ─────────────────────────────────────────────────────────────────────────


def _load_locator(store: Store, session: Session) -> str:
    row = store.row("select locator from sources where key = ?", session.source_key or 0)
    return str(row[0]) if row else ""


def check_source_state(store: Store, session: Session) -> SourceState:
    """Compare the session with its agent's store. This may take long, so call it from a background thread."""
    source, locator = sources.load_source(session.source), _load_locator(store, session)
    if source is None or not locator or is_url(locator):
        return "unknown"
    try:
        (marks,) = store.row("select marks from sources where key = ?", session.source_key or 0)
        if (stamp := source.stamp(locator)) and decode(marks).get("stamp") == stamp:
            return "read"
        if not os.path.lexists(locator):
            return "gone"
        with source.open(locator) as reader:
            refs = reader.scan_files() or reader.scan()
            ref = next((ref for ref in refs if ref.native_id == session.native_id), None)
            if ref is None:
                return "gone"
            return "changed" if _has_new_entries(store, session, source, reader, ref) else "read"
    except (StoreError, *SQLITE_ERRORS):
        return "unknown"


def _has_new_entries(store: Store, session: Session, source: Source, reader: SourceReader, ref: SessionRef) -> bool:
    stamp, mark = store.row("select stamp, mark from sessions where key = ?", session.key)
    version = f"{source.reader_version}:"
    if not ref.stamp or stamp == version + ref.stamp or not stamp.startswith(version):
        return False
    if mark and (appended := reader.read_appended(ref, mark)) is not None:
        return any(batch.entries for batch in appended)
    return True
