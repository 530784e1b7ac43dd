"""This module detects the API that a record came from, and reads the record in the format of that API.

Claude Code records messages of Anthropic's API. Codex, Pingu and `save_turn` record items of the Responses API.
A message appended through the library may have any of the three formats. All other agents have formats of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from store.errors import BadValue
from store.formats.content_blocks import parse_block, parse_item
from store.model.entry import Json, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from store.rebuild.unit import ApiFormat, NativeRecord, Unit, UnitRole, as_dict, as_str, is_empty
from store.text.validate import decode


def decode_or_none(data: bytes | str) -> Json:
    """Decode a record, or return None if it is not JSON. Such a record is rebuilt from its parts."""
    try:
        return decode(data)
    except BadValue:
        return None


def read_native(record: Json, api_format: ApiFormat) -> NativeRecord | None:
    """Read a record in the format of an API, or return None if it has another format."""
    return _READERS[api_format](record) if isinstance(record, Mapping) else None


def read_other_native(record: Json, api_format: ApiFormat) -> NativeRecord | None:
    """Read a record in the format of another API, or return None."""
    results = (read_native(record, other) for other in _READERS if other != api_format)
    return next((result for result in results if result), None)


_ROLES: dict[str, UnitRole] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}


# ── Anthropic ─────────────────────────────────────────────────────────────────────────────────────

_SYNTHETIC = "<synthetic>"
_SOURCE_TYPES = ("base64", "url", "file", "text", "content")


def _read_anthropic(record: Mapping[str, Json]) -> NativeRecord | None:
    if record.get("type") in ("user", "assistant") and "content" in as_dict(record.get("message")):
        message = as_dict(record["message"])
        if record.get("isApiErrorMessage") is True or message.get("model") == _SYNTHETIC:
            return NativeRecord("anthropic", [], ["error of the program"])
        metadata = [name for name, value in message.items() if name not in _MESSAGE_FIELDS and not is_empty(value)]
        return _read_anthropic_message(message, metadata, allow_unknown=True)
    if record.keys() == {"role", "content"}:
        return _read_anthropic_message(record, [], allow_unknown=False)
    return None


_MESSAGE_FIELDS = frozenset(["role", "content", "type"])


def _read_anthropic_message(
    message: Mapping[str, Json], metadata: list[str], *, allow_unknown: bool
) -> NativeRecord | None:
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant"):
        return None
    unit_role: UnitRole = "assistant" if role == "assistant" else "user"
    key = as_str(message.get("id"))
    if isinstance(content, str):
        return NativeRecord("anthropic", [[Unit(unit_role, Text(content), content, key)]], metadata)
    if not isinstance(content, list) or not (allow_unknown or any(map(_is_anthropic_block, content))):
        return None
    return NativeRecord(
        "anthropic", [[_read_block(block, unit_role, key, allow_unknown) for block in content]], metadata
    )


def _read_block(block: Json, role: UnitRole, key: str, allow_unknown: bool) -> Unit:
    fields, kind = as_dict(block), as_str(as_dict(block).get("type"))
    if kind == "redacted_thinking":
        return Unit(role, Thinking("", as_str(fields.get("data"))), block, key)
    if kind.endswith("_tool_use") and allow_unknown:
        call = ToolCall(as_str(fields.get("id")), as_str(fields.get("name")), fields.get("input"))
        return Unit(role, call, block, key, is_server_side=True)
    if kind.endswith("_tool_result") and allow_unknown:
        result = ToolResult(as_str(fields.get("tool_use_id")), fields.get("content"))
        return Unit(role, result, block, key, is_server_side=True)
    part = parse_block(block)
    if _is_anthropic_block(block) or (allow_unknown and isinstance(part, Opaque) and kind):
        return Unit(_part_role(part, role), part, block, key)
    return Unit(_part_role(part, role), part, message_key=key)


def _is_anthropic_block(block: Json) -> bool:
    fields = as_dict(block)
    match fields.get("type"):
        case "text":
            return isinstance(fields.get("text"), str)
        case "thinking":
            return bool(as_str(fields.get("signature"))) and isinstance(fields.get("thinking"), str)
        case "redacted_thinking":
            return bool(as_str(fields.get("data")))
        case "tool_use":
            return bool(as_str(fields.get("id")) and as_str(fields.get("name"))) and isinstance(
                fields.get("input"), Mapping
            )
        case "tool_result":
            # Rubichan has the output in `text`.
            return bool(as_str(fields.get("tool_use_id"))) and "text" not in fields
        case "image" | "document":
            return as_dict(fields.get("source")).get("type") in _SOURCE_TYPES
    return False


def _part_role(part: Part, default: UnitRole) -> UnitRole:
    if isinstance(part, ToolResult):
        return "tool"
    return "assistant" if isinstance(part, ToolCall | Thinking) else default


# ── Responses ─────────────────────────────────────────────────────────────────────────────────────

_ITEM_TYPES = frozenset(
    "message reasoning function_call function_call_output custom_tool_call custom_tool_call_output local_shell_call"
    " file_search_call web_search_call computer_call computer_call_output code_interpreter_call".split()
)
_REQUIRED_FIELDS = {"message": "role", "reasoning": "summary"}
_CODEX_ITEM_TYPES = _ITEM_TYPES | frozenset(
    "local_shell_call_output tool_search_call tool_search_output image_generation_call compaction additional_tools"
    " configuration_update".split()
)
_CODEX_MARKERS = frozenset(["ghost_snapshot", "compaction_trigger", "context_compaction", "other"])
"""Items that Codex keeps for itself, or that only its own service can read."""


def _read_responses(record: Mapping[str, Json]) -> NativeRecord | None:
    payload, kind = as_dict(record.get("payload")), as_str(record.get("type"))
    if kind == "response_item" and payload:
        return _read_codex_items([payload])
    if kind == "compacted":
        history = payload.get("replacement_history")
        return _read_codex_items(history) if isinstance(history, list) and history else None
    if isinstance(record.get("response_json"), str) and "user_message" in record:
        return _read_pingu_row(record)
    for name in ("output", "input"):
        if isinstance(items := record.get(name), list):
            metadata = [field for field, value in record.items() if field != name and not is_empty(value)]
            return NativeRecord("responses", [_read_items([item]) for item in items], metadata)
    if kind in _ITEM_TYPES and _REQUIRED_FIELDS.get(kind, "id" if "id" in record else "call_id") in record:
        return NativeRecord("responses", [_read_items([record])])
    return None


def _read_codex_items(items: list[Json]) -> NativeRecord:
    """Read items of a rollout. Those that the API does not have are read as messages, or left out."""
    units: list[Unit] = []
    markers: list[str] = []
    for item in items:
        fields, kind = as_dict(item), as_str(as_dict(item).get("type")) or "message"
        if kind in _CODEX_MARKERS:
            markers.append(kind)
        elif kind == "agent_message":
            units += (Unit("user", part) for part in parse_item({**fields, "type": "message"}))
        elif kind == "compaction_summary":
            units.append(_read_item({**fields, "type": "compaction"}))
        elif kind in _CODEX_ITEM_TYPES or not fields:
            units.append(_read_item(item))
        else:
            units.append(Unit("assistant", Opaque(kind, item)))
    return NativeRecord("responses", [units], markers)


def _read_pingu_row(row: Mapping[str, Json]) -> NativeRecord:
    """Read the prompt and the whole response to it. Since March 2026 an item may have its full form under `raw`."""
    prompt = {"role": "user", "content": as_str(row.get("user_message"))}
    response = as_dict(decode_or_none(row["response_json"]))
    output = response.get("output")
    items = [_add_role(as_dict(item).get("raw") or item) for item in output] if isinstance(output, list) else []
    metadata = [name for name, value in response.items() if name != "output" and not is_empty(value)]
    return NativeRecord("responses", [_read_items([prompt]), _read_items(items)], metadata)


def _add_role(item: Json) -> Json:
    """Add the role to a message of a response. The API wants it, and Pingu's short form leaves it out."""
    is_bare = isinstance(item, Mapping) and item.get("type") == "message" and "role" not in item
    return {"role": "assistant", **item} if is_bare else item


