"""This module reads pi's transcripts for the quick index. It skips the results of tools and commands, which the first
bytes of a record reveal."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from pathlib import Path

from store.model.entry import Json
from store.model.session import SessionFields
from store.sources.contract import QuickSession
from store.sources.kit import sqlite
from store.sources.kit.jsonl import PATH_ERRORS, as_dict, as_list, as_str, as_time
from store.sources.kit.layout import Layout
from store.sources.kit.line_scan import parse_object, scan_lines, separate_records
from store.sources.pi.identity import find_native_id, find_parent
from store.text.validate import replace_surrogates

_HEAD_BYTES = 256
"""Limits the bytes at the start of a line that are searched for the role of a message."""

_SKIPPED_ROLES = (b'"role":"toolResult"', b'"role":"bashExecution"')


def quick_read(locator: str, layout: Layout, known: Container[str]) -> Iterator[QuickSession]:
    for path in sorted(layout.find_files(Path(locator), []), key=_modified_time, reverse=True):
        reader = _PiQuickReader(path)
        if reader.native_id not in known and reader.has_text:
            yield reader.build_session()


def _modified_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except PATH_ERRORS:
        return 0.0


class _PiQuickReader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._header: Mapping[str, Json] = {}
        self._prompts: list[str] = []
        self._answers: list[str] = []
        self._title = self._provider = self._model = self._updated_at = ""
        for line in scan_lines(path):
            self._scan_line(line)

    def _scan_line(self, line: bytes) -> None:
        head = line[:_HEAD_BYTES]
        if any(role in head for role in _SKIPPED_ROLES):
            return
        if record := parse_object(line):
            self._read_record(record)
        elif len(records := separate_records(line).split(b"\n")) > 1:
            for separated in records:
                self._scan_line(separated)

    @property
    def native_id(self) -> str:
        return find_native_id(self._header, self._path)

    @property
    def has_text(self) -> bool:
        """Tells whether the quick index can list it. A file without its header may be something else."""
        return bool(self._header and (self._prompts or self._answers))

    def _read_record(self, record: Mapping[str, Json]) -> None:
        kind = record.get("type")
        if kind == "session" and not self._header:
            self._header = record
        elif kind == "session_info":
            self._title = as_str(record.get("name")).strip() or self._title
        elif kind == "message":
            self._read_message(as_dict(record.get("message")))
        elif text := as_str(record.get("summary")) or _join_texts(record.get("content")):
            self._answers.append(text)
        self._updated_at = max(self._updated_at, as_time(record.get("timestamp")))

    def _read_message(self, message: Mapping[str, Json]) -> None:
        text = as_str(message.get("summary")) or _join_texts(message.get("content"))
        if message.get("role") == "user":
            self._prompts.append(text)
            return
        if text:
            self._answers.append(text)
        self._provider = as_str(message.get("provider")) or self._provider
        self._model = as_str(message.get("model")) or self._model

    def build_session(self) -> QuickSession:
        fields: SessionFields = {
            "agent_title": replace_surrogates(self._title),
            "provider": replace_surrogates(self._provider or as_str(self._header.get("provider"))),
            "model": replace_surrogates(self._model or as_str(self._header.get("modelId"))),
            "cwd": replace_surrogates(as_str(self._header.get("cwd"))),
        }
        fields |= sqlite.time_fields(as_time(self._header.get("timestamp")), self._updated_at)
        _, parent = find_parent(self._header)
        if parent and parent != self.native_id:
            fields |= {"parent_id": parent, "relation": "fork"}
        return QuickSession(self.native_id, fields, self._prompts, self._answers)


def _join_texts(content: Json) -> str:
    """Return the texts and thoughts of a message."""
    if isinstance(content, str):
        return content
    blocks = map(as_dict, as_list(content))
    return "\n\n".join(filter(None, (as_str(block.get("text")) or as_str(block.get("thinking")) for block in blocks)))
