"""This module builds the rollout of a fork, as earlier versions of Codex did: it holds copies of the lines. It can be
resumed even when the original is gone."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from store.model.entry import INTERRUPTED_RESULT, Json
from store.model.session import Session
from store.sources.codex.entries import find_prompt
from store.sources.codex.files import unwrap_line
from store.sources.codex.prompt_pairs import find_injected, find_shown_text
from store.sources.codex.state_database import register_thread
from store.sources.contract import ForkRequest, NewTranscript
from store.sources.kit.jsonl import as_dict, as_list, as_str, parse_json
from store.text.validate import serialize

_UUID = re.compile("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DROPPED_FIELDS = frozenset(
    "history_base forked_from_ordinal_exclusive subagent_history_start_ordinal parent_thread_id agent_nickname"
    " agent_role agent_type agent_path".split()
)
_LISTED_SOURCES = ("cli", "vscode")
"""The sources of interactive threads, which Codex lists by default."""

_RESULT_TYPE_BY_CALL_TYPE = {
    "function_call": "function_call_output",
    "local_shell_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
_RESULT_TYPES = frozenset([*_RESULT_TYPE_BY_CALL_TYPE.values(), "local_shell_call_output"])
_TURN_STARTS = frozenset(["task_started", "turn_started"])
_TURN_ENDS = frozenset(["task_complete", "turn_complete", "turn_aborted"])
_PREPARATION_EVENTS = frozenset([*_TURN_STARTS, "thread_settings_applied"])


def can_fork(session: Session) -> bool:
    return bool(_UUID.fullmatch(_thread_id(session)))


def _thread_id(session: Session) -> str:
    """Return the id of the thread. The native id of a rolled-back branch begins with it."""
    return session.native_id.partition("/")[0]


def build_fork(request: ForkRequest, root: Path) -> NewTranscript:
    native_id = _make_uuid7(request.created_at)
    local_time = request.created_at.astimezone()
    folder = root / "sessions" / f"{local_time:%Y}" / f"{local_time:%m}" / f"{local_time:%d}"
    path = folder / f"rollout-{local_time:%Y-%m-%dT%H-%M-%S}-{native_id}.jsonl"
    builder = _CodexForkBuilder(request, native_id)
    lines = [serialize(line) for line in builder.build_lines()]
    first_prompt = request.prompt or "" if builder.has_single_prompt else ""
    return NewTranscript(
        native_id,
        path,
        lines,
        register=lambda: register_thread(
            root, _thread_id(request.session), native_id, path, request.created_at, first_prompt
        ),
    )


def _make_uuid7(time: datetime) -> str:
    """Return an id as Codex makes them, which begins with the time."""
    number = int(time.timestamp() * 1000) << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)
    return str(UUID(int=number))


class _RolloutLine(NamedTuple):
    """Holds a line of the original."""

    timestamp: str
    kind: str
    payload: dict[str, Json]
    envelope: dict[str, Json]
    "The other fields of the line."
    is_injected: bool = False
    "Is set for a message in the user's name that no person typed."

    @property
    def item_type(self) -> str:
        return as_str(self.payload.get("type")) or ("message" if self.kind == "response_item" else "")

    @property
    def call_id(self) -> str:
        return as_str(self.payload.get("call_id")) or as_str(self.payload.get("id"))

    @property
    def is_prompt(self) -> bool:
        is_message = self.kind == "response_item" and not self.is_injected
        return is_message and find_prompt(self.kind, self.payload) is not None

    @property
    def is_preparation(self) -> bool:
        """Tells whether the line only prepares the next turn."""
        if self.kind == "response_item":
            return self.item_type == "message" and self.payload.get("role") != "assistant" and not self.is_prompt
        return self.kind in ("turn_context", "world_state") or (
            self.kind == "event_msg" and self.item_type in _PREPARATION_EVENTS
        )


def _parse_line(data: bytes) -> _RolloutLine:
    value = as_dict(parse_json(data))
    kind, payload = unwrap_line(value)
    envelope = {name: field for name, field in value.items() if name not in ("timestamp", "ordinal", "type", "payload")}
    is_bare = "payload" not in value
    return _RolloutLine(as_str(value.get("timestamp")), kind, dict(payload), {} if is_bare else envelope)


class _CodexForkBuilder:
    """Copies the lines of a session into a new rollout."""

    def __init__(self, request: ForkRequest, native_id: str) -> None:
        self._request = request
        self._native_id = native_id
        self._timestamp = request.created_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        lines = [_parse_line(data) for data in request.records]
        for index in find_injected((line.kind, line.payload) for line in lines):
            lines[index] = lines[index]._replace(is_injected=True)
        self._meta = next((line.payload for line in lines if line.kind == "session_meta"), {})
        self._is_paginated = self._meta.get("history_mode") == "paginated"
        # The past has no lines that were rolled back, so a rollback in it would remove other turns.
        self._lines = [line for line in lines if line.kind not in ("session_meta", "state") and not _is_rollback(line)]
        self._has_prompt_events = any(find_shown_text(line.payload) is not None for line in lines)
        if request.prompt is None:
            while self._lines and self._lines[-1].is_preparation:
                self._lines.pop()
        self._call_ids = {line.call_id for line in self._lines if line.item_type in _RESULT_TYPE_BY_CALL_TYPE}
        self._answered_ids = {line.call_id for line in self._lines if line.item_type in _RESULT_TYPES}
        self._open_calls: list[_RolloutLine] = []
        self._turn_id = ""
        self._is_turn_open = False
        self._last_timestamp = as_str(self._meta.get("timestamp"))

    @property
    def has_single_prompt(self) -> bool:
        return sum(line.is_prompt for line in self._lines) == 1

    def build_lines(self) -> list[dict[str, Json]]:
        lines = [self._make_line("session_meta", self._session_meta()), *self._copy_lines()]
        if self._is_paginated:
            for ordinal, line in enumerate(lines):
                line["ordinal"] = ordinal
        return lines

    def _session_meta(self) -> dict[str, Json]:
        session, meta = self._request.session, self._meta
        inherited = {name: value for name, value in meta.items() if name not in _DROPPED_FIELDS}
        fields = {"cwd": session.cwd, "originator": "codex_cli_rs", "cli_version": "0.0.0", **inherited}
        source = fields.get("source")
        ids = {"session_id": self._native_id, "id": self._native_id, "forked_from_id": _thread_id(session)}
        is_listed = isinstance(source, str) and source in _LISTED_SOURCES
        thread_source = {"thread_source": "user"} if "thread_source" in fields else {}
        return {
            **fields,
            **ids,
            "timestamp": self._timestamp,
            "source": source if is_listed else "cli",
            **thread_source,
        }

    def _copy_lines(self) -> Iterator[dict[str, Json]]:
        prompt, last = self._request.prompt, len(self._lines) - 1
        for index, line in enumerate(self._lines):
            if line.is_prompt:
                yield from self._close_open_calls()
            if index == last and prompt is not None:
                yield from self._replace_prompt(line, prompt)
            elif not (line.item_type in _RESULT_TYPES and line.call_id not in self._call_ids):
                yield self._copy_line(line)
                yield from self._show_prompt(line)
        yield from self._close_open_calls()
        if self._is_turn_open:
            yield self._make_line(
                "event_msg", {"type": "turn_aborted", "turn_id": self._turn_id, "reason": "interrupted"}
            )

    def _copy_line(self, line: _RolloutLine) -> dict[str, Json]:
        if line.item_type in _RESULT_TYPE_BY_CALL_TYPE and line.kind == "response_item":
            self._open_calls.append(line)
        if line.kind == "event_msg" and line.item_type in _TURN_STARTS | _TURN_ENDS:
            self._is_turn_open = line.item_type in _TURN_STARTS
            self._turn_id = as_str(line.payload.get("turn_id"))
        ids = {
            name: self._native_id
            for name in ("thread_id", "session_id")
            if line.kind != "response_item" and line.payload.get(name) == _thread_id(self._request.session)
        }
        # Before version 0.32 lines had no time. A copy needs one older than the fork to be recognized as a copy.
        self._last_timestamp = line.timestamp or self._last_timestamp
        return self._make_line(line.kind, line.payload | ids, self._last_timestamp, line.envelope)

    def _show_prompt(self, line: _RolloutLine) -> Iterator[dict[str, Json]]:
        """Yield the event of a copied prompt, if the original has none. Where one prompt has an event, all need one."""
        if line.is_prompt and not self._has_prompt_events and not self._is_paginated:
            event = self._prompt_event(find_prompt(line.kind, line.payload) or "", self._turn_id)
            yield self._make_line("event_msg", event, self._last_timestamp)

    def _close_open_calls(self) -> Iterator[dict[str, Json]]:
        """Yield results for the calls that have none, before the next prompt."""
        unanswered, self._open_calls = [line for line in self._open_calls if line.call_id not in self._answered_ids], []
        for line in unanswered:
            result: dict[str, Json] = {
                "type": _RESULT_TYPE_BY_CALL_TYPE[line.item_type],
                "call_id": line.call_id,
                "output": INTERRUPTED_RESULT,
            }
            if line.item_type == "tool_search_call":
                result |= {"status": "completed", "execution": line.payload.get("execution", "client"), "tools": []}
                del result["output"]
            yield self._make_line("response_item", result)

    def _replace_prompt(self, line: _RolloutLine, prompt: str) -> Iterator[dict[str, Json]]:
        """Yield the new prompt in place of the old one. Its images are kept."""
        if line.kind != "response_item":
            yield self._make_line(line.kind, line.payload | {"message": prompt})
            return
        content = as_list(line.payload.get("content"))
        kinds = as_list(as_dict(line.payload.get(_METADATA_FIELD)).get("content_item_kinds"))
        attachments = [block for block in content if as_dict(block).get("type") not in ("input_text", "output_text")]
        message: dict[str, Json] = {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": prompt}, *attachments],
        }
        turn = self._turn_id or as_str(as_dict(line.payload.get(_METADATA_FIELD)).get("turn_id"))
        if kinds:
            message[_METADATA_FIELD] = {
                "turn_id": turn,
                "content_item_kinds": ["user.text", *["user.image"] * len(attachments)],
            }
        yield self._make_line("response_item", message)
        yield self._make_line("event_msg", self._prompt_event(prompt, turn))

    def _prompt_event(self, prompt: str, turn: str) -> dict[str, Json]:
        """Return the event with the prompt. Codex takes the title of a thread from it."""
        if not self._is_paginated:
            return {"type": "user_message", "message": prompt, "images": [], "local_images": [], "text_elements": []}
        block = {"type": "text", "text": prompt, "text_elements": []}
        item = {"type": "UserMessage", "id": _make_uuid7(self._request.created_at), "content": [block]}
        milliseconds = int(self._request.created_at.timestamp() * 1000)
        times = {"started_at_ms": milliseconds, "completed_at_ms": milliseconds}
        return {"type": "item_completed", "thread_id": self._native_id, "turn_id": turn, "item": item, **times}

    def _make_line(
        self, kind: str, payload: Mapping[str, Json], time: str = "", envelope: Mapping[str, Json] | None = None
    ) -> dict[str, Json]:
        return {"timestamp": time or self._timestamp, "type": kind, **(envelope or {}), "payload": dict(payload)}


_METADATA_FIELD = "internal_chat_message_metadata_passthrough"


def _is_rollback(line: _RolloutLine) -> bool:
    return line.kind == "event_msg" and line.item_type == "thread_rolled_back"