def _read_items(items: list[Json]) -> list[Unit]:
    return list(map(_read_item, items))


def _read_item(item: Json) -> Unit:
    fields = as_dict(item)
    kind = as_str(fields.get("type")) or "message"
    if kind == "message":
        return Unit(_ROLES.get(as_str(fields.get("role")), "user"), Text(""), item)
    if kind == "reasoning":
        return Unit("assistant", Thinking("", as_str(fields.get("encrypted_content"))), item)
    if kind.endswith("_output"):
        return Unit(
            "tool", ToolResult(as_str(fields.get("call_id")) or as_str(fields.get("id")), fields.get("output")), item
        )
    call_id = as_str(fields.get("call_id")) or (as_str(fields.get("id")) if kind == "local_shell_call" else "")
    # A call that the client answers has a call id; one that the vendor answers has none.
    if kind.endswith("_call") and call_id:
        arguments = fields.get("arguments", fields.get("input", fields.get("action")))
        return Unit("assistant", ToolCall(call_id, as_str(fields.get("name")) or kind, arguments), item)
    return Unit("assistant", Opaque(kind, item), item)


# ── Chat ──────────────────────────────────────────────────────────────────────────────────────────

_CHAT_ONLY_FIELDS = frozenset(["tool_calls", "tool_call_id", "refusal", "function_call", "audio"])
_CHAT_PARTS = frozenset(["text", "image_url", "input_audio", "file", "refusal"])


