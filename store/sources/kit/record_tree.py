"""This module reads files whose records form a tree. It outlines a file first, then reads each branch as a session."""

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
    """Outlines a file: the parent of each record, and the data of the session. The records are read later."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self.path = path
        self.header_line: JsonLine | None = None
        "Is the record that only describes the session; it becomes the header of the chain."
        self.nodes: list[Node] = []
        self.offsets: list[int] = []
        self.times: list[str] = []
        self.costs: dict[int, float] = {}
        "Maps nodes to what was paid for them, where a record says so."
        self.started_at = ""
        for line in jsonl.read_lines(path, problems):
            self._add_line(line, as_dict(line.value))
        self.times = [time or self.started_at for time in self.times]

    def _add_line(self, line: JsonLine, value: Mapping[str, Json]) -> None:
        time = self.parse_time(value)
        self.started_at = self.started_at or time
        if self.header_line is None and self.is_header(value):
            self.header_line = line
            return
        self.nodes.append(self.parse_node(value))
        self.offsets.append(line.offset)
        self.times.append(time or (self.times[-1] if self.times else self.started_at))

    def branches(self) -> list[Branch]:
        """Return the branches, the session itself first."""
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
    def session_fields(self, nodes: Sequence[int]) -> SessionFields:
        """Describe the session, or the fork, that has these records."""

    @abstractmethod
    def entry_parser(self) -> EntryParser:
        """Return a function that turns the records of a branch into entries, in order."""


FileParser = Callable[[Path, list[Problem]], RecordTree]
"""Outlines a file."""


class _ScannedFile(NamedTuple):
    native_id: str
    branches: tuple[str, ...]
    updated_at: str
    problems: tuple[Problem, ...]


@lru_cache(maxsize=8192)
def _scan_file(parse_file: FileParser, path: Path, stamp: str) -> _ScannedFile:
    """Outline a file. The result is cached until the stamp changes."""
    problems: list[Problem] = []
    outline = parse_file(path, problems)
    if not outline.header_line and not any(node.is_message for node in outline.nodes):
        return _ScannedFile("", (), "", tuple(problems or [Problem(str(path), "It has no messages.")]))
    if not outline.native_id:
        return _ScannedFile("", (), "", (Problem(str(path), "The session has no id."),))
    names = tuple(branch.name for branch in outline.branches())
    return _ScannedFile(outline.native_id, names, max(outline.times, default=outline.started_at), ())


class RecordTreeReader(SourceReader):
    """Reads files that each hold a session and its forks."""

    def __init__(self, root: Path, layout: Layout, parse_file: FileParser) -> None:
        super().__init__()
        self._root = root
        self._layout = layout
        self._parse_file = parse_file
        self.locations: dict[str, tuple[Path, str]] = {}
        "Maps native ids to the file and the name of the branch."

    def scan(self) -> Iterator[SessionRef]:
        """Yield every session. If two files hold the same session, the one with the later end is used."""
        sessions: dict[str, tuple[Path, str, _ScannedFile]] = {}
        for path in self._layout.find_files(self._root, self.problems):
            stamp = self.stamp_file(path)
            candidate = path, stamp, _scan_file(self._parse_file, path, stamp)
            native_id = candidate[2].native_id
            self.problems += candidate[2].problems
            if not native_id:
                continue
            other = sessions.setdefault(native_id, candidate)
            if other is not candidate:
                newer, older = (
                    (candidate, other) if candidate[2].updated_at > other[2].updated_at else (other, candidate)
                )
                sessions[native_id] = newer
                reason = f"It is another copy of the session {native_id} and is left out."
                self.problems.append(Problem(str(older[0]), reason))
        for path, stamp, scanned in sessions.values():
            for name in scanned.branches:
                native_id = Branch(name).native_id(scanned.native_id)
                self.locations[native_id] = path, name
                yield SessionRef(native_id, stamp, scanned.updated_at)

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        problems: list[Problem] = []
        path, name = self.locations[ref.native_id]
        # A fork is in the file of its session, which already reports the problems.
        outline = self._parse_file(path, [] if name else problems)
        branch = outline.find_branch(name)
        if branch is None:
            return
        shared = branch.shared_nodes()
        copied, fields = self.find_origin(outline, branch)
        fields |= outline.session_fields(shared + branch.own_nodes)
        fields |= sqlite.time_fields(
            outline.started_at, max((outline.times[node] for node in branch.own_nodes), default="")
        )
        fields |= jsonl.cost_fields(sum(outline.costs.get(node, 0) for node in branch.own_nodes if node not in copied))
        yield build_header_batch(fields, outline.header_line, path)
        nodes_by_offset = {outline.offsets[node]: node for node in shared + branch.own_nodes}
        yield from sqlite.build_batches(_read_entries(outline, nodes_by_offset, {*shared, *copied}), problems)

    def stamp_file(self, path: Path) -> str:
        """Return a stamp that differs when anything in the session differs."""
        return jsonl.plain_file_stamp(path)

    def find_origin(self, outline: RecordTree, branch: Branch) -> tuple[list[int], SessionFields]:
        """Return which records of the branch are copies of records of its origin, and fields that name the origin."""
        return [], branch.fork_fields(outline.native_id)


def _read_entries(
    outline: RecordTree, nodes_by_offset: Mapping[int, int], inherited: set[int]
) -> Iterator[list[NewEntry]]:
    path, parse_entry = path_text(outline.path), outline.entry_parser()
    for line in jsonl.read_lines(outline.path, []):
        node = nodes_by_offset.get(line.offset)
        if node is not None:
            entry = parse_entry(line.value)
            entry.record = jsonl.record_from_line(line, path)
            entry.inherited, entry.created_at = node in inherited, outline.times[node]
            yield [entry]
