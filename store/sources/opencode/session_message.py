"""Rows of opencode's newer table, which holds a message whole, told in the words of the older ones.

No release has written to it yet that anybody could read; this is what its schema says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from store.model.entry import Json
from store.sources.kit import sqlite
from store.sources.kit.jsonl import items, mapping, words
from store.sources.kit.sqlite import Row
from store.sources.opencode.entries import Message, Piece

_ROLES = {"synthetic": "user", "shell": "assistant", "compaction": "assistant"}
_SPEAKING = ("user", "assistant", "system")


def message_of(row: Row, data: Json) -> Message:
    kind, told = sqlite.text(row["type"]), mapping(data)
    name = sqlite.text(row["id"])
    record = sqlite.row_record(row, "session_message", name, without=("time_updated",))
    role = kind if kind in _SPEAKING else _ROLES.get(kind, "")
    shown = {**told, "type": kind, "role": role, "summary": kind == "compaction"}
    pieces = tuple(Piece(f"{name}:{n}", part, record) for n, part in enumerate(_parts(kind, told)))
    return Message(name, shown, record, sqlite.utc(row["time_created"]), pieces)


def _parts(kind: str, told: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    match kind:
        case "user" | "system" | "synthetic":
            yield {"type": "text", "text": told.get("text"), "synthetic": kind == "synthetic"}
            yield from ({**mapping(file), "type": "file"} for file in items(told.get("files")))
        case "assistant":
            yield from map(_content, items(told.get("content")))
        case "shell":
            state = {"status": "completed", "input": {"command": told.get("command")}, "output": told.get("output")}
            yield {"type": "tool", "callID": told.get("callID"), "tool": "shell", "state": state}
        case "compaction":
            yield {"type": "text", "text": told.get("summary")}


def _content(part: Json) -> Mapping[str, Json]:
    told = mapping(part)
    if told.get("type") != "tool":
        return told or {"type": "", "value": part}
    state = mapping(told.get("state"))
    shown = {**state, "output": state.get("content", state.get("result"))}
    if state.get("status") == "error":
        shown["error"] = words(mapping(state.get("error")).get("message")) or state.get("error")
    return {**told, "callID": told.get("id"), "tool": told.get("name"), "state": shown}
