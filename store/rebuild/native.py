"""Which API a record came from, told by its shape; and the record as that API would read it again.

Claude Code keeps Anthropic's messages. Codex, Pingu and what an agent saves as turns keep items of the Responses API.
Whoever appends messages may keep any of the three. All other programs have words of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from store.errors import BadValue
from store.formats.content_blocks import part_of_block
from store.model.entry import Json, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from store.rebuild.unit import Native, Shape, Speaker, Unit, is_empty, mapping, words
from store.text.validate import decode


def lenient(data: bytes | str) -> Json:
    """What is not JSON has nothing to give back but its parts."""
    try:
        return decode(data)
    except BadValue:
        return None


def native(record: Json, shape: Shape) -> Native | None:
    """The record in that API's words, if it has them."""
    return _READERS[shape](record) if isinstance(record, Mapping) else None


def native_elsewhere(record: Json, shape: Shape) -> Native | None:
    """The record in the words of another API."""
    told = (native(record, other) for other in _READERS if other != shape)
    return next((found for found in told if found), None)


_SPEAKERS: dict[str, Speaker] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}


# ── Anthropic ─────────────────────────────────────────────────────────────────────────────────────

_SYNTHETIC = "<synthetic>"
_SOURCES = ("base64", "url", "file", "text", "content")


def _anthropic(record: Mapping[str, Json]) -> Native | None:
    if record.get("type") in ("user", "assistant") and "content" in mapping(record.get("message")):
        message = mapping(record["message"])
        if record.get("isApiErrorMessage") is True or message.get("model") == _SYNTHETIC:
            return Native("anthropic", [], ["error of the program"])
        beside = [name for name, value in message.items() if name not in _SAID and not is_empty(value)]
        return _anthropic_message(message, beside, anything=True)
    if record.keys() == {"role", "content"}:
        return _anthropic_message(record, [], anything=False)
    return None


_SAID = frozenset(["role", "content", "type"])


def _anthropic_message(message: Mapping[str, Json], beside: list[str], *, anything: bool) -> Native | None:
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant"):
        return None
    speaker: Speaker = "assistant" if role == "assistant" else "user"
    key = words(message.get("id"))
    if isinstance(content, str):
        return Native("anthropic", [[Unit(speaker, Text(content), content, key)]], beside)
    if not isinstance(content, list) or not (anything or any(map(_is_block, content))):
        return None
    return Native("anthropic", [[_block(block, speaker, key, anything) for block in content]], beside)


def _block(block: Json, speaker: Speaker, key: str, anything: bool) -> Unit:
    told, kind = mapping(block), words(mapping(block).get("type"))
    if kind == "redacted_thinking":
        return Unit(speaker, Thinking("", words(told.get("data"))), block, key)
    if kind.endswith("_tool_use") and anything:
        call = ToolCall(words(told.get("id")), words(told.get("name")), told.get("input"))
        return Unit(speaker, call, block, key, served=True)
    if kind.endswith("_tool_result") and anything:
        answer = ToolResult(words(told.get("tool_use_id")), told.get("content"))
        return Unit(speaker, answer, block, key, served=True)
    part = part_of_block(block)
    if _is_block(block) or (anything and isinstance(part, Opaque) and kind):
        return Unit(_speaker(part, speaker), part, block, key)
    return Unit(_speaker(part, speaker), part, message=key)


def _is_block(block: Json) -> bool:
    told = mapping(block)
    match told.get("type"):
        case "text":
            return isinstance(told.get("text"), str)
        case "thinking":
            return bool(words(told.get("signature"))) and isinstance(told.get("thinking"), str)
        case "redacted_thinking":
            return bool(words(told.get("data")))
        case "tool_use":
            return bool(words(told.get("id")) and words(told.get("name"))) and isinstance(told.get("input"), Mapping)
        case "tool_result":
            # The fourth document keeps the body in `text`.
            return bool(words(told.get("tool_use_id"))) and "text" not in told
        case "image" | "document":
            return mapping(told.get("source")).get("type") in _SOURCES
    return False


def _speaker(part: Part, otherwise: Speaker) -> Speaker:
    if isinstance(part, ToolResult):
        return "tool"
    return "assistant" if isinstance(part, ToolCall | Thinking) else otherwise


# ── Responses ─────────────────────────────────────────────────────────────────────────────────────

_ITEMS = frozenset(
    "message reasoning function_call function_call_output custom_tool_call custom_tool_call_output local_shell_call"
    " file_search_call web_search_call computer_call computer_call_output code_interpreter_call".split()
)
_TOLD_BY_ITEM = {"message": "role", "reasoning": "summary"}


def _responses(record: Mapping[str, Json]) -> Native | None:
    payload, kind = mapping(record.get("payload")), words(record.get("type"))
    if kind == "response_item" and payload:
        return Native("responses", [_items([payload])])
    if kind == "compacted":
        history = payload.get("replacement_history")
        return Native("responses", [_items(history)]) if isinstance(history, list) and history else None
    if isinstance(record.get("response_json"), str) and "user_message" in record:
        return _pingu(record)
    for name in ("output", "input"):
        if isinstance(items := record.get(name), list):
            beside = [field for field, value in record.items() if field != name and not is_empty(value)]
            return Native("responses", [_items([item]) for item in items], beside)
    if kind in _ITEMS and _TOLD_BY_ITEM.get(kind, "id" if "id" in record else "call_id") in record:
        return Native("responses", [_items([record])])
    return None


