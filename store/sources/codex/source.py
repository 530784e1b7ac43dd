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

from store.sources.codex.layout import DEPTH, SUFFIXES, databases, folders_of
from store.sources.kit import homes
from store.sources.kit.stamps import UNREADABLE, digest, file_digest_stamp, file_stamp, tree_stamp

if TYPE_CHECKING:
    from store.model.entry import Json
    from store.model.session import Session
    from store.sources.codex.files import Rollout
    from store.sources.codex.reader import Codex
    from store.sources.contract import Continuing, NewTranscript, Past, Skim

NAME = "codex"
LABEL = "Codex"
READER = 1
LOCAL_IDS = False

_TRIED = 200
_TOLD_OF_ITSELF = frozenset(["cwd", "originator", "cli_version", "model_provider", "instructions"])
_SKIPPING = ("--dangerously-bypass-approvals-and-sandbox",)
_INSTALL = "npm install -g @openai/codex"
_LEFT_BEHIND = "Codex goes on with what was kept; resume the thread itself, or start anew from here."

roots = homes.codex


def detect(locator: str) -> bool:
    from store.sources.codex.files import rollouts

    try:
        return any(map(_is_ours, islice(rollouts(Path(locator), []), _TRIED)))
    except UNREADABLE:
        return False


def _is_ours(one: Rollout) -> bool:
    from store.sources.codex.files import meta_of

    meta, _ = meta_of(one.path)
    return bool(_TOLD_OF_ITSELF & meta.keys()) and isinstance(meta.get("id"), str)


def stamp(locator: str) -> str:
    path = Path(locator)
    if path.is_file():
        return file_digest_stamp(path)
    trees = [tree_stamp(folder, suffixes=SUFFIXES, depth=DEPTH) for folder in folders_of(path)]
    beside = [file_stamp(database) for database in databases(path)]
    return digest(*trees, *beside, file_digest_stamp(path / "session_index.jsonl")) if all(trees) else ""


def open(locator: str) -> AbstractContextManager[Codex]:  # noqa: A001 the shape's own word
    from store.sources.codex.reader import Codex

    return nullcontext(Codex(Path(locator)))


def skim(locator: str, known: Container[str]) -> Iterator[Skim]:
    from store.sources.codex import quick

    return quick.skim(locator, known)


def resume(session: Session) -> Continuing:
    from store.sources.contract import Continuing

    if "/" in session.native_id:
        return Continuing(None, cwd=session.cwd, hint=_LEFT_BEHIND)
    argv, fork = (("codex", verb, session.native_id) for verb in ("resume", "fork"))
    return Continuing(argv, session.cwd, fork=fork, skipping=_SKIPPING, install=_INSTALL)


def git_branch(record: Json) -> str:
    """Of a rollout's first line, which once had no envelope."""
    from store.sources.kit.jsonl import mapping, words

    meta = mapping(record).get("payload", record)
    return words(mapping(mapping(meta).get("git")).get("branch"))


def can_fork(session: Session) -> bool:
    from store.sources.codex import fork as forking

    return forking.can_fork(session)


def fork(past: Past) -> NewTranscript:
    from store.sources.codex import fork as forking

    return forking.forked(past, Path(next(iter(roots()))))
