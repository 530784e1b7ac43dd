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
from store.resume.check import Holder, Preflight
from store.resume.command import Resumption
from store.search.session_list import work_tree
from store.sources.contract import Branching, Growing, Noted, Opened, Ref, Source
from store.sources.kit.locator import is_url
from store.sources.kit.sqlite import BROKEN
from store.sources.kit.write_plan import Writable
from store.text.validate import decode
from store.write_back import sqlite

if TYPE_CHECKING:
    from store.store import Store

NEWEST = 50
"""Records that are looked through for a branch: agents name it in every one, or in the first."""

_BRANCH = "ref: refs/heads/"
_HEAD_BYTES = 1_000
_PROCESSES = Path("/proc")

_RECORDS = """
    select records.key, coalesce(places.name, records.place)
    from entries join records on records.key = entries.record left join places on places.key = records.place_key
    where entries.session = ?1 and records.session = ?1 and (entries.seq >= ?2 or entries.seq <= 0)
    order by entries.seq desc
"""


def preflight(store: Store, found: Resumption, *, shown: bool = True) -> Preflight:
    """Takes as long as it takes; not for the thread that paints. Shown: the conversation is, and may have moved on."""
    session = found.session
    with suppress(StoreError):
        session = store.sessions.by_key(session.key)
    source = sources.by_name(session.source)
    records = store.rows(_RECORDS, session.key, session.entries - NEWEST)
    users, neighbours = _busy(store, source, found, [place for _, place in records])
    moved_on, gone = _elsewhere(store, session, source) if shown else (False, False)
    return Preflight(
        branch_then=_branch_then(store, source, [key for key, _ in records]),
        branch_now=branch_of(found.folder) if found.folder else None,
        users=users,
        neighbours=neighbours,
        sees_users=(_PROCESSES / "self").exists(),
        moved_on=moved_on or (session.updated_at, session.entries) != (found.session.updated_at, found.session.entries),
        gone=gone or bool(session.gone),
        unwritten=store.writing_back.unwritten(session),
        takes_edits=isinstance(source, Writable),
    )


# ── git ───────────────────────────────────────────────────────────────────────────────────────────


def _branch_then(store: Store, source: Source | None, records: Sequence[int]) -> str:
    """Where it was left, else where it began."""
    if not isinstance(source, Branching):
        return ""
    for key in records:
        with suppress(StoreError, ValueError):
            if branch := source.git_branch(decode(store.records.get(key))):
                return branch
    return ""


def branch_of(folder: Path) -> str | None:
    """Read where git keeps it, without running git: a repository may name programs that git would run.

    Empty where no branch is checked out, or nobody uses git; None where nobody can tell.
    """
    try:
        if not folder.is_dir():
            return None
        tree = work_tree(folder.absolute())
        head = _beginning(_git_folder(tree) / "HEAD").strip() if tree else ""
    except (OSError, ValueError):
        return None
    branch = head.removeprefix(_BRANCH)
    # A repository that keeps its branches in a table has a name here that nobody may use.
    return None if branch == ".invalid" else branch if head.startswith(_BRANCH) else ""


def _git_folder(tree: Path) -> Path:
    """A linked work tree, and a submodule, have a file that says where theirs is."""
    git = tree / ".git"
    if git.is_dir():
        return git
    return tree / _beginning(git).removeprefix("gitdir:").strip()


def _beginning(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.read(_HEAD_BYTES)


# ── other processes ───────────────────────────────────────────────────────────────────────────────


def _busy(
    store: Store, source: Source | None, found: Resumption, places: Sequence[str]
) -> tuple[tuple[Holder, ...], tuple[Holder, ...]]:
    """Those with this session, and those with the database in which it is one of many."""
    session = found.session
    own = [Path(place) for place in dict.fromkeys(places) if place.startswith("/")]
    program = Path(found.argv[0]).name if found.argv else ""
    working = {*_open_by(own)}
    if program:
        noted: set[int] = {*source.used_by(session.native_id)} if isinstance(source, Noted) else set()
        working |= {pid for pid, words in _running(program) if pid in noted or session.native_id in words}
    around = set() if own else {*_open_by(_databases(_locator(store, session)))} - working
    return tuple(map(_holder, sorted(working))), tuple(map(_holder, sorted(around)))


def _open_by(files: Sequence[Path]) -> Iterator[int]:
    """Nobody, where that cannot be told."""
    for file in files:
        with suppress(StoreError, OSError):
            yield from sqlite.open_by(file)


def _databases(locator: str) -> list[Path]:
    """A database, or those in a folder."""
    if not locator or is_url(locator):
        return []
    path = Path(locator)
    return sorted(path.glob("*.db")) if path.is_dir() else [path]


def _running(program: str) -> Iterator[tuple[int, list[str]]]:
    """The processes of a program, and what they were told: many open a session's file only to write."""
    for told in _PROCESSES.glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = told.read_bytes().decode("utf-8", "replace").split("\0")
            named = any(os.path.basename(word) == program for word in words[:2])
            if named and int(told.parent.name) != os.getpid():
                yield int(told.parent.name), words


def _holder(pid: int) -> Holder:
    with suppress(OSError):
        return Holder(pid, (_PROCESSES / str(pid) / "comm").read_text("utf-8", "replace").strip())
    return Holder(pid, "")


# ── the agent's own store ─────────────────────────────────────────────────────────────────────────


def _locator(store: Store, session: Session) -> str:
    row = store.row("select locator from sources where key = ?", session.source_key or 0)
    return str(row[0]) if row else ""


def _elsewhere(store: Store, session: Session, source: Source | None) -> tuple[bool, bool]:
    """Whether it has moved on since it was read, and whether it is gone; neither, where that cannot be told."""
    locator = _locator(store, session)
    if source is None or not locator or is_url(locator):
        return False, False
    try:
        (marks,) = store.row("select marks from sources where key = ?", session.source_key or 0)
        if (stamp := source.stamp(locator)) and decode(marks).get("stamp") == stamp:
            return False, False
        if not os.path.lexists(locator):
            return False, True
        with source.open(locator) as opened:
            told = opened.heads() if isinstance(opened, Growing) else opened.scan()
            ref = next((ref for ref in told if ref.native_id == session.native_id), None)
            return (False, True) if ref is None else (_has_moved(store, session, source, opened, ref), False)
    except (StoreError, *BROKEN):
        return False, False


def _has_moved(store: Store, session: Session, source: Source, opened: Opened, ref: Ref) -> bool:
    stamp, mark = store.row("select stamp, mark from sessions where key = ?", session.key)
    if not ref.stamp or stamp == f"{source.READER}:{ref.stamp}" or not stamp.startswith(f"{source.READER}:"):
        return False
    if mark and isinstance(opened, Growing) and (grown := opened.go_on(ref, mark)) is not None:
        return any(batch.entries for batch in grown)
    return True
