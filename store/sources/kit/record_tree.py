"""This module reads files whose records form a tree. It outlines a file first, then reads each branch as a session.

When a file has grown, and what was appended continues the session, only the appended lines are read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from store.model.entry import Json, NewEntry
from store.model.session import SessionFields
from store.sources.contract import Batch, Problem, SessionRef, SourceReader
from store.sources.kit import jsonl, sqlite
from store.sources.kit.continuation import CarriedState, Continuation
from store.sources.kit.jsonl import FileMark, JsonLine, LineCache, as_dict
from store.sources.kit.layout import Layout
from store.sources.kit.transcripts import (
    Branch,
    Node,
    build_header_batch,
    find_branches,
    path_text,
    split_native_id,
)

MAX_TAIL_NODES = 500
"""Limits the records after the last message that a mark remembers."""


ReadLines = Callable[[Path, list[Problem]], Iterable[JsonLine]]
"""Yields the lines of a file and adds its problems to the list."""


class EntryParser(CarriedState, ABC):
    """Turns the records of a branch into entries, in order."""

    @abstractmethod
    def read_entry(self, value: Json) -> NewEntry: ...


class RecordTree(CarriedState, ABC):
    """Outlines a file: the parent of each record, and what the records say about the session. The records are turned
    into entries later."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.stamp = ""
        "Is the stamp of the file before it was read."
        self.end = 0
        "Is where the last line ends."
        self.header_line: JsonLine | None = None
        "Is the record that only describes the session; it becomes the header of the chain."
        self.nodes: list[Node] = []
        self.offsets: list[int] = []
        self.times: list[str] = []
        self.costs: dict[int, float] = {}
        "Maps nodes to what was paid for them, where a record says so."
        self.fields: SessionFields = {}
        "Is what the records say about all sessions in the file."
        self.node_fields: dict[int, SessionFields] = {}
        "Maps nodes to what they say about the sessions that they belong to. The last one counts."
        self.changes_past = False
        "Is set by a record that changes what the records before it mean, so that they must be read again."
        self.started_at = ""

    def read_file(self, read_lines: ReadLines = jsonl.read_lines) -> Self:
        self.stamp = jsonl.plain_file_stamp(self.path)
        for line in read_lines(self.path, self.problems):
            self.add_line(line)
        self.times = [time or self.started_at for time in self.times]
        return self

    def read_beginning(self) -> Self:
        """Read until the session is identified, which is usually after the first line."""
        for line in jsonl.read_lines(self.path, self.problems):
            self.add_line(line)
            if self.is_identified:
                break
        return self

    def add_line(self, line: JsonLine) -> None:
        value = as_dict(line.value)
        time = self.parse_time(value)
        self.started_at = self.started_at or time
        self.end = line.offset + len(line.data)
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
    def is_identified(self) -> bool:
        """Is true when the lines read so far show that the file is a session, and what its id is."""
        return self.header_line is not None

    @property
    @abstractmethod
    def native_id(self) -> str: ...

    @abstractmethod
    def parse_node(self, value: Mapping[str, Json]) -> Node: ...

    @abstractmethod
    def parse_time(self, value: Mapping[str, Json]) -> str: ...

    def session_fields(self, nodes: Sequence[int]) -> SessionFields:
        """Describe the session, or the fork, that has these records."""
        fields = self.fields.copy()
        for node in nodes:
            fields |= self.node_fields.get(node, {})
        return fields

    @abstractmethod
    def entry_parser(self) -> EntryParser:
        """Return what turns the records of a branch into entries."""


MakeTree = Callable[[Path], RecordTree]
"""Makes the outline of a file that is not read yet."""


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


class _Identity(NamedTuple):
    """Says which session a file holds; the id is empty when it holds none."""

    native_id: str
    problems: tuple[Problem, ...]


@lru_cache(maxsize=8192)
def _identify_session(make_tree: MakeTree, path: Path, stamp: str) -> _Identity:
    """Return the session of a file. The result is cached until the stamp changes."""
    outline = make_tree(path).read_beginning()
    if not outline.header_line and not any(node.is_message for node in outline.nodes):
        return _Identity("", tuple(outline.problems or [Problem(str(path), "It has no messages.")]))
    if not outline.native_id:
        return _Identity("", (Problem(str(path), "The session has no id."),))
    return _Identity(outline.native_id, ())


@lru_cache(maxsize=256)
def _find_end(make_tree: MakeTree, path: Path, stamp: str) -> str:
    """Return the time of the last record of a file. It is cached until the stamp changes."""
    outline = make_tree(path).read_file()
    return max(outline.times, default=outline.started_at)


