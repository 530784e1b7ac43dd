"""Which API a record came from, told by its shape; and the record as that API would read it again.

Claude Code keeps Anthropic's messages. Codex, Pingu and what an agent saves as turns keep items of the Responses API.
Whoever appends messages may keep any of the three. All other programs have words of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from store.errors import BadValue
from store.formats.content_blocks import parse_block
from store.model.entry import Json, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from store.rebuild.unit import ApiFormat, NativeRecord, Unit, UnitRole, as_dict, as_str, is_empty
from store.text.validate import decode


def decode_or_none(data: bytes | str) -> Json:
    """What is not JSON has nothing to give back but its parts."""
    try:
        return decode(data)
    except BadValue:
        return None


def read_native(record: Json, shape: ApiFormat) -> NativeRecord | None:
    """The record in that API's words, if it has them."""
    return _READERS[shape](record) if isinstance(record, Mapping) else None


def read_other_native(record: Json, shape: ApiFormat) -> NativeRecord | None:
    """The record in the words of another API."""
    told = (read_native(record, other) for other in _READERS if other != shape)
    return next((found for found in told if found), None)


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
        beside = [name for name, value in message.items() if name not in _MESSAGE_FIELDS and not is_empty(value)]
        return _read_anthropic_message(message, beside, allow_unknown=True)
    if record.keys() == {"role", "content"}:
        return _read_anthropic_message(record, [], allow_unknown=False)
    return None


_MESSAGE_FIELDS = frozenset(["role", "content", "type"])


def _read_anthropic_message(
    message: Mapping[str, Json], beside: list[str], *, allow_unknown: bool
) -> NativeRecord | None:
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant"):
        return None
    speaker: UnitRole = "assistant" if role == "assistant" else "user"
    key = as_str(message.get("id"))
    if isinstance(content, str):
        return NativeRecord("anthropic", [[Unit(speaker, Text(content), content, key)]], beside)
    if not isinstance(content, list) or not (allow_unknown or any(map(_is_anthropic_block, content))):
        return None
    return NativeRecord("anthropic", [[_read_block(block, speaker, key, allow_unknown) for block in content]], beside)


def _read_block(block: Json, speaker: UnitRole, key: str, anything: bool) -> Unit:
    told, kind = as_dict(block), as_str(as_dict(block).get("type"))
    if kind == "redacted_thinking":
        return Unit(speaker, Thinking("", as_str(told.get("data"))), block, key)
    if kind.endswith("_tool_use") and anything:
        call = ToolCall(as_str(told.get("id")), as_str(told.get("name")), told.get("input"))
        return Unit(speaker, call, block, key, is_server_side=True)
    if kind.endswith("_tool_result") and anything:
        answer = ToolResult(as_str(told.get("tool_use_id")), told.get("content"))
        return Unit(speaker, answer, block, key, is_server_side=True)
    part = parse_block(block)
    if _is_anthropic_block(block) or (anything and isinstance(part, Opaque) and kind):
        return Unit(_part_role(part, speaker), part, block, key)
    return Unit(_part_role(part, speaker), part, message_key=key)


def _is_anthropic_block(block: Json) -> bool:
    told = as_dict(block)
    match told.get("type"):
        case "text":
            return isinstance(told.get("text"), str)
        case "thinking":
            return bool(as_str(told.get("signature"))) and isinstance(told.get("thinking"), str)
        case "redacted_thinking":
            return bool(as_str(told.get("data")))
        case "tool_use":
            return bool(as_str(told.get("id")) and as_str(told.get("name"))) and isinstance(told.get("input"), Mapping)
        case "tool_result":
            # The fourth document keeps the body in `text`.
            return bool(as_str(told.get("tool_use_id"))) and "text" not in told
        case "image" | "document":
            return as_dict(told.get("source")).get("type") in _SOURCE_TYPES
    return False


def _part_role(part: Part, otherwise: UnitRole) -> UnitRole:
    if isinstance(part, ToolResult):
        return "tool"
    return "assistant" if isinstance(part, ToolCall | Thinking) else otherwise


# ── Responses ─────────────────────────────────────────────────────────────────────────────────────

_ITEM_TYPES = frozenset(
    "message reasoning function_call function_call_output custom_tool_call custom_tool_call_output local_shell_call"
    " file_search_call web_search_call computer_call computer_call_output code_interpreter_call".split()
)
_REQUIRED_FIELDS = {"message": "role", "reasoning": "summary"}


def _read_responses(record: Mapping[str, Json]) -> NativeRecord | None:
    payload, kind = as_dict(record.get("payload")), as_str(record.get("type"))
    if kind == "response_item" and payload:
        return NativeRecord("responses", [_read_items([payload])])
    if kind == "compacted":
        history = payload.get("replacement_history")
        return NativeRecord("responses", [_read_items(history)]) if isinstance(history, list) and history else None
    if isinstance(record.get("response_json"), str) and "user_message" in record:
        return _read_pingu_row(record)
    for name in ("output", "input"):
        if isinstance(items := record.get(name), list):
            beside = [field for field, value in record.items() if field != name and not is_empty(value)]
            return NativeRecord("responses", [_read_items([item]) for item in items], beside)
    if kind in _ITEM_TYPES and _REQUIRED_FIELDS.get(kind, "id" if "id" in record else "call_id") in record:
        return NativeRecord("responses", [_read_items([record])])
    return None


