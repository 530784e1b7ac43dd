"""This module reads the lines that were appended to a transcript. It does so only when they plainly continue the
conversation. After a rewind, a copy, a sub-agent among the lines or a new title, the whole transcript is read again."""

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
"""Limits the records of the open turn that a mark remembers. A child of an older record forces a full read."""


@dataclass(slots=True, kw_only=True)
class ClaudeMark(transcripts.TranscriptMark):
    turn: list[str]
    "The uuids of the last prompt and of its descendants."
    titles: dict[str, str]

    def read_appended(self, path: Path) -> list[Batch] | None:
        appended = self.file.read_appended(path)
        if appended is None or not all(self._continues_turn(as_dict(line.value)) for line in appended[0]):
            return None
        return self._read_lines(path, *appended)

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
        is_turn_start = kind == "user" and extract_prompt(value) is not None
        self.turn = [uuid] if is_turn_start else [*self.turn[-MAX_TURN_RECORDS:], uuid]
        return True

    def _read_lines(self, path: Path, lines: list[JsonLine], file: FileMark) -> list[Batch]:
        problems: list[Problem] = []
        entry_reader = ClaudeEntryReader(problems, is_subagent=self.is_agent)
        entry_reader.restore_state(self.parser_state)
        entries = [self._read_entry(entry_reader, path, lines, index) for index in range(len(lines))]
        self.file, self.parser_state = file, entry_reader.save_state()
        batches = self.build_batches(entries, problems, {})
        batches[-1].summary = entry_reader.summary
        return batches

    def _read_entry(self, entry_reader: ClaudeEntryReader, path: Path, lines: list[JsonLine], index: int) -> NewEntry:
        value = as_dict(lines[index].value)
        is_user_command = value.get("type") == "user" and is_command(
            as_str(as_dict(value.get("message")).get("content"))
        )
        entry = entry_reader.read_entry(
            lines[index].value, path, is_local_command=is_user_command and _has_command_output(lines[index + 1 :])
        )
        return self.attach_record(entry, lines[index], path)


def _has_command_output(lines: list[JsonLine]) -> bool:
    """Return whether the next message is the output of a command."""
    messages = (value for line in lines if (value := as_dict(line.value)).get("type") in MESSAGE_TYPES)
    return is_command_output(next(messages, {}))
