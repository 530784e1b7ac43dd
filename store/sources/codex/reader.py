"""Codex's rollouts, read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from store.sources.codex.append import Tail
from store.sources.codex.chain import Thread
from store.sources.codex.files import Found, Named, Rollout, names, rolls_back
from store.sources.contract import Batch, Problem, Ref
from store.sources.kit import sqlite
from store.sources.kit.transcripts import Transcripts


class Codex(Transcripts):
    """The rollouts as they are now. A line that comes while they are read is read the next time."""

    def __init__(self, locator: Path) -> None:
        super().__init__()
        self._found = Found(locator, self.problems)
        self._names = names(locator) if locator.is_dir() else {}

    def scan(self) -> Iterator[Ref]:
        for ref in self.heads():
            yield ref
            yield from self.beside(ref)

    def heads(self) -> Iterator[Ref]:
        for thread, written in self._found.threads.items():
            newest = [(rollout.id, end) for rollout, end in self._found.segments(written[-1])]
            for one in written:
                native_id = thread if one == written[-1] else f"{thread}/{one.id}"
                stamp = sqlite.digest(self._found.stamps(one), newest, self._names.get(thread), one.is_archived)
                yield Ref(native_id, stamp, _modified(one.path))

    def beside(self, ref: Ref) -> Iterator[Ref]:
        one, _ = self._named(ref)
        if one and any(rolls_back(rollout.path) for rollout, _ in self._found.segments(one)):
            for name in Thread(self._found, one, "", Named()).names:
                yield Ref(f"{ref.native_id}/{name}", ref.stamp, ref.updated_at)

    def go_on(self, ref: Ref, mark: str) -> list[Batch] | None:
        one, _ = self._named(ref)
        tail = Tail.from_mark(mark)
        if tail is None or one is None or len(self._found.segments(one)) != 1:
            return None
        named = self._names.get(one.thread, Named())
        return tail.go_on(one.path, named._replace(is_archived=named.is_archived or one.is_archived))

    def _named(self, ref: Ref) -> tuple[Rollout | None, str]:
        """The rollout and the branch of it that a native id names."""
        thread, *rest = ref.native_id.split("/")
        written = self._found.threads.get(thread)
        if not written:
            return None, ""
        one = self._found.by_id[rest.pop(0)] if rest and rest[0] in self._found.by_id else written[-1]
        return one, rest[0] if rest else ""

    def read(self, ref: Ref) -> Iterator[Batch]:
        one, branch = self._named(ref)
        if one is None:
            return
        chain = Thread(self._found, one, branch, self._names.get(one.thread, Named()))
        if not chain.is_known:
            return
        yield chain.about()
        met: list[Problem] = []
        telling = chain.telling()
        yield from sqlite.batches(chain.entries(telling, met), met)
        yield Batch(summary=telling.summary, mark="" if branch else chain.mark(telling))


def _modified(path: Path) -> str:
    try:
        return sqlite.utc(path.stat().st_mtime)
    except OSError:
        return ""
