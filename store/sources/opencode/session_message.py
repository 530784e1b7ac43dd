"""Rows of opencode's newer table, which holds a message whole, told in the words of the older ones.

No release has written to it yet that anybody could read; this is what its schema says.
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
    kind, told = sqlite.as_text(row["type"]), as_dict(data)
    name = sqlite.as_text(row["id"])
    record = sqlite.record_from_row(row, "session_message", name, exclude=("time_updated",))
    role = kind if kind in _ROLE_TYPES else _ROLE_BY_TYPE.get(kind, "")
    shown = {**told, "type": kind, "role": role, "summary": kind == "compaction"}
    pieces = tuple(OpencodePart(f"{name}:{n}", part, record) for n, part in enumerate(_build_parts(kind, told)))
    return OpencodeMessage(name, shown, record, sqlite.normalize_time(row["time_created"]), pieces)


def _build_parts(kind: str, told: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    match kind:
        case "user" | "system" | "synthetic":
            yield {"type": "text", "text": told.get("text"), "synthetic": kind == "synthetic"}
            yield from ({**as_dict(file), "type": "file"} for file in as_list(told.get("files")))
        case "assistant":
            yield from map(_build_part, as_list(told.get("content")))
        case "shell":
            state = {"status": "completed", "input": {"command": told.get("command")}, "output": told.get("output")}
            yield {"type": "tool", "callID": told.get("callID"), "tool": "shell", "state": state}
        case "compaction":
            yield {"type": "text", "text": told.get("summary")}


def _build_part(part: Json) -> Mapping[str, Json]:
    told = as_dict(part)
    if told.get("type") != "tool":
        return told or {"type": "", "value": part}
    state = as_dict(told.get("state"))
    shown = {**state, "output": state.get("content", state.get("result"))}
    if state.get("status") == "error":
        shown["error"] = as_str(as_dict(state.get("error")).get("message")) or state.get("error")
    return {**told, "callID": told.get("id"), "tool": told.get("name"), "state": shown}
