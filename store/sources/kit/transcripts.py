"""This module holds what readers of transcripts share: marks, and branches of trees of records.

The branch that was continued last is the session. Every other branch is a fork of it.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

from store.errors import BadValue
from store.model.entry import Json, NewEntry
from store.model.session import SessionFields
from store.sources.contract import Batch, Problem
from store.sources.kit import jsonl, sqlite
from store.sources.kit.jsonl import FileMark, JsonLine
from store.text.validate import decode, encode_derived, replace_surrogates


def build_header_batch(fields: SessionFields, header_line: JsonLine | None, path: Path) -> Batch:
    """Return the first batch of a session."""
    record = jsonl.record_from_line(header_line, path_text(path)) if header_line else None
    return Batch(header=NewEntry(kind="header", record=record), fields=sanitize_fields(fields))


def sanitize_fields(fields: SessionFields) -> SessionFields:
    """Replace text that SQLite cannot store."""
    sanitized = {name: replace_surrogates(value) if isinstance(value, str) else value for name, value in fields.items()}
    return cast("SessionFields", sanitized)


def path_text(path: Path) -> str:
    """Return a path as text that SQLite can store; a file name need not be valid text."""
    return replace_surrogates(str(path))


_STORED_NAMES = {"parser_state": "told"}
"""Fields that are stored under another name: marks that are in a store must stay readable."""

MAX_SHARED_NODES = 500_000
"""Limits the entries that the forks of a file have in common with their parents."""

_MAX_MARK_BYTES = 256 * 1024
_MAX_FIRST_LINE_BYTES = 8 * 1024 * 1024


def read_first_value(path: Path) -> Json:
    """Return the first value of a file of JSON lines; None when it cannot be read or is too long."""
    try:
        with jsonl.open_file(path) as file:
            line = file.readline(_MAX_FIRST_LINE_BYTES).removeprefix(jsonl.BYTE_ORDER_MARK)
        return jsonl.parse_json(line)
    except jsonl.PATH_ERRORS:
        return None
    except BadValue:
        records, _ = jsonl.split_records(line)
        return records[0].value if records else None


def encode_mark(values: Mapping[str, Json]) -> str:
    """Return a mark as text; empty when it is too large to store."""
    mark = encode_derived(dict(values))
    # Every session has a mark, and its names repeat: compression saves two thirds.
    return b64encode(zlib.compress(mark)).decode() if len(mark) < _MAX_MARK_BYTES else ""


def decode_mark(mark: str) -> dict[str, Any]:
    """Return the values of a mark. Raises ValueError when it is none."""
    try:
        values = decode(zlib.decompress(b64decode(mark)))
    except (BadValue, zlib.error) as reason:
        raise ValueError(str(reason)) from None
    if not isinstance(values, dict):
        raise ValueError("The mark is not an object.")
    return values


@dataclass(slots=True, kw_only=True)
class TranscriptMark:
    """Says where a transcript ended and what is needed to continue reading there. It is stored as text."""

    file: FileMark
    is_agent: bool
    when: str
    "Is the time of the last record that has one."
    newest: str
    parser_state: dict[str, Json]
    "Is the state of the parser that makes entries."

    def encode(self) -> str:
        """Return the mark as text; empty when the file must be read from its beginning.

        That is so when the mark is too large to store, or when no record has a time yet: the first one that has it says
        when the session was created.
        """
        if not self.when:
            return ""
        values = {_STORED_NAMES.get(field_.name, field_.name): getattr(self, field_.name) for field_ in fields(self)}
        return encode_mark(values | {"file": [*self.file]})

    @classmethod
    def decode(cls, mark: str) -> Self | None:
        try:
            values = decode_mark(mark)
            for name, stored_name in _STORED_NAMES.items():
                values[name] = values.pop(stored_name)
            return cls(**{**values, "file": FileMark(*values["file"])})
        except (ValueError, TypeError, KeyError):
            return None

    def attach_record(self, entry: NewEntry, line: JsonLine, path: Path) -> NewEntry:
        """Give an entry its record and its time."""
        entry.record = jsonl.record_from_line(line, path_text(path))
        self.when = jsonl.as_time(jsonl.as_dict(line.value).get("timestamp")) or self.when
        self.newest = max(self.newest, self.when)
        entry.created_at = self.when
        return entry

    def build_batches(self, entries: Sequence[NewEntry], problems: list[Problem], fields: SessionFields) -> list[Batch]:
        """Return batches of the appended entries; the last batch has the next mark."""
        if self.newest:
            fields["updated_at"] = self.newest
        batches = [*sqlite.build_batches(([entry] for entry in entries), problems), Batch(mark=self.encode())]
        batches[0].fields = fields
        return batches


def split_native_id(native_id: str, sessions: Container[str]) -> tuple[str, str]:
    """Return the session of a branch, and the name of the branch. Both are empty when the session is not known."""
    session = native_id
    while session and session not in sessions:
        session = session.rpartition("/")[0]
    return session, native_id[len(session) + 1 :] if session else ""


class Node(NamedTuple):
    """Is a record in the tree of a transcript."""

    id: str
    parent: str | None
    "Is None at a root. An unknown parent means the node before: a lost record does not start a branch."
    is_message: bool
    "Says whether it is part of a conversation; nodes without any message do not form a branch."


@dataclass(slots=True)
class Branch:
    """Is a line of nodes that leaves another line, or the session itself."""

    name: str = ""
    "The id of the first node that only it has; empty for the session itself."
    own_nodes: list[int] = field(default_factory=list)
    "Lists the nodes that only it has, as indexes of all nodes."
    parent: Branch | None = None
    "The branch that it leaves."
    last_shared_node: int | None = None
    "The last node that it shares with its parent."

    def shared_nodes(self) -> list[int]:
        """Return the nodes that it shares with its parent, from the root on.

        The list is built on request, because many branches may share the same long past.
        """
        nodes: list[int] = []
        lineage = [self]
        while (parent := lineage[-1].parent) is not None:
            lineage.append(parent)
        for branch, child in zip(lineage[:0:-1], lineage[-2::-1], strict=True):
            nodes += branch.own_nodes
            nodes = nodes[: nodes.index(child.last_shared_node) + 1] if child.last_shared_node is not None else []
        return nodes

    def native_id(self, session: str) -> str:
        return f"{session}/{self.name}" if self.name else session

    def fork_fields(self, session: str) -> SessionFields:
        """Return the fields that make it a fork. Every node is one entry of the chain."""
        if self.parent is None:
            return {}
        return {
            "parent_id": self.parent.native_id(session),
            "relation": "fork",
            "forked_at": len(self.shared_nodes()) - 1,
        }


def find_branches(nodes: Sequence[Node], leaf: int | None = None) -> list[Branch]:
    """Split a tree into branches. Parents must come before their children.

    The branch of the leaf is the session; without a leaf, that of the last node.
    """
    parents = _resolve_parents(nodes)
    owners: dict[int, Branch] = {}
    branches: list[Branch] = []
    names: set[str] = set()
    for leaf_node in _find_leaves(parents, leaf):
        own: list[int] = []
        node: int | None = leaf_node
        while node is not None and node not in owners:
            own.append(node)
            node = parents[node]
        if not own:
            continue
        branch = owners[node] if node is not None else branches[0] if branches else None
        if branch is None or any(nodes[index].is_message for index in own):
            branch = Branch(_branch_name(nodes, own[-1], names) if branch else "", parent=branch, last_shared_node=node)
            names.add(branch.name)
            branches.append(branch)
        branch.own_nodes += own
        owners.update(dict.fromkeys(own, branch))
    for branch in branches:
        branch.own_nodes.sort()
    _limit_shared_nodes(branches, parents)
    return branches


def _limit_shared_nodes(branches: Iterable[Branch], parents: Sequence[int | None]) -> None:
    """Let further branches share nothing with their parents once all of them share enough.

    A fork has copies of what it shares: a file of a few megabytes that branches at every record would fill the disk.
    """
    depths: list[int] = []
    for parent in parents:
        depths.append(1 + (depths[parent] if parent is not None else 0))
    shared = 0
    for branch in branches:
        if branch.last_shared_node is not None:
            shared += depths[branch.last_shared_node]
            if shared > MAX_SHARED_NODES:
                branch.last_shared_node = None


def _branch_name(nodes: Sequence[Node], first: int, names: Container[str]) -> str:
    name = nodes[first].id
    return name if name and name not in names else f"{name}.{first}"


def _resolve_parents(nodes: Sequence[Node]) -> list[int | None]:
    parents: list[int | None] = []
    indexes: dict[str, int] = {}
    for index, node in enumerate(nodes):
        previous = index - 1 if index else None
        # A second record with the same id follows the first.
        parent = indexes.get(node.id) if node.id else None
        if parent is None and node.parent is not None:
            parent = indexes.get(node.parent, previous)
        parents.append(parent)
        if node.id:
            indexes[node.id] = index
    return parents


def _find_leaves(parents: Sequence[int | None], leaf: int | None) -> Iterable[int]:
    """Yield the given leaf, then all others, the last one first."""
    if leaf is not None:
        yield leaf
    inner = set(parents)
    yield from (index for index in range(len(parents) - 1, -1, -1) if index not in inner)
