"""This module continues the reading of a file of lines where an earlier sync ended.

A `Continuation` reads the lines of one session. What it must know of the lines before is saved in the mark of the
session, so that the next sync parses only the lines that were appended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from store.model.entry import Json, NewEntry
from store.model.session import SessionFields
from store.sources.contract import Batch, ForeignSummary
from store.sources.kit import sqlite
from store.sources.kit.jsonl import FileMark, JsonLine
from store.sources.kit.transcripts import decode_mark, encode_mark, sanitize_fields


class CarriedState:
    """Names the attributes that must be known to continue later, so that they can be saved and restored."""

    carried: ClassVar[tuple[str, ...]] = ()
    "Their values are JSON, and small: the state of every session is stored."

    def save_state(self) -> dict[str, Json]:
        return {name: getattr(self, name) for name in self.carried}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        for name in self.carried:
            setattr(self, name, state[name])


class Continuation(CarriedState, ABC):
    """Reads the appended lines of one session, after its state was restored."""

    summary: ForeignSummary | None = None
    "Is the last summary that the appended lines hold."

    @abstractmethod
    def read_appended_lines(self, lines: Sequence[JsonLine]) -> Sequence[NewEntry] | None:
        """Return the entries of the lines; None when they change what the lines before mean. A rewind does so."""

    @abstractmethod
    def appended_fields(self) -> SessionFields:
        """Describe the session after the appended lines."""

    @property
    def can_continue(self) -> bool:
        """Is true when lines that follow can be read without those before."""
        return True

    def build_mark(self, file: FileMark | None) -> str:
        """Return a mark for the end of the file; empty when the file must be read from its beginning."""
        return encode_mark({"file": [*file], "state": self.save_state()}) if file and self.can_continue else ""

    def read_appended(self, path: Path, mark: str) -> list[Batch] | None:
        """Return batches of what was appended since the mark was made; None when the file must be read again."""
        try:
            values = decode_mark(mark)
            self.restore_state(values["state"])
            appended = FileMark(*values["file"]).read_appended(path)
        except (ValueError, TypeError, KeyError):
            return None
        entries = self.read_appended_lines(appended[0]) if appended else None
        if appended is None or entries is None:
            return None
        batches = [*sqlite.build_batches(([entry] for entry in entries), [])]
        batches[0].fields = sanitize_fields(self.appended_fields())
        return [*batches, Batch(mark=self.build_mark(appended[1]), summary=self.summary)]
