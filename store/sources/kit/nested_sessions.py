"""This module reads files that hold one JSON document each: a session, and the sub-agents inside of it, which are
sessions of their own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from store.model.entry import Json
from store.sources.contract import Problem, SessionRef, SourceReader
from store.sources.kit import jsonl
from store.sources.kit.jsonl import as_dict, as_list, as_time
from store.sources.kit.layout import Layout


class NestedSession(NamedTuple):
    """Is one session of a document: its value, its file, and the session that it is inside of."""

    value: Mapping[str, Json]
    path: Path
    native_id: str
    parent: NestedSession | None = None

    def objects(self, name: str) -> list[Mapping[str, Json]]:
        """Return the objects of a list. What is no object counts as an empty one."""
        return [as_dict(item) for item in as_list(self.value.get(name))]

    def times(self, name: str, field: str) -> tuple[str, str]:
        """Return the first and the last time in a list of objects. Both are empty when none has a time."""
        times = [time for item in self.objects(name) if (time := as_time(item.get(field)))]
        return (min(times), max(times)) if times else ("", "")


class NestedSessionReader(SourceReader):
    """Finds files with JSON documents below a root, and the sessions in them."""

    def __init__(self, root: Path, files: Layout) -> None:
        super().__init__()
        self._root = root
        self._files = files
        self._paths: dict[str, Path] = {}
        "The path of the file, by native id."
        self._loaded: tuple[tuple[Path, str], Mapping[str, NestedSession]] | None = None
        "The sessions of the last file, with its stamp. They are read one by one."

    @abstractmethod
    def has_my_beginning(self, path: Path) -> bool:
        """Return whether a file begins like a document of this kind, without reading more of it."""

    @abstractmethod
    def find_fault(self, value: Mapping[str, Json]) -> str:
        """Return what is wrong with a document, in a sentence, or an empty string."""

    @abstractmethod
    def list_sessions(self, path: Path, value: Mapping[str, Json]) -> Iterable[NestedSession]:
        """Return the sessions of a document, a parent before its sub-agents."""

    @abstractmethod
    def find_times(self, session: NestedSession) -> tuple[str, str]:
        """Return when a session began and ended, as far as that is known."""

    def scan(self) -> Iterator[SessionRef]:
        for path in self._files.find_files(self._root, self.problems):
            if not self.has_my_beginning(path):
                continue
            stamp = jsonl.plain_file_stamp(path)
            value, problems = jsonl.load_json_file(path, stamp)
            self.problems += problems
            if fault := "" if problems else self.find_fault(value):
                self.problems.append(Problem(str(path), fault))
            for session in [] if problems or fault else self.list_sessions(path, value):
                if session.native_id in self._paths:
                    message = f"Skipped: another copy of the session {session.native_id}."
                    self.problems.append(Problem(str(path), message))
                else:
                    self._paths[session.native_id] = path
                    yield SessionRef(session.native_id, stamp, self.find_times(session)[1])

    def load_session(self, ref: SessionRef) -> NestedSession | None:
        """Return a session of the scan, or None if its file does not have it any more."""
        path = self._paths[ref.native_id]
        key = path, jsonl.plain_file_stamp(path)
        if self._loaded is None or self._loaded[0] != key:
            value, _ = jsonl.load_json_file(*key)
            # The first of several sessions with the same id counts, as in the scan.
            sessions = reversed([*self.list_sessions(path, value)])
            self._loaded = key, {session.native_id: session for session in sessions}
        return self._loaded[1].get(ref.native_id)
