"""This module defines the source for sessions that `backscroll export --as json` wrote, in this store or another one.

They are read when a person names them. Such a session keeps the id that it had. An excerpt gets an id of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from store.model.session import EXPORTED_SOURCE
from store.sources import load_source
from store.sources.backscroll.origin import find_origin
from store.sources.contract import ResumeCommand, SourceReader
from store.sources.kit.transcript_source import Layout, TranscriptSource

if TYPE_CHECKING:
    from store.model.entry import Json
    from store.model.session import Session


class BackscrollExport(TranscriptSource):
    name = EXPORTED_SOURCE
    where = "a file or folder that you name"
    files = Layout(depth=5, suffixes=(".json",))

    def is_my_file(self, path: Path) -> bool:
        from store.sources.backscroll.reader import begins_like_export

        return begins_like_export(path)

    def is_mine(self, first: Mapping[str, Json]) -> bool:
        return "backscroll_export" in first and isinstance(first.get("entries"), list)

    def make_reader(self, root: Path) -> SourceReader:
        from store.sources.backscroll.reader import BackscrollReader

        return BackscrollReader(root, self)

    def find_kept_id(self, native_id: str) -> str:
        from store.sources.backscroll.reader import is_excerpt_id

        return "" if is_excerpt_id(native_id) else native_id

    def resume(self, session: Session) -> ResumeCommand:
        """Return the command of the agent that the session came from, which may know it on this machine, too."""
        origin = find_origin(session)
        agent = load_source(origin.source)
        if agent is None:
            return ResumeCommand(None, cwd=session.cwd, hint="The session was exported. Its agent is not known here.")
        return agent.resume(origin)