class RecordTreeReader(SourceReader):
    """Reads files that each hold a session and its forks."""

    def __init__(self, root: Path, layout: Layout, make_tree: MakeTree) -> None:
        super().__init__()
        self._root = root
        self._layout = layout
        self._make_tree = make_tree
        self._lines = LineCache(_keep_line)
        "Keeps the lines of the file that was read last, because they are read twice: for its outline, and as entries."
        self._outline: RecordTree | None = None
        "Is the outline of the file that was read last, since all of its branches are read one after the other."

    @cached_property
    def paths(self) -> dict[str, Path]:
        """Maps the native ids of sessions to their files. A scan finds them again; a reader that helps another one to
        read does not scan."""
        return self._find_sessions()

    def scan(self) -> Iterator[SessionRef]:
        for ref in self.scan_files():
            yield ref
            yield from self.scan_branches(ref)

    def scan_files(self) -> Iterator[SessionRef]:
        """Yield one session for each file. If two files hold the same session, the one with the later end is used."""
        self.paths = self._find_sessions()
        for native_id, path in self.paths.items():
            yield SessionRef(native_id, self.stamp_file(path), jsonl.modified_at(path))

    def _find_sessions(self) -> dict[str, Path]:
        sessions: dict[str, Path] = {}
        for path in self._layout.find_files(self._root, self.problems):
            identity = _identify_session(self._make_tree, path, self.stamp_file(path))
            self.problems += identity.problems
            if not identity.native_id:
                continue
            other = sessions.setdefault(identity.native_id, path)
            if other != path:
                newer, older = (path, other) if self._find_end(path) > self._find_end(other) else (other, path)
                sessions[identity.native_id] = newer
                reason = f"It is another copy of the session {identity.native_id} and is left out."
                self.problems.append(Problem(str(older), reason))
        return sessions

    def _find_end(self, path: Path) -> str:
        return _find_end(self._make_tree, path, self.stamp_file(path))

    def scan_branches(self, ref: SessionRef) -> Iterator[SessionRef]:
        names = [branch.name for branch in self._load_outline(self.paths[ref.native_id]).branches() if branch.name]
        return (SessionRef(f"{ref.native_id}/{name}", ref.stamp, ref.updated_at) for name in names)

    def _load_outline(self, path: Path) -> RecordTree:
        if self._outline is None or (self._outline.path, self._outline.stamp) != (path, jsonl.plain_file_stamp(path)):
            self._outline = self._make_tree(path).read_file(self._lines.read)
        return self._outline

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        session, name = split_native_id(ref.native_id, self.paths)
        if not session:
            return
        path = self.paths[session]
        outline = self._load_outline(path)
        branch = outline.find_branch(name)
        if branch is None:
            return
        shared = branch.shared_nodes()
        copied, fields = self.find_origin(outline, branch)
        fields |= outline.session_fields(shared + branch.own_nodes)
        updated_at = max((outline.times[node] for node in branch.own_nodes), default="")
        fields |= sqlite.time_fields(outline.started_at, updated_at)
        cost = sum(outline.costs.get(node, 0) for node in branch.own_nodes if node not in copied)
        yield build_header_batch(fields | jsonl.cost_fields(cost), outline.header_line, path)
        nodes_by_offset = {outline.offsets[node]: node for node in shared + branch.own_nodes}
        parser = outline.entry_parser()
        # A fork is in the file of its session, which already reports the problems.
        problems = [] if name else outline.problems.copy()
        lines = self._lines.read(path, [])
        entries = _read_entries(outline, parser, lines, nodes_by_offset, {*shared, *copied})
        yield from sqlite.build_batches(entries, problems)
        if not name and len(copied) < len(branch.own_nodes):
            yield Batch(mark=_SessionEnd(outline, parser).mark_end(branch, cost))

    def read_appended(self, ref: SessionRef, mark: str) -> list[Batch] | None:
        outline = self._make_tree(self.paths[ref.native_id])
        return _SessionEnd(outline, outline.entry_parser()).read_appended(outline.path, mark)

    def stamp_file(self, path: Path) -> str:
        """Return a stamp that differs when anything in the session differs."""
        return jsonl.plain_file_stamp(path)

    def find_origin(self, outline: RecordTree, branch: Branch) -> tuple[list[int], SessionFields]:
        """Return which records of the branch are copies of records of its origin, and fields that name the origin."""
        return [], branch.fork_fields(outline.native_id)


def _keep_line(line: JsonLine) -> JsonLine:
    return line


def _read_entries(
    outline: RecordTree,
    parser: EntryParser,
    lines: Iterable[JsonLine],
    nodes_by_offset: Mapping[int, int],
    inherited: set[int],
) -> Iterator[list[NewEntry]]:
    for line in lines:
        node = nodes_by_offset.get(line.offset)
        if node is not None:
            entry = _read_entry(outline, parser, line, node)
            entry.inherited = node in inherited
            yield [entry]


