"""Transcripts at first sight: a record that calls a tool, or tells of it, says so at its beginning and is left out."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from pathlib import Path

from store.coding import column_text
from store.model import Json, SessionFields
from store.sources import reading
from store.sources.claude_code.files import Transcript, transcripts
from store.sources.claude_code.prompts import blocks_of, said
from store.sources.lines import mapping, moment, words
from store.sources.shape import Skim
from store.sources.sight import HEAD, lines_at_sight, told_in

_TITLES = (b'{"type":"custom-title"', b'{"type":"ai-title"')


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
        self._first: Mapping[str, Json] = {}
        self._last: Mapping[str, Json] = {}
        self._model = ""
        for path in one.files:
            for line in lines_at_sight(path):
                if _is_said(line[:HEAD]):
                    self._hear(told_in(line))
                elif line.startswith(_TITLES):
                    self._name(told_in(line))

    @property
    def is_told(self) -> bool:
        return bool(self._prompts or self._said)

    def _name(self, told: Mapping[str, Json]) -> None:
        self._titles[words(told.get("type"))] = words(told.get("customTitle")) or words(told.get("aiTitle"))

    def _hear(self, told: Mapping[str, Json]) -> None:
        if "message" not in told:
            return
        self._first, self._last = self._first or told, told
        if told.get("type") == "user":
            if (text := said(told)) is not None:
                self._prompts.append(text)
            return
        self._model = words(mapping(told.get("message")).get("model")) or self._model
        for block in map(mapping, blocks_of(told)):
            if text := words(block.get("text")) or words(block.get("thinking")):
                self._said.append(text)

    def skim(self) -> Skim:
        named = self._titles.get("custom-title") or self._titles.get("ai-title") or ""
        fields: SessionFields = {
            "agent_title": column_text(named),
            "provider": "anthropic",
            "model": column_text(self._model),
            "cwd": column_text(words(self._first.get("cwd"))),
        }
        began, ended = (moment(told.get("timestamp")) for told in (self._first, self._last))
        fields |= reading.lifetime(began, ended or self._one.touched)
        if self._one.parent:
            fields |= {"parent_id": self._one.parent, "relation": "delegate"}
        return Skim(self._one.native_id, fields, self._prompts, self._said)


def _is_said(head: bytes) -> bool:
    """Asked of every line: spelled out, since a loop over the marks would take three times as long."""
    if b'"type":"assistant"' not in head and b'"type":"user"' not in head:
        return False
    return b'"type":"tool_' not in head or b'"type":"text"' in head or b'"type":"thinking"' in head
