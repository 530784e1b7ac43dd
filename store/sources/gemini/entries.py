"""This module replays the log of Gemini CLI and creates entries from the new content of each line.

A message is written again when its calls and tokens arrive, and all messages again when a session is resumed. Because
only new content becomes an entry, a growing log is a growing chain. Messages before a rewind become a branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from store.model.entry import Json, NewEntry, Opaque, Part, Text, Thinking, Tokens, ToolCall, ToolResult, readable_text
from store.sources.gemini.usage import read_usage
from store.sources.kit import jsonl
from store.sources.kit.gemini_parts import (
    call_id,
    count_tokens,
    extract_typed_text,
    is_injected,
    parse_parts,
    parse_tool_result,
)
from store.sources.kit.jsonl import JsonLine, as_dict, as_list, as_str, as_time
from store.sources.kit.stamps import digest
from store.sources.kit.transcripts import Node
from store.text.timestamps import elapsed_ms

_CARRIED_FIELDS = ("toolCalls", "thoughts", "tokens", "model")
"""The fields that may be missing when a message is written again."""

_SMALL_FIELDS = ("timestamp", "model", "tokens")
"""The fields of a message that it needs when it is written again after a restored state. The others were seen."""

_RESTARTING_FIELDS = {"$rewindTo", "sessionId", "messages", "directories", "startTime"}
_MAX_OPEN_MESSAGES = 100
"""Limits the latest messages whose state is saved. An older one that is written again forces a full read."""

_RUNNING_STATUSES = ("validating", "scheduled", "executing", "awaiting_approval")
_COMMAND_PREFIXES = ("/", "?")

GeminiMessage = Mapping[str, Json]


class ReplayStep(NamedTuple):
    node: Node
    entry: NewEntry


class Replay:
    """Replays the lines of a session. Without a rewind it can continue later from a small part of its state."""

    def __init__(self) -> None:
        self.header_line: JsonLine | None = None
        self.header_path = ""
        self.project_hash = ""
        self.started_at = ""
        self.ended_at = ""
        self.end_offset = 0
        "Is where the last line ends."
        self.directories: list[str] = []
        self._summary = ""
        self._begins_with_command: bool | None = None
        "Says whether the first prompt is a command to the program; None while there is no prompt."
        self._first_request = ""
        "Is the first prompt after such commands."
        self._agent_steps: dict[str, int] = {}
        self._nodes: list[Node] = []
        self._parents: list[int | None] = []
        self._current: int | None = None
        self._node_names: set[str] = set()
        self._carried: dict[str, dict[str, Json]] = {}
        self._older_names: set[str] = set()
        "Holds digests of the names of other messages than those that a continued replay knows."
        # These remember the content read so far, texts as digests, each with its step. After a rewind it may be new.
        self._live_messages: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._counted_tokens: dict[str, tuple[Tokens, int]] = {}

    def read_steps(self, lines: Iterable[tuple[JsonLine, str]]) -> Iterator[ReplayStep]:
        """Yield the steps in order. Every line except the first has at least one."""
        for line, path in lines:
            record = jsonl.record_from_line(line, path)
            self.end_offset = line.offset + len(line.data)
            for name, entry in self._replay_line(line, path):
                entry.record = record
                entry.created_at = entry.created_at or self.ended_at or self.started_at
                yield ReplayStep(self._add_node(name, entry), entry)

    def title(self) -> str:
        """Return the title. A command to the program is not used as a title."""
        return self._summary or self._first_request

    # ── continuing later ──────────────────────────────────────────────────────────────────────────

    def save_state(self) -> dict[str, Json]:
        """Return the state that reading continues from: mainly the latest messages, which may be written again."""
        # All content of a message that was rewound, and is written again, is new.
        latest = [name for name in self._carried if name in self._live_messages][-_MAX_OPEN_MESSAGES:]
        older = self._older_names.union(map(_name_digest, self._carried.keys() - {*latest}))
        return {
            "times": [self.started_at, self.ended_at],
            "title": [self._summary, self._begins_with_command, self._first_request],
            "older": sorted(older),
            "messages": {name: {key: self._carried[name].get(key) for key in _SMALL_FIELDS} for name in latest},
            "seen": [*self._seen][-_MAX_OPEN_MESSAGES * 10 :],
            "tokens": {name: [*self._counted_tokens[name][0]] for name in latest if name in self._counted_tokens},
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        self.started_at, self.ended_at = state["times"]
        self._summary, self._begins_with_command, self._first_request = state["title"]
        self._older_names = set(state["older"])
        self._carried = state["messages"]
        self._live_messages = dict.fromkeys(self._carried, 0)
        self._seen = dict.fromkeys(state["seen"], 0)
        self._counted_tokens = {name: (Tokens(*counts), 0) for name, counts in state["tokens"].items()}

    def can_continue_with(self, line: JsonLine) -> bool:
        """Return whether a line can be read after a restored state. It cannot if it repeats or rewinds messages."""
        value = as_dict(line.value)
        if isinstance(name := value.get("id"), str):
            return _name_digest(name) not in self._older_names
        changes = as_dict(value.get("$set"))
        return not (value.keys() | changes.keys()) & _RESTARTING_FIELDS

    def find_calling_step(self, session_id: str) -> int | None:
        """Return the step that called the sub-agent with this session id."""
        return next((step for agent_id, step in self._agent_steps.items() if agent_id and agent_id in session_id), None)

    def _add_node(self, name: str, entry: NewEntry) -> Node:
        name = name if name and name not in self._node_names else f"{name}.{len(self._nodes)}"
        is_message = entry.role in ("user", "assistant") and entry.kind == "message" and entry.is_prompt is not False
        parent = None if self._current is None else self._nodes[self._current].id
        node = Node(name, parent, is_message or entry.kind == "compaction")
        self._node_names.add(name)
        self._parents.append(self._current)
        self._current = len(self._nodes)
        self._nodes.append(node)
        return node

    # ── lines, by their shape ─────────────────────────────────────────────────────────────────────

    def _replay_line(self, line: JsonLine, path: str) -> Iterator[tuple[str, NewEntry]]:
        """Yield the entries of a line. They are made one by one, since each depends on the one before."""
        value = as_dict(line.value)
        if isinstance(message := value.get("$rewindTo"), str):
            self._rewind(self._live_messages.get(message, min(self._live_messages.values(), default=0)))
            yield "", NewEntry(kind="event", text=message)
        elif isinstance(value.get("id"), str):
            yield as_str(value.get("id")), self._parse_message(value) or NewEntry(kind="event")
        elif isinstance(value.get("$set"), dict):
            self._update_metadata(as_dict(value.get("$set")))
            yield from self._replay_messages(as_dict(value.get("$set")), silent=False)
        elif isinstance(value.get("sessionId"), str):
            yield from self._replay_metadata(line, path, value)
        else:
            yield "", NewEntry(kind="unknown", parts=(Opaque("", line.value),))

    def _replay_metadata(self, line: JsonLine, path: str, value: GeminiMessage) -> Iterator[tuple[str, NewEntry]]:
        is_first = self.header_line is None
        if is_first:
            self.header_line, self.header_path = line, path
            self.project_hash = as_str(value.get("projectHash"))
        self._update_metadata(value)
        yield from self._replay_messages(value, silent=is_first)

    def _update_metadata(self, value: GeminiMessage) -> None:
        started = as_time(value.get("startTime"))
        self.started_at = min(filter(None, (self.started_at, started)), default="")
        self.ended_at = max(self.ended_at, started, as_time(value.get("lastUpdated")))
        self._summary = as_str(value.get("summary")).strip() or self._summary
        self.directories += filter(None, map(as_str, as_list(value.get("directories"))))

    def _replay_messages(self, value: GeminiMessage, *, silent: bool) -> Iterator[tuple[str, NewEntry]]:
        """Yield what is new in a complete list of messages. Gemini CLI writes one at the start, after a rewind, and
        after a compaction, where a summary replaces the older messages."""
        messages = list(map(as_dict, as_list(value.get("messages"))))
        names = [as_str(message.get("id")) or f".{index}" for index, message in enumerate(messages)]
        conversation = [
            name for name, message in zip(names, messages, strict=True) if _is_conversation_message(message)
        ]
        removed = [step for name, step in self._live_messages.items() if name not in names]
        is_compaction = bool(removed) and any(name not in self._carried for name in conversation)
        if removed and conversation and not is_compaction:
            self._rewind(min(removed))
        for name, message in zip(names, messages, strict=True):
            is_new = name not in self._carried
            if (entry := self._parse_message({**message, "id": name})) is not None:
                if is_compaction and is_new and entry.role == "user" and entry.begins_turn():
                    entry = NewEntry(kind="compaction", text=entry.get_text(), created_at=entry.created_at)
                silent = True
                yield name, entry
        if not silent:
            yield "", NewEntry(kind="event", text=as_str(value.get("summary")))

    def _rewind(self, step: int) -> None:
        """Forget this step and all later ones."""
        self._current = self._parents[step] if step < len(self._parents) else self._current
        self._live_messages = {name: other for name, other in self._live_messages.items() if other < step}
        self._seen = {key: other for key, other in self._seen.items() if other < step}
        self._counted_tokens = {name: count for name, count in self._counted_tokens.items() if count[1] < step}

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _parse_message(self, message: GeminiMessage) -> NewEntry | None:
        """Return an entry with what is new in a message, or None if nothing is."""
        name = as_str(message.get("id"))
        carried = self._carried.setdefault(name, {"timestamp": message.get("timestamp")})
        carried |= {key: message[key] for key in _CARRIED_FIELDS if message.get(key)}
        message = {**message, **carried}
        time = as_time(message.get("timestamp"))
        self.ended_at = max(self.ended_at, time)
        kind = as_str(message.get("type"))
        if kind == "user":
            entry = self._parse_user(name, message)
        elif kind == "gemini":
            entry = self._parse_answer(name, message)
        else:
            entry = self._parse_notice(name, kind, message)
        if entry is not None:
            entry.created_at = entry.created_at or time
            entry.message_key = name
            if _is_conversation_message(message):
                self._live_messages.setdefault(name, len(self._nodes))
        return entry

    def _add_if_new(self, *key: str) -> bool:
        name = digest(*key)
        return name not in self._seen and self._seen.setdefault(name, len(self._nodes)) == len(self._nodes)

    def _is_new_part(self, name: str, part: Part) -> bool:
        match part:
            case ToolCall(call, _, _):
                return self._add_if_new("call", call)
            case ToolResult(call, _):
                return self._add_if_new("result", call)
            case Text(text):
                return self._add_if_new("text", name, text.strip())
            case Thinking():
                return digest("thoughts", name) not in self._seen
        return self._add_if_new("part", name, repr(part))

    def _parse_user(self, name: str, message: GeminiMessage) -> NewEntry | None:
        all_parts = parse_parts(message.get("content"))
        parts = tuple(part for part in all_parts if self._is_new_part(name, part))
        if not parts:
            return None
        if any(isinstance(part, ToolResult) for part in all_parts):
            return NewEntry(role="tool", parts=parts, is_prompt=False)
        text = extract_typed_text(parse_parts(message.get("displayContent"))) or extract_typed_text(parts)
        if is_injected(text):
            return NewEntry(role="user", parts=parts, is_prompt=False)
        is_command = text.startswith(_COMMAND_PREFIXES)
        if self._begins_with_command is None:
            self._begins_with_command = is_command
        if self._begins_with_command and not is_command:
            self._first_request = self._first_request or text
        return NewEntry(role="user", parts=parts, text=text)

    def _parse_answer(self, name: str, message: GeminiMessage) -> NewEntry | None:
        thoughts = [_format_thought(thought) for thought in map(as_dict, as_list(message.get("thoughts")))]
        parts: list[Part] = [Thinking(text) for text in thoughts if self._add_if_new("thought", name, text)]
        parts += [part for part in parse_parts(message.get("content")) if self._is_new_part(name, part)]
        if any(isinstance(part, Thinking) for part in parts):
            self._add_if_new("thoughts", name)
        time = ""
        for call in map(as_dict, as_list(message.get("toolCalls"))):
            call_parts = _parse_call(call, as_time(message.get("timestamp")))
            if new_parts := [part for part in call_parts if self._is_new_part(name, part)]:
                parts += new_parts
                time = max(time, as_time(call.get("timestamp")))
                self._agent_steps.setdefault(as_str(call.get("agentId")), len(self._nodes))
        tokens = self._count_new_tokens(name, as_dict(message.get("tokens")))
        if not parts and not tokens:
            return None
        self.ended_at = max(self.ended_at, time)
        return NewEntry(
            role="assistant",
            parts=tuple(parts),
            model=as_str(message.get("model")),
            tokens=tokens,
            created_at=time,
            usage=read_usage(message) if tokens else None,
        )

    def _count_new_tokens(self, name: str, usage: GeminiMessage) -> Tokens | None:
        """Return the tokens of a message that were not counted yet. Every report holds the total."""
        if not usage:
            return None
        total = count_tokens(*(usage.get(key) for key in ("input", "cached", "output", "thoughts", "tool")))
        before = self._counted_tokens.get(name, (Tokens(), 0))[0]
        self._counted_tokens[name] = total, len(self._nodes)
        return (
            Tokens(*(max(count - counted, 0) for count, counted in zip(total, before, strict=True)))
            if total != before
            else None
        )

    def _parse_notice(self, name: str, kind: str, message: GeminiMessage) -> NewEntry | None:
        text = readable_text(message.get("content"))
        if not self._add_if_new("text", name, text):
            return None
        if kind == "error":
            return NewEntry(role="system", parts=(Text(text),), activity="failed")
        if kind in ("info", "warning"):
            return NewEntry(kind="event", text=text)
        return NewEntry(kind="unknown", parts=(Opaque(kind, dict(message)),))


def _name_digest(name: str) -> str:
    return digest(name)[:8]


def _is_conversation_message(message: GeminiMessage) -> bool:
    """Return whether a message is part of the conversation, not a result, a notice or an injected text."""
    kind = message.get("type")
    if kind != "user":
        return kind == "gemini"
    parts = parse_parts(message.get("content"))
    return any(not isinstance(part, ToolResult) for part in parts) and not is_injected(extract_typed_text(parts))


def _format_thought(thought: GeminiMessage) -> str:
    return "\n".join(filter(None, (as_str(thought.get("subject")), as_str(thought.get("description")))))


def _parse_call(call: GeminiMessage, called_at: str) -> list[Part]:
    """Return a call and, when it has ended, its result. If it was refused or cancelled, the result is made here.

    The message has the time of the call, and the call has the time of the result.
    """
    name, status = as_str(call.get("name")), as_str(call.get("status"))
    parts: list[Part] = [ToolCall(call_id(call), name, call.get("args"))]
    result = call.get("result")
    blocks = as_list(result) or [result]
    response = next(
        (found for found in (as_dict(as_dict(block).get("functionResponse")) for block in blocks) if found), {}
    )
    if response or status not in (*_RUNNING_STATUSES, ""):
        body = response.get("response", call.get("resultDisplay"))
        result_fields = {"id": call_id(call), "name": name, "response": body}
        answer = parse_tool_result(result_fields, failed=status in ("error", "cancelled"))
        parts.append(replace(answer, duration_ms=elapsed_ms(called_at, as_time(call.get("timestamp")))))
    return parts
