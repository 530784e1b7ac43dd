"""This module reads files of JSON lines in which each record follows the one before, as a tree without branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from store.model.entry import Json, NewEntry, Opaque
from store.model.session import SessionFields
from store.sources.contract import Problem
from store.sources.kit.record_tree import EntryParser, RecordTree
from store.sources.kit.transcripts import Node
from store.text.validate import replace_surrogates

if TYPE_CHECKING:
    from store.sources.kit.transcript_source import JsonlSource


class RecordList(RecordTree):
    """Holds the records of one file of a `JsonlSource`, which says what they mean."""

    def __init__(self, source: JsonlSource, path: Path, problems: list[Problem]) -> None:
        self._source = source
        self._first: Mapping[str, Json] | None = None
        super().__init__(path, problems)

    def is_header(self, value: Mapping[str, Json]) -> bool:
        if is_header := self._source.is_header(value):
            self._first = value
        return is_header

    def parse_time(self, value: Mapping[str, Json]) -> str:
        return self._source.time(value)

    def parse_node(self, value: Mapping[str, Json]) -> Node:
        if self._first is None and value:
            self._first = value
        return Node("", "", bool(value) and self._source.entry(value).kind == "message")

    @property
    def native_id(self) -> str:
        return replace_surrogates(self._source.native_id(self.path, self._first or {}))

    def session_fields(self, nodes: Sequence[int]) -> SessionFields:
        return self._source.session(self._first or {})

    def entry_parser(self) -> EntryParser:
        return self._parse_entry

    def _parse_entry(self, value: Json) -> NewEntry:
        if not isinstance(value, dict):
            return NewEntry(kind="unknown", parts=(Opaque("", value),))
        return self._source.entry(value)
