"""This module reads Codex rollouts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from store.sources.codex.append import CodexMark
from store.sources.codex.chain import ThreadChain
from store.sources.codex.files import Rollout, RolloutCatalog, ThreadInfo, has_rollback, read_thread_infos
from store.sources.contract import Batch, Problem, SessionRef, SourceReader
from store.sources.kit import sqlite


class CodexReader(SourceReader):
    """The rollouts as they are now. A line that comes while they are read is read the next time."""

    def __init__(self, locator: Path) -> None:
        super().__init__()
        self._catalog = RolloutCatalog(locator, self.problems)
        self._thread_infos = read_thread_infos(locator) if locator.is_dir() else {}

    def scan(self) -> Iterator[SessionRef]:
        for ref in self.scan_files():
            yield ref
            yield from self.scan_branches(ref)

    def scan_files(self) -> Iterator[SessionRef]:
        for thread, written in self._catalog.threads.items():
            newest = [(rollout.id, end) for rollout, end in self._catalog.segments(written[-1])]
            for one in written:
                native_id = thread if one == written[-1] else f"{thread}/{one.id}"
                stamp = sqlite.digest(
                    self._catalog.segment_stamps(one), newest, self._thread_infos.get(thread), one.is_archived
                )
                yield SessionRef(native_id, stamp, _modified_at(one.path))

    def scan_branches(self, ref: SessionRef) -> Iterator[SessionRef]:
        one, _ = self._resolve(ref)
        if one and any(has_rollback(rollout.path) for rollout, _ in self._catalog.segments(one)):
            for name in ThreadChain(self._catalog, one, "", ThreadInfo()).branch_names:
                yield SessionRef(f"{ref.native_id}/{name}", ref.stamp, ref.updated_at)

    def read_appended(self, ref: SessionRef, mark: str) -> list[Batch] | None:
        one, _ = self._resolve(ref)
        tail = CodexMark.decode(mark)
        if tail is None or one is None or len(self._catalog.segments(one)) != 1:
            return None
        named = self._thread_infos.get(one.thread_id, ThreadInfo())
        return tail.read_appended(one.path, named._replace(is_archived=named.is_archived or one.is_archived))

    def _resolve(self, ref: SessionRef) -> tuple[Rollout | None, str]:
        """The rollout and the branch of it that a native id names."""
        thread, *rest = ref.native_id.split("/")
        written = self._catalog.threads.get(thread)
        if not written:
            return None, ""
        one = self._catalog.by_id[rest.pop(0)] if rest and rest[0] in self._catalog.by_id else written[-1]
        return one, rest[0] if rest else ""

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        one, branch = self._resolve(ref)
        if one is None:
            return
        chain = ThreadChain(self._catalog, one, branch, self._thread_infos.get(one.thread_id, ThreadInfo()))
        if not chain.exists:
            return
        yield chain.build_header_batch()
        met: list[Problem] = []
        telling = chain.make_entry_reader()
        yield from sqlite.build_batches(chain.read_entries(telling, met), met)
        yield Batch(summary=telling.summary, mark="" if branch else chain.build_mark(telling))


def _modified_at(path: Path) -> str:
    try:
        return sqlite.normalize_time(path.stat().st_mtime)
    except OSError:
        return ""
