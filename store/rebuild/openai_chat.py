"""This module builds messages of OpenAI's Chat API from units."""

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


def build_body(units: Sequence[Unit], system: str, log: RebuildLog) -> dict[str, Json]:
    messages: list[Json] = [{"role": "system", "content": system}] if system else []
    log_error_flags(units, log)
    for message in group_messages(units):
        if message.role == "assistant":
            messages += _build_assistant_messages(message.units, log)
        else:
            messages += _build_other_messages(message.role, message.units, log)
        messages += [_build_result(unit, log) for unit in message.results]
    return {"messages": messages}


def _build_assistant_messages(units: Sequence[Unit], log: RebuildLog) -> Iterator[Json]:
    """Yield native messages unchanged and other units as one message. The last message gets the calls."""
    messages: list[dict[str, Json]] = []
    calls: list[Json] = []
    pending: list[Unit] = []
    for unit in units:
        if unit.is_call:
            calls.append(_build_call(unit, log))
        elif unit.is_native:
            log_native(unit, log)
            messages += [{**_build_assistant_text(pending, log)}] if pending else []
            pending = []
            messages.append(dict(unit.native))
        else:
            pending.append(unit)
    last = _build_assistant_text(pending, log)
    messages += [last] if "content" in last or (calls and not messages) else []
    if calls:
        messages[-1]["tool_calls"] = calls
    yield from (message for message in messages if any(message.get(name) for name in _CONTENT_FIELDS))


def _build_assistant_text(units: Sequence[Unit], log: RebuildLog) -> dict[str, Json]:
    texts = [block["text"] for unit in units if (block := build_content(unit, TEXT_ONLY_FORMAT, log)) is not None]
    return {"role": "assistant", "content": "\n\n".join(texts)} if texts else {"role": "assistant"}


def _build_call(unit: Unit, log: RebuildLog) -> Json:
    if unit.is_native:
        log_native(unit, log)
        return unit.native
    log.add("tool call", "kept")
    call = unit.part if isinstance(unit.part, ToolCall) else ToolCall("", "", None)
    function = {"name": legal_tool_name(call, log), "arguments": json_text(legal_arguments(call, log))}
    return {"id": unit.call_id, "type": "function", "function": function}


def _build_other_messages(role: UnitRole, units: Sequence[Unit], log: RebuildLog) -> Iterator[Json]:
    for _, run in group_runs(units):
        if run[0].is_native:
            log_native(run[0], log)
            yield run[0].native
            continue
        content_format = CONTENT_FORMAT if role == "user" else TEXT_ONLY_FORMAT
        blocks = [block for unit in run if (block := build_content(unit, content_format, log)) is not None]
        if blocks:
            is_text = all(block["type"] == "text" for block in blocks)
            content: Json = "\n\n".join(block["text"] for block in blocks) if is_text else blocks
            yield {"role": "system" if role == "system" else "user", "content": content}


def _build_result(unit: Unit, log: RebuildLog) -> Json:
    if unit.is_native:
        log_native(unit, log)
        return unit.native
    return {
        "role": "tool",
        "tool_call_id": unit.call_id,
        "content": build_result_content(unit, TEXT_ONLY_FORMAT, log),
    }
