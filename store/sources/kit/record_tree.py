"""Files whose records are a tree: one is read in outline first, and then told, each of its branches as a session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from store.model.entry import Json, NewEntry
from store.model.session import SessionFields
from store.sources.contract import Batch, Problem, SessionRef, SourceReader
from store.sources.kit import jsonl, sqlite
from store.sources.kit.jsonl import JsonLine, as_dict
from store.sources.kit.layout import Layout
from store.sources.kit.transcripts import (
    Branch,
    Node,
    build_header_batch,
    find_branches,
    path_text,
)

EntryParser = Callable[[Json], NewEntry]


class RecordTree(ABC):
    """Who is whose parent, and what is said of the whole; the records themselves are read when they are told."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self.path = path
        self.header_line: JsonLine | None = None
        "The record that only tells of the session; the header of its chain."
        self.nodes: list[Node] = []
        self.offsets: list[int] = []
        self.times: list[str] = []
        self.costs: dict[int, float] = {}
        "What was paid for it, where a record says so."
        self.started_at = ""
        for line in jsonl.read_json_lines(path, problems):
            self._add_line(line, as_dict(line.value))

    def _add_line(self, line: JsonLine, value: Mapping[str, Json]) -> None:
        at = self.parse_time(value)
        self.started_at = self.started_at or at
        if self.header_line is None and self.is_header(value):
            self.header_line = line
            return
        self.nodes.append(self.parse_node(value))
        self.offsets.append(line.offset)
        self.times.append(at or (self.times[-1] if self.times else self.started_at))

    def branches(self) -> list[Branch]:
        """The session itself first."""
        return find_branches(self.nodes) or [Branch()]

    def find_branch(self, name: str) -> Branch | None:
        return next((branch for branch in self.branches() if branch.name == name), None)

    def is_header(self, value: Mapping[str, Json]) -> bool:
        return False

    @property
    @abstractmethod
    def native_id(self) -> str: ...

    @abstractmethod
    def parse_node(self, value: Mapping[str, Json]) -> Node: ...

    @abstractmethod
    def parse_time(self, value: Mapping[str, Json]) -> str: ...

    @abstractmethod
    def session_fields(self, line: Sequence[int]) -> SessionFields:
        """What is said of the session, or of the fork that has these records."""
        ...

    @abstractmethod
    def entry_parser(self) -> EntryParser:
        """Makes an entry of each record of a branch, in order."""
        ...


FileParser = Callable[[Path, list[Problem]], RecordTree]
"""Reads a file in outline."""


class _ScannedFile(NamedTuple):
    native_id: str
    branches: tuple[str, ...]
    updated_at: str
    problems: tuple[Problem, ...]


@lru_cache(maxsize=8192)
def _scan_file(parse_file: FileParser, path: Path, stamp: str) -> _ScannedFile:
    """Looked at once for as long as the file stays as it is."""
    problems: list[Problem] = []
    outline = parse_file(path, problems)
    if not outline.header_line and not any(node.is_message for node in outline.nodes):
        return _ScannedFile("", (), "", tuple(problems or [Problem(str(path), "Nobody speaks in it.")]))
    if not outline.native_id:
        return _ScannedFile("", (), "", (Problem(str(path), "The session has no id."),))
    names = tuple(branch.name for branch in outline.branches())
    return _ScannedFile(outline.native_id, names, max(outline.times, default=outline.started_at), ())


class RecordTreeReader(SourceReader):
    """Files of which each holds a session and its forks."""

    def __init__(self, root: Path, layout: Layout, parse_file: FileParser) -> None:
        super().__init__()
        self._root = root
        self._layout = layout
        self._parse_file = parse_file
        self.locations: dict[str, tuple[Path, str]] = {}
        "By native id: the file, and the name of the branch."

    def scan(self) -> Iterator[SessionRef]:
        """Of two files of one session, the one that goes on further."""
        sessions: dict[str, tuple[Path, str, _ScannedFile]] = {}
        for path in self._layout.find_files(self._root, self.problems):
            stamp = self.stamp_file(path)
            here = path, stamp, _scan_file(self._parse_file, path, stamp)
            native = here[2].native_id
            self.problems += here[2].problems
            if not native:
                continue
            kept = sessions.setdefault(native, here)
            if kept is not here:
                newer, older = (here, kept) if here[2].updated_at > kept[2].updated_at else (kept, here)
                sessions[native] = newer
                twice = f"It is another copy of the session {native}, and left out."
                self.problems.append(Problem(str(older[0]), twice))
        for path, stamp, found in sessions.values():
            for name in found.branches:
                native = Branch(name).native_id(found.native_id)
                self.locations[native] = path, name
                yield SessionRef(native, stamp, found.updated_at)

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        met: list[Problem] = []
        path, name = self.locations[ref.native_id]
        # A fork's file is its session's, which tells of its problems.
        outline = self._parse_file(path, [] if name else met)
        branch = outline.find_branch(name)
        if branch is None:
            return
        past = branch.shared_nodes()
        copied, fields = self.find_origin(outline, branch)
        fields |= outline.session_fields(past + branch.own_nodes)
        fields |= sqlite.time_fields(
            outline.started_at, max((outline.times[place] for place in branch.own_nodes), default="")
        )
        fields |= jsonl.cost_fields(
            sum(outline.costs.get(place, 0) for place in branch.own_nodes if place not in copied)
        )
        yield build_header_batch(fields, outline.header_line, path)
        places = {outline.offsets[place]: place for place in past + branch.own_nodes}
        yield from sqlite.build_batches(_read_entries(outline, places, {*past, *copied}), met)

    def stamp_file(self, path: Path) -> str:
        """Return a stamp that differs when anything in the session differs."""
        return jsonl.plain_file_stamp(path)

    def find_origin(self, outline: RecordTree, branch: Branch) -> tuple[list[int], SessionFields]:
        """What it was made from, and which of its own records are copies of that one's."""
        return [], branch.fork_fields(outline.native_id)


def _read_entries(outline: RecordTree, places: Mapping[int, int], inherited: set[int]) -> Iterator[list[NewEntry]]:
    where, tell = path_text(outline.path), outline.entry_parser()
    for line in jsonl.read_json_lines(outline.path, []):
        place = places.get(line.offset)
        if place is not None:
            entry = tell(line.value)
            entry.record = jsonl.record_from_line(line, where)
            entry.inherited, entry.created_at = place in inherited, outline.times[place]
            yield [entry]
