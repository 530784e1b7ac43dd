"""Codex: a rollout of JSON lines per thread, in which everything shown stands twice. The response items are told; the
events say when, how much, and how a call ended."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from store.model import Json, Session
from store.sources import homes, reading
from store.sources.codex.files import (
    DEPTH,
    FOLDERS,
    SUFFIXES,
    Found,
    Named,
    Rollout,
    databases,
    meta_of,
    names,
    rollouts,
    rolls_back,
)
from store.sources.codex.forking import can_fork as can_fork
from store.sources.codex.forking import forked
from store.sources.codex.skimming import skim as skim
from store.sources.codex.tail import Tail
from store.sources.codex.thread import Thread
from store.sources.lines import UNREADABLE, file_digest_stamp, mapping, tree_stamp, words
from store.sources.shape import Batch, Continuing, NewTranscript, Past, Problem, Ref
from store.sources.transcripts import Transcripts

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
    try:
        return any(map(_is_ours, islice(rollouts(Path(locator), []), _TRIED)))
    except UNREADABLE:
        return False


def _is_ours(one: Rollout) -> bool:
    meta, _ = meta_of(one.path)
    return bool(_TOLD_OF_ITSELF & meta.keys()) and isinstance(meta.get("id"), str)


def stamp(locator: str) -> str:
    path = Path(locator)
    if path.is_file():
        return file_digest_stamp(path)
    folders = [path / name for name in FOLDERS if (path / name).is_dir()] or [path]
    trees = [tree_stamp(folder, suffixes=SUFFIXES, depth=DEPTH) for folder in folders]
    beside = [reading.file_stamp(database) for database in databases(path)]
    return reading.digest(*trees, *beside, file_digest_stamp(path / "session_index.jsonl")) if all(trees) else ""


@contextmanager
def open(locator: str) -> Iterator[Codex]:  # noqa: A001 the shape's own word
    yield Codex(Path(locator))


def resume(session: Session) -> Continuing:
    if "/" in session.native_id:
        return Continuing(None, cwd=session.cwd, hint=_LEFT_BEHIND)
    argv, fork = (("codex", verb, session.native_id) for verb in ("resume", "fork"))
    return Continuing(argv, session.cwd, fork=fork, skipping=_SKIPPING, install=_INSTALL)


def git_branch(record: Json) -> str:
    """Of a rollout's first line, which once had no envelope."""
    meta = mapping(record).get("payload", record)
    return words(mapping(mapping(meta).get("git")).get("branch"))


def fork(past: Past) -> NewTranscript:
    return forked(past, Path(next(iter(roots()))))


class Codex(Transcripts):
    """The rollouts as they are now. A line that comes while they are read is read the next time."""

    def __init__(self, locator: Path) -> None:
        super().__init__()
        self._found = Found(locator, self.problems)
        self._names = names(locator) if locator.is_dir() else {}

    def scan(self) -> Iterator[Ref]:
        for ref in self.heads():
            yield ref
            yield from self.beside(ref)

    def heads(self) -> Iterator[Ref]:
        for thread, written in self._found.threads.items():
            newest = [(rollout.id, end) for rollout, end in self._found.segments(written[-1])]
            for one in written:
                native_id = thread if one == written[-1] else f"{thread}/{one.id}"
                stamp = reading.digest(self._found.stamps(one), newest, self._names.get(thread), one.is_archived)
                yield Ref(native_id, stamp, _modified(one.path))

    def beside(self, ref: Ref) -> Iterator[Ref]:
        one, _ = self._named(ref)
        if one and any(rolls_back(rollout.path) for rollout, _ in self._found.segments(one)):
            for name in Thread(self._found, one, "", Named()).names:
                yield Ref(f"{ref.native_id}/{name}", ref.stamp, ref.updated_at)

    def go_on(self, ref: Ref, mark: str) -> list[Batch] | None:
        one, _ = self._named(ref)
        tail = Tail.from_mark(mark)
        if tail is None or one is None or len(self._found.segments(one)) != 1:
            return None
        named = self._names.get(one.thread, Named())
        return tail.go_on(one.path, named._replace(is_archived=named.is_archived or one.is_archived))

    def _named(self, ref: Ref) -> tuple[Rollout | None, str]:
        """The rollout and the branch of it that a native id names."""
        thread, *rest = ref.native_id.split("/")
        written = self._found.threads.get(thread)
        if not written:
            return None, ""
        one = self._found.by_id[rest.pop(0)] if rest and rest[0] in self._found.by_id else written[-1]
        return one, rest[0] if rest else ""

    def read(self, ref: Ref) -> Iterator[Batch]:
        one, branch = self._named(ref)
        if one is None:
            return
        chain = Thread(self._found, one, branch, self._names.get(one.thread, Named()))
        if not chain.is_known:
            return
        yield chain.about()
        met: list[Problem] = []
        telling = chain.telling()
        yield from reading.batches(chain.entries(telling, met), met)
        yield Batch(summary=telling.summary, mark="" if branch else chain.mark(telling))


def _modified(path: Path) -> str:
    try:
        return reading.utc(path.stat().st_mtime)
    except OSError:
        return ""
