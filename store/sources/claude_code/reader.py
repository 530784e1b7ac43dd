"""This module reads Claude Code transcripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

from store.sources.claude_code.append import ClaudeMark
from store.sources.claude_code.chain import TranscriptChain
from store.sources.claude_code.entries import ClaudeEntryReader
from store.sources.claude_code.files import Transcript, TranscriptCatalog, find_branches
from store.sources.contract import Batch, Problem, SessionRef, SourceReader
from store.sources.kit import sqlite
from store.sources.kit.jsonl import as_dict, read_json_file

DEFAULT_RETENTION_DAYS = 30
"""What Claude Code keeps when nobody says otherwise."""

_digest = lru_cache(maxsize=65_536)(sqlite.digest)


class ClaudeReader(SourceReader):
    """The transcripts as they are now. A line that comes while they are read is read the next time."""

    def __init__(self, locator: Path) -> None:
        super().__init__()
        self._catalog = TranscriptCatalog(locator, self.problems)

    def scan(self) -> Iterator[SessionRef]:
        for ref in self.scan_files():
            yield ref
            yield from self.scan_branches(ref)

    def scan_files(self) -> Iterator[SessionRef]:
        for one in self._catalog.by_id.values():
            stamp = _digest(one.stamp, *self._stamp_dependencies(one))
            yield SessionRef(one.native_id, stamp, one.modified_at)

    def scan_branches(self, ref: SessionRef) -> Iterator[SessionRef]:
        one = self._catalog.by_id[ref.native_id]
        for branch in find_branches(one):
            yield SessionRef(one.branch_native_id(branch), ref.stamp, ref.updated_at)

    def read_appended(self, ref: SessionRef, mark: str) -> list[Batch] | None:
        one = self._catalog.by_id[ref.native_id]
        tail = ClaudeMark.decode(mark) if len(one.files) == 1 else None
        return tail.read_appended(one.files[0]) if tail else None

    def _stamp_dependencies(self, one: Transcript) -> Iterator[str]:
        """What else decides how it is told: whose copy it is, and in which call a sub-agent was sent off."""
        yield from self._catalog.older_copies(one)
        parent = self._catalog.by_id.get(one.parent)
        if parent is not None and not one.sidecar.exists():
            yield parent.stamp

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        named = self._catalog.resolve(ref.native_id)
        chain = TranscriptChain(self._catalog, *named) if named else None
        if chain is None or not chain.exists:
            return
        yield Batch(fields=chain.session_fields())
        met: list[Problem] = []
        telling = ClaudeEntryReader(met, is_subagent=chain.is_subagent)
        yield from sqlite.build_batches(chain.read_entries(telling, met), met)
        yield Batch(summary=telling.summary, mark=chain.build_mark(telling))


def find_expiry(locator: str, refs: Iterable[SessionRef]) -> dict[str, str]:
    """When Claude Code will delete each transcript, if it is not used until then, by native id."""
    told = as_dict(read_json_file(Path(locator) / "settings.json", [])).get("cleanupPeriodDays")
    days = (
        told if isinstance(told, int) and not isinstance(told, bool) and 0 <= told < 100_000 else DEFAULT_RETENTION_DAYS
    )
    return {ref.native_id: _add_days(ref.updated_at, days) for ref in refs if ref.updated_at}


@lru_cache(maxsize=65_536)
def _add_days(at: str, days: int) -> str:
    return sqlite.normalize_time((datetime.fromisoformat(at) + timedelta(days)).isoformat())