def _pingu(row: Mapping[str, Json]) -> Native:
    """What was asked, and the whole response to it. Since March 2026 an item may stand whole under `raw`."""
    asked = {"role": "user", "content": words(row.get("user_message"))}
    response = mapping(lenient(row["response_json"]))
    output = response.get("output")
    items = [_with_role(mapping(item).get("raw") or item) for item in output] if isinstance(output, list) else []
    beside = [name for name, value in response.items() if name != "output" and not is_empty(value)]
    return Native("responses", [_items([asked]), _items(items)], beside)


def _with_role(item: Json) -> Json:
    """Of a message that an answer holds, the API says who spoke; Pingu's own short form leaves it out."""
    is_bare = isinstance(item, Mapping) and item.get("type") == "message" and "role" not in item
    return {"role": "assistant", **item} if is_bare else item


def _items(items: list[Json]) -> list[Unit]:
    return list(map(_item, items))


def _item(item: Json) -> Unit:
    told = mapping(item)
    kind = words(told.get("type")) or "message"
    if kind == "message":
        return Unit(_SPEAKERS.get(words(told.get("role")), "user"), Text(""), item)
    if kind == "reasoning":
        return Unit("assistant", Thinking("", words(told.get("encrypted_content"))), item)
    if kind.endswith("_output"):
        return Unit("tool", ToolResult(words(told.get("call_id")) or words(told.get("id")), told.get("output")), item)
    # What the client has to answer has an id for it; what the vendor answers has none.
    if kind.endswith("_call") and (call_id := words(told.get("call_id"))):
        asked = told.get("arguments", told.get("input", told.get("action")))
        return Unit("assistant", ToolCall(call_id, words(told.get("name")) or kind, asked), item)
    return Unit("assistant", Opaque(kind, item), item)


# ── Chat ──────────────────────────────────────────────────────────────────────────────────────────

_ONLY_THERE = frozenset(["tool_calls", "tool_call_id", "refusal", "function_call", "audio"])
_CHAT_PARTS = frozenset(["text", "image_url", "input_audio", "file", "refusal"])


def _chat(record: Mapping[str, Json]) -> Native | None:
    choices = record.get("choices")
    if isinstance(choices, list) and choices and "message" in mapping(choices[0]):
        beside = [name for name, value in record.items() if name != "choices" and not is_empty(value)]
        return _chat_message(mapping(choices[0]["message"]), beside)
    if _ONLY_THERE & record.keys() or (
        record.keys() <= {"role", "content", "name"} and _is_chat(record.get("content"))
    ):
        return _chat_message(record, [])
    return None


def _is_chat(content: Json) -> bool:
    if isinstance(content, list):
        return bool(content) and all(words(mapping(part).get("type")) in _CHAT_PARTS for part in content)
    return isinstance(content, str)


def _chat_message(message: Mapping[str, Json], beside: list[str]) -> Native | None:
    """The message without its calls, then each call; so that one of them can be mended."""
    speaker = _SPEAKERS.get(words(message.get("role")))
    calls = message.get("tool_calls")
    if speaker is None or (speaker == "tool") != isinstance(message.get("tool_call_id"), str):
        return None
    if speaker == "tool":
        answer = ToolResult(message["tool_call_id"], message.get("content"))
        return Native("chat", [[Unit("tool", answer, dict(message))]], beside)
    bare = {name: value for name, value in message.items() if name != "tool_calls"}
    units = [Unit(speaker, Text(words(message.get("content"))), bare)]
    for call in calls if isinstance(calls, list) else []:
        asked = mapping(mapping(call).get("function")) or mapping(mapping(call).get("custom"))
        part = ToolCall(words(mapping(call).get("id")), words(asked.get("name")), asked.get("arguments"))
        units.append(Unit("assistant", part, call))
    return Native("chat", [units], beside)


_READERS: dict[Shape, Callable[[Mapping[str, Json]], Native | None]] = {
    "anthropic": _anthropic,
    "responses": _responses,
    "chat": _chat,
}


# ── what only one API knows ───────────────────────────────────────────────────────────────────────

_UNDERSTOOD = frozenset(
    "type text role content id call_id name arguments input output tool_use_id tool_call_id is_error thinking signature"
    " data source status image_url tool_calls refusal action queries results code outputs container_id function index"
    " summary encrypted_content".split()
)


def fields_of_its_own(value: Json, levels: int = 4) -> Iterator[str]:
    """Of an item, block or message: the fields that have no place in another API."""
    told = mapping(value)
    kind = words(told.get("type")) or words(told.get("role"))
    for name, held in told.items():
        if name == "content" and isinstance(held, list) and levels:
            for block in held:
                yield from fields_of_its_own(block, levels - 1)
        elif name not in _UNDERSTOOD and not is_empty(held):
            yield f"{kind}.{name}"
