"""A thread forked as Codex once did it by itself: a rollout of its own that holds copies of the lines. It stands alone,
so that it can be resumed although the original is gone."""

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
"""Where a person sat before it: what Codex lists unless it is asked for more."""

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
    """What was rolled back is named after its thread."""
    return session.native_id.partition("/")[0]


def build_fork(past: ForkRequest, root: Path) -> NewTranscript:
    native_id = _make_uuid7(past.created_at)
    here = past.created_at.astimezone()
    folder = root / "sessions" / f"{here:%Y}" / f"{here:%m}" / f"{here:%d}"
    path = folder / f"rollout-{here:%Y-%m-%dT%H-%M-%S}-{native_id}.jsonl"
    copying = _CodexForkBuilder(past, native_id)
    lines = [serialize(line) for line in copying.build_lines()]
    first = past.prompt or "" if copying.has_single_prompt else ""
    return NewTranscript(
        native_id,
        path,
        lines,
        register=lambda: register_thread(root, _thread_id(past.session), native_id, path, past.created_at, first),
    )


def _make_uuid7(at: datetime) -> str:
    """Of the kind that Codex makes, which begins with the time."""
    number = int(at.timestamp() * 1000) << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)
    return str(UUID(int=number))


class _RolloutLine(NamedTuple):
    """A line of the original."""

    timestamp: str
    kind: str
    payload: dict[str, Json]
    envelope: dict[str, Json]
    "What else the line says."

    @property
    def item_type(self) -> str:
        return as_str(self.payload.get("type")) or ("message" if self.kind == "response_item" else "")

    @property
    def call_id(self) -> str:
        return as_str(self.payload.get("call_id")) or as_str(self.payload.get("id"))

    @property
    def is_prompt(self) -> bool:
        return self.kind == "response_item" and find_prompt(self.kind, self.payload) is not None

    @property
    def is_preparation(self) -> bool:
        """It only makes ready for the turn that comes next."""
        if self.kind == "response_item":
            return self.item_type == "message" and self.payload.get("role") != "assistant" and not self.is_prompt
        return self.kind in ("turn_context", "world_state") or (
            self.kind == "event_msg" and self.item_type in _PREPARATION_EVENTS
        )


def _parse_line(data: bytes) -> _RolloutLine:
    value = as_dict(parse_json(data))
    kind, payload = unwrap_line(value)
    beside = {name: held for name, held in value.items() if name not in ("timestamp", "ordinal", "type", "payload")}
    is_bare = "payload" not in value
    return _RolloutLine(as_str(value.get("timestamp")), kind, dict(payload), {} if is_bare else beside)


class _CodexForkBuilder:
    """The lines of a past on their way into another rollout."""

    def __init__(self, past: ForkRequest, native_id: str) -> None:
        self._request = past
        self._native_id = native_id
        self._timestamp = past.created_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        told = [_parse_line(data) for data in past.records]
        self._meta = next((line.payload for line in told if line.kind == "session_meta"), {})
        self._is_paginated = self._meta.get("history_mode") == "paginated"
        # What was rolled back is not in the past, and must not be rolled back once more.
        self._lines = [line for line in told if line.kind not in ("session_meta", "state") and not _is_rollback(line)]
        if past.prompt is None:
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
        made = [self._make_line("session_meta", self._session_meta()), *self._copy_lines()]
        if self._is_paginated:
            for place, line in enumerate(made):
                line["ordinal"] = place
        return made

    def _session_meta(self) -> dict[str, Json]:
        session, meta = self._request.session, self._meta
        kept = {name: value for name, value in meta.items() if name not in _DROPPED_FIELDS}
        told = {"cwd": session.cwd, "originator": "codex_cli_rs", "cli_version": "0.0.0", **kept}
        source = told.get("source")
        ids = {"session_id": self._native_id, "id": self._native_id, "forked_from_id": _thread_id(session)}
        is_listed = isinstance(source, str) and source in _LISTED_SOURCES
        whose = {"thread_source": "user"} if "thread_source" in told else {}
        return {**told, **ids, "timestamp": self._timestamp, "source": source if is_listed else "cli", **whose}

    def _copy_lines(self) -> Iterator[dict[str, Json]]:
        prompt, last = self._request.prompt, len(self._lines) - 1
        for at, line in enumerate(self._lines):
            if line.is_prompt:
                yield from self._close_open_calls()
            if at == last and prompt is not None:
                yield from self._replace_prompt(line, prompt)
            elif not (line.item_type in _RESULT_TYPES and line.call_id not in self._call_ids):
                yield self._copy_line(line)
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
        # Before 0.32 no line said when; that it is older than the fork tells that it is a copy.
        self._last_timestamp = line.timestamp or self._last_timestamp
        return self._make_line(line.kind, line.payload | ids, self._last_timestamp, line.envelope)

    def _close_open_calls(self) -> Iterator[dict[str, Json]]:
        """What was never answered is, before the person speaks again."""
        waiting, self._open_calls = [line for line in self._open_calls if line.call_id not in self._answered_ids], []
        for line in waiting:
            answer: dict[str, Json] = {
                "type": _RESULT_TYPE_BY_CALL_TYPE[line.item_type],
                "call_id": line.call_id,
                "output": INTERRUPTED_RESULT,
            }
            if line.item_type == "tool_search_call":
                answer |= {"status": "completed", "execution": line.payload.get("execution", "client"), "tools": []}
                del answer["output"]
            yield self._make_line("response_item", answer)

    def _replace_prompt(self, line: _RolloutLine, prompt: str) -> Iterator[dict[str, Json]]:
        """The person's words in place of those that were said; what was shown with them stays."""
        if line.kind != "response_item":
            yield self._make_line(line.kind, line.payload | {"message": prompt})
            return
        content = as_list(line.payload.get("content"))
        kinds = as_list(as_dict(line.payload.get(_METADATA_FIELD)).get("content_item_kinds"))
        shown = [block for block in content if as_dict(block).get("type") not in ("input_text", "output_text")]
        spoken: dict[str, Json] = {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": prompt}, *shown],
        }
        turn = self._turn_id or as_str(as_dict(line.payload.get(_METADATA_FIELD)).get("turn_id"))
        if kinds:
            spoken[_METADATA_FIELD] = {
                "turn_id": turn,
                "content_item_kinds": ["user.text", *["user.image"] * len(shown)],
            }
        yield self._make_line("response_item", spoken)
        yield self._make_line("event_msg", self._prompt_event(prompt, turn))

    def _prompt_event(self, prompt: str, turn: str) -> dict[str, Json]:
        """The same as it stands on the screen, which is where Codex looks for what to list a thread by."""
        if not self._is_paginated:
            return {"type": "user_message", "message": prompt, "images": [], "local_images": [], "text_elements": []}
        said = {"type": "text", "text": prompt, "text_elements": []}
        item = {"type": "UserMessage", "id": _make_uuid7(self._request.created_at), "content": [said]}
        moment = int(self._request.created_at.timestamp() * 1000)
        times = {"started_at_ms": moment, "completed_at_ms": moment}
        return {"type": "item_completed", "thread_id": self._native_id, "turn_id": turn, "item": item, **times}

    def _make_line(
        self, kind: str, payload: Mapping[str, Json], at: str = "", beside: Mapping[str, Json] | None = None
    ) -> dict[str, Json]:
        return {"timestamp": at or self._timestamp, "type": kind, **(beside or {}), "payload": dict(payload)}


_METADATA_FIELD = "internal_chat_message_metadata_passthrough"


def _is_rollback(line: _RolloutLine) -> bool:
    return line.kind == "event_msg" and line.item_type == "thread_rolled_back"
