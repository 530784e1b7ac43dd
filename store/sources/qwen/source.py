"""This module defines the source for Qwen Code, which keeps one file of JSON lines per session: a tree of records with
messages in the format of Gemini CLI."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from store.probes import read_variable
from store.sources.contract import ResumeCommand, SourceReader
from store.sources.kit.home import Home, path_setting, read_settings
from store.sources.kit.transcript_source import Layout, TranscriptSource

if TYPE_CHECKING:
    from store.model.entry import Json
    from store.model.session import Session
    from store.sources.contract import UsageReader


class Qwen(TranscriptSource):
    name = "qwen"
    reader_version = 2
    home = Home("~/.qwen", env="QWEN_HOME")
    files = Layout(("projects",), depth=2, is_transcript=lambda path: path.parent.name == "chats")

    def roots(self) -> Iterator[str]:
        """Return Qwen's folder, or the one to which a setting moved what it writes."""
        home = Path(self.home.locate())
        advanced = read_settings(home / "settings.json").get("advanced")
        configured = advanced.get("runtimeOutputDir") if isinstance(advanced, dict) else ""
        moved = path_setting(read_variable("QWEN_RUNTIME_DIR") or configured)
        yield str(home / os.path.expanduser(moved))

    def is_mine(self, first: Mapping[str, Json]) -> bool:
        """Return whether the first record is of Qwen Code. Those of Claude Code have the same envelope, but their
        messages have blocks instead of parts."""
        if not {"uuid", "parentUuid", "sessionId", "type"} <= first.keys() or "isSidechain" in first:
            return False
        message = first.get("message")
        return (isinstance(message, dict) and isinstance(message.get("parts"), list)) or "systemPayload" in first

    def make_reader(self, root: Path) -> SourceReader:
        from store.sources.kit.record_tree import RecordTreeReader
        from store.sources.qwen.reader import QwenRecordTree

        return RecordTreeReader(root, self.files, QwenRecordTree)

    def usage_reader(self) -> UsageReader:
        from store.sources.kit.usage import read_each_record
        from store.sources.qwen.usage import read_usage

        return read_each_record(read_usage)

    def resume(self, session: Session) -> ResumeCommand:
        native, _, branch = session.native_id.partition("/")
        if branch:
            hint = f"Qwen Code cannot resume an old branch. Run `qwen --resume {native}` to resume its session."
            return ResumeCommand(None, cwd=session.cwd, hint=hint)
        return ResumeCommand(
            ("qwen", "--resume", native),
            session.cwd,
            skip_permission_flags=("--yolo",),
            install_command="npm install -g @qwen-code/qwen-code",
        )

    def git_branch(self, record: Json) -> str:
        from store.sources.kit.jsonl import as_dict, as_str

        return as_str(as_dict(record).get("gitBranch"))
