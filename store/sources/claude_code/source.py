"""This module defines the source for Claude Code.

Claude Code keeps a transcript of JSON lines per session, whose records form a tree. Sub-agents have transcripts of
their own, a fork is a copy, and long outputs are in separate files.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from store.probes import is_file
from store.sources.claude_code.layout import LAYOUT
from store.sources.contract import ForkRequest, NewTranscript, QuickSession, ResumeCommand, SessionRef, Source
from store.sources.kit.home import Home
from store.sources.kit.stamps import PATH_ERRORS, digest, plain_file_stamp

if TYPE_CHECKING:
    from store.model.entry import Json
    from store.model.session import Session
    from store.sources.claude_code.reader import ClaudeReader
    from store.sources.contract import UsageReader

_MAX_DETECT_FILES = 200
_SUBAGENT_HINT = "A sub-agent's conversation cannot be resumed. Resume the session that started it."
_OLD_BRANCH_HINT = "Claude Code continues the newest branch. Resume its session and press Esc twice to go back."


class ClaudeCode(Source):
    name = "claude"
    reader_version = 2
    home = Home("~/.claude", env="CLAUDE_CONFIG_DIR")

    def detect(self, locator: str) -> bool:
        from store.sources.claude_code.files import find_transcript_files, is_claude_transcript

        try:
            return any(map(is_claude_transcript, islice(find_transcript_files(Path(locator)), _MAX_DETECT_FILES)))
        except PATH_ERRORS:
            return False

    def knows(self, path: Path, beginning: bytes) -> bool:
        from store.sources.claude_code.files import has_only_titles, is_claude_transcript

        if path.suffix == ".jsonl":
            return is_claude_transcript(path) or has_only_titles(path)
        return path.suffix == ".json" and b'"loglines"' in beginning and is_claude_transcript(path)

    def find_store(self, path: Path, top: Path) -> Path | None:
        return LAYOUT.find_home(path, top) if path.suffix != ".json" else path

    def has_own_folders(self, folder: Path) -> bool:
        return LAYOUT.has_folders(folder)

    def stamp(self, locator: str) -> str:
        path = Path(locator)
        try:
            if is_file(locator):
                return _stamp_session(path)
            tree = LAYOUT.stamp(locator)
            return digest(tree, plain_file_stamp(path / "settings.json")) if tree else ""
        except PATH_ERRORS:
            return ""

    def open(self, locator: str) -> AbstractContextManager[ClaudeReader]:
        from store.sources.claude_code.reader import ClaudeReader

        return nullcontext(ClaudeReader(Path(locator)))

    def quick_read(self, locator: str, known: Container[str]) -> Iterator[QuickSession]:
        from store.sources.claude_code.quick import quick_read

        return quick_read(locator, known)

    def expiry(self, locator: str, refs: Iterable[SessionRef]) -> Mapping[str, str]:
        from store.sources.claude_code.reader import find_expiry

        return find_expiry(locator, refs)

    def resume(self, session: Session) -> ResumeCommand:
        if session.relation in ("delegate", "sidechain"):
            return ResumeCommand(None, cwd=session.cwd, hint=_SUBAGENT_HINT)
        if "/" in session.native_id:
            return ResumeCommand(None, cwd=session.cwd, hint=_OLD_BRANCH_HINT)
        argv = ("claude", "--resume", session.native_id)
        return ResumeCommand(
            argv,
            session.cwd,
            fork_argv=(*argv, "--fork-session"),
            skip_permission_flags=("--dangerously-skip-permissions",),
            install_command="npm install -g @anthropic-ai/claude-code",
        )

    def git_branch(self, record: Json) -> str:
        """Return the git branch of a record. Claude Code writes HEAD if there is no branch or no repository."""
        from store.sources.kit.jsonl import as_dict, as_str

        branch = as_str(as_dict(record).get("gitBranch"))
        return "" if branch == "HEAD" else branch

    def usage_reader(self) -> UsageReader:
        from store.sources.claude_code.usage import read_usage
        from store.sources.kit.usage import read_each_record

        return read_each_record(read_usage)

    def list_processes(self) -> list[tuple[str, int]] | None:
        """Return the sessions that processes work on. Each process of Claude Code names its session in a file; the
        transcript itself is open only while it is written."""
        from store.sources.kit.jsonl import as_count, as_dict, as_str, read_json_file

        folder = Path(self.home.locate()) / "sessions"
        if not folder.is_dir():
            return None
        listed = (as_dict(read_json_file(path, [])) for path in folder.glob("*.json"))
        return [(as_str(process.get("sessionId")), as_count(process.get("pid"))) for process in listed]

    def can_fork(self, session: Session) -> bool:
        from store.sources.claude_code.fork import can_fork

        return can_fork(session)

    def fork(self, request: ForkRequest) -> NewTranscript:
        from store.sources.claude_code.fork import build_fork

        return build_fork(request, Path(self.home.locate()))


def _stamp_session(path: Path) -> str:
    """Return the stamp of one session together with its sub-agents."""
    from store.sources.claude_code.files import find_transcripts

    return digest(*(transcript.stamp for transcript in find_transcripts(path, [])))
