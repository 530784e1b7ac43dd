"""This module reads Claude Code transcripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

from store.sources.claude_code.append import ClaudeMark
from store.sources.claude_code.branches import TranscriptBranch
from store.sources.claude_code.chain import TranscriptChain
from store.sources.claude_code.entries import ClaudeEntryReader
from store.sources.claude_code.files import Transcript, TranscriptCatalog, find_branches, load_tree
from store.sources.contract import Batch, SessionRef, SourceReader
from store.sources.kit import sqlite
from store.sources.kit.jsonl import as_dict, read_json_file

DEFAULT_RETENTION_DAYS = 30
"""The days that Claude Code keeps a transcript by default."""

_digest = lru_cache(maxsize=65_536)(sqlite.digest)


class ClaudeReader(SourceReader):
    """Reads the transcripts of a folder. A line that is appended meanwhile is read the next time."""

    def __init__(self, locator: Path) -> None:
        super().__init__()
        self._catalog = TranscriptCatalog(locator, self.problems)
        self._branch_readers: dict[str, ClaudeEntryReader] = {}
        "Holds a reader for each branch, by its native id, that goes on where the branch left a session read before."

    def scan(self) -> Iterator[SessionRef]:
        for ref in self.scan_files():
            yield ref
            yield from self.scan_branches(ref)

    def scan_files(self) -> Iterator[SessionRef]:
        for transcript in self._catalog.by_id.values():
            stamp = _digest(transcript.stamp, *self._stamp_dependencies(transcript))
            yield SessionRef(transcript.native_id, stamp, transcript.modified_at)

    def scan_branches(self, ref: SessionRef) -> Iterator[SessionRef]:
        return self._make_branch_refs(ref, find_branches(self._catalog.by_id[ref.native_id]))

    def find_branches_read(self, ref: SessionRef) -> Iterator[SessionRef]:
        return self._make_branch_refs(ref, load_tree(self._catalog.by_id[ref.native_id]).branches.values())

    def _make_branch_refs(self, ref: SessionRef, branches: Iterable[TranscriptBranch]) -> Iterator[SessionRef]:
        transcript = self._catalog.by_id[ref.native_id]
        return (SessionRef(transcript.branch_native_id(branch), ref.stamp, ref.updated_at) for branch in branches)

    def read_appended(self, ref: SessionRef, mark: str) -> list[Batch] | None:
        transcript = self._catalog.by_id[ref.native_id]
        decoded = ClaudeMark.decode(mark) if len(transcript.files) == 1 else None
        title = self._catalog.find_summary_title(transcript)
        return decoded.read_appended(transcript.files[0], title) if decoded else None

    def _stamp_dependencies(self, transcript: Transcript) -> Iterator[str]:
        """Yield what else the session depends on: the older copies, the title that another transcript gives to it, and
        the parent whose call started a sub-agent."""
        yield from self._catalog.older_copies(transcript)
        if title := self._catalog.find_summary_title(transcript):
            yield title
        parent = self._catalog.by_id.get(transcript.parent)
        if parent is not None and not transcript.sidecar.exists():
            yield parent.stamp

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        self._branch_readers.clear()
        return self._read(ref, None)

    def read_branch(self, ref: SessionRef) -> Iterator[Batch]:
        return self._read(ref, self._branch_readers.pop(ref.native_id, None))

    def _read(self, ref: SessionRef, entry_reader: ClaudeEntryReader | None) -> Iterator[Batch]:
        """Read a session. An entry reader is given for a branch that begins with the entries of its parent."""
        resolved = self._catalog.resolve(ref.native_id)
        chain = TranscriptChain(self._catalog, *resolved) if resolved else None
        if chain is None or not chain.exists:
            return
        begins_with_parent = entry_reader is not None
        yield Batch(fields=chain.session_fields(), begins_with_parent=begins_with_parent)
        entry_reader = entry_reader or ClaudeEntryReader(is_subagent=chain.is_subagent)
        entries = chain.read_entries(entry_reader, skips_shared=begins_with_parent)
        yield from sqlite.build_batches(entries, entry_reader.problems)
        self._branch_readers |= chain.branch_readers
        yield Batch(summary=entry_reader.summary, mark=chain.build_mark(entry_reader))


def find_expiry(locator: str, refs: Iterable[SessionRef]) -> dict[str, str]:
    """Return when Claude Code will delete each unused transcript, by native id."""
    setting = as_dict(read_json_file(Path(locator) / "settings.json", [])).get("cleanupPeriodDays")
    days = (
        setting
        if isinstance(setting, int) and not isinstance(setting, bool) and 0 <= setting < 100_000
        else DEFAULT_RETENTION_DAYS
    )
    return {ref.native_id: _add_days(ref.updated_at, days) for ref in refs if ref.updated_at}


@lru_cache(maxsize=65_536)
def _add_days(time: str, days: int) -> str:
    return sqlite.normalize_time((datetime.fromisoformat(time) + timedelta(days)).isoformat())
