"""What readers of exports share: an archive or a file that is one huge array of conversations, taken one by one."""

from __future__ import annotations

import os
import re
import tempfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

from store.errors import BadValue, Unreadable
from store.model.entry import Json, NewEntry, NewRecord
from store.model.session import SessionFields
from store.sources.contract import Batch, ForeignSummary, Problem, Ref
from store.sources.kit import jsonl, sqlite
from store.sources.kit.jsonl import mapping
from store.sources.kit.transcripts import Branch, Node, Transcripts, branches, holdable
from store.text.validate import column_text, encode_derived

LONGEST_ITEM = 64 * 1024 * 1024
LONGEST_EXPORT = 4 * 1024 * 1024 * 1024
"""Of what an archive holds: a few kilobytes can stand for any amount."""

_CHUNK = 1024 * 1024
_LOOKED_AT = 5
_LOOKED_INTO = 4 * LONGEST_ITEM
_BLANK = b"\xef\xbb\xbf \t\r\n"
_NAME = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json")
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BETWEEN = rb'(?:[^"\[\]{}]++|' + _STRING + rb")*+"
# Up to the next bracket, whole strings stepped over; and as far as one can step where none comes.
_NEXT = re.compile(_BETWEEN + rb"[\[\]{}]", re.DOTALL)
_REST = re.compile(_BETWEEN, re.DOTALL)
_OPENING = frozenset(b"[{")
_BRACE = ord("{")

