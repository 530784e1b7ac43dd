"""This module defines the base class of sources that are exports: archives that a person asked a web service for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from store.sources.contract import Source

if TYPE_CHECKING:
    from store.model.entry import Json
    from store.sources.kit.exports import ExportFile, ExportReader


class ExportSource(Source):
    """Recognizes an export by one of its first conversations. It has no home: people save exports anywhere."""

    where: ClassVar[str] = "an export that you name"

    def detect(self, locator: str) -> bool:
        from store.sources.kit import exports

        return exports.detect(locator, self.is_conversation)

    def knows(self, path: Path, beginning: bytes) -> bool:
        is_json = path.suffix == ".json" and beginning.removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"[", b"{"))
        return (is_json or beginning.startswith(b"PK")) and self.detect(str(path))

    def find_store(self, path: Path, top: Path) -> Path:
        """Return the folder of an unpacked export, which may have several files of conversations, or the file."""
        from store.sources.kit import exports

        return path.parent if exports.is_conversations_file(path.name) else path

    def stamp(self, locator: str) -> str:
        from store.sources.kit import exports

        return exports.stamp(locator)

    @contextmanager
    def open(self, locator: str) -> Iterator[ExportReader]:
        from store.sources.kit import exports

        with exports.open_files(locator) as files:
            yield self.make_reader(files)

    @abstractmethod
    def is_conversation(self, value: Mapping[str, Json]) -> bool: ...

    @abstractmethod
    def make_reader(self, files: Sequence[ExportFile]) -> ExportReader: ...
