"""Transcripts at first sight: a record that calls a tool, or tells of it, says so at its beginning and is left out."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from io import BytesIO
from pathlib import Path

from store.model.entry import Json
from store.model.session import SessionFields
from store.sources.claude_code.files import Transcript, transcripts
from store.sources.claude_code.prompts import blocks_of, said
from store.sources.contract import Skim
from store.sources.kit import sqlite
from store.sources.kit.jsonl import mapping, moment, words
from store.sources.kit.line_scan import STRING, pieces, text_in, told_in
from store.text.validate import column_text

_HEAD = 640
"""Bytes at the beginning of a line that tell what it is."""

_TITLES = (b'{"type":"custom-title"', b'{"type":"ai-title"')
_CONTENT, _TOOL = b'"content":[{"type":"t', b'"content":[{"type":"tool_'
_ALONE = re.compile(
    rb'"content":\[\{"type":"(?:text","text|thinking","thinking)":(%s)(?:,"signature":%s)?\}\]' % (STRING, STRING)
)
"""An answer or a thought as nearly all are written, each in a record of its own: the rest of it says nothing more."""


def skim(locator: str, known: Container[str]) -> Iterator[Skim]:
    found = sorted(transcripts(Path(locator), []), key=lambda one: one.touched, reverse=True)
    for one in found:
        if one.native_id not in known and (seen := _Sight(one)).is_told:
            yield seen.skim()


class _Sight:
    def __init__(self, one: Transcript) -> None:
        self._one = one
        self._prompts: list[str] = []
        self._said: list[str] = []
        self._titles: dict[str, str] = {}
        self._first = self._last = self._answer = b""
        for path in one.files:
            for piece in pieces(path):
                # A quarter of what splitting it takes.
                for line in BytesIO(piece):
                    self._look(line)

    @property
    def is_told(self) -> bool:
        return bool(self._prompts or self._said)

    def _look(self, line: bytes) -> None:
        """At every line there is: in the order in which most are done with."""
        content = line.find(_CONTENT, 0, _HEAD)
        if content >= 0 and line.startswith(_TOOL, content):
            return
        if content >= 0 and b'"role":"assistant"' in line[:content] and (alone := _ALONE.match(line, content)):
            self._said.append(text_in(alone[1]))
            self._first, self._last, self._answer = self._first or line, line, line
        elif _is_said(line[:_HEAD]):
            self._hear(line, told_in(line))
        elif line.startswith(_TITLES):
            self._name(told_in(line))

    def _name(self, told: Mapping[str, Json]) -> None:
        self._titles[words(told.get("type"))] = words(told.get("customTitle")) or words(told.get("aiTitle"))

    def _hear(self, line: bytes, told: Mapping[str, Json]) -> None:
        if "message" not in told:
            return
        self._first, self._last = self._first or line, line
        if told.get("type") == "user":
            if (text := said(told)) is not None:
                self._prompts.append(text)
            return
        self._answer = line
        for block in map(mapping, blocks_of(told)):
            if text := words(block.get("text")) or words(block.get("thinking")):
                self._said.append(text)

    def skim(self) -> Skim:
        first, last = told_in(self._first), told_in(self._last)
        answer = last if self._answer is self._last else told_in(self._answer)
        fields: SessionFields = {
            "agent_title": column_text(self._titles.get("custom-title") or self._titles.get("ai-title") or ""),
            "provider": "anthropic",
            "model": column_text(words(mapping(answer.get("message")).get("model"))),
            "cwd": column_text(words(first.get("cwd"))),
        }
        fields |= sqlite.lifetime(words(first.get("timestamp")), moment(last.get("timestamp")) or self._one.touched)
        if self._one.parent:
            fields |= {"parent_id": self._one.parent, "relation": "delegate"}
        return Skim(self._one.native_id, fields, self._prompts, self._said)


def _is_said(head: bytes) -> bool:
    """Spelled out, since a loop over the marks would take three times as long."""
    if b'"type":"tool_' in head and b'"type":"text"' not in head and b'"type":"thinking"' not in head:
        return False
    return b'"type":"assistant"' in head or b'"type":"user"' in head
