"""How a rollout goes on. After something was rolled back it is read anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from store.sources.codex.entries import CallOutcome, CodexEntryReader, find_prompt, parse_outcome
from store.sources.codex.files import ThreadInfo, unwrap_line
from store.sources.contract import Batch
from store.sources.kit import transcripts
from store.sources.kit.jsonl import FileMark, JsonLine


@dataclass(slots=True, kw_only=True)
class CodexMark(transcripts.TranscriptMark):
    has_items: bool
    "Whether a prompt stands among the response items, or only among what was shown."
    is_shown: bool

    def read_appended(self, path: Path, named: ThreadInfo) -> list[Batch] | None:
        grown = self.file.read_appended(path)
        if grown is None or not self._can_append(grown[0]):
            return None
        return self._read_lines(path, *grown, named)

    @property
    def uses_events(self) -> bool:
        return self.is_shown and not self.has_items

    def _can_append(self, lines: Iterable[JsonLine]) -> bool:
        before = self.uses_events
        for kind, payload in (unwrap_line(line.value) for line in lines):
            if payload.get("type") == "thread_rolled_back":
                return False
            if find_prompt(kind, payload) is not None:
                self.has_items |= kind == "response_item"
                self.is_shown |= kind != "response_item"
        return before == self.uses_events

    def _read_lines(self, path: Path, lines: list[JsonLine], file: FileMark, named: ThreadInfo) -> list[Batch]:
        telling = CodexEntryReader(_collect_outcomes(lines), uses_events=self.uses_events, is_subagent=self.is_agent)
        telling.restore_state(self.told)
        entries = [self.attach_record(telling.read_entry(line.value), line, path) for line in lines]
        self.file, self.told = file, telling.save_state()
        told = self.build_batches(entries, [], {"agent_title": named.title})
        told[0].archived, told[-1].summary = named.is_archived, telling.summary
        return told


def _collect_outcomes(lines: Iterable[JsonLine]) -> dict[str, CallOutcome]:
    """How the calls ended that events tell of, before the first of them is told."""
    found: dict[str, CallOutcome] = {}
    for line in lines:
        call_id, event = parse_outcome(*unwrap_line(line.value))
        if call_id:
            found.setdefault(call_id, CallOutcome()).update(event)
    return {call_id: replace(outcome, output="") for call_id, outcome in found.items()}
