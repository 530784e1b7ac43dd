"""Files whose records are a tree: one is read in outline first, and then told, each of its branches as a session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from store.model.entry import Json, NewEntry
from store.model.session import SessionFields
from store.sources.contract import Batch, Problem, Ref
from store.sources.kit import jsonl, sqlite
from store.sources.kit.jsonl import Line, mapping
from store.sources.kit.transcripts import Branch, Layout, Node, Transcripts, about, branches, place_of

Teller = Callable[[Json], NewEntry]


class Outline(ABC):
    """Who is whose parent, and what is said of the whole; the records themselves are read when they are told."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self.path = path
        self.head: Line | None = None
        "The record that only tells of the session; the header of its chain."
        self.nodes: list[Node] = []
        self.offsets: list[int] = []
        self.times: list[str] = []
        self.costs: dict[int, float] = {}
        "What was paid for it, where a record says so."
        self.begun = ""
        for line in jsonl.json_lines(path, problems):
            self._take(line, mapping(line.value))

    def _take(self, line: Line, value: Mapping[str, Json]) -> None:
        at = self.time(value)
        self.begun = self.begun or at
        if self.head is None and self.is_head(value):
            self.head = line
            return
        self.nodes.append(self.node(value))
        self.offsets.append(line.offset)
        self.times.append(at or (self.times[-1] if self.times else self.begun))

    def branches(self) -> list[Branch]:
        """The session itself first."""
        return branches(self.nodes) or [Branch()]

    def branch(self, name: str) -> Branch | None:
        return next((branch for branch in self.branches() if branch.name == name), None)

    @classmethod
    def stamp(cls, path: Path) -> str:
        """Differs when anything that it is made of differs."""
        return jsonl.file_digest_stamp(path)

    def is_head(self, value: Mapping[str, Json]) -> bool:
        return False

    @property
    @abstractmethod
    def native_id(self) -> str: ...

    @abstractmethod
    def node(self, value: Mapping[str, Json]) -> Node: ...

    @abstractmethod
    def time(self, value: Mapping[str, Json]) -> str: ...

    @abstractmethod
    def fields(self, line: Sequence[int]) -> SessionFields:
        """What is said of the session, or of the fork that has these records."""
        ...

    @abstractmethod
    def teller(self) -> Teller:
        """Makes an entry of each record of a branch, in order."""
        ...


class _Found(NamedTuple):
    native_id: str
    branches: tuple[str, ...]
    updated_at: str
    problems: tuple[Problem, ...]


@lru_cache(maxsize=8192)
def _peek(kind: type[Outline], path: Path, stamp: str) -> _Found:
    """Looked at once for as long as the file stays as it is."""
    problems: list[Problem] = []
    outline = kind(path, problems)
    if not outline.head and not any(node.spoken for node in outline.nodes):
        return _Found("", (), "", tuple(problems or [Problem(str(path), "Nobody speaks in it.")]))
    if not outline.native_id:
        return _Found("", (), "", (Problem(str(path), "The session has no id."),))
    names = tuple(branch.name for branch in outline.branches())
    return _Found(outline.native_id, names, max(outline.times, default=outline.begun), ())


class Trees(Transcripts):
    """Files of which each holds a session and its forks."""

    def __init__(self, root: Path, layout: Layout, kind: type[Outline]) -> None:
        super().__init__()
        self._root = root
        self._layout = layout
        self._kind = kind
        self.places: dict[str, tuple[Path, str]] = {}
        "By native id: the file, and the name of the branch."

    def scan(self) -> Iterator[Ref]:
        """Of two files of one session, the one that goes on further."""
        sessions: dict[str, tuple[Path, str, _Found]] = {}
        for path in self._layout.files(self._root, self.problems):
            stamp = self._kind.stamp(path)
            here = path, stamp, _peek(self._kind, path, stamp)
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
                self.places[native] = path, name
                yield Ref(native, stamp, found.updated_at)

    def read(self, ref: Ref) -> Iterator[Batch]:
        met: list[Problem] = []
        path, name = self.places[ref.native_id]
        # A fork's file is its session's, which tells of its problems.
        outline = self._kind(path, [] if name else met)
        branch = outline.branch(name)
        if branch is None:
            return
        past = branch.past()
        copied, fields = self.origin(outline, branch)
        fields |= outline.fields(past + branch.own)
        fields |= sqlite.lifetime(outline.begun, max((outline.times[place] for place in branch.own), default=""))
        fields |= jsonl.cost(sum(outline.costs.get(place, 0) for place in branch.own if place not in copied))
        yield about(fields, outline.head, path)
        places = {outline.offsets[place]: place for place in past + branch.own}
        yield from sqlite.batches(_entries(outline, places, {*past, *copied}), met)

    def origin(self, outline: Outline, branch: Branch) -> tuple[list[int], SessionFields]:
        """What it was made from, and which of its own records are copies of that one's."""
        return [], branch.fields(outline.native_id)


def _entries(outline: Outline, places: Mapping[int, int], inherited: set[int]) -> Iterator[list[NewEntry]]:
    where, tell = place_of(outline.path), outline.teller()
    for line in jsonl.json_lines(outline.path, []):
        place = places.get(line.offset)
        if place is not None:
            entry = tell(line.value)
            entry.record = jsonl.record(line, where)
            entry.inherited, entry.created_at = place in inherited, outline.times[place]
            yield [entry]
