"""This module defines the source for pi, which keeps one file of JSON lines per session. Its records form a tree, and
the last record is on the branch in use."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from store.probes import read_variable
from store.sources.contract import QuickSession, ResumeCommand, SourceReader
from store.sources.kit.home import Home, path_setting, read_settings
from store.sources.kit.transcript_source import Layout, TranscriptSource

if TYPE_CHECKING:
    from store.model.entry import Json
    from store.model.session import Session
    from store.sources.contract import UsageReader

_BEGINNING_BYTES = 64 * 1024


def _is_of_openclaw(path: Path) -> bool:
    """Return whether OpenClaw wrote a transcript. Its records look like those of pi, but pi cannot resume them."""
    import re

    from store.sources.kit.stamps import PATH_ERRORS, open_regular_file

    if any(folder.lstrip(".") == "openclaw" for folder in path.parts[:-1]):
        return True
    try:
        with open_regular_file(path) as file:
            beginning = file.read(_BEGINNING_BYTES)
    except PATH_ERRORS:
        return False
    return re.search(rb'"(?:customType|provider)":\s*"openclaw', beginning) is not None


class Pi(TranscriptSource):
    name = "pi"
    reader_version = 2
    home = Home("~/.pi/agent", env="PI_CODING_AGENT_DIR")
    files = Layout(("agent/sessions", "sessions"), depth=1)

    def roots(self) -> Iterator[str]:
        """Return pi's folder, and the folder of its sessions if a setting moved them."""
        agent = Path(self.home.locate())
        configured = read_settings(agent / "settings.json").get("sessionDir")
        yield str(agent)
        if moved := path_setting(read_variable("PI_CODING_AGENT_SESSION_DIR") or configured):
            yield str(agent / os.path.expanduser(moved))

    def is_mine(self, first: Mapping[str, Json]) -> bool:
        return first.get("type") == "session" and isinstance(first.get("id"), str) and "cwd" in first

    def is_my_file(self, path: Path) -> bool:
        return super().is_my_file(path) and not _is_of_openclaw(path)

    def make_reader(self, root: Path) -> SourceReader:
        from store.sources.pi.reader import PiReader, PiRecordTree

        return PiReader(root, self.files, PiRecordTree)

    def quick_read(self, locator: str, known: Container[str]) -> Iterator[QuickSession]:
        from store.sources.pi.quick import quick_read

        return quick_read(locator, self.files, known)

    def usage_reader(self) -> UsageReader:
        from store.sources.kit.usage import read_each_record
        from store.sources.pi.usage import read_usage

        return read_each_record(read_usage)

    def resume(self, session: Session) -> ResumeCommand:
        native, _, branch = session.native_id.partition("/")
        if branch:
            hint = f"pi resumes the newest branch. Run `pi --session {native}` and pick this one with /tree."
            return ResumeCommand(None, cwd=session.cwd, hint=hint)
        argv, fork = ("pi", "--session", native), ("pi", "--fork", native)
        return ResumeCommand(
            argv, session.cwd, fork_argv=fork, install_command="npm install -g @earendil-works/pi-coding-agent"
        )
