"""Units as input items of OpenAI's Responses API."""

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
from store.rebuild.unit import Payload, RebuildLog, Unit, UnitRole, as_dict, as_str, json_text

_ROLES: dict[UnitRole, str] = {"user": "user", "system": "developer", "tool": "user", "assistant": "assistant"}


def _file_block(payload: Payload) -> Json:
    if payload.is_image:
        return {"type": "input_image", "detail": "auto", "image_url": payload.data_url}
    if payload.is_pdf:
        return {"type": "input_file", "filename": payload.name or "file.pdf", "file_data": payload.data_url}
    return None


CONTENT_FORMAT = ContentFormat(lambda text: {"type": "input_text", "text": text}, _file_block)


def build_body(units: Sequence[Unit], system: str, account: RebuildLog) -> dict[str, Json]:
    items: list[Json] = [_build_message("developer", [CONTENT_FORMAT.format_text(system)])] if system else []
    outputs = {unit.pair: _call_type(unit) for unit in units if unit.is_call}
    log_error_flags(units, account)
    for role, run in group_runs(units):
        items += _build_items(role, run, outputs, account)
    return {"input": items}


def _build_items(
    role: UnitRole, run: Sequence[Unit], outputs: Mapping[int, str], account: RebuildLog
) -> Iterator[Json]:
    unit = run[0]
    if unit.is_native:
        if isinstance(unit.native, Mapping):
            log_native(unit, account)
            yield _to_input_item(unit)
        else:
            account.add("item", "dropped", "it is no object")
    elif isinstance(unit.part, ToolCall):
        account.add("tool call", "kept")
        spelled_out = json_text(legal_arguments(unit.part, account))
        name = legal_tool_name(unit.part, account)
        yield {"type": "function_call", "call_id": unit.call_id, "name": name, "arguments": spelled_out}
    elif isinstance(unit.part, ToolResult):
        yield _build_output(outputs.get(unit.pair, ""), unit, build_result_content(unit, CONTENT_FORMAT, account))
    elif said := [block for unit in run if (block := build_content(unit, CONTENT_FORMAT, account)) is not None]:
        yield _build_message(_ROLES[role], said)


def _build_message(role: str, said: list[Json]) -> Json:
    """What the assistant said before is taken as plain text; a list would have to name an item of the vendor's."""
    told: Json = "\n\n".join(block["text"] for block in said) if role == "assistant" else said
    return {"type": "message", "role": role, "content": told}


def _to_input_item(unit: Unit) -> Json:
    """As it came, but for what the API says and does not take: that nothing is there, and who spoke left unsaid."""
    item = dict(unit.native)
    kind = as_str(item.get("type"))
    if kind == "reasoning":
        return {name: value for name, value in item.items() if value is not None or name not in ("content", "status")}
    if kind in ("", "message") and "role" not in item:
        return {**item, "role": _ROLES[unit.role]}
    return item


# ── closing a call as it was asked ────────────────────────────────────────────────────────────────


def _call_type(unit: Unit) -> str:
    return as_str(as_dict(unit.native).get("type")) or "function_call"


def _build_output(kind: str, unit: Unit, said: str | list[Json]) -> Json:
    match kind:
        case "custom_tool_call":
            return {"type": "custom_tool_call_output", "call_id": unit.call_id, "output": said}
        case "shell_call":
            ended = {"stdout": "", "stderr": said if isinstance(said, str) else INTERRUPTED}
            outcome = {**ended, "outcome": {"type": "timeout"}}
            return {"type": "shell_call_output", "call_id": unit.call_id, "output": [outcome]}
        case "apply_patch_call":
            told = {"type": "apply_patch_call_output", "call_id": unit.call_id, "status": "failed"}
            return {**told, "output": said if isinstance(said, str) else INTERRUPTED}
    return {"type": "function_call_output", "call_id": unit.call_id, "output": said}
