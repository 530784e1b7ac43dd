"""This module defines the source for GitHub Copilot CLI, which keeps one file of events per session. The events of
sub-agents are in the same file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from store.sources.contract import ResumeCommand, SourceReader
from store.sources.kit.home import Home
from store.sources.kit.transcript_source import Layout, TranscriptSource

if TYPE_CHECKING:
    from store.model.entry import Json
    from store.model.session import Session
    from store.sources.contract import UsageReader


def _is_transcript(path: Path) -> bool:
    return path.name == "events.jsonl" or (path.parent.name == "session-state" and path.suffix == ".jsonl")


class Copilot(TranscriptSource):
    name = "copilot"
    reader_version = 2
    home = Home("~/.copilot", env="COPILOT_HOME")
    files = Layout(("session-state",), depth=1, suffixes=(".jsonl", "workspace.yaml"), is_transcript=_is_transcript)

    def is_mine(self, first: Mapping[str, Json]) -> bool:
        return isinstance(first.get("data"), dict) and {"type", "id", "timestamp", "parentId"} <= first.keys()

    def make_reader(self, root: Path) -> SourceReader:
        from store.sources.copilot.reader import CopilotReader, CopilotRecordTree

        return CopilotReader(root, self.files, CopilotRecordTree)

    def usage_reader(self) -> UsageReader:
        from store.sources.copilot.usage import read_usage
        from store.sources.kit.usage import read_each_record

        return read_each_record(read_usage)

    def resume(self, session: Session) -> ResumeCommand:
        native, _, agent = session.native_id.partition("/")
        if agent:
            hint = f"Copilot CLI cannot resume a sub-agent. Run `copilot --resume {native}` to resume its session."
            return ResumeCommand(None, cwd=session.cwd, hint=hint)
        return ResumeCommand(
            ("copilot", "--resume", native),
            session.cwd,
            skip_permission_flags=("--allow-all-tools",),
            install_command="npm install -g @github/copilot",
        )

    def git_branch(self, record: Json) -> str:
        """Return the branch of an event that starts or resumes a session."""
        from store.sources.kit.jsonl import as_dict, as_str

        return as_str(as_dict(as_dict(as_dict(record).get("data")).get("context")).get("branch"))
