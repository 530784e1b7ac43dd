"""This module reads the lines that were appended to a transcript. It does so only when they plainly continue the
conversation. After a rewind, a copy, a sub-agent among the lines or a new title, the whole transcript is read again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from store.sources.claude_code.branches import CommandOutputs
from store.sources.claude_code.entries import ClaudeEntryReader
from store.sources.claude_code.record import MESSAGE_TYPES, TITLE_FIELDS, ClaudeRecord
from store.sources.contract import Batch
from store.sources.kit import transcripts
from store.sources.kit.jsonl import FileMark, JsonLine

MAX_TURN_RECORDS = 500
"""Limits the records of the open turn that a mark remembers. A child of an older record forces a full read."""


@dataclass(slots=True, kw_only=True)
class ClaudeMark(transcripts.TranscriptMark):
    turn: list[str]
    "The uuids of the last prompt and of its descendants."
    titles: dict[str, str]
    summary_title: str = ""
    "The title that a record of any transcript gave to the session."
    is_command_open: bool = False
    "Is set when no message followed the last command. What follows may show that it was read wrongly."

    def read_appended(self, path: Path, summary_title: str) -> list[Batch] | None:
        appended = self.file.read_appended(path)
        if appended is None or summary_title != self.summary_title:
            return None
        lines, file = appended
        records = [ClaudeRecord(line.value) for line in lines]
        local_commands = self._find_local_commands(records)
        if local_commands is None or not all(
            self._continues_turn(record, is_local_command=index in local_commands)
            for index, record in enumerate(records)
        ):
            return None
        return self._read_records(path, lines, records, local_commands, file)

    def _find_local_commands(self, records: Sequence[ClaudeRecord]) -> set[int] | None:
        """Return the indexes of the local commands, or None when a command that was read before may be one."""
        local_commands: set[int] = set()
        commands = CommandOutputs(local_commands)
        uuids = {record.uuid for record in records}
        for index, record in enumerate(records):
            if record.kind in MESSAGE_TYPES:
                is_own_output = commands.is_open and record.parent in uuids
                if self.is_command_open or (record.is_command_output and not is_own_output):
                    return None
                commands.add(index, record)
        self.is_command_open |= commands.is_open
        commands.finish()
        return local_commands

    def _continues_turn(self, record: ClaudeRecord, *, is_local_command: bool) -> bool:
        if record.kind in TITLE_FIELDS and record.title != self.titles.get(record.kind):
            return False
        if record.original is not None or (record.is_sidechain and not self.is_agent):
            return False
        uuid = record.uuid
        if not uuid:
            return True
        if record.parent not in self.turn or uuid in self.turn:
            return False
        is_turn_start = record.prompt is not None and not is_local_command
        self.turn = [uuid] if is_turn_start else [*self.turn[-MAX_TURN_RECORDS:], uuid]
        return True

    def _read_records(
        self,
        path: Path,
        lines: Sequence[JsonLine],
        records: Sequence[ClaudeRecord],
        local_commands: set[int],
        file: FileMark,
    ) -> list[Batch]:
        entry_reader = ClaudeEntryReader(is_subagent=self.is_agent)
        entry_reader.restore_state(self.parser_state)
        entries = [
            self.attach_record(
                entry_reader.read_entry(record, path, is_local_command=index in local_commands), line, path
            )
            for index, (line, record) in enumerate(zip(lines, records, strict=True))
        ]
        self.file, self.parser_state = file, entry_reader.save_state()
        batches = self.build_batches(entries, entry_reader.problems, {})
        batches[-1].summary = entry_reader.summary
        return batches
