"""This module reads Codex rollouts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from store.sources.codex.append import CodexMark
from store.sources.codex.chain import ThreadChain
from store.sources.codex.files import Rollout, RolloutCatalog, ThreadInfo, has_rollback, read_thread_infos
from store.sources.contract import Batch, Problem, SessionRef, SourceReader
from store.sources.kit import sqlite
from store.sources.kit.jsonl import modified_at


class CodexReader(SourceReader):
    """Reads the rollouts of a folder. A line that is appended meanwhile is read the next time."""

    def __init__(self, locator: Path) -> None:
        super().__init__()
        self._catalog = RolloutCatalog(locator, self.problems)
        self._thread_infos = read_thread_infos(locator) if locator.is_dir() else {}

    def scan(self) -> Iterator[SessionRef]:
        for ref in self.scan_files():
            yield ref
            yield from self.scan_branches(ref)

    def scan_files(self) -> Iterator[SessionRef]:
        for thread, rollouts in self._catalog.threads.items():
            newest = [(segment.id, end) for segment, end in self._catalog.segments(rollouts[-1])]
            for rollout in rollouts:
                native_id = thread if rollout == rollouts[-1] else f"{thread}/{rollout.id}"
                stamp = sqlite.digest(
                    self._catalog.segment_stamps(rollout), newest, self._thread_infos.get(thread), rollout.is_archived
                )
                yield SessionRef(native_id, stamp, modified_at(rollout.path))

    def scan_branches(self, ref: SessionRef) -> Iterator[SessionRef]:
        rollout, _ = self._resolve(ref)
        if rollout and any(has_rollback(segment.path) for segment, _ in self._catalog.segments(rollout)):
            for name in ThreadChain(self._catalog, rollout, "", ThreadInfo()).branch_names:
                yield SessionRef(f"{ref.native_id}/{name}", ref.stamp, ref.updated_at)

    def read_appended(self, ref: SessionRef, mark: str) -> list[Batch] | None:
        rollout, _ = self._resolve(ref)
        decoded = CodexMark.decode(mark)
        if decoded is None or rollout is None or len(self._catalog.segments(rollout)) != 1:
            return None
        info = self._thread_infos.get(rollout.thread_id, ThreadInfo())
        return decoded.read_appended(rollout.path, info._replace(is_archived=info.is_archived or rollout.is_archived))

    def _resolve(self, ref: SessionRef) -> tuple[Rollout | None, str]:
        """Return the rollout and the branch that a native id names."""
        thread, *rest = ref.native_id.split("/")
        rollouts = self._catalog.threads.get(thread)
        if not rollouts:
            return None, ""
        rollout = self._catalog.by_id[rest.pop(0)] if rest and rest[0] in self._catalog.by_id else rollouts[-1]
        return rollout, rest[0] if rest else ""

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        rollout, branch = self._resolve(ref)
        if rollout is None:
            return
        chain = ThreadChain(self._catalog, rollout, branch, self._thread_infos.get(rollout.thread_id, ThreadInfo()))
        if not chain.exists:
            return
        yield chain.build_header_batch()
        problems: list[Problem] = []
        entry_reader = chain.make_entry_reader()
        yield from sqlite.build_batches(chain.read_entries(entry_reader, problems), problems)
        yield Batch(summary=entry_reader.summary, mark="" if branch else chain.build_mark(entry_reader))
