"""This module builds input items of OpenAI's Responses API from units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from store.model.entry import Json, ToolCall, ToolResult
from store.rebuild.messages import (
    ContentFormat,
    build_content,
    build_result_content,
    group_runs,
    legal_arguments,
    legal_tool_name,
    log_error_flags,
    log_native,
)
from store.rebuild.pairs import INTERRUPTED
from store.rebuild.responses_items import API_ROLES
from store.rebuild.unit import Payload, RebuildLog, Unit, UnitRole, as_dict, as_str, json_text


def _file_block(payload: Payload) -> Json:
    if payload.is_image:
        return {"type": "input_image", "detail": "auto", "image_url": payload.data_url}
    if payload.is_pdf:
        return {"type": "input_file", "filename": payload.name or "file.pdf", "file_data": payload.data_url}
    return None


CONTENT_FORMAT = ContentFormat(lambda text: {"type": "input_text", "text": text}, _file_block)


def build_body(units: Sequence[Unit], system: str, log: RebuildLog) -> dict[str, Json]:
    items: list[Json] = [_build_message("developer", [CONTENT_FORMAT.format_text(system)])] if system else []
    call_types = {unit.pair: _call_type(unit) for unit in units if unit.is_call}
    log_error_flags(units, log)
    for role, run in group_runs(units):
        items += _build_items(role, run, call_types, log)
    return {"input": items}


def _build_items(role: UnitRole, run: Sequence[Unit], call_types: Mapping[int, str], log: RebuildLog) -> Iterator[Json]:
    unit = run[0]
    if unit.is_native:
        if isinstance(unit.native, Mapping):
            log_native(unit, log)
            yield unit.native
        else:
            log.add("item", "dropped", "it is not an object")
    elif isinstance(unit.part, ToolCall):
        log.add("tool call", "kept")
        arguments = json_text(legal_arguments(unit.part, log))
        name = legal_tool_name(unit.part, log)
        yield {"type": "function_call", "call_id": unit.call_id, "name": name, "arguments": arguments}
    elif isinstance(unit.part, ToolResult):
        yield _build_output(call_types.get(unit.pair, ""), unit, build_result_content(unit, CONTENT_FORMAT, log))
    elif blocks := [block for unit in run if (block := build_content(unit, CONTENT_FORMAT, log)) is not None]:
        yield _build_message(API_ROLES[role], blocks)


def _build_message(role: str, blocks: list[Json]) -> Json:
    """Build a message. The assistant's is plain text, because a list would need the id of an item of the vendor."""
    content: Json = "\n\n".join(block["text"] for block in blocks) if role == "assistant" else blocks
    return {"type": "message", "role": role, "content": content}


# ── call_types, in the format of their calls ─────────────────────────────────────────────────────────


def _call_type(unit: Unit) -> str:
    return as_str(as_dict(unit.native).get("type")) or "function_call"


def _build_output(kind: str, unit: Unit, content: str | list[Json]) -> Json:
    match kind:
        case "custom_tool_call":
            return {"type": "custom_tool_call_output", "call_id": unit.call_id, "output": content}
        case "shell_call":
            streams = {"stdout": "", "stderr": content if isinstance(content, str) else INTERRUPTED}
            outcome = {**streams, "outcome": {"type": "timeout"}}
            return {"type": "shell_call_output", "call_id": unit.call_id, "output": [outcome]}
        case "apply_patch_call":
            output = {"type": "apply_patch_call_output", "call_id": unit.call_id, "status": "failed"}
            return {**output, "output": content if isinstance(content, str) else INTERRUPTED}
    return {"type": "function_call_output", "call_id": unit.call_id, "output": content}
