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

from store.sources.claude_code.layout import DEPTH, SUFFIXES, projects_folder
from store.sources.kit import homes
from store.sources.kit.stamps import PATH_ERRORS, digest, plain_file_stamp, tree_stamp

if TYPE_CHECKING:
    from store.model.entry import Json
    from store.model.session import Session
    from store.sources.claude_code.reader import ClaudeReader
    from store.sources.contract import ForkRequest, NewTranscript, QuickSession, ResumeCommand, SessionRef

NAME = "claude"
LABEL = "Claude Code"
READER = 1
LOCAL_IDS = False

_MAX_DETECT_FILES = 200
_SKIP_PERMISSIONS = ("--dangerously-skip-permissions",)
_INSTALL = "npm install -g @anthropic-ai/claude-code"
_SUBAGENT_HINT = "A sub-agent's conversation cannot be resumed; resume the session that sent it off."
_OLD_BRANCH_HINT = "Claude Code goes on with the newest branch; resume its session and press Esc twice to go back."

roots = homes.claude_roots


def detect(locator: str) -> bool:
    from store.sources.claude_code.files import find_transcript_files, is_claude_transcript

    try:
        return any(map(is_claude_transcript, islice(find_transcript_files(Path(locator)), _MAX_DETECT_FILES)))
    except PATH_ERRORS:
        return False


def stamp(locator: str) -> str:
    path = Path(locator)
    try:
        if path.is_file():
            return _stamp_session(path)
        tree = tree_stamp(projects_folder(path), suffixes=SUFFIXES, depth=DEPTH)
        return digest(tree, plain_file_stamp(path / "settings.json")) if tree else ""
    except PATH_ERRORS:
        return ""


def _stamp_session(path: Path) -> str:
    """Of one session with its sub-agents."""
    from store.sources.claude_code.files import find_transcripts

    return digest(*(one.stamp for one in find_transcripts(path, [])))


def open(locator: str) -> AbstractContextManager[ClaudeReader]:  # noqa: A001 the shape's own word
    from store.sources.claude_code.reader import ClaudeReader

    return nullcontext(ClaudeReader(Path(locator)))


def quick_read(locator: str, known: Container[str]) -> Iterator[QuickSession]:
    from store.sources.claude_code import quick

    return quick.quick_read(locator, known)


def expiry(locator: str, refs: Iterable[SessionRef]) -> Mapping[str, str]:
    from store.sources.claude_code import reader

    return reader.expiry(locator, refs)


def resume(session: Session) -> ResumeCommand:
    from store.sources.contract import ResumeCommand

    if session.relation in ("delegate", "sidechain"):
        return ResumeCommand(None, cwd=session.cwd, hint=_SUBAGENT_HINT)
    if "/" in session.native_id:
        return ResumeCommand(None, cwd=session.cwd, hint=_OLD_BRANCH_HINT)
    argv = ("claude", "--resume", session.native_id)
    return ResumeCommand(
        argv,
        session.cwd,
        fork_argv=(*argv, "--fork-session"),
        skip_permission_flags=_SKIP_PERMISSIONS,
        install_command=_INSTALL,
    )


def git_branch(record: Json) -> str:
    """HEAD is written where there is none, and where there is no repository at all."""
    from store.sources.kit.jsonl import as_dict, as_str

    branch = as_str(as_dict(record).get("gitBranch"))
    return "" if branch == "HEAD" else branch


def processes(native_id: str) -> Iterator[int]:
    """Claude Code opens a transcript only to write to it; but each that runs leaves a note of what it works on."""
    from store.sources.kit.jsonl import as_count, as_dict, as_str, read_json_file

    for path in (Path(next(iter(roots()))) / "sessions").glob("*.json"):
        told = as_dict(read_json_file(path, []))
        if as_str(told.get("sessionId")) == native_id and (pid := as_count(told.get("pid"))):
            yield pid


def can_fork(session: Session) -> bool:
    from store.sources.claude_code import fork as forking

    return forking.can_fork(session)


def fork(past: ForkRequest) -> NewTranscript:
    from store.sources.claude_code import fork as forking

    return forking.build_fork(past, Path(next(iter(roots()))))
