"""Where a rollout ends, and how it goes on. What was rolled back concerns what was told before, and it is read anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from store.coding import decode, encode
from store.errors import BadValue
from store.model import Json, NewEntry
from store.sources import reading
from store.sources.codex.files import Named, understood
from store.sources.codex.telling import Outcome, Telling, outcome_of, prompt_of
from store.sources.lines import Line, Mark, mapping, moment, record
from store.sources.shape import Batch
from store.sources.transcripts import place_of

_LONGEST = 256 * 1024
"""Of what is remembered. A call's output may be waiting to be told, and be as long as it likes."""


@dataclass(slots=True)
class Tail:
    file: Mark
    has_items: bool
    "Whether a prompt stands among the response items, or only among what was shown."
    is_shown: bool
    is_agent: bool
    when: str
    newest: str
    told: dict[str, Json] = field(default_factory=dict)

    def spelled(self) -> str:
        mark = encode(asdict(self) | {"file": list(self.file)}).decode()
        return mark if len(mark) < _LONGEST else ""

    @classmethod
    def read(cls, mark: str, path: Path, named: Named) -> list[Batch] | None:
        """What came since the mark was made, and the next mark."""
        try:
            kept = decode(mark)
            tail = cls(**{**kept, "file": Mark(*kept["file"])})
        except (BadValue, ValueError, TypeError, KeyError):
            return None
        grown = tail.file.grown(path)
        if grown is None or not tail._is_plain(grown[0]):
            return None
        return tail._told(path, *grown, named)

    @property
    def by_events(self) -> bool:
        return self.is_shown and not self.has_items

    def _is_plain(self, lines: Iterable[Line]) -> bool:
        before = self.by_events
        for kind, payload in (understood(line.value) for line in lines):
            if payload.get("type") == "thread_rolled_back":
                return False
            if prompt_of(kind, payload) is not None:
                self.has_items |= kind == "response_item"
                self.is_shown |= kind != "response_item"
        return before == self.by_events

    def _told(self, path: Path, lines: list[Line], file: Mark, named: Named) -> list[Batch]:
        telling = Telling(_ends(lines), by_events=self.by_events, is_agent=self.is_agent)
        telling.remember(self.told)
        entries = [self._entry(telling, path, line) for line in lines]
        self.file, self.told = file, telling.remembered()
        batches = list(reading.batches(([entry] for entry in entries), []))
        batches[0].fields = {"agent_title": named.title}
        if self.newest:
            batches[0].fields["updated_at"] = self.newest
        batches[0].archived = named.is_archived
        return [*batches, Batch(summary=telling.summary, mark=self.spelled())]

    def _entry(self, telling: Telling, path: Path, line: Line) -> NewEntry:
        entry = telling.entry(line.value)
        entry.record = record(line, place_of(path))
        self.when = moment(mapping(line.value).get("timestamp")) or self.when
        self.newest = max(self.newest, self.when)
        entry.created_at = self.when
        return entry


def _ends(lines: Iterable[Line]) -> dict[str, Outcome]:
    """How the calls ended that events tell of, before the first of them is told."""
    found: dict[str, Outcome] = {}
    for line in lines:
        call_id, event = outcome_of(*understood(line.value))
        if call_id:
            found.setdefault(call_id, Outcome()).hear(event)
    return {call_id: replace(outcome, output="") for call_id, outcome in found.items()}
