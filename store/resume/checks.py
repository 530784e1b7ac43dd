"""Looks around before a session goes on: git, other processes, the agent's own store, our edits. Changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from store import sources
from store.errors import StoreError
from store.model.session import Session
from store.resume.check import ProcessInfo, ResumeChecks
from store.resume.command import ResumePlan
from store.search.session_list import find_work_tree
from store.sources.contract import (
    SessionRef,
    Source,
    SourceReader,
    SupportsAppend,
    SupportsGitBranch,
    SupportsProcesses,
)
from store.sources.kit.locator import is_url
from store.sources.kit.sqlite import SQLITE_ERRORS
from store.sources.kit.write_plan import SupportsWriteBack
from store.text.validate import decode
from store.write_back import sqlite

if TYPE_CHECKING:
    from store.store import Store

RECORDS_SEARCHED = 50
"""Records that are looked through for a branch: agents name it in every one, or in the first."""

_BRANCH_PREFIX = "ref: refs/heads/"
_HEAD_BYTES = 1_000
_PROC = Path("/proc")

_SELECT_RECORDS = """
    select records.key, coalesce(places.name, records.place)
    from entries join records on records.key = entries.record left join places on places.key = records.place_key
    where entries.session = ?1 and records.session = ?1 and (entries.seq >= ?2 or entries.seq <= 0)
    order by entries.seq desc
"""


def check_resume(store: Store, found: ResumePlan, *, is_shown: bool = True) -> ResumeChecks:
    """Takes as long as it takes; not for the thread that paints. Shown: the conversation is, and may have moved on."""
    session = found.session
    with suppress(StoreError):
        session = store.sessions.by_key(session.key)
    source = sources.load_source(session.source)
    records = store.rows(_SELECT_RECORDS, session.key, session.entries - RECORDS_SEARCHED)
    users, neighbours = _find_processes(store, source, found, [place for _, place in records])
    moved_on, gone = _check_agent_store(store, session, source) if is_shown else (False, False)
    return ResumeChecks(
        recorded_branch=_find_recorded_branch(store, source, [key for key, _ in records]),
        current_branch=read_branch(found.folder) if found.folder else None,
        session_processes=users,
        database_processes=neighbours,
        can_see_processes=(_PROC / "self").exists(),
        has_new_entries=moved_on
        or (session.updated_at, session.entries) != (found.session.updated_at, found.session.entries),
        gone=gone or bool(session.gone),
        unwritten_edits=store.write_back.list_unwritten(session),
        can_write_back=isinstance(source, SupportsWriteBack),
    )


# ── git ───────────────────────────────────────────────────────────────────────────────────────────


def _find_recorded_branch(store: Store, source: Source | None, records: Sequence[int]) -> str:
    """Where it was left, else where it began."""
    if not isinstance(source, SupportsGitBranch):
        return ""
    for key in records:
        with suppress(StoreError, ValueError):
            if branch := source.git_branch(decode(store.records.get(key))):
                return branch
    return ""


def read_branch(folder: Path) -> str | None:
    """Read where git keeps it, without running git: a repository may name programs that git would run.

    Empty where no branch is checked out, or nobody uses git; None where nobody can tell.
    """
    try:
        if not folder.is_dir():
            return None
        tree = find_work_tree(folder.absolute())
        head = _read_start(_find_git_folder(tree) / "HEAD").strip() if tree else ""
    except (OSError, ValueError):
        return None
    branch = head.removeprefix(_BRANCH_PREFIX)
    # A repository that keeps its branches in a table has a name here that nobody may use.
    return None if branch == ".invalid" else branch if head.startswith(_BRANCH_PREFIX) else ""


def _find_git_folder(tree: Path) -> Path:
    """A linked work tree, and a submodule, have a file that says where theirs is."""
    git = tree / ".git"
    if git.is_dir():
        return git
    return tree / _read_start(git).removeprefix("gitdir:").strip()


def _read_start(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.read(_HEAD_BYTES)


# ── other processes ───────────────────────────────────────────────────────────────────────────────


def _find_processes(
    store: Store, source: Source | None, found: ResumePlan, places: Sequence[str]
) -> tuple[tuple[ProcessInfo, ...], tuple[ProcessInfo, ...]]:
    """Those with this session, and those with the database in which it is one of many."""
    session = found.session
    own = [Path(place) for place in dict.fromkeys(places) if place.startswith("/")]
    program = Path(found.argv[0]).name if found.argv else ""
    working = {*_processes_using(own)}
    if program:
        noted: set[int] = {*source.processes(session.native_id)} if isinstance(source, SupportsProcesses) else set()
        working |= {pid for pid, words in _list_processes(program) if pid in noted or session.native_id in words}
    around = set() if own else {*_processes_using(_list_databases(_load_locator(store, session)))} - working
    return tuple(map(_read_process, sorted(working))), tuple(map(_read_process, sorted(around)))


def _processes_using(files: Sequence[Path]) -> Iterator[int]:
    """Nobody, where that cannot be told."""
    for file in files:
        with suppress(StoreError, OSError):
            yield from sqlite.find_processes_using(file)


def _list_databases(locator: str) -> list[Path]:
    """A database, or those in a folder."""
    if not locator or is_url(locator):
        return []
    path = Path(locator)
    return sorted(path.glob("*.db")) if path.is_dir() else [path]


def _list_processes(program: str) -> Iterator[tuple[int, list[str]]]:
    """The processes of a program, and what they were told: many open a session's file only to write."""
    for told in _PROC.glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = told.read_bytes().decode("utf-8", "replace").split("\0")
            named = any(os.path.basename(word) == program for word in words[:2])
            if named and int(told.parent.name) != os.getpid():
                yield int(told.parent.name), words


def _read_process(pid: int) -> ProcessInfo:
    with suppress(OSError):
        return ProcessInfo(pid, (_PROC / str(pid) / "comm").read_text("utf-8", "replace").strip())
    return ProcessInfo(pid, "")


# ── the agent's own store ─────────────────────────────────────────────────────────────────────────


def _load_locator(store: Store, session: Session) -> str:
    row = store.row("select locator from sources where key = ?", session.source_key or 0)
    return str(row[0]) if row else ""


def _check_agent_store(store: Store, session: Session, source: Source | None) -> tuple[bool, bool]:
    """Whether it has moved on since it was read, and whether it is gone; neither, where that cannot be told."""
    locator = _load_locator(store, session)
    if source is None or not locator or is_url(locator):
        return False, False
    try:
        (marks,) = store.row("select marks from sources where key = ?", session.source_key or 0)
        if (stamp := source.stamp(locator)) and decode(marks).get("stamp") == stamp:
            return False, False
        if not os.path.lexists(locator):
            return False, True
        with source.open(locator) as opened:
            told = opened.scan_files() if isinstance(opened, SupportsAppend) else opened.scan()
            ref = next((ref for ref in told if ref.native_id == session.native_id), None)
            return (False, True) if ref is None else (_has_new_entries(store, session, source, opened, ref), False)
    except (StoreError, *SQLITE_ERRORS):
        return False, False


def _has_new_entries(store: Store, session: Session, source: Source, opened: SourceReader, ref: SessionRef) -> bool:
    stamp, mark = store.row("select stamp, mark from sessions where key = ?", session.key)
    if not ref.stamp or stamp == f"{source.READER}:{ref.stamp}" or not stamp.startswith(f"{source.READER}:"):
        return False
    if mark and isinstance(opened, SupportsAppend) and (grown := opened.read_appended(ref, mark)) is not None:
        return any(batch.entries for batch in grown)
    return True
