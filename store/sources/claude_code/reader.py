"""Claude Code's transcripts, read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

from store.sources.claude_code.append import Tail
from store.sources.claude_code.chain import Chain
from store.sources.claude_code.entries import Telling
from store.sources.claude_code.files import Found, Transcript, branches
from store.sources.contract import Batch, Problem, Ref
from store.sources.kit import sqlite
from store.sources.kit.jsonl import json_file, mapping
from store.sources.kit.transcripts import Transcripts

DAYS_KEPT = 30
"""What Claude Code keeps when nobody says otherwise."""

_digest = lru_cache(maxsize=65_536)(sqlite.digest)


class Claude(Transcripts):
    """The transcripts as they are now. A line that comes while they are read is read the next time."""

    def __init__(self, locator: Path) -> None:
        super().__init__()
        self._found = Found(locator, self.problems)

    def scan(self) -> Iterator[Ref]:
        for ref in self.heads():
            yield ref
            yield from self.beside(ref)

    def heads(self) -> Iterator[Ref]:
        for one in self._found.by_id.values():
            stamp = _digest(one.stamp, *self._around(one))
            yield Ref(one.native_id, stamp, one.touched)

    def beside(self, ref: Ref) -> Iterator[Ref]:
        one = self._found.by_id[ref.native_id]
        for branch in branches(one):
            yield Ref(one.named(branch), ref.stamp, ref.updated_at)

    def go_on(self, ref: Ref, mark: str) -> list[Batch] | None:
        one = self._found.by_id[ref.native_id]
        tail = Tail.from_mark(mark) if len(one.files) == 1 else None
        return tail.go_on(one.files[0]) if tail else None

    def _around(self, one: Transcript) -> Iterator[str]:
        """What else decides how it is told: whose copy it is, and in which call a sub-agent was sent off."""
        yield from self._found.elders(one)
        parent = self._found.by_id.get(one.parent)
        if parent is not None and not one.sidecar.exists():
            yield parent.stamp

    def read(self, ref: Ref) -> Iterator[Batch]:
        named = self._found.named(ref.native_id)
        chain = Chain(self._found, *named) if named else None
        if chain is None or not chain.is_known:
            return
        yield Batch(fields=chain.fields())
        met: list[Problem] = []
        telling = Telling(met, is_agent=chain.is_agent)
        yield from sqlite.batches(chain.entries(telling, met), met)
        yield Batch(summary=telling.summary, mark=chain.mark(telling))


def expires(locator: str, refs: Iterable[Ref]) -> dict[str, str]:
    """When Claude Code will delete each transcript, if it is not used until then, by native id."""
    told = mapping(json_file(Path(locator) / "settings.json", [])).get("cleanupPeriodDays")
    days = told if isinstance(told, int) and not isinstance(told, bool) and 0 <= told < 100_000 else DAYS_KEPT
    return {ref.native_id: _later(ref.updated_at, days) for ref in refs if ref.updated_at}


@lru_cache(maxsize=65_536)
def _later(at: str, days: int) -> str:
    return sqlite.utc((datetime.fromisoformat(at) + timedelta(days)).isoformat())
