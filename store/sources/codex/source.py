"""This module defines the source for Codex.

Codex keeps a rollout of JSON lines per thread. It writes every message twice: as a response item and as an event.
The response items become messages; the events report times, tokens and how a call ended.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from store.probes import is_file
from store.sources.codex.layout import LAYOUT, find_databases
from store.sources.contract import ForkRequest, NewTranscript, QuickSession, ResumeCommand, Source
from store.sources.kit.home import Home
from store.sources.kit.stamps import PATH_ERRORS, database_stamp, digest, plain_file_stamp

if TYPE_CHECKING:
    from store.model.entry import Json
    from store.model.session import Session
    from store.sources.codex.reader import CodexReader
    from store.sources.contract import UsageReader

_MAX_DETECT_FILES = 200
_OLD_BRANCH_HINT = "Codex cannot resume turns that were rolled back. Resume the thread itself, or fork from here."


class Codex(Source):
    name = "codex"
    reader_version = 2
    home = Home("~/.codex", env="CODEX_HOME")

    def detect(self, locator: str) -> bool:
        from store.sources.codex.files import find_rollouts, is_rollout

        try:
            rollouts = islice(find_rollouts(Path(locator), []), _MAX_DETECT_FILES)
            return any(is_rollout(rollout.path) for rollout in rollouts)
        except PATH_ERRORS:
            return False

    def knows(self, path: Path, beginning: bytes) -> bool:
        from store.sources.codex.files import has_rollout_name, is_rollout

        return path.name.endswith(LAYOUT.suffixes) and (has_rollout_name(path) or is_rollout(path))

    def find_store(self, path: Path, top: Path) -> Path | None:
        return LAYOUT.find_home(path, top)

    def has_own_folders(self, folder: Path) -> bool:
        return LAYOUT.has_folders(folder)

    def stamp(self, locator: str) -> str:
        path = Path(locator)
        if is_file(locator):
            return plain_file_stamp(path)
        trees = LAYOUT.stamp(locator)
        databases = [database_stamp(database) for database in find_databases(path)]
        return digest(trees, *databases, plain_file_stamp(path / "session_index.jsonl")) if trees else ""

    def open(self, locator: str) -> AbstractContextManager[CodexReader]:
        from store.sources.codex.reader import CodexReader

        return nullcontext(CodexReader(Path(locator)))

    def quick_read(self, locator: str, known: Container[str]) -> Iterator[QuickSession]:
        from store.sources.codex.quick import quick_read

        return quick_read(locator, known)

    def resume(self, session: Session) -> ResumeCommand:
        if "/" in session.native_id:
            return ResumeCommand(None, cwd=session.cwd, hint=_OLD_BRANCH_HINT)
        argv, fork = (("codex", verb, session.native_id) for verb in ("resume", "fork"))
        return ResumeCommand(
            argv,
            session.cwd,
            fork_argv=fork,
            skip_permission_flags=("--dangerously-bypass-approvals-and-sandbox",),
            install_command="npm install -g @openai/codex",
        )

    def git_branch(self, record: Json) -> str:
        """Return the branch in the first line of a rollout, which had no envelope in early versions."""
        from store.sources.kit.jsonl import as_dict, as_str

        meta = as_dict(record).get("payload", record)
        return as_str(as_dict(as_dict(meta).get("git")).get("branch"))

    def usage_reader(self) -> UsageReader:
        from store.sources.codex.usage import CodexUsageReader
        from store.sources.kit.usage import read_each_record

        return read_each_record(CodexUsageReader().read)

    def can_fork(self, session: Session) -> bool:
        from store.sources.codex.fork import can_fork

        return can_fork(session)

    def fork(self, request: ForkRequest) -> NewTranscript:
        from store.sources.codex.fork import build_fork

        return build_fork(request, Path(self.home.locate()))
