"""This module converts each line of a rollout to one entry. Response items are the conversation; events report tokens
and the outcome of calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from store.errors import BadValue
from store.formats.content_blocks import parse_item
from store.model.entry import (
    Attachment,
    Json,
    NewEntry,
    Opaque,
    Part,
    Text,
    Thinking,
    Tokens,
    ToolCall,
    ToolResult,
    readable_text,
)
from store.model.status import Activity
from store.sources.codex.files import RolloutLine
from store.sources.codex.prompts import extract_prompt, extract_typed_text
from store.sources.codex.usage import CodexUsageReader
from store.sources.contract import ForeignSummary
from store.sources.kit.jsonl import as_count, as_dict, as_str, first_str
from store.text.validate import parse

EVENT_TYPES = frozenset(
    "session_meta turn_context world_state token_usage_record inter_agent_communication security_risk_score state"
    " inter_agent_communication_metadata event_msg".split()
)
_MARKER_ITEMS = frozenset(["compaction", "context_compaction", "ghost_snapshot", "compaction_trigger"])
_RESULT_TYPES = frozenset(
    ["function_call_output", "custom_tool_call_output", "tool_search_output", "local_shell_call_output"]
)
_EXIT_CODE = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_WALL_TIME = re.compile(r"^Wall time:? (\d{1,9}(?:\.\d+)?) seconds$", re.MULTILINE)
_OUTPUT_HEADING = "\nOutput:\n"
_NON_CALL_ITEMS = frozenset(["UserMessage", "AgentMessage", "Reasoning", "Plan"])
_MAX_OPEN_CALLS = 20
"""Limits the latest calls whose outcome a mark keeps, since more events about them may follow."""

_EVENT_TEXT_FIELDS = ("message", "reason", "text", "error")
_EVENT_ACTIVITIES: Mapping[str, Activity] = {
    **dict.fromkeys(("task_started", "turn_started"), "working"),
    **dict.fromkeys(("task_complete", "turn_complete", "turn_aborted"), "waiting"),
    **dict.fromkeys(("exec_approval_request", "apply_patch_approval_request", "elicitation_request"), "waiting"),
    "shutdown_complete": "ended",
}


@dataclass(slots=True)
class CallOutcome:
    "Describes how a call ended, according to events."

    failed: bool | None = None
    duration_ms: float | None = None
    output: str = ""

    def update(self, event: Mapping[str, Json]) -> None:
        exit_code, status = event.get("exit_code"), as_str(event.get("status"))
        if isinstance(exit_code, int) or status:
            self.failed = (isinstance(exit_code, int) and exit_code != 0) or status in ("failed", "declined")
        if event.get("success") is False or "Err" in as_dict(event.get("result")):
            self.failed = True
        duration = as_dict(event.get("duration"))
        if duration:
            self.duration_ms = as_count(duration.get("secs")) * 1000 + as_count(duration.get("nanos")) / 1e6
        self.output = as_str(event.get("aggregated_output"))


def parse_outcome(kind: str, payload: Mapping[str, Json]) -> tuple[str, Mapping[str, Json]]:
    """Return the call id and the outcome in an event. The id is empty when the event is not about a call."""
    if kind != "event_msg":
        return "", {}
    event = as_str(payload.get("type"))
    if event == "item_completed":
        item = as_dict(payload.get("item"))
        return ("", {}) if as_str(item.get("type")) in _NON_CALL_ITEMS else (as_str(item.get("id")), item)
    return (as_str(payload.get("call_id")), payload) if event.endswith("_end") else ("", {})


def find_prompt(kind: str, payload: Mapping[str, Json]) -> str | None:
    """Return the prompt in a response item or in an event, or None if there is none."""
    if kind == "response_item" and payload.get("type", "message") == "message" and payload.get("role") == "user":
        return extract_prompt(payload)
    if kind == "event_msg" and payload.get("type") == "user_message":
        return extract_typed_text(as_str(payload.get("message"))) or None
    return None


class CodexEntryReader:
    """Converts the lines of one chain to entries, in order."""

    def __init__(self, outcomes: Mapping[str, CallOutcome], *, uses_events: bool, is_subagent: bool) -> None:
        self._outcomes = {call_id: replace(outcome) for call_id, outcome in outcomes.items()}
        self._uses_events = uses_events
        self._is_subagent = is_subagent
        self._usage_reader = CodexUsageReader()
        self._total_tokens = Tokens()
        self._call_times: dict[str, str] = {}
        "The times of the calls that have no result yet."
        self._turn_count = 0
        self._message_number = 0
        self._is_answering = False
        self.summary: ForeignSummary | None = None

    def save_state(self) -> dict[str, Json]:
        """Return the state that reading goes on from. It includes the latest calls, which may not have ended yet."""
        latest = list(self._outcomes.items())[-_MAX_OPEN_CALLS:]
        outcomes = {call_id: (outcome.failed, outcome.duration_ms, outcome.output) for call_id, outcome in latest}
        return {
            "model": self._usage_reader.model,
            "spent": list(self._total_tokens),
            "turns": self._turn_count,
            "message": self._message_number,
            "answering": self._is_answering,
            "ends": cast("Json", outcomes),
            "calls": dict(list(self._call_times.items())[-_MAX_OPEN_CALLS:]),
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        self._usage_reader.model, self._total_tokens = state["model"], Tokens(*state["spent"])
        self._turn_count, self._message_number, self._is_answering = (
            state["turns"],
            state["message"],
            state["answering"],
        )
        self._call_times = dict(state.get("calls", {}))
        self._outcomes = {call_id: CallOutcome(*outcome) for call_id, outcome in state["ends"].items()} | self._outcomes

    def read_entry(self, line: RolloutLine, *, is_injected: bool = False) -> NewEntry:
        """Convert a line. A message in the user's name that was injected is not a prompt, whatever its text."""
        kind, payload = line.kind, line.payload
        if kind == "response_item":
            entry = self._read_item(payload, is_injected)
        elif kind == "compacted":
            entry = self._read_compaction(payload)
        elif kind in EVENT_TYPES:
            entry = self._read_event(kind, payload)
        else:
            entry = NewEntry(kind="unknown", parts=(Opaque(kind, line.line.value),))
        if kind == "response_item":
            entry.parts = tuple([self._add_duration(part, line.time) for part in entry.parts])
        self._turn_count += entry.begins_turn()
        if entry.role == "assistant":
            self._message_number += not self._is_answering
            self._is_answering = True
            entry.model, entry.message_key = self._usage_reader.model, str(self._message_number)
        elif entry.role in ("user", "tool"):
            self._is_answering = False
        return entry

    def _add_duration(self, part: Part, time: str) -> Part:
        """Return a result with the time since its call, if nothing more exact is known. A copied past has one time."""
        if isinstance(part, ToolCall) and time:
            self._call_times[part.id] = time
        if not isinstance(part, ToolResult):
            return part
        called = self._call_times.pop(part.call_id, "")
        if part.duration_ms is not None or not called or time <= called:
            return part
        duration = datetime.fromisoformat(time) - datetime.fromisoformat(called)
        return ToolResult(part.call_id, part.output, part.is_error, part.name, duration.total_seconds() * 1000)

    # ── response items ────────────────────────────────────────────────────────────────────────────

    def _read_item(self, item: dict[str, Json], is_injected: bool) -> NewEntry:
        kind = as_str(item.get("type")) or "message"
        if kind == "message":
            return self._read_message(item, is_injected)
        if kind in _MARKER_ITEMS:
            return NewEntry(kind="event", text=kind)
        if kind == "agent_message":
            author = as_str(item.get("author"))
            return NewEntry(role="user", parts=parse_item({**item, "type": "message"}), author=author, is_prompt=False)
        if kind in _RESULT_TYPES:
            return NewEntry(role="tool", parts=(self._read_result(item),), is_prompt=False)
        return NewEntry(role="assistant", parts=_parse_parts(kind, item))

    def _read_message(self, item: Mapping[str, Json], is_injected: bool) -> NewEntry:
        role, parts = as_str(item.get("role")), parse_item(item)
        if role == "assistant":
            return NewEntry(role=role, parts=parts)
        if role != "user":
            return NewEntry(role="system", parts=parts, text="", is_prompt=False)
        text = None if is_injected else extract_prompt(item)
        if text is None:
            return NewEntry(role="system", parts=parts, text="", is_prompt=False)
        others = tuple(part for part in parts if not isinstance(part, Text))
        author = "codex" if self._is_subagent else ""
        return NewEntry(role=role, parts=(Text(text), *others) if text else others, is_prompt=True, author=author)

    def _read_result(self, item: Mapping[str, Json]) -> ToolResult:
        call_id = as_str(item.get("call_id")) or as_str(item.get("id"))
        output = item.get("output", item.get("tools"))
        output, failed, seconds = _unwrap_output(output)
        duration = seconds * 1000 if seconds is not None else None
        result = ToolResult(call_id, _strip_image_data(output), failed, duration_ms=duration)
        outcome = self._outcomes.get(call_id)
        if outcome is None:
            return result
        preview = readable_text(output)
        full_output = (
            outcome.output
            if len(outcome.output) > len(preview.partition(_OUTPUT_HEADING)[2] or preview)
            else result.output
        )
        outcome.output = ""
        is_error = failed if outcome.failed is None else outcome.failed
        duration = result.duration_ms if outcome.duration_ms is None else outcome.duration_ms
        return ToolResult(call_id, full_output, is_error, duration_ms=duration)

    # ── compactions and events ────────────────────────────────────────────────────────────────────

    def _read_compaction(self, payload: Mapping[str, Json]) -> NewEntry:
        text = as_str(payload.get("message"))
        if text.strip():
            self.summary = ForeignSummary(text, self._turn_count)
        return NewEntry(kind="compaction", role="system", parts=(Text(text),) if text else (), is_prompt=False)

    def _read_event(self, kind: str, payload: Mapping[str, Json]) -> NewEntry:
        name = as_str(payload.get("type")) if kind == "event_msg" else kind
        usage = self._usage_reader.read_payload(kind, payload)
        call_id, event = parse_outcome(kind, payload)
        if call_id:
            self._outcomes.setdefault(call_id, CallOutcome()).update(event)
        if self._uses_events and (entry := self._read_shown_event(name, payload)):
            return entry
        message = first_str(payload, _EVENT_TEXT_FIELDS)
        # Messages are already in the response items, so the event gets only its name.
        text = f"{name}: {message}" if message and not name.startswith(("user_", "agent_")) else name
        tokens = self._count_new_tokens(kind, payload)
        return NewEntry(kind="event", text=text, tokens=tokens, activity=_EVENT_ACTIVITIES.get(name), usage=usage)

    def _read_shown_event(self, name: str, payload: Mapping[str, Json]) -> NewEntry | None:
        """Return the message in an event, for a rollout without response items."""
        if name == "user_message":
            text = extract_typed_text(as_str(payload.get("message")))
            return NewEntry(role="user", parts=(Text(text),), is_prompt=bool(text))
        if name == "agent_message":
            return NewEntry(role="assistant", parts=(Text(as_str(payload.get("message"))),))
        if name == "agent_reasoning":
            return NewEntry(role="assistant", parts=(Thinking(as_str(payload.get("text"))),))
        return None

    def _count_new_tokens(self, kind: str, payload: Mapping[str, Json]) -> Tokens | None:
        """Return the tokens spent since the last report. Every report repeats the total, which only grows."""
        if kind == "token_usage_record":
            reported, last = payload.get("thread_token_usage"), payload.get("usage")
        else:
            info = as_dict(payload.get("info"))
            reported, last = info.get("total_token_usage"), info.get("last_token_usage")
        if not isinstance(reported, dict):
            return None
        total = _parse_usage(reported)
        new_tokens = Tokens(*(now - before for now, before in zip(total, self._total_tokens, strict=True)))
        self._total_tokens = total
        if min(new_tokens) < 0:
            new_tokens = _parse_usage(as_dict(last))
        return new_tokens if new_tokens.total else None


