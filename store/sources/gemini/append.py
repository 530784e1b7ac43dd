"""This module reads the lines that were appended to a chat. After a rewind or a repeated list of messages, and when the
title changes, the whole chat is read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from store.model.entry import Json, NewEntry
from store.model.session import SessionFields
from store.sources.gemini.entries import Replay
from store.sources.kit.continuation import Continuation
from store.sources.kit.jsonl import FileMark, JsonLine
from store.sources.kit.transcripts import path_text


class ChatEnd(Continuation):
    """Continues a chat that is in one file of lines."""

    def __init__(self, path: Path, replay: Replay) -> None:
        self._path = path
        self._replay = replay

    def mark_end(self, stamp: str) -> str:
        """Return a mark for the end of the chat, all of which was replayed."""
        return self.build_mark(FileMark.from_file(self._path, self._replay.end_offset, stamp))

    @property
    def can_continue(self) -> bool:
        return bool(self._replay.started_at)

    def save_state(self) -> dict[str, Json]:
        return self._replay.save_state()

    def restore_state(self, state: Mapping[str, Any]) -> None:
        self._replay.restore_state(state)

    def read_appended_lines(self, lines: Sequence[JsonLine]) -> list[NewEntry] | None:
        replay, title, path = self._replay, self._replay.title(), path_text(self._path)
        if not all(map(replay.can_continue_with, lines)):
            return None
        entries = [step.entry for step in replay.read_steps((line, path) for line in lines)]
        # The forks in the file have the same title, and are not read.
        return entries if replay.title() == title else None

    def appended_fields(self) -> SessionFields:
        return {"updated_at": self._replay.ended_at}
