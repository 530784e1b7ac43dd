"""Claude Code: a transcript of JSON lines per session, whose records form a tree; sub-agents have transcripts of their
own, a fork is a copy, and what is long stands in files beside."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from pathlib import Path

from store.model import Json, Session
from store.sources import homes, reading
from store.sources.claude_code.chain import Chain
from store.sources.claude_code.files import (
    DEPTH,
    SUFFIXES,
    Found,
    Transcript,
    branches,
    folder_of,
    looks_like_ours,
    some_transcripts,
    transcripts,
)
from store.sources.claude_code.forking import can_fork as can_fork
from store.sources.claude_code.forking import forked
from store.sources.claude_code.skimming import skim as skim
from store.sources.claude_code.tail import Tail
from store.sources.claude_code.telling import Telling
from store.sources.lines import UNREADABLE, count, file_digest_stamp, json_file, mapping, tree_stamp, words
from store.sources.shape import Batch, Continuing, NewTranscript, Past, Problem, Ref
from store.sources.transcripts import Transcripts

NAME = "claude"
LABEL = "Claude Code"
READER = 1
LOCAL_IDS = False

DAYS_KEPT = 30
"""What Claude Code keeps when nobody says otherwise."""

_TRIED = 200
_SKIPPING = ("--dangerously-skip-permissions",)
_INSTALL = "npm install -g @anthropic-ai/claude-code"
_SUBAGENT = "A sub-agent's conversation cannot be resumed; resume the session that sent it off."
_LEFT_BEHIND = "Claude Code goes on with the newest branch; resume its session and press Esc twice to go back."

roots = homes.claude


def detect(locator: str) -> bool:
    try:
        return any(map(looks_like_ours, islice(some_transcripts(Path(locator)), _TRIED)))
    except UNREADABLE:
        return False


def stamp(locator: str) -> str:
    path = Path(locator)
    try:
        if path.is_file():
            return reading.digest(*(one.stamp for one in transcripts(path, [])))
        tree = tree_stamp(folder_of(path), suffixes=SUFFIXES, depth=DEPTH)
        return reading.digest(tree, file_digest_stamp(path / "settings.json")) if tree else ""
    except UNREADABLE:
        return ""


@contextmanager
def open(locator: str) -> Iterator[Claude]:  # noqa: A001 the shape's own word
    yield Claude(Path(locator))


def resume(session: Session) -> Continuing:
    if session.relation in ("delegate", "sidechain"):
        return Continuing(None, cwd=session.cwd, hint=_SUBAGENT)
    if "/" in session.native_id:
        return Continuing(None, cwd=session.cwd, hint=_LEFT_BEHIND)
    argv = ("claude", "--resume", session.native_id)
    return Continuing(argv, session.cwd, fork=(*argv, "--fork-session"), skipping=_SKIPPING, install=_INSTALL)


def git_branch(record: Json) -> str:
    """HEAD is written where there is none, and where there is no repository at all."""
    branch = words(mapping(record).get("gitBranch"))
    return "" if branch == "HEAD" else branch


def used_by(native_id: str) -> Iterator[int]:
    """Claude Code opens a transcript only to write to it; but each that runs leaves a note of what it works on."""
    for path in (Path(next(iter(roots()))) / "sessions").glob("*.json"):
        told = mapping(json_file(path, []))
        if words(told.get("sessionId")) == native_id and (pid := count(told.get("pid"))):
            yield pid


def fork(past: Past) -> NewTranscript:
    return forked(past, Path(next(iter(roots()))))


def expires(locator: str, refs: Iterable[Ref]) -> dict[str, str]:
    """When Claude Code will delete each transcript, if it is not used until then, by native id."""
    told = mapping(json_file(Path(locator) / "settings.json", [])).get("cleanupPeriodDays")
    days = told if isinstance(told, int) and not isinstance(told, bool) and 0 <= told < 100_000 else DAYS_KEPT
    return {ref.native_id: _later(ref.updated_at, days) for ref in refs if ref.updated_at}


_digest = lru_cache(maxsize=65_536)(reading.digest)


@lru_cache(maxsize=65_536)
def _later(at: str, days: int) -> str:
    return reading.utc((datetime.fromisoformat(at) + timedelta(days)).isoformat())


class Claude(Transcripts):
    """The transcripts as they are now. A line that comes while they are read is read the next time."""

    def __init__(self, locator: Path) -> None:
        super().__init__()
        self._found = Found(locator, self.problems)

    def scan(self) -> Iterator[Ref]:
        for ref in self.heads():
            yield ref
            yield from self.beside(ref)

    def heads(self) -> Iterator[Ref]:
        for one in self._found.by_id.values():
            stamp = _digest(one.stamp, *self._around(one))
            yield Ref(one.native_id, stamp, one.touched)

    def beside(self, ref: Ref) -> Iterator[Ref]:
        one = self._found.by_id[ref.native_id]
        for branch in branches(one):
            yield Ref(one.named(branch), ref.stamp, ref.updated_at)

    def go_on(self, ref: Ref, mark: str) -> list[Batch] | None:
        one = self._found.by_id[ref.native_id]
        tail = Tail.from_mark(mark) if len(one.files) == 1 else None
        return tail.go_on(one.files[0]) if tail else None

    def _around(self, one: Transcript) -> Iterator[str]:
        """What else decides how it is told: whose copy it is, and in which call a sub-agent was sent off."""
        yield from self._found.elders(one)
        parent = self._found.by_id.get(one.parent)
        if parent is not None and not one.sidecar.exists():
            yield parent.stamp

    def read(self, ref: Ref) -> Iterator[Batch]:
        named = self._found.named(ref.native_id)
        chain = Chain(self._found, *named) if named else None
        if chain is None or not chain.is_known:
            return
        yield Batch(fields=chain.fields())
        met: list[Problem] = []
        telling = Telling(met, is_agent=chain.is_agent)
        yield from reading.batches(chain.entries(telling, met), met)
        yield Batch(summary=telling.summary, mark=chain.mark(telling))
