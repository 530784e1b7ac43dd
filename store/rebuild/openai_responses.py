"""Units as input items of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from store.model.entry import Json, ToolCall, ToolResult
from store.rebuild.messages import Vocabulary, answer, arguments, content, note_failures, note_native, runs, tool_name
from store.rebuild.pairs import INTERRUPTED
from store.rebuild.unit import Account, Payload, Speaker, Unit, json_text, mapping, words

_ROLES: dict[Speaker, str] = {"user": "user", "system": "developer", "tool": "user", "assistant": "assistant"}


def _file(payload: Payload) -> Json:
    if payload.is_image:
        return {"type": "input_image", "detail": "auto", "image_url": payload.data_url}
    if payload.is_pdf:
        return {"type": "input_file", "filename": payload.name or "file.pdf", "file_data": payload.data_url}
    return None


WORDS = Vocabulary(lambda text: {"type": "input_text", "text": text}, _file)


def spelled(units: Sequence[Unit], system: str, account: Account) -> dict[str, Json]:
    items: list[Json] = [_message("developer", [WORDS.text(system)])] if system else []
    outputs = {unit.pair: _answered_as(unit) for unit in units if unit.is_call}
    note_failures(units, account)
    for role, run in runs(units):
        items += _items(role, run, outputs, account)
    return {"input": items}


def _items(role: Speaker, run: Sequence[Unit], outputs: Mapping[int, str], account: Account) -> Iterator[Json]:
    unit = run[0]
    if unit.is_native:
        if isinstance(unit.native, Mapping):
            note_native(unit, account)
            yield _taken_back(unit)
        else:
            account.note("item", "dropped", "it is no object")
    elif isinstance(unit.part, ToolCall):
        account.note("tool call", "kept")
        spelled_out = json_text(arguments(unit.part, account))
        name = tool_name(unit.part, account)
        yield {"type": "function_call", "call_id": unit.call_id, "name": name, "arguments": spelled_out}
    elif isinstance(unit.part, ToolResult):
        yield _output(outputs.get(unit.pair, ""), unit, answer(unit, WORDS, account))
    elif said := [block for unit in run if (block := content(unit, WORDS, account)) is not None]:
        yield _message(_ROLES[role], said)


def _message(role: str, said: list[Json]) -> Json:
    """What the assistant said before is taken as plain text; a list would have to name an item of the vendor's."""
    told: Json = "\n\n".join(block["text"] for block in said) if role == "assistant" else said
    return {"type": "message", "role": role, "content": told}


def _taken_back(unit: Unit) -> Json:
    """As it came, but for what the API says and does not take: that nothing is there, and who spoke left unsaid."""
    item = dict(unit.native)
    kind = words(item.get("type"))
    if kind == "reasoning":
        return {name: value for name, value in item.items() if value is not None or name not in ("content", "status")}
    if kind in ("", "message") and "role" not in item:
        return {**item, "role": _ROLES[unit.role]}
    return item


# ── closing a call as it was asked ────────────────────────────────────────────────────────────────


def _answered_as(unit: Unit) -> str:
    return words(mapping(unit.native).get("type")) or "function_call"


def _output(kind: str, unit: Unit, said: str | list[Json]) -> Json:
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
