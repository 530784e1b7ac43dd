"""This module parses content blocks and items of the Responses API into parts, and formats parts as blocks.

It is pure. Whatever it does not understand becomes an opaque part and is kept unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from store.errors import BadValue
from store.model.entry import (
    Attachment,
    Json,
    Opaque,
    Part,
    Text,
    Thinking,
    Tokens,
    ToolCall,
    ToolResult,
    readable_text,
)
from store.text.validate import decode, is_too_deep

# ── content blocks, as in Anthropic's API and in Rubichan ─────────────────────────────────────────


def parse_blocks(blocks: str | Sequence[Json]) -> tuple[Part, ...]:
    if isinstance(blocks, str):
        return (Text(blocks),)
    if type(blocks) is not list and not isinstance(blocks, Sequence):
        raise BadValue(f"A message is text or a list of blocks, not {type(blocks).__name__}.")
    return tuple([parse_block(block) for block in blocks])


def parse_block(block: Json) -> Part:
    if isinstance(block, str):
        return Text(block)
    # The exact type is tested first, because isinstance with an abstract class is slow and every block comes here.
    if type(block) is not dict and not isinstance(block, Mapping):
        return Opaque("", block)
    kind = block.get("type")
    text = block.get("text")
    if kind == "text" and isinstance(text, str):
        return Text(text)
    if kind == "thinking" and isinstance(thought := block.get("thinking", text), str):
        return Thinking(thought, str(block.get("signature", "")))
    if kind == "tool_use" and isinstance(block.get("name"), str):
        return ToolCall(str(block.get("id", "")), block["name"], block.get("input"))
    if kind == "tool_result":
        # Rubichan has the output in `text`, Anthropic in `content`.
        return ToolResult(
            str(block.get("tool_use_id", "")),
            block.get("content", text),
            bool(block.get("is_error")),
        )
    if kind in ("image", "document") and isinstance(source := block.get("source"), Mapping):
        return Attachment(str(source.get("media_type", kind)), str(block.get("title") or ""), _base64_size(source))
    return Opaque(str(kind or ""), dict(block))


def _base64_size(source: Mapping[str, Json]) -> int | None:
    data = source.get("data")
    return len(data) * 3 // 4 if isinstance(data, str) else None


def part_to_block(part: Part) -> Json:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Thinking(text, signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case ToolCall(id, name, arguments):
            return {"type": "tool_use", "id": id, "name": name, "input": arguments}
        case ToolResult(call_id, output, is_error):
            return {
                "type": "tool_result",
                "tool_use_id": call_id,
                "content": output,
                "is_error": is_error,
            }
        case Attachment(media_type, name, size, uri):
            return {
                "type": "attachment",
                "media_type": media_type,
                "name": name,
                "size": size,
                "uri": uri,
            }
        case Opaque(_, value):
            return value


# ── items of the Responses API, as Pingu keeps them ───────────────────────────────────────────────


def parse_item(item: Json) -> tuple[Part, ...]:
    """Parse one input or output item. An item of a server-side call holds both the call and its result."""
    if not isinstance(item, Mapping):
        return (Opaque("", item),)
    kind = str(item.get("type") or "message")
    if kind == "message":
        return _parse_message_content(item.get("content"))
    if kind == "reasoning":
        return (Thinking(_reasoning_text(item), str(item.get("encrypted_content") or "")),)
    if kind in ("function_call", "custom_tool_call"):
        return (ToolCall(_call_id(item), str(item.get("name", "")), _parse_arguments(item)),)
    if kind in ("function_call_output", "custom_tool_call_output", "computer_call_output"):
        return (ToolResult(_call_id(item), item.get("output"), item.get("status") == "incomplete"),)
    if kind == "computer_call":
        return (ToolCall(_call_id(item), "computer", item.get("action")),)
    if kind in _SERVER_CALLS:
        return _parse_server_call(kind, item)
    return (Opaque(kind, dict(item)),)


_SERVER_CALLS = {
    "file_search_call": ("file_search", ("queries",), "results"),
    "web_search_call": ("web_search", ("action", "query"), "results"),
    "code_interpreter_call": ("code_interpreter", ("code", "container_id"), "outputs"),
}


def _parse_server_call(kind: str, item: Mapping[str, Json]) -> tuple[Part, ...]:
    name, argument_fields, output_field = _SERVER_CALLS[kind]
    call_id = _call_id(item)
    arguments = {field: item[field] for field in argument_fields if item.get(field) is not None}
    call = ToolCall(call_id, name, arguments)
    status = item.get("status")
    if status in ("in_progress", "searching", "interpreting"):
        return (call,)
    return (call, ToolResult(call_id, item.get(output_field), status in ("failed", "incomplete"), name))


def _call_id(item: Mapping[str, Json]) -> str:
    return str(item.get("call_id") or item.get("id") or "")


def _parse_message_content(content: Json) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),)
    if not isinstance(content, Sequence):
        return () if content is None else (Opaque("", content),)
    return tuple(map(_parse_content_part, content))


def _parse_content_part(content: Json) -> Part:
    if isinstance(content, Mapping):
        kind = content.get("type")
        if kind in ("output_text", "input_text", "text") and isinstance(content.get("text"), str):
            return Text(content["text"])
        if kind == "refusal" and isinstance(content.get("refusal"), str):
            return Text(content["refusal"])
        if kind in ("input_image", "input_file"):
            name = str(content.get("filename") or content.get("file_id") or "")
            return Attachment("image" if kind == "input_image" else "file", name)
        return Opaque(str(kind or ""), dict(content))
    return Text(content) if isinstance(content, str) else Opaque("", content)


def _reasoning_text(item: Mapping[str, Json]) -> str:
    return readable_text(item.get("summary")) or readable_text(item.get("content"))


def _parse_arguments(item: Mapping[str, Json]) -> Json:
    """Decode the arguments, which the API writes as JSON in a string. Return a string that is not JSON unchanged."""
    arguments = item.get("arguments", item.get("input"))
    if not isinstance(arguments, str) or is_too_deep(arguments.encode("utf-8", "replace"), outer_levels=2):
        return arguments
    try:
        return decode(arguments)
    except BadValue:
        return arguments


def parse_response_tokens(response: Mapping[str, Json]) -> Tokens | None:
    """Return the tokens of a response. OpenAI includes cached ones in the input; Anthropic counts them apart."""
    usage = response.get("usage")
    if not isinstance(usage, Mapping):
        return None
    details = usage.get("input_tokens_details")
    reads_within_input, writes_within_input = (
        _int_field(details, name) for name in ("cached_tokens", "cache_write_tokens")
    )
    return Tokens(
        max(_int_field(usage, "input_tokens") - reads_within_input - writes_within_input, 0),
        _int_field(usage, "output_tokens"),
        reads_within_input + _int_field(usage, "cache_read_input_tokens"),
        writes_within_input + _int_field(usage, "cache_creation_input_tokens"),
    )


def _int_field(value: Any, name: str) -> int:
    number = value.get(name) if isinstance(value, Mapping) else None
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**53 else 0
