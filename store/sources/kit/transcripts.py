"""What readers of transcripts share: where an agent keeps them, and trees of records, of which the branch that is told
last is the session, every other one a fork of it."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import NamedTuple, Self, cast

from store.errors import BadValue
from store.model.entry import Json, NewEntry
from store.model.session import SessionFields
from store.sources.contract import Batch, Problem
from store.sources.kit import jsonl, sqlite
from store.sources.kit.jsonl import FileMark, JsonLine
from store.text.validate import decode, encode_derived, replace_surrogates


def build_header_batch(fields: SessionFields, head: JsonLine | None, path: Path) -> Batch:
    """A session's first batch."""
    record = jsonl.record_from_line(head, path_text(path)) if head else None
    return Batch(header=NewEntry(kind="header", record=record), fields=sanitize_fields(fields))


def sanitize_fields(fields: SessionFields) -> SessionFields:
    """What a foreign program says of a session may be no text that SQLite can hold."""
    told = {name: replace_surrogates(value) if isinstance(value, str) else value for name, value in fields.items()}
    return cast("SessionFields", told)


def path_text(path: Path) -> str:
    """A file's name need not be text either."""
    return replace_surrogates(str(path))


_MAX_MARK_BYTES = 256 * 1024
_MAX_FIRST_LINE_BYTES = 8 * 1024 * 1024


def read_first_value(path: Path) -> Json:
    """Of a file of JSON lines; None when it has none that is worth a look."""
    try:
        with jsonl.open_file(path) as file:
            return jsonl.parse_json(file.readline(_MAX_FIRST_LINE_BYTES))
    except (*jsonl.PATH_ERRORS, BadValue):
        return None


@dataclass(slots=True, kw_only=True)
class TranscriptMark:
    """Where a transcript ends, and what must be known to go on from there. It is kept as text until it grows."""

    file: FileMark
    is_agent: bool
    when: str
    "When its last record was written, or that before it which says so."
    newest: str
    told: dict[str, Json]
    "What who tells it remembers."

    def encode(self) -> str:
        """Empty when it is more than is worth keeping: it is read anew then."""
        mark = encode_derived({one.name: getattr(self, one.name) for one in fields(self)} | {"file": [*self.file]})
        # Every session has one, full of names that resemble each other: it takes a third of the room so.
        return b64encode(zlib.compress(mark)).decode() if len(mark) < _MAX_MARK_BYTES else ""

    @classmethod
    def decode(cls, mark: str) -> Self | None:
        try:
            kept = decode(zlib.decompress(b64decode(mark)))
            return cls(**{**kept, "file": FileMark(*kept["file"])})
        except (BadValue, ValueError, TypeError, KeyError, zlib.error):
            return None

    def attach_record(self, entry: NewEntry, line: JsonLine, path: Path) -> NewEntry:
        """With its record and its time."""
        entry.record = jsonl.record_from_line(line, path_text(path))
        self.when = jsonl.as_time(jsonl.as_dict(line.value).get("timestamp")) or self.when
        self.newest = max(self.newest, self.when)
        entry.created_at = self.when
        return entry

    def build_batches(self, entries: Sequence[NewEntry], met: list[Problem], fields: SessionFields) -> list[Batch]:
        """What came since, and the next mark with the last of them."""
        if self.newest:
            fields["updated_at"] = self.newest
        told = [*sqlite.build_batches(([entry] for entry in entries), met), Batch(mark=self.encode())]
        told[0].fields = fields
        return told


class Node(NamedTuple):
    id: str
    parent: str | None
    "None at a root. One that nobody has is taken for the node before: a lost record is no branch."
    is_message: bool
    "Whether it is part of a conversation; a branch without such a node is none."


@dataclass(slots=True)
class Branch:
    name: str = ""
    "The id of the first node that only it has; empty for the session itself."
    own_nodes: list[int] = field(default_factory=list)
    "The nodes that only it has, by their places among all nodes."
    parent: Branch | None = None
    "The branch it shares its past with."
    last_shared_node: int | None = None
    "The last node that it shares."

    def shared_nodes(self) -> list[int]:
        """What it shares, from the root on. Made when asked for, since every branch may have the same long one."""
        line: list[int] = []
        lineage = [self]
        while (before := lineage[-1].parent) is not None:
            lineage.append(before)
        for branch, after in zip(lineage[:0:-1], lineage[-2::-1], strict=True):
            line += branch.own_nodes
            line = line[: line.index(after.last_shared_node) + 1] if after.last_shared_node is not None else []
        return line

    def native_id(self, session: str) -> str:
        return f"{session}/{self.name}" if self.name else session

    def fork_fields(self, session: str) -> SessionFields:
        """What makes it a fork. Every node is one entry of the chain."""
        if self.parent is None:
            return {}
        return {
            "parent_id": self.parent.native_id(session),
            "relation": "fork",
            "forked_at": len(self.shared_nodes()) - 1,
        }


def find_branches(nodes: Sequence[Node], leaf: int | None = None) -> list[Branch]:
    """Parents come before their children. The branch of the leaf is the session; without one, that of the last node."""
    parents = _resolve_parents(nodes)
    owners: dict[int, Branch] = {}
    found: list[Branch] = []
    for end in _find_leaves(parents, leaf):
        own: list[int] = []
        at: int | None = end
        while at is not None and at not in owners:
            own.append(at)
            at = parents[at]
        if not own:
            continue
        branch = owners[at] if at is not None else found[0] if found else None
        if branch is None or any(nodes[place].is_message for place in own):
            branch = Branch(_branch_name(nodes, own[-1], found) if branch else "", parent=branch, last_shared_node=at)
            found.append(branch)
        branch.own_nodes += own
        owners.update(dict.fromkeys(own, branch))
    for branch in found:
        branch.own_nodes.sort()
    return found


def _branch_name(nodes: Sequence[Node], first: int, found: Sequence[Branch]) -> str:
    name = nodes[first].id
    return name if name and all(name != branch.name for branch in found) else f"{name}.{first}"


def _resolve_parents(nodes: Sequence[Node]) -> list[int | None]:
    parents: list[int | None] = []
    places: dict[str, int] = {}
    for place, node in enumerate(nodes):
        before = place - 1 if place else None
        # A second record of the same id goes on where the first ended.
        known = places.get(node.id) if node.id else None
        if known is None and node.parent is not None:
            known = places.get(node.parent, before)
        parents.append(known)
        if node.id:
            places[node.id] = place
    return parents


def _find_leaves(parents: Sequence[int | None], leaf: int | None) -> Iterable[int]:
    """The leaf first, then all others from the last on."""
    if leaf is not None:
        yield leaf
    inner = set(parents)
    yield from (place for place in range(len(parents) - 1, -1, -1) if place not in inner)
