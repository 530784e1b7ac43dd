"""How a transcript goes on. Only what plainly continues the conversation is told from its end: after a rewind, a copy,
a sub-agent among the lines or a new title it is read anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from store.model.entry import Json, NewEntry
from store.sources.claude_code.branches import MESSAGE_TYPES, TITLE_FIELDS
from store.sources.claude_code.entries import ClaudeEntryReader
from store.sources.claude_code.prompts import extract_prompt, is_command, is_command_output
from store.sources.contract import Batch, Problem
from store.sources.kit import transcripts
from store.sources.kit.jsonl import FileMark, JsonLine, as_dict, as_str
from store.text.validate import replace_surrogates

MAX_TURN_RECORDS = 500
"""Records of the turn that is under way. What hangs on one further back is not plain."""


@dataclass(slots=True, kw_only=True)
class ClaudeMark(transcripts.TranscriptMark):
    turn: list[str]
    "The uuids of the last prompt and of what hangs on it."
    titles: dict[str, str]

    def read_appended(self, path: Path) -> list[Batch] | None:
        grown = self.file.read_appended(path)
        if grown is None or not all(self._continues_turn(as_dict(line.value)) for line in grown[0]):
            return None
        return self._read_lines(path, *grown)

    def _continues_turn(self, value: Mapping[str, Json]) -> bool:
        kind, uuid = as_str(value.get("type")), replace_surrogates(as_str(value.get("uuid")))
        parent = replace_surrogates(as_str(value.get("parentUuid")) or as_str(value.get("logicalParentUuid")))
        if kind in TITLE_FIELDS and as_str(value.get(TITLE_FIELDS[kind])) != self.titles.get(kind):
            return False
        if "forkedFrom" in value or (value.get("isSidechain") is True and not self.is_agent):
            return False
        if not uuid:
            return True
        if parent not in self.turn or uuid in self.turn:
            return False
        begins = kind == "user" and extract_prompt(value) is not None
        self.turn = [uuid] if begins else [*self.turn[-MAX_TURN_RECORDS:], uuid]
        return True

    def _read_lines(self, path: Path, lines: list[JsonLine], file: FileMark) -> list[Batch]:
        met: list[Problem] = []
        telling = ClaudeEntryReader(met, is_subagent=self.is_agent)
        telling.restore_state(self.told)
        entries = [self._read_entry(telling, path, lines, at) for at in range(len(lines))]
        self.file, self.told = file, telling.save_state()
        told = self.build_batches(entries, met, {})
        told[-1].summary = telling.summary
        return told

    def _read_entry(self, telling: ClaudeEntryReader, path: Path, lines: list[JsonLine], at: int) -> NewEntry:
        value = as_dict(lines[at].value)
        command = value.get("type") == "user" and is_command(as_str(as_dict(value.get("message")).get("content")))
        entry = telling.read_entry(
            lines[at].value, path, is_local_command=command and _has_command_output(lines[at + 1 :])
        )
        return self.attach_record(entry, lines[at], path)


def _has_command_output(lines: list[JsonLine]) -> bool:
    """Whether the next that is said is what a command itself had to say."""
    talk = (value for line in lines if (value := as_dict(line.value)).get("type") in MESSAGE_TYPES)
    return is_command_output(next(talk, {}))
