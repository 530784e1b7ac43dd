"""This module reads transcripts for the quick index. It skips tool calls and results, which the first bytes of a record
reveal."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from pathlib import Path

from store.model.session import SessionFields
from store.sources.claude_code.files import Transcript, find_transcripts
from store.sources.claude_code.record import ClaudeRecord
from store.sources.claude_code.web import WEB_SUFFIX
from store.sources.contract import QuickSession
from store.sources.kit import sqlite
from store.sources.kit.jsonl import as_dict, as_str, as_time
from store.sources.kit.line_scan import JSON_STRING, parse_object, parse_string, scan_lines, separate_records
from store.text.validate import replace_surrogates

_HEAD_BYTES = 640
"""Limits the bytes at the start of a line that are searched for its type."""

_TITLE_STARTS = (b'{"type":"custom-title"', b'{"type":"ai-title"')
_CONTENT_START, _TOOL_CONTENT_START = b'"content":[{"type":"t', b'"content":[{"type":"tool_'
_SINGLE_BLOCK = re.compile(
    rb'"content":\[\{"type":"(?:text","text|thinking","thinking)":(%s)(?:,"signature":%s)?\}\]'
    % (JSON_STRING, JSON_STRING)
)
"""Matches a record whose content is a single answer or thought, as nearly all are. Nothing else of it is needed."""


def quick_read(locator: str, known: Container[str]) -> Iterator[QuickSession]:
    transcripts = sorted(
        find_transcripts(Path(locator), []), key=lambda transcript: transcript.modified_at, reverse=True
    )
    for transcript in transcripts:
        if transcript.files[0].suffix == WEB_SUFFIX:
            continue  # It is one object, and cannot be read in part.
        if transcript.native_id not in known and (reader := _ClaudeQuickReader(transcript)).has_text:
            yield reader.build_session()


class _ClaudeQuickReader:
    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._prompts: list[str] = []
        self._answers: list[str] = []
        self._titles: dict[str, str] = {}
        self._first_line = self._last_line = self._last_answer_line = b""
        for path in transcript.files:
            for line in scan_lines(path):
                self._scan_line(line)

    @property
    def has_text(self) -> bool:
        return bool(self._prompts or self._answers)

    def _scan_line(self, line: bytes) -> None:
        """Read one line. The most frequent cases are tested first, since this runs for every line."""
        content = line.find(_CONTENT_START, 0, _HEAD_BYTES)
        if content >= 0 and line.startswith(_TOOL_CONTENT_START, content):
            return
        if content >= 0 and b'"role":"assistant"' in line[:content] and (single := _SINGLE_BLOCK.match(line, content)):
            self._answers.append(parse_string(single[1]))
            self._first_line, self._last_line, self._last_answer_line = self._first_line or line, line, line
        elif _is_message(line[:_HEAD_BYTES]):
            if value := parse_object(line):
                self._read_message(line, ClaudeRecord(value))
            elif len(records := separate_records(line).split(b"\n")) > 1:
                for separated in records:
                    self._scan_line(separated)
        elif line.startswith(_TITLE_STARTS):
            titled = ClaudeRecord(parse_object(line))
            self._titles[titled.kind] = titled.title

    def _read_message(self, line: bytes, record: ClaudeRecord) -> None:
        if "message" not in record.fields:
            return
        self._first_line, self._last_line = self._first_line or line, line
        if record.kind == "user":
            if (prompt := record.prompt) is not None:
                self._prompts.append(prompt)
            return
        self._last_answer_line = line
        for block in map(as_dict, record.blocks):
            if text := as_str(block.get("text")) or as_str(block.get("thinking")):
                self._answers.append(text)

    def build_session(self) -> QuickSession:
        first, last = parse_object(self._first_line), parse_object(self._last_line)
        answer = last if self._last_answer_line is self._last_line else parse_object(self._last_answer_line)
        fields: SessionFields = {
            "agent_title": replace_surrogates(self._titles.get("custom-title") or self._titles.get("ai-title") or ""),
            "provider": "anthropic",
            "model": replace_surrogates(as_str(as_dict(answer.get("message")).get("model"))),
            "cwd": replace_surrogates(as_str(first.get("cwd"))),
        }
        fields |= sqlite.time_fields(
            as_str(first.get("timestamp")), as_time(last.get("timestamp")) or self._transcript.modified_at
        )
        if self._transcript.parent:
            fields |= {"parent_id": self._transcript.parent, "relation": "delegate"}
        return QuickSession(self._transcript.native_id, fields, self._prompts, self._answers)


def _is_message(head: bytes) -> bool:
    """Return whether a line is a message. The tests are written out, since a loop would take three times as long."""
    if b'"type":"tool_' in head and b'"type":"text"' not in head and b'"type":"thinking"' not in head:
        return False
    return b'"type":"assistant"' in head or b'"type":"user"' in head
