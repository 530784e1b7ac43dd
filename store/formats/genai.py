"""This module parses the contents of google-genai and the events of google-adk into entries.

It is pure. Whatever it does not understand becomes an opaque part and is kept unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from store.errors import BadValue
from store.model.entry import (
    Attachment,
    Json,
    NewEntry,
    NewRecord,
    Opaque,
    Part,
    Text,
    Thinking,
    Tokens,
    ToolCall,
    ToolResult,
    readable_text,
)
from store.text.validate import decode, encode_derived

USER = "user"
"""The author of a person's messages. Every other author is an agent, even if the content has another role."""

INTERIM_RESPONSE = "function_response"
"""Marks a response that a later one replaces. It is shown, but it is not the result of the call."""

_CODE_TOOL = "code_execution"
_PART_FIELDS = (
    "text",
    "function_call",
    "function_response",
    "executable_code",
    "code_execution_result",
    "inline_data",
    "file_data",
)


class EventParser:
    """Parses the events of one session in order. The meaning of an event may depend on earlier ones."""

    def __init__(self, long_running: Iterable[str] = (), answered: Iterable[str] = ()) -> None:
        """Start at the first event, or in the middle with the ids of long-running calls and of answered calls."""
        self._long_running = set(long_running)
        self._answered = set(answered)

    def parse_event(self, event: Mapping[str, Json], record: NewRecord, created_at: str) -> list[NewEntry]:
        """Return the entries of an event, at least one. They share the record."""
        candidates = [self._parse_message(event), _parse_compaction(event), _parse_error(event)]
        entries = [entry for entry in candidates if entry is not None] or [
            NewEntry(kind="event", text=_describe_changes(event))
        ]
        entries[0].tokens = parse_tokens(event.get("usage_metadata"))
        return [
            replace(entry, author=_as_str(event.get("author")), record=record, created_at=created_at)
            for entry in entries
        ]

    def _parse_message(self, event: Mapping[str, Json]) -> NewEntry | None:
        self._long_running.update(map(_as_str, _as_list(event.get("long_running_tool_ids"))))
        by_user = event.get("author") == USER
        awaited = set() if by_user else self._long_running | _calls_awaiting_user(event)
        items = _as_list(_as_dict(event.get("content")).get("parts"))
        parts = tuple(self._parse_part(item, awaited) for item in items) or _parse_transcriptions(event)
        if not parts:
            return None
        if all(map(_is_response, parts)):
            is_interim = all(isinstance(part, Opaque) for part in parts)
            text = "\n\n".join(_response_text(part.value) for part in parts if isinstance(part, Opaque))
            return NewEntry(kind="event" if is_interim else "message", role="tool", parts=parts, text=text or None)
        model = "" if by_user else _as_str(event.get("model_version"))
        return NewEntry(role="user" if by_user else "assistant", parts=parts, model=model)

    def _parse_part(self, item: Json, awaited: set[str]) -> Part:
        if not isinstance(item, Mapping):
            return Opaque("", item)
        kind = next((name for name in (*_PART_FIELDS, *item) if name in item), "")
        body = item.get(kind)
        if kind == "text" and isinstance(body, str):
            return Thinking(body, _as_str(item.get("thought_signature"))) if item.get("thought") else Text(body)
        if not isinstance(body, Mapping):
            return Opaque(kind, dict(item))
        match kind:
            case "function_call":
                self._answered.discard(_call_id(body))
                return ToolCall(_call_id(body), _as_str(body.get("name")), body.get("args"))
            case "function_response":
                return self._parse_response(body, awaited)
            case "executable_code":
                return ToolCall(_code_id(body), _CODE_TOOL, {name: body[name] for name in body if name != "id"})
            case "code_execution_result":
                failed = body.get("outcome") not in (None, "OUTCOME_OK")
                return ToolResult(_code_id(body), body.get("output"), failed, _CODE_TOOL)
            case "inline_data" | "file_data":
                return Attachment(
                    _as_str(body.get("mime_type")),
                    _as_str(body.get("display_name")),
                    _base64_size(body.get("data")),
                    _as_str(body.get("file_uri")),
                )
        return Opaque(kind, dict(item))

    def _parse_response(self, body: Mapping[str, Json], awaited: set[str]) -> Part:
        """Return the first real response as the result of the call. Tickets, questions and repeats become opaque."""
        call_id = _call_id(body)
        if call_id in awaited or call_id in self._answered or body.get("will_continue"):
            return Opaque(INTERIM_RESPONSE, dict(body))
        self._answered.add(call_id)
        output = body.get("response")
        return ToolResult(call_id, output, _is_error(output), _as_str(body.get("name")))


