"""This module defines the base classes of sources that keep every session in a file of its own.

`TranscriptSource` finds the files. `JsonlSource` also reads them, when each line is one JSON record and follows the
line before; its subclass only says what a record means. docs/adding-a-source.md shows one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from store.sources.contract import Source, SourceReader
from store.sources.kit.layout import Layout as Layout
from store.sources.kit.layout import begins_with_object

if TYPE_CHECKING:
    from store.model.entry import Json, NewEntry
    from store.model.session import SessionFields
    from store.sources.kit.record_tree import RecordTree


class TranscriptSource(Source):
    """Finds transcripts by a layout and recognizes them by their first record."""

    files: Layout
    "Says where the transcripts are in the agent's folder."

    def __init__(self) -> None:
        self.files = self.files._replace(knows=self.is_my_file)

    def detect(self, locator: str) -> bool:
        return self.files.detect(locator, self.is_my_file)

    def stamp(self, locator: str) -> str:
        return self.files.stamp(locator)

    def open(self, locator: str) -> AbstractContextManager[SourceReader]:
        return nullcontext(self.make_reader(Path(locator)))

    def knows(self, path: Path, beginning: bytes) -> bool:
        return path.name.endswith(self.files.suffixes) and begins_with_object(beginning) and self.is_my_file(path)

    def find_store(self, path: Path, top: Path) -> Path | None:
        return self.files.find_home(path, top)

    def has_own_folders(self, folder: Path) -> bool:
        return self.files.has_folders(folder)

    def is_my_file(self, path: Path) -> bool:
        from store.sources.kit.jsonl import as_dict
        from store.sources.kit.transcripts import read_first_value

        return self.is_mine(as_dict(read_first_value(path)))

    @abstractmethod
    def is_mine(self, first: Mapping[str, Json]) -> bool:
        """Return whether this agent wrote a transcript with this first record, which is empty if it is no object."""

    @abstractmethod
    def make_reader(self, root: Path) -> SourceReader: ...


class JsonlSource(TranscriptSource):
    """Reads files of JSON lines, one session each. The base class finds the files, makes stamps and batches, keeps
    the records, and collects problems."""

    def make_reader(self, root: Path) -> SourceReader:
        from store.sources.kit.record_tree import RecordTreeReader

        return RecordTreeReader(root, self.files, self.make_tree)

    def make_tree(self, path: Path) -> RecordTree:
        from store.sources.kit.record_list import RecordList

        return RecordList(self, path)

    def native_id(self, path: Path, first: Mapping[str, Json]) -> str:
        """Return the agent's own id of the session."""
        return path.stem

    def time(self, record: Mapping[str, Json]) -> str:
        """Return when a record was written; empty when it does not say."""
        from store.sources.kit.jsonl import as_time

        return as_time(record.get("timestamp"))

    def is_mine(self, first: Mapping[str, Json]) -> bool:
        return self.is_header(first)

    def is_header(self, record: Mapping[str, Json]) -> bool:
        """Return whether a record only describes the session and belongs to no conversation."""
        return False

    @abstractmethod
    def session(self, first: Mapping[str, Json]) -> SessionFields:
        """Describe the session by the first record of its file."""

    @abstractmethod
    def entry(self, record: Mapping[str, Json]) -> NewEntry:
        """Return the entry of a record."""
