"""Units as messages of OpenAI's Chat API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from store.model.entry import Json, ToolCall
from store.rebuild.messages import (
    ContentFormat,
    build_content,
    build_result_content,
    group_messages,
    group_runs,
    legal_arguments,
    legal_tool_name,
    log_error_flags,
    log_native,
)
from store.rebuild.unit import Payload, RebuildLog, Unit, UnitRole, json_text

_CONTENT_FIELDS = ("content", "tool_calls", "refusal", "audio", "function_call")
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def _text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def _file_block(payload: Payload) -> Json:
    if payload.is_image:
        return {"type": "image_url", "image_url": {"url": payload.data_url}}
    if payload.is_pdf:
        return {"type": "file", "file": {"filename": payload.name or "file.pdf", "file_data": payload.data_url}}
    if payload.media_type in _AUDIO_FORMATS and payload.data:
        return {
            "type": "input_audio",
            "input_audio": {"data": payload.data, "format": _AUDIO_FORMATS[payload.media_type]},
        }
    return None


CONTENT_FORMAT = ContentFormat(_text_block, _file_block)
TEXT_ONLY_FORMAT = ContentFormat(_text_block, lambda _: None)


def build_body(units: Sequence[Unit], system: str, account: RebuildLog) -> dict[str, Json]:
    said: list[Json] = [{"role": "system", "content": system}] if system else []
    log_error_flags(units, account)
    for message in group_messages(units):
        if message.role == "assistant":
            said += _build_assistant_messages(message.units, account)
        else:
            said += _build_other_messages(message.role, message.units, account)
        said += [_build_result(unit, account) for unit in message.results]
    return {"messages": said}


def _build_assistant_messages(units: Sequence[Unit], account: RebuildLog) -> Iterator[Json]:
    """What the API itself said comes as it was, each by itself; all else is one message. Calls go with the last."""
    made: list[dict[str, Json]] = []
    calls: list[Json] = []
    spoken: list[Unit] = []
    for unit in units:
        if unit.is_call:
            calls.append(_build_call(unit, account))
        elif unit.is_native:
            log_native(unit, account)
            made += [{**_build_assistant_text(spoken, account)}] if spoken else []
            spoken = []
            made.append(dict(unit.native))
        else:
            spoken.append(unit)
    last = _build_assistant_text(spoken, account)
    made += [last] if "content" in last or (calls and not made) else []
    if calls:
        made[-1]["tool_calls"] = calls
    yield from (message for message in made if any(message.get(name) for name in _CONTENT_FIELDS))


def _build_assistant_text(units: Sequence[Unit], account: RebuildLog) -> dict[str, Json]:
    said = [block["text"] for unit in units if (block := build_content(unit, TEXT_ONLY_FORMAT, account)) is not None]
    return {"role": "assistant", "content": "\n\n".join(said)} if said else {"role": "assistant"}


def _build_call(unit: Unit, account: RebuildLog) -> Json:
    if unit.is_native:
        log_native(unit, account)
        return unit.native
    account.add("tool call", "kept")
    call = unit.part if isinstance(unit.part, ToolCall) else ToolCall("", "", None)
    asked = {"name": legal_tool_name(call, account), "arguments": json_text(legal_arguments(call, account))}
    return {"id": unit.call_id, "type": "function", "function": asked}


def _build_other_messages(role: UnitRole, units: Sequence[Unit], account: RebuildLog) -> Iterator[Json]:
    for _, run in group_runs(units):
        if run[0].is_native:
            log_native(run[0], account)
            yield run[0].native
            continue
        blocks = CONTENT_FORMAT if role == "user" else TEXT_ONLY_FORMAT
        said = [block for unit in run if (block := build_content(unit, blocks, account)) is not None]
        if said:
            plain = all(block["type"] == "text" for block in said)
            told: Json = "\n\n".join(block["text"] for block in said) if plain else said
            yield {"role": "system" if role == "system" else "user", "content": told}


def _build_result(unit: Unit, account: RebuildLog) -> Json:
    if unit.is_native:
        log_native(unit, account)
        return unit.native
    return {
        "role": "tool",
        "tool_call_id": unit.call_id,
        "content": build_result_content(unit, TEXT_ONLY_FORMAT, account),
    }