def find_answered_calls(event: Mapping[str, Json]) -> list[str]:
    """Return the ids of the calls that an event answers."""
    items = map(_as_dict, _as_list(_as_dict(event.get("content")).get("parts")))
    return [_call_id(_as_dict(item["function_response"])) for item in items if "function_response" in item]


# ── other fields of an event ──────────────────────────────────────────────────────────────────────


def _calls_awaiting_user(event: Mapping[str, Json]) -> set[str]:
    """Return the calls that wait for a person's consent or credentials. They are answered again afterwards."""
    actions = _as_dict(event.get("actions"))
    return {*_as_dict(actions.get("requested_tool_confirmations")), *_as_dict(actions.get("requested_auth_configs"))}


def _parse_transcriptions(event: Mapping[str, Json]) -> tuple[Part, ...]:
    """Return the transcription of live speech. The audio itself is not stored."""
    texts = [_as_dict(event.get(name)).get("text") for name in ("input_transcription", "output_transcription")]
    return tuple(Text(text) for text in texts if isinstance(text, str) and text)


def _parse_compaction(event: Mapping[str, Json]) -> NewEntry | None:
    compaction = _as_dict(_as_dict(event.get("actions")).get("compaction"))
    summary = readable_text(_as_dict(compaction.get("compacted_content")).get("parts"))
    return NewEntry(kind="compaction", parts=(Text(summary),)) if summary else None


def _parse_error(event: Mapping[str, Json]) -> NewEntry | None:
    texts = [_as_str(event.get(name)) for name in ("error_code", "error_message")]
    return NewEntry(kind="event", text=": ".join(filter(None, texts))) if any(texts) else None


def _describe_changes(event: Mapping[str, Json]) -> str:
    """Describe what an event without content changed."""
    actions = _as_dict(event.get("actions"))
    lines = [format_state(key, value) for key, value in _as_dict(actions.get("state_delta")).items()]
    if before := _as_str(actions.get("rewind_before_invocation_id")):
        lines.append(f"Rewound to before invocation {before}.")
    if event.get("output") is not None:
        lines.append(readable_text(event["output"]))
    return "\n".join(lines)


def format_state(key: str, value: Json) -> str:
    """Format a key of a state as a person reads and corrects it. `parse_state` returns exactly the same value."""
    is_plain = isinstance(value, str) and value.isprintable() and value == value.strip() and not _is_json(value)
    return f"{key}: {value if is_plain else encode_derived(value).decode()}"


def parse_state(key: str, line: str) -> Json:
    """Return the value of a line that `format_state` made. Text that is not JSON is a string."""
    text = line.removeprefix(f"{key}: ")
    return decode(text) if _is_json(text) else text


def _is_json(text: str) -> bool:
    try:
        decode(text)
    except BadValue:
        return False
    return True


def parse_tokens(usage: Json) -> Tokens | None:
    if not isinstance(usage, Mapping):
        return None
    prompt, tools, cached, answer, thoughts = (
        _as_count(usage.get(f"{name}_token_count"))
        for name in ("prompt", "tool_use_prompt", "cached_content", "candidates", "thoughts")
    )
    return Tokens(max(prompt - cached, 0) + tools, answer + thoughts, cached)


# ── helpers ───────────────────────────────────────────────────────────────────────────────────────


def _is_response(part: Part) -> bool:
    return isinstance(part, ToolResult) or (isinstance(part, Opaque) and part.kind == INTERIM_RESPONSE)


def _response_text(response: Json) -> str:
    return readable_text(_as_dict(response).get("response"))


def _is_error(output: Json) -> bool:
    """Return whether a response is an error: google-genai has `error`, ADK's examples have a status, MCP has a flag."""
    fields = _as_dict(output)
    return bool(fields.get("error")) or fields.get("status") == "error" or fields.get("isError") is True


def _code_id(body: Mapping[str, Json]) -> str:
    """Return the id of code or its result. Many models give none, and then a result belongs to the newest code."""
    return _as_str(body.get("id")) or _CODE_TOOL


def _call_id(body: Mapping[str, Json]) -> str:
    return _as_str(body.get("id")) or _as_str(body.get("name"))


def _base64_size(data: Json) -> int | None:
    return len(data.rstrip("=")) * 3 // 4 if isinstance(data, str) else None


def _as_dict(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _as_list(value: Json) -> Iterable[Json]:
    return value if isinstance(value, list) else ()


def _as_str(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _as_count(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0
