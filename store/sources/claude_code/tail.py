"""Where a transcript ends, and how it goes on. Only what plainly continues the conversation is told from here: after a
rewind, a copy, a sub-agent among the lines or a new title it is read anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from store.coding import column_text, decode, encode
from store.errors import BadValue
from store.model import Json, NewEntry
from store.sources import reading
from store.sources.claude_code.prompts import is_command, is_command_output, said
from store.sources.claude_code.telling import Telling
from store.sources.claude_code.tree import TALKING, TITLES
from store.sources.lines import Line, Mark, mapping, moment, record, words
from store.sources.shape import Batch, Problem
from store.sources.transcripts import place_of

_REMEMBERED = 500
"""Records of the turn that is under way. What hangs on one further back is not plain."""


@dataclass(slots=True)
class Tail:
    file: Mark
    turn: list[str]
    "The uuids of the last prompt and of what hangs on it."
    titles: dict[str, str]
    is_agent: bool
    when: str
    newest: str
    told: dict[str, Json] = field(default_factory=dict)

    def spelled(self) -> str:
        self.turn = self.turn[-_REMEMBERED:]
        return encode(asdict(self) | {"file": list(self.file)}).decode()

    @classmethod
    def read(cls, mark: str, path: Path) -> list[Batch] | None:
        """What came since the mark was made, and the next mark."""
        try:
            kept = decode(mark)
            tail = cls(**{**kept, "file": Mark(*kept["file"])})
        except (BadValue, ValueError, TypeError, KeyError):
            return None
        grown = tail.file.grown(path)
        if grown is None or not all(tail._goes_on(mapping(line.value)) for line in grown[0]):
            return None
        return tail._told(path, *grown)

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
        self.turn = [uuid] if kind == "user" and said(value) is not None else [*self.turn, uuid]
        return True

    def _told(self, path: Path, lines: list[Line], file: Mark) -> list[Batch]:
        met: list[Problem] = []
        telling = Telling(met, is_agent=self.is_agent)
        telling.remember(self.told)
        entries = [self._entry(telling, path, lines, at) for at in range(len(lines))]
        self.file, self.told = file, telling.remembered()
        batches = list(reading.batches(([entry] for entry in entries), met))
        if self.newest:
            batches[0].fields = {"updated_at": self.newest}
        return [*batches, Batch(summary=telling.summary, mark=self.spelled())]

    def _entry(self, telling: Telling, path: Path, lines: list[Line], at: int) -> NewEntry:
        value = mapping(lines[at].value)
        command = value.get("type") == "user" and is_command(words(mapping(value.get("message")).get("content")))
        entry = telling.entry(lines[at].value, path, silent=command and _is_answered(lines[at + 1 :]))
        entry.record = record(lines[at], place_of(path))
        self.when = moment(value.get("timestamp")) or self.when
        self.newest = max(self.newest, self.when)
        entry.created_at = self.when
        return entry


def _is_answered(lines: list[Line]) -> bool:
    """Whether the next that is said is what a command itself had to say."""
    talk = (value for line in lines if (value := mapping(line.value)).get("type") in TALKING)
    return is_command_output(next(talk, {}))
