"""This module reads the lines that were appended to a rollout. After a rollback the whole rollout is read again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from store.model.entry import Json
from store.sources.codex.entries import CallOutcome, CodexEntryReader, find_prompt, parse_outcome
from store.sources.codex.files import RolloutLine, ThreadInfo
from store.sources.codex.prompt_pairs import PromptPairs
from store.sources.contract import Batch
from store.sources.kit import transcripts
from store.sources.kit.jsonl import FileMark


@dataclass(slots=True, kw_only=True)
class CodexMark(transcripts.TranscriptMark):
    has_items: bool
    "Is set when a response item holds a prompt."
    is_shown: bool
    "Is set when an event holds a prompt."
    pairs: dict[str, Json] = field(default_factory=dict)
    "Is the state of the pairs of prompts and events."

    def read_appended(self, path: Path, info: ThreadInfo) -> list[Batch] | None:
        appended = self.file.read_appended(path)
        if appended is None:
            return None
        lines, file = list(map(RolloutLine, appended[0])), appended[1]
        if not self._can_append(lines):
            return None
        pairs = PromptPairs(self.pairs)
        injected_before = pairs.injected
        for index, line in enumerate(lines):
            pairs.add_line(index, line.kind, line.payload, find_prompt(line.kind, line.payload))
        if {index for index in pairs.injected ^ injected_before if index < 0}:
            return None  # a line that was read before is something else than it seemed
        self.pairs = pairs.save_state()
        return self._read_lines(path, lines, file, info, pairs.injected)

    @property
    def uses_events(self) -> bool:
        return self.is_shown and not self.has_items

    def _can_append(self, lines: Iterable[RolloutLine]) -> bool:
        before = self.uses_events
        for line in lines:
            if line.payload.get("type") == "thread_rolled_back":
                return False
            if find_prompt(line.kind, line.payload) is not None:
                self.has_items |= line.kind == "response_item"
                self.is_shown |= line.kind != "response_item"
        return before == self.uses_events

    def _read_lines(
        self, path: Path, lines: Sequence[RolloutLine], file: FileMark, info: ThreadInfo, injected: set[int]
    ) -> list[Batch]:
        entry_reader = CodexEntryReader(
            _collect_outcomes(lines), uses_events=self.uses_events, is_subagent=self.is_agent
        )
        entry_reader.restore_state(self.parser_state)
        entries = [
            self.attach_record(entry_reader.read_entry(line, is_injected=index in injected), line.line, path)
            for index, line in enumerate(lines)
        ]
        self.file, self.parser_state = file, entry_reader.save_state()
        batches = self.build_batches(entries, [], {"agent_title": info.title})
        batches[0].archived, batches[-1].summary = info.is_archived, entry_reader.summary
        return batches


def _collect_outcomes(lines: Iterable[RolloutLine]) -> dict[str, CallOutcome]:
    """Return how the calls ended, by call id. An event with the outcome may follow the result that it belongs to."""
    outcomes: dict[str, CallOutcome] = {}
    for line in lines:
        call_id, event = parse_outcome(line.kind, line.payload)
        if call_id:
            outcomes.setdefault(call_id, CallOutcome()).update(event)
    return {call_id: replace(outcome, output="") for call_id, outcome in outcomes.items()}
