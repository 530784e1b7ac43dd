"""This module defines the source for Gemini CLI, which keeps a log of messages. A message is written again when it
grows, removed by a rewind, and repeated on resume."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from store.sources.contract import ResumeCommand, SessionRef, SourceReader
from store.sources.kit.home import Home
from store.sources.kit.stamps import digest, plain_file_stamp
from store.sources.kit.transcript_source import Layout, TranscriptSource

if TYPE_CHECKING:
    from store.model.entry import Json
    from store.model.session import Session
    from store.sources.contract import UsageReader


def _is_chat(path: Path) -> bool:
    if path.parent.name == "chats":
        return path.name.startswith("session-")
    return path.parent.parent.name == "chats" and path.suffix == ".jsonl"  # a sub-agent's


class Gemini(TranscriptSource):
    name = "gemini"
    reader_version = 2
    home = Home("~", env="GEMINI_CLI_HOME", below=".gemini")
    files = Layout(("tmp",), depth=3, suffixes=(".jsonl", ".json"), is_transcript=_is_chat)

    def stamp(self, locator: str) -> str:
        tree = super().stamp(locator)
        return digest(tree, plain_file_stamp(Path(locator) / "settings.json")) if tree else ""

    def is_my_file(self, path: Path) -> bool:
        from store.sources.gemini.reader import read_metadata

        return self.is_mine(read_metadata(path, []))

    def is_mine(self, first: Mapping[str, Json]) -> bool:
        from store.sources.gemini.reader import session_id

        return bool(session_id(first))

    def make_reader(self, root: Path) -> SourceReader:
        from store.sources.gemini.reader import GeminiReader

        return GeminiReader(root, self.files)

    def expiry(self, locator: str, refs: Iterable[SessionRef]) -> Mapping[str, str]:
        from store.sources.gemini.reader import find_expiry

        return find_expiry(Path(locator), self.files)

    def usage_reader(self) -> UsageReader:
        from store.sources.gemini.usage import read_usage
        from store.sources.kit.usage import read_each_record

        return read_each_record(read_usage)

    def resume(self, session: Session) -> ResumeCommand:
        native, _, branch = session.native_id.partition("/")
        if session.relation == "delegate":
            hint = "Gemini CLI cannot resume a sub-agent. Resume its parent."
            return ResumeCommand(None, cwd=session.cwd, hint=hint)
        if branch:
            hint = f"Gemini CLI cannot resume an old branch. Run `gemini --resume {native}` to resume its session."
            return ResumeCommand(None, cwd=session.cwd, hint=hint)
        return ResumeCommand(
            ("gemini", "--resume", native),
            session.cwd,
            skip_permission_flags=("--yolo",),
            install_command="npm install -g @google/gemini-cli",
        )
