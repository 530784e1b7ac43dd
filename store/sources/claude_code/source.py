"""Claude Code: a transcript of JSON lines per session, whose records form a tree; sub-agents have transcripts of their
own, a fork is a copy, and what is long stands in files beside.

What reads them is loaded when there is something to read: mostly nothing changed since the last time.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from store.sources.claude_code.layout import DEPTH, SUFFIXES, folder_of
from store.sources.kit import homes
from store.sources.kit.stamps import UNREADABLE, digest, file_digest_stamp, tree_stamp

if TYPE_CHECKING:
    from store.model.entry import Json
    from store.model.session import Session
    from store.sources.claude_code.reader import Claude
    from store.sources.contract import Continuing, NewTranscript, Past, Ref, Skim

NAME = "claude"
LABEL = "Claude Code"
READER = 1
LOCAL_IDS = False

_TRIED = 200
_SKIPPING = ("--dangerously-skip-permissions",)
_INSTALL = "npm install -g @anthropic-ai/claude-code"
_SUBAGENT = "A sub-agent's conversation cannot be resumed; resume the session that sent it off."
_LEFT_BEHIND = "Claude Code goes on with the newest branch; resume its session and press Esc twice to go back."

roots = homes.claude


def detect(locator: str) -> bool:
    from store.sources.claude_code.files import looks_like_ours, some_transcripts

    try:
        return any(map(looks_like_ours, islice(some_transcripts(Path(locator)), _TRIED)))
    except UNREADABLE:
        return False


def stamp(locator: str) -> str:
    path = Path(locator)
    try:
        if path.is_file():
            return _stamp_alone(path)
        tree = tree_stamp(folder_of(path), suffixes=SUFFIXES, depth=DEPTH)
        return digest(tree, file_digest_stamp(path / "settings.json")) if tree else ""
    except UNREADABLE:
        return ""


def _stamp_alone(path: Path) -> str:
    """Of one session with its sub-agents."""
    from store.sources.claude_code.files import transcripts

    return digest(*(one.stamp for one in transcripts(path, [])))


def open(locator: str) -> AbstractContextManager[Claude]:  # noqa: A001 the shape's own word
    from store.sources.claude_code.reader import Claude

    return nullcontext(Claude(Path(locator)))


def skim(locator: str, known: Container[str]) -> Iterator[Skim]:
    from store.sources.claude_code import quick

    return quick.skim(locator, known)


def expires(locator: str, refs: Iterable[Ref]) -> Mapping[str, str]:
    from store.sources.claude_code import reader

    return reader.expires(locator, refs)


def resume(session: Session) -> Continuing:
    from store.sources.contract import Continuing

    if session.relation in ("delegate", "sidechain"):
        return Continuing(None, cwd=session.cwd, hint=_SUBAGENT)
    if "/" in session.native_id:
        return Continuing(None, cwd=session.cwd, hint=_LEFT_BEHIND)
    argv = ("claude", "--resume", session.native_id)
    return Continuing(argv, session.cwd, fork=(*argv, "--fork-session"), skipping=_SKIPPING, install=_INSTALL)


def git_branch(record: Json) -> str:
    """HEAD is written where there is none, and where there is no repository at all."""
    from store.sources.kit.jsonl import mapping, words

    branch = words(mapping(record).get("gitBranch"))
    return "" if branch == "HEAD" else branch


def used_by(native_id: str) -> Iterator[int]:
    """Claude Code opens a transcript only to write to it; but each that runs leaves a note of what it works on."""
    from store.sources.kit.jsonl import count, json_file, mapping, words

    for path in (Path(next(iter(roots()))) / "sessions").glob("*.json"):
        told = mapping(json_file(path, []))
        if words(told.get("sessionId")) == native_id and (pid := count(told.get("pid"))):
            yield pid


def can_fork(session: Session) -> bool:
    from store.sources.claude_code import fork as forking

    return forking.can_fork(session)


def fork(past: Past) -> NewTranscript:
    from store.sources.claude_code import fork as forking

    return forking.forked(past, Path(next(iter(roots()))))
