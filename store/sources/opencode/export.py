"""This module reads a session that `opencode export` wrote: one JSON object with the session and its messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from store.model.entry import Json, NewRecord
from store.sources.contract import Problem, SessionRef
from store.sources.kit import jsonl, sqlite
from store.sources.kit.jsonl import as_dict, as_list, as_str, as_time
from store.sources.opencode.entries import OpencodeMessage, OpencodePart
from store.sources.opencode.storage import SessionInfo, parse_info, strip_changing
from store.text.validate import encode_derived, replace_surrogates


class ExportStorage:
    """Reads the one session of an exported file."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self._path = path
        self._problems = problems

    @cached_property
    def _value(self) -> Mapping[str, Json]:
        return as_dict(jsonl.read_json_file(self._path, self._problems))

    @property
    def _info(self) -> Mapping[str, Json]:
        return as_dict(self._value.get("info"))

    def list_refs(self) -> Iterator[SessionRef]:
        if session := replace_surrogates(as_str(self._info.get("id"))):
            updated_at = as_time(as_dict(self._info.get("time")).get("updated"))
            stamp = sqlite.digest(jsonl.plain_file_stamp(self._path), sqlite.is_quiet(updated_at))
            yield SessionRef(session, stamp, updated_at)

    def read_info(self, session: str) -> SessionInfo | None:
        record = self._make_record({name: value for name, value in self._info.items() if name != "time"}, "info")
        return parse_info(self._info, as_dict(self._info.get("time")), record)

    def read_messages(self, session: str, problems: list[Problem]) -> list[OpencodeMessage]:
        messages = []
        for message in map(as_dict, as_list(self._value.get("messages"))):
            info = as_dict(message.get("info"))
            parts = tuple(map(self._parse_part, as_list(message.get("parts"))))
            created_at = as_time(as_dict(info.get("time")).get("created"))
            name = as_str(info.get("id"))
            messages.append(OpencodeMessage(name, info, self._make_record(info, name), created_at, parts))
        return messages

    def read_parts(self, session: str, message: OpencodeMessage, problems: list[Problem]) -> tuple[OpencodePart, ...]:
        return message.parts or ()

    def _parse_part(self, data: Json) -> OpencodePart:
        name = as_str(as_dict(data).get("id"))
        return OpencodePart(name, data, self._make_record(data, name))

    def _make_record(self, data: Json, position: str) -> NewRecord:
        stable_data = strip_changing(encode_derived(data), data)
        return NewRecord(stable_data, replace_surrogates(self._path.name), replace_surrogates(position))
