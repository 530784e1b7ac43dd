"""This module defines the source for the Agent Trajectory Interchange Format (ATIF).

A trajectory is one JSON file per run: a list of steps, each with a message, its tool calls and its observations. Harbor
and NeMo write these files. They are read when a person names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from store.sources.contract import ResumeCommand, SourceReader
from store.sources.kit.transcript_source import Layout, TranscriptSource

if TYPE_CHECKING:
    from store.model.entry import Json
    from store.model.session import Session
    from store.sources.contract import UsageReader


class Atif(TranscriptSource):
    name = "atif"
    where = "a file or folder that you name"
    files = Layout(depth=5, suffixes=(".json",))

    def is_my_file(self, path: Path) -> bool:
        from store.sources.atif.reader import has_schema_version

        return has_schema_version(path)

    def is_mine(self, first: Mapping[str, Json]) -> bool:
        return str(first.get("schema_version")).startswith("ATIF-") and isinstance(first.get("steps"), list)

    def make_reader(self, root: Path) -> SourceReader:
        from store.sources.atif.reader import AtifReader

        return AtifReader(root, self)

    def usage_reader(self) -> UsageReader:
        from store.sources.atif.usage import read_usage
        from store.sources.kit.usage import read_each_record

        return read_each_record(read_usage)

    def resume(self, session: Session) -> ResumeCommand:
        return ResumeCommand(
            None, cwd=session.cwd, hint="A trajectory is the record of a finished run. It cannot be resumed."
        )