BROKEN = (OSError, ValueError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""What a damaged, locked or strange archive raises."""


Part = tuple[str, IO[bytes]]
"""A file of an export: its name and its content."""


class Item(NamedTuple):
    offset: int
    data: bytes


class Place(NamedTuple):
    "Where a conversation stands; what it holds is read again when it is told."

    part: int
    offset: int
    length: int


def items_of(file: IO[bytes], name: str, problems: list[Problem], most: int = LONGEST_EXPORT) -> Iterator[Item]:
    """The objects of one array, however many; one that is too large, or cut off, is a problem."""
    splitting = _Splitting(name, problems)
    size = _CHUNK
    while splitting.scanned < most and (chunk := file.read(size)):
        before = splitting.scanned
        if not before and not chunk.lstrip(_BLANK).startswith(b"["):
            problems.append(Problem(name, "It is not a list of conversations."))
            return
        yield from splitting.take(chunk)
        # A long string is looked at again with every chunk, so they become longer with it.
        size = _CHUNK if splitting.scanned > before else min(size * 2, LONGEST_ITEM)
    splitting.end()


class _Splitting:
    def __init__(self, name: str, problems: list[Problem]) -> None:
        self._name = name
        self._problems = problems
        self._buffer = b""
        self._base = 0
        self._at = 0
        self._depth = 0
        self._start: int | None = None
        self._too_large = False

    @property
    def scanned(self) -> int:
        return self._base + self._at

    def take(self, chunk: bytes) -> Iterator[Item]:
        self._buffer += chunk
        while (found := _NEXT.match(self._buffer, self._at)) is not None:
            self._at = found.end()
            bracket = self._buffer[self._at - 1]
            if bracket in _OPENING:
                if self._depth == 1 and bracket == _BRACE:
                    self._start = self._at - 1
                self._depth += 1
            else:
                self._depth = max(self._depth - 1, 0)
                if self._depth == 1 and self._start is not None:
                    yield from self._close()
        if (rest := _REST.match(self._buffer, self._at)) is not None:
            self._at = rest.end()
        self._forget()

    def _close(self) -> Iterator[Item]:
        start, self._start = self._start or 0, None
        if self._too_large:
            self._too_large = False
        else:
            yield Item(self._base + start, self._buffer[start : self._at])

    def _forget(self) -> None:
        """What was scanned and belongs to no item that is still to come."""
        if self._start is not None and len(self._buffer) - self._start > LONGEST_ITEM and not self._too_large:
            too_large = f"The conversation is larger than {LONGEST_ITEM >> 20} MB and is left out."
            self._problems.append(Problem(f"{self._name}:{self._base + self._start}", too_large))
            self._too_large = True
        keep = self._at if self._start is None or self._too_large else self._start
        self._buffer = self._buffer[keep:]
        self._base += keep
        self._at -= keep
        if self._start is not None:
            self._start = 0
        if self._too_large and len(self._buffer) > LONGEST_ITEM:
            self._shorten()

    def _shorten(self) -> None:
        """One string that is far too long, whose end is still to come: its beginning and what may escape its end."""
        kept = b'"\\' if (len(self._buffer) - len(self._buffer.rstrip(b"\\"))) % 2 else b'"'
        self._base += len(self._buffer) - len(kept)
        self._buffer = kept

    def end(self) -> None:
        if self._depth > 0:
            self._problems.append(Problem(f"{self._name}:{self.scanned}", "The file ends in the middle."))


# ── archives, folders and files ───────────────────────────────────────────────────────────────────


def _parts(path: Path) -> list[Path]:
    """The files of an export that was unpacked, or the one that was named."""
    if os.path.isdir(path):
        try:
            return sorted(found for found in path.iterdir() if _NAME.fullmatch(found.name) and os.path.isfile(found))
        except OSError:
            return []
    return [path] if os.path.isfile(path) else []


def stamp(locator: str) -> str:
    found = _parts(Path(locator))
    return sqlite.digest(*((str(path), jsonl.file_digest_stamp(path)) for path in found)) if found else ""


@contextmanager
def _streams(path: Path) -> Iterator[list[Part]]:
    """Each part's name and content; an archive's are unpacked as they are read."""
    with ExitStack() as held:
        if os.path.isfile(path) and zipfile.is_zipfile(path):
            archive = held.enter_context(zipfile.ZipFile(path))
            names = sorted(name for name in archive.namelist() if _NAME.fullmatch(name))
            yield [(name, held.enter_context(archive.open(name))) for name in names]
        else:
            yield [(str(part), held.enter_context(jsonl.opened(part))) for part in _parts(path)]


def detect(locator: str, is_ours: Callable[[Mapping[str, Json]], bool]) -> bool:
    """By one of its first conversations."""
    try:
        with _streams(Path(locator)) as streams:
            for name, stream in streams:
                items = islice(items_of(stream, name, [], _LOOKED_INTO), _LOOKED_AT)
                if any(is_ours(_value(item, name, [])) for item in items):
                    return True
    except BROKEN:
        return False
    return False


def _value(item: Item, name: str, problems: list[Problem]) -> Mapping[str, Json]:
    try:
        return mapping(jsonl.parsed(item.data))
    except BadValue as reason:
        problems.append(Problem(f"{name}:{item.offset}", str(reason)))
        return {}


@contextmanager
def opened(locator: str) -> Iterator[list[Part]]:
    """Each part's name and a file that can be read at any place."""
    with ExitStack() as held:
        try:
            streams = held.enter_context(_streams(Path(locator)))
            parts = [(name, held.enter_context(_unpacked(stream))) for name, stream in streams]
        except BROKEN as reason:
            raise Unreadable(f"{locator} cannot be read: {sqlite.in_a_line(reason)}.") from None
        if not parts:
            raise Unreadable(f"{locator} holds no conversations.json.")
        yield parts


@contextmanager
def _unpacked(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    """Gone when it is closed, even if we are killed. What comes after damage is missing, and will be told so."""
    if not isinstance(stream, zipfile.ZipExtFile):
        yield stream
        return
    with tempfile.TemporaryFile(prefix="backscroll-") as file:
        with suppress(*BROKEN):
            for chunk in islice(iter(lambda: stream.read(_CHUNK), b""), LONGEST_EXPORT // _CHUNK):
                file.write(chunk)
        file.seek(0)
        yield file


# ── conversations ─────────────────────────────────────────────────────────────────────────────────


class Told(NamedTuple):
    "A message on its way to an entry."

    node: Node
    record: Json
    "What of it does not change when the conversation goes on."
    value: Mapping[str, Json]


@dataclass(slots=True)
class Conversation:
    native_id: str
    head: Mapping[str, Json]
    fields: SessionFields
    messages: list[Told] = field(default_factory=list)
    "Parents before their children."
    leaf: int | None = None
    summary: str = ""
    archived: bool = False

    def branches(self) -> list[Branch]:
        return branches([told.node for told in self.messages], self.leaf)


def parents_first(messages: Sequence[Told]) -> list[Told]:
    """Level by level, so that what is added later moves nothing; a circle is cut open."""
    places = {told.node.id: place for place, told in enumerate(messages)}
    below: dict[int | None, list[int]] = {}
    for place, told in enumerate(messages):
        parent = places.get(told.node.parent) if told.node.parent is not None else None
        below.setdefault(parent if parent != place else None, []).append(place)
    order: dict[int, None] = {}
    level = below.get(None, [])
    rest = iter(range(len(messages)))
    while len(order) < len(messages):
        level = level or [next(place for place in rest if place not in order)]
        order.update(dict.fromkeys(level))
        level = [place for above in level for place in below.get(above, ()) if place not in order]
    return [messages[place] for place in order]


class Export(Transcripts, ABC):
    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__()
        self._parts = parts
        self._places: dict[str, Place] = {}
        self._branches: dict[str, tuple[str, str]] = {}

    @abstractmethod
    def understand(self, value: Mapping[str, Json]) -> Conversation | None: ...

    @abstractmethod
    def entries(self, conversation: Conversation) -> list[NewEntry]:
        """One for each message."""
        ...

    def scan(self) -> Iterator[Ref]:
        for number, (name, stream) in enumerate(self._parts):
            try:
                for item in items_of(stream, name, self.problems):
                    yield from self._refs(number, item)
            except BROKEN as reason:
                self.problems.append(Problem(name, f"It cannot be read: {sqlite.in_a_line(reason)}."))

    def _refs(self, number: int, item: Item) -> Iterator[Ref]:
        name = self._parts[number][0]
        value = _value(item, name, self.problems)
        conversation = self.understand(value)
        if conversation is None:
            if value:
                self.problems.append(Problem(f"{name}:{item.offset}", "It is not a conversation."))
            return
        native = conversation.native_id
        if not any(told.node.spoken for told in conversation.messages):
            return
        if native in self._places:
            self.problems.append(Problem(f"{name}:{item.offset}", f"The conversation {native} comes twice."))
            return
        self._places[native] = Place(number, item.offset, len(item.data))
        stamp = sqlite.digest(item.data)
        for branch in conversation.branches():
            self._branches[branch.native_id(native)] = native, branch.name
            yield Ref(branch.native_id(native), stamp, conversation.fields.get("updated_at", ""))

    def read(self, ref: Ref) -> Iterator[Batch]:
        met: list[Problem] = []
        native, name = self._branches[ref.native_id]
        place = self._places[native]
        where, stream = self._parts[place.part]
        stream.seek(place.offset)
        conversation = self.understand(_value(Item(place.offset, stream.read(place.length)), where, met))
        if conversation is None or conversation.native_id != native:
            raise Unreadable("The file was changed while it was read; it will be read later.")
        branch = next((branch for branch in conversation.branches() if branch.name == name), None)
        if branch is not None:
            told = list(self._told(conversation, branch, column_text(where)))
            yield self._about(conversation, branch, column_text(where), place.offset, told[-1].created_at)
            yield from sqlite.batches(([entry] for entry in told), met)

    def _about(self, conversation: Conversation, branch: Branch, where: str, offset: int, ended: str) -> Batch:
        fields: SessionFields = {**conversation.fields, **branch.fields(conversation.native_id)}
        if branch.name and ended:
            fields["updated_at"] = ended
        return Batch(
            header=NewEntry(kind="header", record=NewRecord(encode_derived(conversation.head), where, str(offset))),
            fields=holdable(fields),
            summary=ForeignSummary(conversation.summary) if conversation.summary and not branch.name else None,
            archived=conversation.archived,
        )

    def _told(self, conversation: Conversation, branch: Branch, where: str) -> Iterator[NewEntry]:
        past = branch.past()
        entries = self.entries(conversation)
        for n, place in enumerate(past + branch.own):
            message, entry = conversation.messages[place], entries[place]
            entry.record = NewRecord(encode_derived(message.record), where, column_text(message.node.id))
            entry.inherited = n < len(past)
            yield entry
