"""How a rollout goes on. After something was rolled back it is read anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from store.sources.codex.entries import Outcome, Telling, outcome_of, prompt_of
from store.sources.codex.files import Named, understood
from store.sources.contract import Batch
from store.sources.kit import transcripts
from store.sources.kit.jsonl import Line, Mark


@dataclass(slots=True, kw_only=True)
class Tail(transcripts.Tail):
    has_items: bool
    "Whether a prompt stands among the response items, or only among what was shown."
    is_shown: bool

    def go_on(self, path: Path, named: Named) -> list[Batch] | None:
        grown = self.file.grown(path)
        if grown is None or not self._is_plain(grown[0]):
            return None
        return self._told(path, *grown, named)

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
        entries = [self.placed(telling.entry(line.value), line, path) for line in lines]
        self.file, self.told = file, telling.remembered()
        told = self.batches(entries, [], {"agent_title": named.title})
        told[0].archived, told[-1].summary = named.is_archived, telling.summary
        return told


def _ends(lines: Iterable[Line]) -> dict[str, Outcome]:
    """How the calls ended that events tell of, before the first of them is told."""
    found: dict[str, Outcome] = {}
    for line in lines:
        call_id, event = outcome_of(*understood(line.value))
        if call_id:
            found.setdefault(call_id, Outcome()).hear(event)
    return {call_id: replace(outcome, output="") for call_id, outcome in found.items()}
