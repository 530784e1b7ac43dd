"""What a line of a rollout means: one entry each. Response items are the conversation; events tell how it went."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from store.errors import BadValue
from store.formats.content_blocks import part_of_item
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
    readable,
)
from store.sources.codex.files import understood
from store.sources.codex.prompts import said, typed
from store.sources.contract import ForeignSummary
from store.sources.kit.jsonl import count, first_words, mapping, words
from store.text.validate import parse

EVENTS = frozenset(
    "session_meta turn_context world_state token_usage_record inter_agent_communication security_risk_score state"
    " inter_agent_communication_metadata event_msg".split()
)
_MARKS = frozenset(["compaction", "context_compaction", "ghost_snapshot", "compaction_trigger"])
_RESULTS = frozenset(
    ["function_call_output", "custom_tool_call_output", "tool_search_output", "local_shell_call_output"]
)
_EXITED = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_BODY = "\nOutput:\n"
_ITEMS_OF_NO_CALL = frozenset(["UserMessage", "AgentMessage", "Reasoning", "Plan"])
_OPEN = 20
"""Calls of which more may come."""

_SAYING = ("message", "reason", "text", "error")


@dataclass(slots=True)
class Outcome:
    "How a call ended, as events tell it."

    failed: bool | None = None
    duration_ms: float | None = None
    output: str = ""

    def hear(self, event: Mapping[str, Json]) -> None:
        exit_code, status = event.get("exit_code"), words(event.get("status"))
        if isinstance(exit_code, int) or status:
            self.failed = (isinstance(exit_code, int) and exit_code != 0) or status in ("failed", "declined")
        if event.get("success") is False or "Err" in mapping(event.get("result")):
            self.failed = True
        took = mapping(event.get("duration"))
        if took:
            self.duration_ms = count(took.get("secs")) * 1000 + count(took.get("nanos")) / 1e6
        self.output = words(event.get("aggregated_output"))


def outcome_of(kind: str, payload: Mapping[str, Json]) -> tuple[str, Mapping[str, Json]]:
    """The id of the call that an event tells of, and what it tells; no id when it tells of none."""
    if kind != "event_msg":
        return "", {}
    event = words(payload.get("type"))
    if event == "item_completed":
        item = mapping(payload.get("item"))
        return ("", {}) if words(item.get("type")) in _ITEMS_OF_NO_CALL else (words(item.get("id")), item)
    return (words(payload.get("call_id")), payload) if event.endswith("_end") else ("", {})


def prompt_of(kind: str, payload: Mapping[str, Json]) -> str | None:
    """What a person said, in an item or in what was shown of it."""
    if kind == "response_item" and payload.get("type", "message") == "message" and payload.get("role") == "user":
        return said(payload)
    if kind == "event_msg" and payload.get("type") == "user_message":
        return typed(words(payload.get("message"))) or None
    return None


class Telling:
    """One chain while its lines are read in order."""

    def __init__(self, outcomes: Mapping[str, Outcome], *, by_events: bool, is_agent: bool) -> None:
        self._outcomes = {call_id: replace(outcome) for call_id, outcome in outcomes.items()}
        self._by_events = by_events
        self._is_agent = is_agent
        self._model = ""
        self._spent = Tokens()
        self._turns = 0
        self._message = 0
        self._is_answering = False
        self.summary: ForeignSummary | None = None

    def remembered(self) -> dict[str, Json]:
        """What must be known to go on: of the last calls, which may wait for their ends, too."""
        last = list(self._outcomes.items())[-_OPEN:]
        ends = {call_id: (ended.failed, ended.duration_ms, ended.output) for call_id, ended in last}
        return {
            "model": self._model,
            "spent": list(self._spent),
            "turns": self._turns,
            "message": self._message,
            "answering": self._is_answering,
            "ends": cast("Json", ends),
        }

    def remember(self, told: Mapping[str, Any]) -> None:
        self._model, self._spent = told["model"], Tokens(*told["spent"])
        self._turns, self._message, self._is_answering = told["turns"], told["message"], told["answering"]
        self._outcomes = {call_id: Outcome(*ended) for call_id, ended in told["ends"].items()} | self._outcomes

    def entry(self, value: Json) -> NewEntry:
        kind, payload = understood(value)
        if kind == "response_item":
            entry = self._item(payload)
        elif kind == "compacted":
            entry = self._compacted(payload)
        elif kind in EVENTS:
            entry = self._event(kind, payload)
        else:
            entry = NewEntry(kind="unknown", parts=(Opaque(kind, value),))
        self._turns += entry.begins_turn()
        if entry.role == "assistant":
            self._message += not self._is_answering
            self._is_answering = True
            entry.model, entry.message_key = self._model, str(self._message)
        elif entry.role in ("user", "tool"):
            self._is_answering = False
        return entry

    # ── response items ────────────────────────────────────────────────────────────────────────────

    def _item(self, item: dict[str, Json]) -> NewEntry:
        kind = words(item.get("type")) or "message"
        if kind == "message":
            return self._said(item)
        if kind in _MARKS:
            return NewEntry(kind="event", text=kind)
        if kind == "agent_message":
            author = words(item.get("author"))
            return NewEntry(role="user", parts=part_of_item({**item, "type": "message"}), author=author, prompt=False)
        if kind in _RESULTS:
            return NewEntry(role="tool", parts=(self._result(item),), prompt=False)
        return NewEntry(role="assistant", parts=_parts(kind, item))

    def _said(self, item: Mapping[str, Json]) -> NewEntry:
        role, parts = words(item.get("role")), part_of_item(item)
        if role == "assistant":
            return NewEntry(role=role, parts=parts)
        if role != "user":
            return NewEntry(role="system", parts=parts, text="", prompt=False)
        text = said(item)
        if text is None:
            return NewEntry(role="system", parts=parts, text="", prompt=False)
        others = tuple(part for part in parts if not isinstance(part, Text))
        author = "codex" if self._is_agent else ""
        return NewEntry(role=role, parts=(Text(text), *others) if text else others, prompt=True, author=author)

    def _result(self, item: Mapping[str, Json]) -> ToolResult:
        call_id = words(item.get("call_id")) or words(item.get("id"))
        output = item.get("output", item.get("tools"))
        output, failed, seconds = _unwrapped(output)
        result = ToolResult(call_id, _aside(output), failed, duration_ms=seconds * 1000 if seconds else None)
        ended = self._outcomes.get(call_id)
        if ended is None:
            return result
        shown = readable(output)
        told = ended.output if len(ended.output) > len(shown.partition(_BODY)[2] or shown) else result.output
        ended.output = ""
        is_error = failed if ended.failed is None else ended.failed
        return replace(result, output=told, is_error=is_error, duration_ms=ended.duration_ms or result.duration_ms)

    # ── the rest ──────────────────────────────────────────────────────────────────────────────────

    def _compacted(self, payload: Mapping[str, Json]) -> NewEntry:
        text = words(payload.get("message"))
        if text.strip():
            self.summary = ForeignSummary(text, self._turns)
        return NewEntry(kind="compaction", role="system", parts=(Text(text),) if text else (), prompt=False)

    def _event(self, kind: str, payload: Mapping[str, Json]) -> NewEntry:
        name = words(payload.get("type")) if kind == "event_msg" else kind
        if kind == "turn_context":
            self._model = words(payload.get("model")) or self._model
        call_id, event = outcome_of(kind, payload)
        if call_id:
            self._outcomes.setdefault(call_id, Outcome()).hear(event)
        if self._by_events and (entry := self._shown(name, payload)):
            return entry
        saying = first_words(payload, _SAYING)
        # What was said stands in the response items; here only what nobody says there.
        text = f"{name}: {saying}" if saying and not name.startswith(("user_", "agent_")) else name
        return NewEntry(kind="event", text=text, tokens=self._tokens(kind, payload))

    def _shown(self, name: str, payload: Mapping[str, Json]) -> NewEntry | None:
        """Of a rollout without response items, as it was shown on the screen."""
        if name == "user_message":
            text = typed(words(payload.get("message")))
            return NewEntry(role="user", parts=(Text(text),), prompt=bool(text))
        if name == "agent_message":
            return NewEntry(role="assistant", parts=(Text(words(payload.get("message"))),))
        if name == "agent_reasoning":
            return NewEntry(role="assistant", parts=(Thinking(words(payload.get("text"))),))
        return None

    def _tokens(self, kind: str, payload: Mapping[str, Json]) -> Tokens | None:
        """What was spent since it was told before: the totals only grow, and are told again and again."""
        if kind == "token_usage_record":
            told, last = payload.get("thread_token_usage"), payload.get("usage")
        else:
            info = mapping(payload.get("info"))
            told, last = info.get("total_token_usage"), info.get("last_token_usage")
        if not isinstance(told, dict):
            return None
        total = _counted(told)
        grown = Tokens(*(now - before for now, before in zip(total, self._spent, strict=True)))
        self._spent = total
        if min(grown) < 0:
            grown = _counted(mapping(last))
        return grown if grown.total else None


def _counted(usage: Mapping[str, Json]) -> Tokens:
    cached = count(usage.get("cached_input_tokens"))
    return Tokens(max(count(usage.get("input_tokens")) - cached, 0), count(usage.get("output_tokens")), cached)


def _parts(kind: str, item: dict[str, Json]) -> tuple[Part, ...]:
    call_id = words(item.get("call_id")) or words(item.get("id"))
    if kind == "local_shell_call":
        return (ToolCall(call_id, "local_shell", item.get("action")),)
    if kind == "tool_search_call":
        return (ToolCall(call_id, "tool_search", item.get("arguments")),)
    if kind == "image_generation_call":
        drawn = words(item.get("result"))
        call = ToolCall(call_id, "image_generation", {"prompt": item.get("revised_prompt")})
        result = ToolResult(call_id, words(item.get("status")), item.get("status") == "failed")
        return (call, result, Attachment("image/png", "", len(drawn) * 3 // 4))
    return part_of_item(item)


def _unwrapped(output: Json) -> tuple[Json, bool, float]:
    """The output itself, whether it tells of a failure, and the seconds it took, where it says so."""
    told = mapping(output)
    if isinstance(output, str) and output.startswith("{"):
        try:
            told = mapping(parse(output))
        except BadValue:
            told = {}
    if "output" in told or "content" in told:
        about = mapping(told.get("metadata"))
        code, seconds = about.get("exit_code"), about.get("duration_seconds")
        failed = (isinstance(code, int) and code != 0) or told.get("success") is False
        took = float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < 1e9 else 0.0
        return told.get("output", told.get("content")), failed, took
    head = output.partition(_BODY)[0][:1000] if isinstance(output, str) else ""
    exited = _EXITED.search(head)
    return output, bool(exited and exited[1].strip("-0")), 0.0


def _aside(output: Json) -> Json:
    """An image within a result stays in the record; here is only that it was there."""
    if not isinstance(output, list):
        return output
    return [
        {**block, "image_url": "", "size": len(block["image_url"]) * 3 // 4}
        if isinstance(block, dict) and isinstance(block.get("image_url"), str)
        else block
        for block in output
    ]