def _read_entry(outline: RecordTree, parser: EntryParser, line: JsonLine, node: int) -> NewEntry:
    entry = parser.read_entry(line.value)
    entry.record = jsonl.record_from_line(line, path_text(outline.path))
    entry.created_at = outline.times[node]
    return entry


# ── files that have grown ─────────────────────────────────────────────────────────────────────────


class _SessionEnd(Continuation):
    """Continues a session at the end of its file.

    The outline of the appended lines begins with the last nodes of the session, which the new ones must follow.
    """

    carried = ("tail", "file_fields", "said", "cost", "last_time", "updated_at", "has_header")

    def __init__(self, outline: RecordTree, parser: EntryParser) -> None:
        self._outline = outline
        self._parser = parser
        self.tail: list[Node] = []
        self.file_fields: SessionFields = {}
        self.said: SessionFields = {}
        "Is what the records of the session say about it."
        self.cost = 0.0
        self.last_time = ""
        self.updated_at = ""
        self.has_header = False
        self._new_fields: SessionFields = {}

    def mark_end(self, branch: Branch, cost: float) -> str:
        """Return a mark for the end of the session, all of which was read."""
        outline = self._outline
        self.tail = _find_tail(outline.nodes, branch.own_nodes)
        self._update(branch.own_nodes, cost)
        return self.build_mark(FileMark.from_file(outline.path, outline.end, outline.stamp))

    def _update(self, nodes: Sequence[int], cost: float) -> None:
        outline = self._outline
        self.file_fields, self.cost = outline.fields.copy(), cost
        for node in nodes:
            self.said |= outline.node_fields.get(node, {})
        # It may be long, and is in the store already.
        self.said.pop("system_prompt", None)
        self.last_time = outline.times[-1] if outline.times else outline.started_at
        self.updated_at = max(self.updated_at, *(outline.times[node] for node in nodes), "")
        self.has_header = outline.header_line is not None

    @property
    def can_continue(self) -> bool:
        # The first record that has a time says when the session was created.
        return 0 < len(self.tail) <= MAX_TAIL_NODES and bool(self.last_time)

    def save_state(self) -> dict[str, Json]:
        return super().save_state() | {"outline": self._outline.save_state(), "parser": self._parser.save_state()}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        super().restore_state(state)
        outline = self._outline
        outline.restore_state(state["outline"])
        # The parser may depend on what the outline knows.
        self._parser = outline.entry_parser()
        self._parser.restore_state(state["parser"])
        outline.fields, outline.node_fields = self.file_fields.copy(), {0: self.said}
        outline.header_line = JsonLine(0, b"", None) if self.has_header else None
        outline.nodes = [Node(*node) for node in self.tail]
        outline.offsets = [-1] * len(self.tail)
        outline.times = [self.last_time] * len(self.tail)
        outline.started_at = self.last_time

    def read_appended_lines(self, lines: Sequence[JsonLine]) -> list[NewEntry] | None:
        outline, start = self._outline, len(self._outline.nodes)
        for line in lines:
            outline.add_line(line)
        if len(outline.nodes) != start + len(lines) or outline.changes_past or not _follow(outline.nodes, start):
            return None
        # The other sessions in the file are not read, so that nothing that concerns them may have changed.
        if outline.fields != self.file_fields or len(outline.branches()) > 1:
            return None
        new_nodes = range(start, len(outline.nodes))
        self.tail = _find_tail(outline.nodes, range(len(outline.nodes)))
        self._new_fields = outline.session_fields(range(len(outline.nodes)))
        self._update(new_nodes, self.cost + sum(outline.costs.get(node, 0) for node in new_nodes))
        return [_read_entry(outline, self._parser, line, node) for line, node in zip(lines, new_nodes, strict=True)]

    def appended_fields(self) -> SessionFields:
        return self._new_fields | jsonl.cost_fields(self.cost) | {"updated_at": self.updated_at}


def _find_tail(nodes: Sequence[Node], own_nodes: Sequence[int]) -> list[Node]:
    """Return the last message of a session and the nodes that follow it, which its next node may follow.

    It is empty when there is no message yet, or when the last node follows an older one.
    """
    tail: list[Node] = []
    ids: set[str | None] = {""}
    is_last_in_tail = False
    for node in (nodes[index] for index in own_nodes):
        if node.is_message:
            tail, ids = [node._replace(parent=None)], {"", node.id}
        elif is_last_in_tail := bool(tail) and node.parent in ids:
            tail.append(node)
            ids.add(node.id)
        is_last_in_tail |= node.is_message
    return tail if is_last_in_tail else []


def _follow(nodes: Sequence[Node], start: int) -> bool:
    """Return whether all nodes from this one on follow nodes that are known here."""
    ids = {node.id for node in nodes[:start]}
    for node in nodes[start:]:
        if node.parent is None or (node.parent and node.parent not in ids):
            return False
        ids.add(node.id)
    return True
