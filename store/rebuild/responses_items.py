"""This module makes recorded items of the Responses API complete, so that the API accepts them as input.

Codex leaves out fields that the API requires, such as the id of an answer, writes null where the API wants no field at
all, and has items of its own. An item that the API accepts is returned exactly as it was recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

from store.model.entry import Json, Opaque, ToolCall, ToolResult
from store.rebuild.messages import UNNAMED_TOOL
from store.rebuild.unit import ABSENT, RebuildLog, Unit, UnitRole, as_dict, as_str, json_text

API_ROLES: dict[UnitRole, str] = {"user": "user", "system": "developer", "tool": "user", "assistant": "assistant"}

_REQUIRED_REASON = "the API requires it"
_REFUSED_REASON = "the API refuses its value"


class _Default:
    """Names a default that depends on the item."""


OPTIONAL, REQUIRED, NEW_ID, CALL_ID, AS_TEXT = (_Default() for _ in range(5))


class _Field(NamedTuple):
    """Describes a field of an item or of a block. Fields that are not described are kept as they are."""

    is_legal: Callable[[Json], bool]
    default: Any = OPTIONAL
    "An illegal value is removed if the field is OPTIONAL; nothing can be added if it is REQUIRED."


_Fields = dict[str, _Field]
_Types = dict[str, _Fields]


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_name(value: Json) -> bool:
    return isinstance(value, str) and bool(value)


def _is_object(value: Json) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: Json) -> bool:
    return isinstance(value, list)


def _is_object_list(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _is_text_list(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_flag(value: Json) -> bool:
    return isinstance(value, bool)


def _is_number(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _or_null(is_legal: Callable[[Json], bool]) -> Callable[[Json], bool]:
    return lambda value: value is None or is_legal(value)


def _one_of(*values: str) -> Callable[[Json], bool]:
    return lambda value: isinstance(value, str) and value in values


# ── what the API accepts ──────────────────────────────────────────────────────────────────────────

_TEXT = _Field(_is_text, REQUIRED)
_STATUS = _one_of("in_progress", "completed", "incomplete")
_SEARCH_STATUS = _one_of("in_progress", "searching", "completed", "incomplete", "failed")
_IMAGE_STATUS = _one_of("in_progress", "completed", "generating", "failed")
_DETAIL = _one_of("low", "high", "auto", "original")
_NULLABLE_TEXT = _Field(_or_null(_is_text))

_INPUT_BLOCKS: _Types = {
    "input_text": {"text": _TEXT},
    "input_image": {"detail": _Field(_DETAIL, "auto"), "image_url": _NULLABLE_TEXT, "file_id": _NULLABLE_TEXT},
    "input_file": {
        "detail": _Field(_one_of("auto", "low", "high")),
        "file_data": _Field(_is_text),
        "file_id": _NULLABLE_TEXT,
        "file_url": _Field(_is_text),
        "filename": _Field(_is_text),
    },
}
_RESULT_BLOCKS: _Types = _INPUT_BLOCKS | {
    "input_image": {"detail": _Field(_or_null(_DETAIL)), "image_url": _NULLABLE_TEXT, "file_id": _NULLABLE_TEXT}
}
_OUTPUT_BLOCKS: _Types = {
    "output_text": {"text": _TEXT, "annotations": _Field(_is_object_list, []), "logprobs": _Field(_is_object_list)},
    "refusal": {"refusal": _TEXT},
}
_SUMMARY_BLOCKS: _Types = {"summary_text": {"text": _TEXT}}
_REASONING_BLOCKS: _Types = {"reasoning_text": {"text": _TEXT}}
_SEARCH_ACTIONS: _Types = {
    "search": {"query": _Field(_is_text), "queries": _Field(_is_text_list), "sources": _Field(_is_object_list)},
    "open_page": {"url": _NULLABLE_TEXT},
    "find_in_page": {"url": _TEXT, "pattern": _TEXT},
}
_SHELL_ACTIONS: _Types = {
    "exec": {
        "command": _Field(_is_text_list, REQUIRED),
        "env": _Field(_is_object, {}),
        "timeout_ms": _Field(_or_null(_is_number)),
        "user": _NULLABLE_TEXT,
        "working_directory": _NULLABLE_TEXT,
    }
}
_TOOLS: _Types = {
    "function": {
        "name": _TEXT,
        "parameters": _Field(_or_null(_is_object), None),
        "strict": _Field(_or_null(_is_flag), None),
        "description": _NULLABLE_TEXT,
        "defer_loading": _Field(_is_flag),
    },
    "namespace": {"name": _TEXT, "description": _Field(_is_text, ""), "tools": _Field(_is_list, [])},
}

_INPUT_MESSAGE: _Fields = {
    "role": _Field(_one_of("user", "assistant", "system", "developer"), REQUIRED),
    "id": _Field(_is_text),
    "status": _Field(_STATUS),
    "phase": _Field(_or_null(_one_of("commentary", "final_answer"))),
}
_OUTPUT_MESSAGE: _Fields = _INPUT_MESSAGE | {
    "type": _Field(_is_text, "message"),
    "id": _Field(_is_name, NEW_ID),
    "status": _Field(_STATUS, "completed"),
}
_CALL: _Fields = {
    "call_id": _Field(_is_name, CALL_ID),
    "name": _Field(_is_name, UNNAMED_TOOL),
    "id": _Field(_is_text),
    "namespace": _Field(_is_text),
    "async": _Field(_is_flag),
}
_TOOL_SEARCH: _Fields = {
    "id": _NULLABLE_TEXT,
    "call_id": _NULLABLE_TEXT,
    "execution": _Field(_one_of("server", "client")),
    "status": _Field(_or_null(_STATUS)),
}
_ITEMS: _Types = {
    "reasoning": {
        "id": _Field(_is_name, NEW_ID),
        "summary": _Field(_is_list, []),
        "content": _Field(_is_list),
        "encrypted_content": _NULLABLE_TEXT,
        "status": _Field(_STATUS),
    },
    "function_call": _CALL | {"arguments": _Field(_is_text, AS_TEXT), "status": _Field(_STATUS)},
    "custom_tool_call": _CALL | {"input": _Field(_is_text, AS_TEXT)},
    "function_call_output": {
        "call_id": _Field(_is_name, CALL_ID),
        "id": _NULLABLE_TEXT,
        "name": _NULLABLE_TEXT,
        "namespace": _NULLABLE_TEXT,
        "status": _Field(_or_null(_STATUS)),
    },
    "custom_tool_call_output": {"call_id": _Field(_is_name, CALL_ID), "id": _Field(_is_text)},
    "local_shell_call": {
        "call_id": _Field(_is_name, CALL_ID),
        "id": _Field(_is_name, NEW_ID),
        "status": _Field(_STATUS, "completed"),
    },
    "local_shell_call_output": {
        "id": _Field(_is_name, CALL_ID),
        "output": _TEXT,
        "status": _Field(_or_null(_STATUS)),
    },
    "web_search_call": {"id": _Field(_is_name, NEW_ID), "status": _Field(_SEARCH_STATUS, "completed")},
    "image_generation_call": {
        "id": _Field(_is_name, NEW_ID),
        "status": _Field(_IMAGE_STATUS, "completed"),
        "result": _Field(_or_null(_is_text), None),
        "revised_prompt": _NULLABLE_TEXT,
    },
    "tool_search_call": _TOOL_SEARCH | {"arguments": _Field(lambda value: True, {})},
    "tool_search_output": _TOOL_SEARCH | {"tools": _Field(_is_list, [])},
    "additional_tools": {
        "id": _NULLABLE_TEXT,
        "role": _Field(_one_of("developer"), "developer"),
        "tools": _Field(_is_list, []),
    },
    "compaction": {"id": _NULLABLE_TEXT, "encrypted_content": _TEXT},
}
_ID_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "local_shell_call": "lsh",
    "web_search_call": "ws",
    "image_generation_call": "ig",
}


# ── completing ────────────────────────────────────────────────────────────────────────────────────


def complete_units(units: Iterable[Unit], log: RebuildLog) -> list[Unit]:
    """Return units whose items the API accepts. An item that cannot be completed is built from its part instead."""
    completer = _ItemCompleter(log)
    return [completed for unit in units if (completed := completer.complete_unit(unit)) is not None]


class _ItemCompleter:
    def __init__(self, log: RebuildLog) -> None:
        self._log = log
        self._id_count = 0

    def complete_unit(self, unit: Unit) -> Unit | None:
        if not isinstance(unit.native, Mapping):
            return unit
        kind = as_str(unit.native.get("type")) or "message"
        if kind == "reasoning" and _is_bound_to_lost_id(unit.native):
            self._log.add(kind, "dropped", "the API accepts it only under its own id, which was not recorded")
            return None
        if kind == "message" and unit.native.get("content") in (None, "", []):
            self._log.add(kind, "dropped", "it is empty")
            return None
        item = self._complete_message(unit) if kind == "message" else self._complete_item(kind, unit)
        return replace(unit, native=item) if item is not None else _without_native(kind, unit)

    # ── items ─────────────────────────────────────────────────────────────────────────────────────

    def _complete_message(self, unit: Unit) -> dict[str, Json] | None:
        item = dict(unit.native)
        if "role" not in item:
            item["role"] = API_ROLES[unit.role]
        content = item.get("content")
        if isinstance(content, str):
            return self._complete_fields("message", item, _INPUT_MESSAGE, unit)
        if not isinstance(content, list):
            return None
        is_output = item["role"] == "assistant" and any(_block_type(block) in _OUTPUT_BLOCKS for block in content)
        blocks, substitute = (_OUTPUT_BLOCKS, "output_text") if is_output else (_INPUT_BLOCKS, "input_text")
        item["content"] = self._complete_blocks(content, blocks, substitute)
        return self._complete_fields("message", item, _OUTPUT_MESSAGE if is_output else _INPUT_MESSAGE, unit)

    def _complete_item(self, kind: str, unit: Unit) -> dict[str, Json] | None:
        fields = _ITEMS.get(kind)
        item = dict(unit.native)
        if fields is None:
            return item
        match kind:
            case "reasoning":
                item = self._with_blocks(item, "summary", _SUMMARY_BLOCKS, "summary_text")
                item = self._with_blocks(item, "content", _REASONING_BLOCKS, "reasoning_text")
            case "web_search_call" | "local_shell_call":
                actions = _SEARCH_ACTIONS if kind == "web_search_call" else _SHELL_ACTIONS
                action = self._complete_typed(item.get("action"), actions)
                if action is None:
                    return None
                item["action"] = action
            case "function_call_output" | "custom_tool_call_output":
                blocks = _RESULT_BLOCKS if kind == "function_call_output" else _INPUT_BLOCKS
                item = self._with_blocks(item, "output", blocks, "input_text")
                if not isinstance(item.get("output"), str | list):
                    return None
            case "tool_search_output" | "additional_tools":
                item = self._with_tools(item)
        return self._complete_fields(kind, item, fields, unit)

    def _complete_fields(
        self, kind: str, item: dict[str, Json], fields: _Fields, unit: Unit | None = None
    ) -> dict[str, Json] | None:
        """Return an item with legal fields, or None if one is missing that cannot be added."""
        for name, field in fields.items():
            value = item.get(name, ABSENT)
            if (value is ABSENT and field.default is OPTIONAL) or (value is not ABSENT and field.is_legal(value)):
                continue
            if field.default is REQUIRED:
                return None
            if field.default is OPTIONAL:
                del item[name]
                self._log.add(f"{kind}.{name}", "dropped", _REFUSED_REASON)
                continue
            item[name] = self._make_default(kind, field, value, item, unit)
            is_new = value is ABSENT or value is None
            reason = _REQUIRED_REASON if is_new else _REFUSED_REASON
            self._log.add(f"{kind}.{name}", "added" if is_new else "mapped", reason)
        return item

    def _make_default(self, kind: str, field: _Field, value: Json, item: Mapping[str, Json], unit: Unit | None) -> Json:
        if field.default is NEW_ID:
            self._id_count += 1
            text = f"{json_text(item)}#{self._id_count}"
            return f"{_ID_PREFIXES[kind]}_{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"
        if field.default is CALL_ID:
            return unit.original_call_id if unit else ""
        if field.default is AS_TEXT:
            return "" if value is ABSENT else json_text(value)
        return copy(field.default)  # the caller may change what it gets

    # ── what items hold ───────────────────────────────────────────────────────────────────────────

    def _with_blocks(self, item: dict[str, Json], name: str, blocks: _Types, substitute: str) -> dict[str, Json]:
        value = item.get(name)
        return {**item, name: self._complete_blocks(value, blocks, substitute)} if isinstance(value, list) else item

    def _complete_blocks(self, values: Sequence[Json], blocks: _Types, substitute: str) -> list[Json]:
        """Return blocks that the API accepts. For any other block, its text is sent, or its name."""
        completed: list[Json] = []
        for value in values:
            block = self._complete_typed(value, blocks)
            if block is None:
                kind = _block_type(value) or "block"
                self._log.add(kind, "mapped", "the API does not accept it there: its text or its name is sent")
                block = {"type": substitute, "text": _block_text(value) or f"[{kind}]"}
                block |= {"annotations": []} if substitute == "output_text" else {}
            completed.append(block)
        return completed

    def _complete_typed(self, value: Json, types: _Types) -> dict[str, Json] | None:
        kind = _block_type(value)
        return self._complete_fields(kind, dict(value), types[kind]) if kind in types else None

    def _with_tools(self, item: dict[str, Json]) -> dict[str, Json]:
        """Return an item with legal definitions of tools. Types of tools that are not described are kept."""
        tools = item.get("tools")
        if not isinstance(tools, list):
            return item
        completed: list[Json] = []
        for tool in tools:
            kind = _block_type(tool)
            legal = self._complete_typed(tool, _TOOLS) if kind in _TOOLS else (dict(tool) if kind else None)
            if legal is None:
                self._log.add("definition of a tool", "dropped", "the API does not accept it")
            else:
                completed.append(self._with_tools(legal) if kind == "namespace" else legal)
        return {**item, "tools": completed}


def _is_bound_to_lost_id(item: Mapping[str, Json]) -> bool:
    """Return whether a thought lacks the id that the API checks it by. A readable thought is not checked."""
    return not as_str(item.get("id")) and (bool(item.get("encrypted_content")) or not item.get("content"))


def _without_native(kind: str, unit: Unit) -> Unit:
    """Return a unit that is built from its part. What is neither a call nor a result is sent as JSON."""
    part = unit.part if isinstance(unit.part, ToolCall | ToolResult) else Opaque(kind, unit.native)
    return replace(unit, native=ABSENT, part=part)


def _block_type(value: Json) -> str:
    return as_str(as_dict(value).get("type"))


def _block_text(value: Json) -> str:
    return value if isinstance(value, str) else as_str(as_dict(value).get("text"))
