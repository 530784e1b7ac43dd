"""Builds sessions of agents that write memory files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from store.model.entry import NewEntry, Text, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store


class AgentSession:
    """Is a session of an agent in a folder. Each call happens an hour after the one before it."""

    def __init__(self, store: Store, session_id: str, folder: Path, *, agent: str = "claude", day: int = 1) -> None:
        self._store = store
        self._day, self._hour = day, 8
        self.session: Session = store.create_session(
            session_id, source=agent, cwd=str(folder), created_at=self._at, updated_at=self._at
        )

    @property
    def _at(self) -> str:
        return f"2026-03-{self._day:02}T{self._hour:02}:00:00.000000Z"

    def prompt(self, text: str) -> None:
        self._append(NewEntry(role="user", parts=(Text(text),), created_at=self._at))

    def call(self, name: str, arguments: Any, result: str = "done", *, is_error: bool = False) -> None:
        self._hour += 1
        call_id = f"c{self._hour}"
        self._append(
            NewEntry(role="assistant", parts=(ToolCall(call_id, name, arguments),), created_at=self._at),
            NewEntry(role="tool", parts=(ToolResult(call_id, result, is_error),), created_at=self._at),
        )

    def write(self, path: Path | str, text: str) -> None:
        self.call("Write", {"file_path": str(path), "content": text})

    def edit(self, path: Path | str, old: str, new: str) -> None:
        self.call("Edit", {"file_path": str(path), "old_string": old, "new_string": new})

    def _append(self, *entries: NewEntry) -> None:
        self._store.chains.append(self.session.key, list(entries))