def _read_pingu_row(row: Mapping[str, Json]) -> NativeRecord:
    """What was asked, and the whole response to it. Since March 2026 an item may stand whole under `raw`."""
    asked = {"role": "user", "content": as_str(row.get("user_message"))}
    response = as_dict(decode_or_none(row["response_json"]))
    output = response.get("output")
    items = [_add_role(as_dict(item).get("raw") or item) for item in output] if isinstance(output, list) else []
    beside = [name for name, value in response.items() if name != "output" and not is_empty(value)]
    return NativeRecord("responses", [_read_items([asked]), _read_items(items)], beside)


def _add_role(item: Json) -> Json:
    """Of a message that an answer holds, the API says who spoke; Pingu's own short form leaves it out."""
    is_bare = isinstance(item, Mapping) and item.get("type") == "message" and "role" not in item
    return {"role": "assistant", **item} if is_bare else item


def _read_items(items: list[Json]) -> list[Unit]:
    return list(map(_read_item, items))


def _read_item(item: Json) -> Unit:
    told = as_dict(item)
    kind = as_str(told.get("type")) or "message"
    if kind == "message":
        return Unit(_ROLES.get(as_str(told.get("role")), "user"), Text(""), item)
    if kind == "reasoning":
        return Unit("assistant", Thinking("", as_str(told.get("encrypted_content"))), item)
    if kind.endswith("_output"):
        return Unit("tool", ToolResult(as_str(told.get("call_id")) or as_str(told.get("id")), told.get("output")), item)
    # What the client has to answer has an id for it; what the vendor answers has none.
    if kind.endswith("_call") and (call_id := as_str(told.get("call_id"))):
        asked = told.get("arguments", told.get("input", told.get("action")))
        return Unit("assistant", ToolCall(call_id, as_str(told.get("name")) or kind, asked), item)
    return Unit("assistant", Opaque(kind, item), item)


# ── Chat ──────────────────────────────────────────────────────────────────────────────────────────

_CHAT_ONLY_FIELDS = frozenset(["tool_calls", "tool_call_id", "refusal", "function_call", "audio"])
_CHAT_PARTS = frozenset(["text", "image_url", "input_audio", "file", "refusal"])


def _read_chat(record: Mapping[str, Json]) -> NativeRecord | None:
    choices = record.get("choices")
    if isinstance(choices, list) and choices and "message" in as_dict(choices[0]):
        beside = [name for name, value in record.items() if name != "choices" and not is_empty(value)]
        return _read_chat_message(as_dict(choices[0]["message"]), beside)
    if _CHAT_ONLY_FIELDS & record.keys() or (
        record.keys() <= {"role", "content", "name"} and _is_chat_content(record.get("content"))
    ):
        return _read_chat_message(record, [])
    return None


def _is_chat_content(content: Json) -> bool:
    if isinstance(content, list):
        return bool(content) and all(as_str(as_dict(part).get("type")) in _CHAT_PARTS for part in content)
    return isinstance(content, str)


def _read_chat_message(message: Mapping[str, Json], beside: list[str]) -> NativeRecord | None:
    """The message without its calls, then each call; so that one of them can be mended."""
    speaker = _ROLES.get(as_str(message.get("role")))
    calls = message.get("tool_calls")
    if speaker is None or (speaker == "tool") != isinstance(message.get("tool_call_id"), str):
        return None
    if speaker == "tool":
        answer = ToolResult(message["tool_call_id"], message.get("content"))
        return NativeRecord("chat", [[Unit("tool", answer, dict(message))]], beside)
    bare = {name: value for name, value in message.items() if name != "tool_calls"}
    units = [Unit(speaker, Text(as_str(message.get("content"))), bare)]
    for call in calls if isinstance(calls, list) else []:
        asked = as_dict(as_dict(call).get("function")) or as_dict(as_dict(call).get("custom"))
        part = ToolCall(as_str(as_dict(call).get("id")), as_str(asked.get("name")), asked.get("arguments"))
        units.append(Unit("assistant", part, call))
    return NativeRecord("chat", [units], beside)


_READERS: dict[ApiFormat, Callable[[Mapping[str, Json]], NativeRecord | None]] = {
    "anthropic": _read_anthropic,
    "responses": _read_responses,
    "chat": _read_chat,
}


# ── what only one API knows ───────────────────────────────────────────────────────────────────────

_SHARED_FIELDS = frozenset(
    "type text role content id call_id name arguments input output tool_use_id tool_call_id is_error thinking signature"
    " data source status image_url tool_calls refusal action queries results code outputs container_id function index"
    " summary encrypted_content".split()
)


def find_vendor_fields(value: Json, levels: int = 4) -> Iterator[str]:
    """Of an item, block or message: the fields that have no place in another API."""
    told = as_dict(value)
    kind = as_str(told.get("type")) or as_str(told.get("role"))
    for name, held in told.items():
        if name == "content" and isinstance(held, list) and levels:
            for block in held:
                yield from find_vendor_fields(block, levels - 1)
        elif name not in _SHARED_FIELDS and not is_empty(held):
            yield f"{kind}.{name}"
