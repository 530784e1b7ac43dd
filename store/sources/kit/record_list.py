"""This module reads files of JSON lines in which each record follows the one before, as a tree without branches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from store.model.entry import Json, NewEntry, Opaque
from store.sources.kit.record_tree import EntryParser, RecordTree
from store.sources.kit.transcripts import Node
from store.text.validate import replace_surrogates

if TYPE_CHECKING:
    from store.sources.kit.transcript_source import JsonlSource


class RecordList(RecordTree):
    """Holds the records of one file of a `JsonlSource`, which says what they mean."""

    carried = ("is_described",)

    def __init__(self, source: JsonlSource, path: Path) -> None:
        super().__init__(path)
        self._source = source
        self._native_id = ""
        self.is_described = False
        "Is set by the first record, or by a header after it."

    def is_header(self, value: Mapping[str, Json]) -> bool:
        if is_header := self._source.is_header(value):
            self._describe(value)
        return is_header

    def _describe(self, value: Mapping[str, Json]) -> None:
        self.is_described = True
        self.fields = self._source.session(value)
        self._native_id = self._source.native_id(self.path, value)

    @property
    def is_identified(self) -> bool:
        return super().is_identified or any(node.is_message for node in self.nodes[-1:])

    def parse_time(self, value: Mapping[str, Json]) -> str:
        return self._source.time(value)

    def parse_node(self, value: Mapping[str, Json]) -> Node:
        if not self.is_described and value:
            self._describe(value)
        return Node("", "", bool(value) and self._source.entry(value).kind == "message")

    @property
    def native_id(self) -> str:
        return replace_surrogates(self._native_id)

    def entry_parser(self) -> EntryParser:
        return _SourceEntryParser(self._source)


class _SourceEntryParser(EntryParser):
    def __init__(self, source: JsonlSource) -> None:
        self._source = source

    def read_entry(self, value: Json) -> NewEntry:
        if not isinstance(value, dict):
            return NewEntry(kind="unknown", parts=(Opaque("", value),))
        return self._source.entry(value)
