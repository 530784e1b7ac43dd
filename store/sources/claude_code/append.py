"""How a transcript goes on. Only what plainly continues the conversation is told from its end: after a rewind, a copy,
a sub-agent among the lines or a new title it is read anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from store.model.entry import Json, NewEntry
from store.sources.claude_code.branches import TALKING, TITLES
from store.sources.claude_code.entries import Telling
from store.sources.claude_code.prompts import is_command, is_command_output, said
from store.sources.contract import Batch, Problem
from store.sources.kit import transcripts
from store.sources.kit.jsonl import Line, Mark, mapping, words
from store.text.validate import column_text

REMEMBERED = 500
"""Records of the turn that is under way. What hangs on one further back is not plain."""


@dataclass(slots=True, kw_only=True)
class Tail(transcripts.Tail):
    turn: list[str]
    "The uuids of the last prompt and of what hangs on it."
    titles: dict[str, str]

    def go_on(self, path: Path) -> list[Batch] | None:
        grown = self.file.grown(path)
        if grown is None or not all(self._goes_on(mapping(line.value)) for line in grown[0]):
            return None
        return self._told(path, *grown)

    def _goes_on(self, value: Mapping[str, Json]) -> bool:
        kind, uuid = words(value.get("type")), column_text(words(value.get("uuid")))
        parent = column_text(words(value.get("parentUuid")) or words(value.get("logicalParentUuid")))
        if kind in TITLES and words(value.get(TITLES[kind])) != self.titles.get(kind):
            return False
        if "forkedFrom" in value or (value.get("isSidechain") is True and not self.is_agent):
            return False
        if not uuid:
            return True
        if parent not in self.turn or uuid in self.turn:
            return False
        begins = kind == "user" and said(value) is not None
        self.turn = [uuid] if begins else [*self.turn[-REMEMBERED:], uuid]
        return True

    def _told(self, path: Path, lines: list[Line], file: Mark) -> list[Batch]:
        met: list[Problem] = []
        telling = Telling(met, is_agent=self.is_agent)
        telling.remember(self.told)
        entries = [self._entry(telling, path, lines, at) for at in range(len(lines))]
        self.file, self.told = file, telling.remembered()
        told = self.batches(entries, met, {})
        told[-1].summary = telling.summary
        return told

    def _entry(self, telling: Telling, path: Path, lines: list[Line], at: int) -> NewEntry:
        value = mapping(lines[at].value)
        command = value.get("type") == "user" and is_command(words(mapping(value.get("message")).get("content")))
        entry = telling.entry(lines[at].value, path, silent=command and _is_answered(lines[at + 1 :]))
        return self.placed(entry, lines[at], path)


def _is_answered(lines: list[Line]) -> bool:
    """Whether the next that is said is what a command itself had to say."""
    talk = (value for line in lines if (value := mapping(line.value)).get("type") in TALKING)
    return is_command_output(next(talk, {}))
