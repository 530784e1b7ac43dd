"""Codex: a rollout of JSON lines per thread, in which everything shown stands twice. The response items are told; the
events say when, how much, and how a call ended.

What reads them is loaded when there is something to read: mostly nothing changed since the last time.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from store.sources.codex.layout import DEPTH, SUFFIXES, find_databases, rollout_folders
from store.sources.kit import homes
from store.sources.kit.stamps import PATH_ERRORS, database_stamp, digest, plain_file_stamp, tree_stamp

if TYPE_CHECKING:
    from store.model.entry import Json
    from store.model.session import Session
    from store.sources.codex.files import Rollout
    from store.sources.codex.reader import CodexReader
    from store.sources.contract import ForkRequest, NewTranscript, QuickSession, ResumeCommand

NAME = "codex"
LABEL = "Codex"
READER = 1
LOCAL_IDS = False

_MAX_DETECT_FILES = 200
_KNOWN_META_FIELDS = frozenset(["cwd", "originator", "cli_version", "model_provider", "instructions"])
_SKIP_PERMISSIONS = ("--dangerously-bypass-approvals-and-sandbox",)
_INSTALL = "npm install -g @openai/codex"
_OLD_BRANCH_HINT = "Codex goes on with what was kept; resume the thread itself, or start anew from here."

roots = homes.codex_roots


def detect(locator: str) -> bool:
    from store.sources.codex.files import find_rollouts

    try:
        return any(map(_is_codex_rollout, islice(find_rollouts(Path(locator), []), _MAX_DETECT_FILES)))
    except PATH_ERRORS:
        return False


def _is_codex_rollout(one: Rollout) -> bool:
    from store.sources.codex.files import read_meta

    meta, _ = read_meta(one.path)
    return bool(_KNOWN_META_FIELDS & meta.keys()) and isinstance(meta.get("id"), str)


def stamp(locator: str) -> str:
    path = Path(locator)
    if path.is_file():
        return plain_file_stamp(path)
    trees = [tree_stamp(folder, suffixes=SUFFIXES, depth=DEPTH) for folder in rollout_folders(path)]
    beside = [database_stamp(database) for database in find_databases(path)]
    return digest(*trees, *beside, plain_file_stamp(path / "session_index.jsonl")) if all(trees) else ""


def open(locator: str) -> AbstractContextManager[CodexReader]:  # noqa: A001 the shape's own word
    from store.sources.codex.reader import CodexReader

    return nullcontext(CodexReader(Path(locator)))


def quick_read(locator: str, known: Container[str]) -> Iterator[QuickSession]:
    from store.sources.codex import quick

    return quick.quick_read(locator, known)


def resume(session: Session) -> ResumeCommand:
    from store.sources.contract import ResumeCommand

    if "/" in session.native_id:
        return ResumeCommand(None, cwd=session.cwd, hint=_OLD_BRANCH_HINT)
    argv, fork = (("codex", verb, session.native_id) for verb in ("resume", "fork"))
    return ResumeCommand(
        argv, session.cwd, fork_argv=fork, skip_permission_flags=_SKIP_PERMISSIONS, install_command=_INSTALL
    )


def git_branch(record: Json) -> str:
    """Of a rollout's first line, which once had no envelope."""
    from store.sources.kit.jsonl import as_dict, as_str

    meta = as_dict(record).get("payload", record)
    return as_str(as_dict(as_dict(meta).get("git")).get("branch"))


def can_fork(session: Session) -> bool:
    from store.sources.codex import fork as forking

    return forking.can_fork(session)


def fork(past: ForkRequest) -> NewTranscript:
    from store.sources.codex import fork as forking

    return forking.build_fork(past, Path(next(iter(roots()))))
