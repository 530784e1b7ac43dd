"""This module builds messages of Anthropic's API from units, with a separate system prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from store.model.entry import Json, Text, ToolCall, ToolResult
from store.rebuild.messages import (
    ContentFormat,
    build_content,
    build_result_content,
    group_messages,
    legal_arguments,
    legal_tool_name,
    log_native,
)
from store.rebuild.unit import Payload, RebuildLog, Unit, as_dict, as_str

NO_PROMPT = "(What was asked first is not known.)"


def _text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def _file_block(payload: Payload) -> Json:
    if payload.is_image:
        return {"type": "image", "source": _file_source(payload)}
    if payload.is_pdf:
        document = {"type": "document", "source": _file_source(payload)}
        return {**document, "title": payload.name} if payload.name else document
    return None


def _file_source(payload: Payload) -> Json:
    if payload.url:
        return {"type": "url", "url": payload.url}
    return {"type": "base64", "media_type": payload.media_type, "data": payload.data}


CONTENT_FORMAT = ContentFormat(_text_block, _file_block)


def build_body(units: Sequence[Unit], system: str, log: RebuildLog) -> dict[str, Json]:
    preface, rest = _split_system(units, log)
    blocks: list[tuple[str, Json]] = []
    for message in group_messages(rest):
        role = "assistant" if message.role == "assistant" else "user"
        blocks += [(role, block) for unit in message.units if (block := _build_block(unit, log)) is not None]
        blocks += [("user", _build_result(unit, log)) for unit in message.results]
    if blocks and blocks[0][0] != "user":
        log.repairs.append("The conversation begins with the assistant; a user message was added before it.")
        blocks.insert(0, ("user", NO_PROMPT))
    messages = [_build_message(role, [block for _, block in run]) for role, run in groupby(blocks, itemgetter(0))]
    _trim_last_answer(messages, log)
    prompt = "\n\n".join(filter(None, [system, *preface]))
    return {"system": prompt, "messages": messages} if prompt else {"messages": messages}


def _split_system(units: Sequence[Unit], log: RebuildLog) -> tuple[list[str], list[Unit]]:
    """Split off the first instructions for the system prompt. Later ones stay in place as the user's messages."""
    preface: list[str] = []
    rest: list[Unit] = []
    for unit in units:
        if unit.role != "system":
            rest.append(unit)
        elif not rest and isinstance(unit.part, Text):
            log.add("system message", "mapped", "it is part of the system prompt")
            preface.append(unit.part.text)
        else:
            log.add("system message", "mapped", "it became a message of the user")
            rest.append(replace(unit, role="user"))
    return preface, rest


def _build_block(unit: Unit, log: RebuildLog) -> Json:
    if unit.is_native:
        log_native(unit, log)
        return unit.native
    if isinstance(unit.part, ToolCall):
        log.add("tool call", "kept")
        name, arguments = legal_tool_name(unit.part, log), dict(legal_arguments(unit.part, log))
        return {"type": "tool_use", "id": unit.call_id, "name": name, "input": arguments}
    return build_content(unit, CONTENT_FORMAT, log)


def _build_result(unit: Unit, log: RebuildLog) -> Json:
    if unit.is_native:
        log_native(unit, log)
        return unit.native
    block = {
        "type": "tool_result",
        "tool_use_id": unit.call_id,
        "content": build_result_content(unit, CONTENT_FORMAT, log),
    }
    failed = isinstance(unit.part, ToolResult) and unit.part.is_error
    return {**block, "is_error": True} if failed else block


def _build_message(role: str, blocks: list[Json]) -> dict[str, Json]:
    """Build a message. The API wants results first. A single plain text stays a plain text."""
    blocks = sorted(blocks, key=lambda block: as_dict(block).get("type") != "tool_result") if role == "user" else blocks
    if len(blocks) == 1 and isinstance(blocks[0], str):
        return {"role": role, "content": blocks[0]}
    return {"role": role, "content": [_text_block(block) if isinstance(block, str) else block for block in blocks]}


def _trim_last_answer(messages: list[dict[str, Json]], log: RebuildLog) -> None:
    """Cut off spaces at the end of the last answer, because the API refuses them."""
    if not messages or messages[-1]["role"] != "assistant":
        return
    last = messages[-1]
    content = last["content"]
    text = content if isinstance(content, str) else as_str(as_dict(content[-1]).get("text"))
    if text == text.rstrip():
        return
    log.add("text", "mapped", "spaces at the end of the last answer were cut off")
    trimmed: Json = (
        text.rstrip() if isinstance(content, str) else [*content[:-1], {**content[-1], "text": text.rstrip()}]
    )
    messages[-1] = {**last, "content": trimmed}