def _parse_usage(usage: Mapping[str, Json]) -> Tokens:
    reads, writes = as_count(usage.get("cached_input_tokens")), as_count(usage.get("cache_write_input_tokens"))
    rest = max(as_count(usage.get("input_tokens")) - reads - writes, 0)
    return Tokens(rest, as_count(usage.get("output_tokens")), reads, writes)


def _parse_parts(kind: str, item: dict[str, Json]) -> tuple[Part, ...]:
    call_id = as_str(item.get("call_id")) or as_str(item.get("id"))
    if kind == "local_shell_call":
        return (ToolCall(call_id, "local_shell", item.get("action")),)
    if kind == "tool_search_call":
        return (ToolCall(call_id, "tool_search", item.get("arguments")),)
    if kind == "image_generation_call":
        image = as_str(item.get("result"))
        call = ToolCall(call_id, "image_generation", {"prompt": item.get("revised_prompt")})
        result = ToolResult(call_id, as_str(item.get("status")), item.get("status") == "failed")
        return (call, result, Attachment("image/png", "", len(image) * 3 // 4))
    return parse_item(item)


def _unwrap_output(output: Json) -> tuple[Json, bool, float | None]:
    """Return the output itself, whether the call failed, and the seconds it took, or None if unknown."""
    fields = as_dict(output)
    if isinstance(output, str) and output.startswith("{"):
        try:
            fields = as_dict(parse(output))
        except BadValue:
            fields = {}
    if "output" in fields or "content" in fields:
        metadata = as_dict(fields.get("metadata"))
        code, seconds = metadata.get("exit_code"), metadata.get("duration_seconds")
        failed = (isinstance(code, int) and code != 0) or fields.get("success") is False
        duration = float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < 1e9 else None
        return fields.get("output", fields.get("content")), failed, duration
    head = output.partition(_OUTPUT_HEADING)[0][:1000] if isinstance(output, str) else ""
    exited = _EXIT_CODE.search(head)
    return output, bool(exited and exited[1].strip("-0")), _find_wall_time(output)


def _find_wall_time(output: Json) -> float | None:
    """Return the seconds in the lines that Codex writes before the output of a command."""
    first = output[0] if isinstance(output, list) and output else output
    text = first if isinstance(first, str) else as_str(as_dict(first).get("text"))
    head, heading, _ = text.partition(_OUTPUT_HEADING)
    match = _WALL_TIME.search(head[:1000]) if heading else None
    return float(match[1]) if match else None


def _strip_image_data(output: Json) -> Json:
    """Return the output without image data, which stays in the record."""
    if not isinstance(output, list):
        return output
    return [
        {**block, "image_url": "", "size": len(block["image_url"]) * 3 // 4}
        if isinstance(block, dict) and isinstance(block.get("image_url"), str)
        else block
        for block in output
    ]
