"""This module reads Qwen Code transcripts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from store.model.entry import Json, NewEntry, Opaque, Part, Text, Tokens, ToolCall, ToolResult, readable_text
from store.sources.kit.gemini_parts import count_tokens, extract_typed_text, is_injected, parse_parts
from store.sources.kit.jsonl import as_count, as_dict, as_list, as_str, as_time
from store.sources.kit.record_tree import EntryParser, RecordTree
from store.sources.kit.stamps import digest
from store.sources.kit.transcripts import Node
from store.sources.qwen.usage import read_usage
from store.text.validate import encode_derived, replace_surrogates

_TYPED_SUBTYPES = ("", "mid_turn_user_message")
"""The subtypes of messages that a person typed. All others come from the program, e.g. a notification."""

_HOOK_CONTEXT = re.compile(r"<(qwen:[a-z-]+-context)>.*</\1>", re.DOTALL)
"""Matches what a hook adds to a message, since version 0.21 in a part of its own."""


class QwenRecordTree(RecordTree):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._session_id = ""

    def parse_node(self, value: Mapping[str, Json]) -> Node:
        title = as_str(as_dict(value.get("systemPayload")).get("customTitle")).strip()
        if title and value.get("subtype") == "custom_title":
            self.node_fields[len(self.nodes)] = {"agent_title": title}
        self.fields["cwd"] = self.fields.get("cwd") or as_str(value.get("cwd"))
        self._session_id = self._session_id or as_str(value.get("sessionId"))
        parent = value.get("parentUuid", "")
        is_message = value.get("type") in ("user", "assistant")
        return Node(as_str(value.get("uuid")), None if parent is None else as_str(parent), is_message)

    @property
    def is_identified(self) -> bool:
        return any(node.is_message for node in self.nodes[-1:])

    def parse_time(self, value: Mapping[str, Json]) -> str:
        return as_time(value.get("timestamp"))

    @property
    def native_id(self) -> str:
        """The name of the file. Qwen Code resumes a session by it."""
        return replace_surrogates(self.path.stem or self._session_id)

    def entry_parser(self) -> EntryParser:
        return _QwenEntryParser()


class _QwenEntryParser(EntryParser):
    """Converts the records of one branch to entries, in order. The duration of a call has a record of its own, which
    has no call id: the call is found by its name and arguments."""

    carried = ("pending_calls", "durations")

    def __init__(self) -> None:
        self.pending_calls: dict[str, str] = {}
        "Maps calls without a result to a digest of their names and arguments."
        self.durations: dict[str, int] = {}

    def read_entry(self, value: Json) -> NewEntry:
        record = as_dict(value)
        kind, subtype = as_str(record.get("type")), as_str(record.get("subtype"))
        parts = parse_parts(as_dict(record.get("message")).get("parts"))
        if kind == "user":
            return _parse_prompt(record, subtype, parts)
        if kind == "assistant":
            self._remember_calls(parts)
            return _parse_answer(record, parts)
        if kind == "tool_result":
            return self._parse_result(record, parts)
        if kind == "system":
            payload = as_dict(record.get("systemPayload"))
            self._remember_duration(as_dict(payload.get("uiEvent")))
            return _parse_system(subtype, payload)
        return NewEntry(kind="unknown", parts=(Opaque(kind, value),))

    def _remember_calls(self, parts: Sequence[Part]) -> None:
        for part in parts:
            if isinstance(part, ToolCall):
                self.pending_calls[part.id] = digest(encode_derived([part.name, part.arguments]))

    def _remember_duration(self, event: Mapping[str, Json]) -> None:
        duration = as_count(event.get("duration_ms"))
        if event.get("event.name") != "qwen-code.tool_call" or not duration:
            return
        called = digest(encode_derived([as_str(event.get("function_name")), event.get("function_args")]))
        call = next((call for call, pending in self.pending_calls.items() if pending == called), None)
        if call is not None:
            del self.pending_calls[call]
            self.durations[call] = duration

    def _parse_result(self, record: Mapping[str, Json], parts: Sequence[Part]) -> NewEntry:
        call_result = as_dict(record.get("toolCallResult"))
        failed = call_result.get("status") in ("error", "cancelled")
        results = [self._complete_result(part, failed) if isinstance(part, ToolResult) else part for part in parts]
        if not results and isinstance(call := call_result.get("callId"), str):
            results = [self._complete_result(ToolResult(call, call_result.get("resultDisplay")), failed)]
        return NewEntry(role="tool", parts=tuple(results), is_prompt=False)

    def _complete_result(self, result: ToolResult, failed: bool) -> ToolResult:
        self.pending_calls.pop(result.call_id, None)
        duration = self.durations.pop(result.call_id, None)
        return replace(result, is_error=result.is_error or failed, duration_ms=duration)


def _parse_prompt(record: Mapping[str, Json], subtype: str, parts: tuple[Part, ...]) -> NewEntry:
    typed_parts = tuple(part for part in parts if not _is_hook_context(part))
    displayed = as_dict(record.get("systemPayload")).get("displayText")
    text = displayed if isinstance(displayed, str) else extract_typed_text(typed_parts)
    source = record.get("provenance", "real_user")
    if subtype not in _TYPED_SUBTYPES or source != "real_user" or is_injected(text) or (parts and not typed_parts):
        return NewEntry(role="user", parts=parts, text=text, is_prompt=False, author=subtype)
    return NewEntry(role="user", parts=parts, text=text)


def _is_hook_context(part: Part) -> bool:
    """Return whether a hook added this part to what a person typed."""
    return isinstance(part, Text) and _HOOK_CONTEXT.fullmatch(part.text.strip()) is not None


def _parse_answer(record: Mapping[str, Json], parts: tuple[Part, ...]) -> NewEntry:
    return NewEntry(
        role="assistant",
        parts=parts,
        model=as_str(record.get("model")),
        message_key=as_str(record.get("uuid")),
        tokens=_parse_tokens(as_dict(record.get("usageMetadata"))),
        usage=read_usage(record),
    )


def _parse_tokens(usage: Mapping[str, Json]) -> Tokens | None:
    """Return the tokens of a message. Some providers include thoughts in the answer, which the total reveals."""
    if not usage:
        return None
    prompt, answer, thoughts = (
        as_count(usage.get(name)) for name in ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
    )
    is_included = prompt + answer + thoughts > as_count(usage.get("totalTokenCount")) > 0
    return count_tokens(prompt, usage.get("cachedContentTokenCount"), answer, 0 if is_included else thoughts)


def _parse_system(subtype: str, payload: Mapping[str, Json]) -> NewEntry:
    if subtype == "chat_compression":
        history = [
            extract_typed_text(parse_parts(as_dict(message).get("parts")))
            for message in as_list(payload.get("compressedHistory"))
        ]
        return NewEntry(kind="compaction", text=next(filter(None, history), ""))
    text = payload.get("customTitle") or payload.get("rawCommand") or payload.get("displayText")
    return NewEntry(kind="event", text=readable_text(text) or subtype)