def _read_chat(record: Mapping[str, Json]) -> NativeRecord | None:
    choices = record.get("choices")
    if isinstance(choices, list) and choices and "message" in as_dict(choices[0]):
        metadata = [name for name, value in record.items() if name != "choices" and not is_empty(value)]
        return _read_chat_message(as_dict(choices[0]["message"]), metadata)
    if _CHAT_ONLY_FIELDS & record.keys() or (
        record.keys() <= {"role", "content", "name"} and _is_chat_content(record.get("content"))
    ):
        return _read_chat_message(record, [])
    return None


def _is_chat_content(content: Json) -> bool:
    if isinstance(content, list):
        return bool(content) and all(as_str(as_dict(part).get("type")) in _CHAT_PARTS for part in content)
    return isinstance(content, str)


def _read_chat_message(message: Mapping[str, Json], metadata: list[str]) -> NativeRecord | None:
    """Return a unit for the message without its calls and one for each call, so that each call can be repaired."""
    role = _ROLES.get(as_str(message.get("role")))
    calls = message.get("tool_calls")
    if role is None or (role == "tool") != isinstance(message.get("tool_call_id"), str):
        return None
    if role == "tool":
        result = ToolResult(message["tool_call_id"], message.get("content"))
        return NativeRecord("chat", [[Unit("tool", result, dict(message))]], metadata)
    bare = {name: value for name, value in message.items() if name != "tool_calls"}
    units = [Unit(role, Text(as_str(message.get("content"))), bare)]
    for call in calls if isinstance(calls, list) else []:
        function = as_dict(as_dict(call).get("function")) or as_dict(as_dict(call).get("custom"))
        part = ToolCall(as_str(as_dict(call).get("id")), as_str(function.get("name")), function.get("arguments"))
        units.append(Unit("assistant", part, call))
    return NativeRecord("chat", [units], metadata)


_READERS: dict[ApiFormat, Callable[[Mapping[str, Json]], NativeRecord | None]] = {
    "anthropic": _read_anthropic,
    "responses": _read_responses,
    "chat": _read_chat,
}


# ── fields of one API only ────────────────────────────────────────────────────────────────────────

_SHARED_FIELDS = frozenset(
    "type text role content id call_id name arguments input output tool_use_id tool_call_id is_error thinking signature"
    " data source status image_url tool_calls refusal action queries results code outputs container_id function index"
    " summary encrypted_content".split()
)


def find_vendor_fields(value: Json, levels: int = 4) -> Iterator[str]:
    """Yield the fields of an item, block or message that no other API has."""
    fields = as_dict(value)
    kind = as_str(fields.get("type")) or as_str(fields.get("role"))
    for name, item in fields.items():
        if name == "content" and isinstance(item, list) and levels:
            for block in item:
                yield from find_vendor_fields(block, levels - 1)
        elif name not in _SHARED_FIELDS and not is_empty(item):
            yield f"{kind}.{name}"
