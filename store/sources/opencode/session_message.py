"""This module converts rows of opencode's newer message table, which holds a message as a whole, to the older form.

It follows the schema, because no release is known to write to this table yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from store.model.entry import Json
from store.sources.kit import sqlite
from store.sources.kit.jsonl import as_dict, as_list, as_str
from store.sources.kit.sqlite import RowLike
from store.sources.opencode.entries import OpencodeMessage, OpencodePart

_ROLE_BY_TYPE = {"synthetic": "user", "shell": "assistant", "compaction": "assistant"}
_ROLE_TYPES = ("user", "assistant", "system")


def message_from_row(row: RowLike, data: Json) -> OpencodeMessage:
    kind, values = sqlite.as_text(row["type"]), as_dict(data)
    message_id = sqlite.as_text(row["id"])
    record = sqlite.record_from_row(row, "session_message", message_id, exclude=("time_updated",))
    role = kind if kind in _ROLE_TYPES else _ROLE_BY_TYPE.get(kind, "")
    message_data = {**values, "type": kind, "role": role, "summary": kind == "compaction"}
    parts = tuple(
        OpencodePart(f"{message_id}:{index}", part, record) for index, part in enumerate(_build_parts(kind, values))
    )
    return OpencodeMessage(message_id, message_data, record, sqlite.normalize_time(row["time_created"]), parts)


def _build_parts(kind: str, data: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    match kind:
        case "user" | "system" | "synthetic":
            yield {"type": "text", "text": data.get("text"), "synthetic": kind == "synthetic"}
            yield from ({**as_dict(file), "type": "file"} for file in as_list(data.get("files")))
        case "assistant":
            yield from map(_build_part, as_list(data.get("content")))
        case "shell":
            state = {"status": "completed", "input": {"command": data.get("command")}, "output": data.get("output")}
            yield {"type": "tool", "callID": data.get("callID"), "tool": "shell", "state": state}
        case "compaction":
            yield {"type": "text", "text": data.get("summary")}


def _build_part(part: Json) -> Mapping[str, Json]:
    data = as_dict(part)
    if data.get("type") != "tool":
        return data or {"type": "", "value": part}
    state = as_dict(data.get("state"))
    state_data = {**state, "output": state.get("content", state.get("result"))}
    if state.get("status") == "error":
        state_data["error"] = as_str(as_dict(state.get("error")).get("message")) or state.get("error")
    return {**data, "callID": data.get("id"), "tool": data.get("name"), "state": state_data}
