"""What readers of exports share: an archive or a file that is one huge array of conversations, taken one by one."""

from __future__ import annotations

import os
import re
import tempfile
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

from store.errors import BadValue, Unreadable
from store.model.entry import Json, NewEntry, NewRecord
from store.model.session import SessionFields
from store.sources.contract import Batch, ForeignSummary, Problem, SessionRef, SourceReader
from store.sources.kit import jsonl, sqlite
from store.sources.kit.jsonl import as_dict
from store.sources.kit.transcripts import Branch, Node, find_branches, sanitize_fields
from store.text.validate import encode_derived, replace_surrogates

MAX_ITEM_BYTES = 64 * 1024 * 1024
MAX_EXPORT_BYTES = 4 * 1024 * 1024 * 1024
"""Of what an archive holds: a few kilobytes can stand for any amount."""

_CHUNK_BYTES = 1024 * 1024
_MAX_DETECT_ITEMS = 5
_MAX_DETECT_BYTES = 4 * MAX_ITEM_BYTES
_BLANK = b"\xef\xbb\xbf \t\r\n"
_FILE_NAME = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json")
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_NO_BRACKETS = rb'(?:[^"\[\]{}]++|' + _STRING + rb")*+"
# Up to the next bracket, whole strings stepped over; and as far as one can step where none comes.
_UP_TO_BRACKET = re.compile(_NO_BRACKETS + rb"[\[\]{}]", re.DOTALL)
_UP_TO_END = re.compile(_NO_BRACKETS, re.DOTALL)
_OPENING = frozenset(b"[{")
_BRACE = ord("{")

ARCHIVE_ERRORS = (OSError, ValueError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""What a damaged, locked or strange archive raises."""


ExportFile = tuple[str, IO[bytes]]
"""A file of an export: its name and its content."""


class ArrayItem(NamedTuple):
    offset: int
    data: bytes


class ItemLocation(NamedTuple):
    "Where a conversation stands; what it holds is read again when it is told."

    file_index: int
    offset: int
    length: int


def split_array(
    file: IO[bytes], name: str, problems: list[Problem], max_bytes: int = MAX_EXPORT_BYTES
) -> Iterator[ArrayItem]:
    """The objects of one array, however many; one that is too large, or cut off, is a problem."""
    splitting = _ArraySplitter(name, problems)
    size = _CHUNK_BYTES
    while splitting.scanned < max_bytes and (chunk := file.read(size)):
        before = splitting.scanned
        if not before and not chunk.lstrip(_BLANK).startswith(b"["):
            problems.append(Problem(name, "It is not a list of conversations."))
            return
        yield from splitting.feed(chunk)
        # A long string is looked at again with every chunk, so they become longer with it.
        size = _CHUNK_BYTES if splitting.scanned > before else min(size * 2, MAX_ITEM_BYTES)
    splitting.finish()


class _ArraySplitter:
    def __init__(self, name: str, problems: list[Problem]) -> None:
        self._name = name
        self._problems = problems
        self._buffer = b""
        self._buffer_offset = 0
        self._position = 0
        self._depth = 0
        self._item_start: int | None = None
        self._is_too_large = False

    @property
    def scanned(self) -> int:
        return self._buffer_offset + self._position

    def feed(self, chunk: bytes) -> Iterator[ArrayItem]:
        self._buffer += chunk
        while (found := _UP_TO_BRACKET.match(self._buffer, self._position)) is not None:
            self._position = found.end()
            bracket = self._buffer[self._position - 1]
            if bracket in _OPENING:
                if self._depth == 1 and bracket == _BRACE:
                    self._item_start = self._position - 1
                self._depth += 1
            else:
                self._depth = max(self._depth - 1, 0)
                if self._depth == 1 and self._item_start is not None:
                    yield from self._finish_item()
        if (rest := _UP_TO_END.match(self._buffer, self._position)) is not None:
            self._position = rest.end()
        self._drop_scanned()

    def _finish_item(self) -> Iterator[ArrayItem]:
        start, self._item_start = self._item_start or 0, None
        if self._is_too_large:
            self._is_too_large = False
        else:
            yield ArrayItem(self._buffer_offset + start, self._buffer[start : self._position])

    def _drop_scanned(self) -> None:
        """What was scanned and belongs to no item that is still to come."""
        if (
            self._item_start is not None
            and len(self._buffer) - self._item_start > MAX_ITEM_BYTES
            and not self._is_too_large
        ):
            too_large = f"The conversation is larger than {MAX_ITEM_BYTES >> 20} MB and is left out."
            self._problems.append(Problem(f"{self._name}:{self._buffer_offset + self._item_start}", too_large))
            self._is_too_large = True
        keep = self._position if self._item_start is None or self._is_too_large else self._item_start
        self._buffer = self._buffer[keep:]
        self._buffer_offset += keep
        self._position -= keep
        if self._item_start is not None:
            self._item_start = 0
        if self._is_too_large and len(self._buffer) > MAX_ITEM_BYTES:
            self._truncate_string()

    def _truncate_string(self) -> None:
        """One string that is far too long, whose end is still to come: its beginning and what may escape its end."""
        kept = b'"\\' if (len(self._buffer) - len(self._buffer.rstrip(b"\\"))) % 2 else b'"'
        self._buffer_offset += len(self._buffer) - len(kept)
        self._buffer = kept

    def finish(self) -> None:
        if self._depth > 0:
            self._problems.append(Problem(f"{self._name}:{self.scanned}", "The file ends in the middle."))


# ── archives, folders and files ───────────────────────────────────────────────────────────────────


def _find_files(path: Path) -> list[Path]:
    """The files of an export that was unpacked, or the one that was named."""
    if os.path.isdir(path):
        try:
            return sorted(
                found for found in path.iterdir() if _FILE_NAME.fullmatch(found.name) and os.path.isfile(found)
            )
        except OSError:
            return []
    return [path] if os.path.isfile(path) else []


def stamp(locator: str) -> str:
    found = _find_files(Path(locator))
    return sqlite.digest(*((str(path), jsonl.plain_file_stamp(path)) for path in found)) if found else ""


@contextmanager
def _open_streams(path: Path) -> Iterator[list[ExportFile]]:
    """Each part's name and content; an archive's are unpacked as they are read."""
    with ExitStack() as held:
        if os.path.isfile(path) and zipfile.is_zipfile(path):
            archive = held.enter_context(zipfile.ZipFile(path))
            names = sorted(name for name in archive.namelist() if _FILE_NAME.fullmatch(name))
            yield [(name, held.enter_context(archive.open(name))) for name in names]
        else:
            yield [(str(part), held.enter_context(jsonl.open_file(part))) for part in _find_files(path)]


def detect(locator: str, is_ours: Callable[[Mapping[str, Json]], bool]) -> bool:
    """By one of its first conversations."""
    try:
        with _open_streams(Path(locator)) as streams:
            for name, stream in streams:
                items = islice(split_array(stream, name, [], _MAX_DETECT_BYTES), _MAX_DETECT_ITEMS)
                if any(is_ours(_parse_item(item, name, [])) for item in items):
                    return True
    except ARCHIVE_ERRORS:
        return False
    return False


def _parse_item(item: ArrayItem, name: str, problems: list[Problem]) -> Mapping[str, Json]:
    try:
        return as_dict(jsonl.parse_json(item.data))
    except BadValue as reason:
        problems.append(Problem(f"{name}:{item.offset}", str(reason)))
        return {}


@contextmanager
def open_files(locator: str) -> Iterator[list[ExportFile]]:
    """Each part's name and a file that can be read at any place."""
    with ExitStack() as held:
        try:
            streams = held.enter_context(_open_streams(Path(locator)))
            parts = [(name, held.enter_context(_extract(stream))) for name, stream in streams]
        except ARCHIVE_ERRORS as reason:
            raise Unreadable(f"{locator} cannot be read: {sqlite.to_one_line(reason)}.") from None
        if not parts:
            raise Unreadable(f"{locator} holds no conversations.json.")
        yield parts


@contextmanager
def _extract(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    """Gone when it is closed, even if we are killed. What comes after damage is missing, and will be told so."""
    if not isinstance(stream, zipfile.ZipExtFile):
        yield stream
        return
    with tempfile.TemporaryFile(prefix="backscroll-") as file:
        with suppress(*ARCHIVE_ERRORS):
            for chunk in islice(iter(lambda: stream.read(_CHUNK_BYTES), b""), MAX_EXPORT_BYTES // _CHUNK_BYTES):
                file.write(chunk)
        file.seek(0)
        yield file


# ── conversations ─────────────────────────────────────────────────────────────────────────────────


class ExportMessage(NamedTuple):
    "A message on its way to an entry."

    node: Node
    record: Json
    "What of it does not change when the conversation goes on."
    value: Mapping[str, Json]


@dataclass(slots=True)
class ExportConversation:
    native_id: str
    header: Mapping[str, Json]
    fields: SessionFields
    messages: list[ExportMessage] = field(default_factory=list)
    "Parents before their children."
    leaf: int | None = None
    summary: str = ""
    archived: bool = False

    def branches(self) -> list[Branch]:
        return find_branches([told.node for told in self.messages], self.leaf)


def sort_parents_first(messages: Sequence[ExportMessage]) -> list[ExportMessage]:
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


class ExportReader(SourceReader):
    def __init__(self, parts: Sequence[ExportFile]) -> None:
        super().__init__()
        self._files = parts
        self._locations: dict[str, ItemLocation] = {}
        self._branches: dict[str, tuple[str, str]] = {}

    @abstractmethod
    def parse_conversation(self, value: Mapping[str, Json]) -> ExportConversation | None: ...

    @abstractmethod
    def build_entries(self, conversation: ExportConversation) -> list[NewEntry]:
        """One for each message."""
        ...

    def scan(self) -> Iterator[SessionRef]:
        for number, (name, stream) in enumerate(self._files):
            try:
                for item in split_array(stream, name, self.problems):
                    yield from self._refs_of_item(number, item)
            except ARCHIVE_ERRORS as reason:
                self.problems.append(Problem(name, f"It cannot be read: {sqlite.to_one_line(reason)}."))

    def _refs_of_item(self, number: int, item: ArrayItem) -> Iterator[SessionRef]:
        name = self._files[number][0]
        value = _parse_item(item, name, self.problems)
        conversation = self.parse_conversation(value)
        if conversation is None:
            if value:
                self.problems.append(Problem(f"{name}:{item.offset}", "It is not a conversation."))
            return
        native = conversation.native_id
        if not any(told.node.is_message for told in conversation.messages):
            return
        if native in self._locations:
            self.problems.append(Problem(f"{name}:{item.offset}", f"The conversation {native} comes twice."))
            return
        self._locations[native] = ItemLocation(number, item.offset, len(item.data))
        stamp = sqlite.digest(item.data)
        for branch in conversation.branches():
            self._branches[branch.native_id(native)] = native, branch.name
            yield SessionRef(branch.native_id(native), stamp, conversation.fields.get("updated_at", ""))

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        met: list[Problem] = []
        native, name = self._branches[ref.native_id]
        place = self._locations[native]
        where, stream = self._files[place.file_index]
        stream.seek(place.offset)
        conversation = self.parse_conversation(
            _parse_item(ArrayItem(place.offset, stream.read(place.length)), where, met)
        )
        if conversation is None or conversation.native_id != native:
            raise Unreadable("The file was changed while it was read; it will be read later.")
        branch = next((branch for branch in conversation.branches() if branch.name == name), None)
        if branch is not None:
            told = list(self._branch_entries(conversation, branch, replace_surrogates(where)))
            yield self._build_header_batch(
                conversation, branch, replace_surrogates(where), place.offset, told[-1].created_at
            )
            yield from sqlite.build_batches(([entry] for entry in told), met)

    def _build_header_batch(
        self, conversation: ExportConversation, branch: Branch, where: str, offset: int, ended: str
    ) -> Batch:
        fields: SessionFields = {**conversation.fields, **branch.fork_fields(conversation.native_id)}
        if branch.name and ended:
            fields["updated_at"] = ended
        return Batch(
            header=NewEntry(kind="header", record=NewRecord(encode_derived(conversation.header), where, str(offset))),
            fields=sanitize_fields(fields),
            summary=ForeignSummary(conversation.summary) if conversation.summary and not branch.name else None,
            archived=conversation.archived,
        )

    def _branch_entries(self, conversation: ExportConversation, branch: Branch, where: str) -> Iterator[NewEntry]:
        past = branch.shared_nodes()
        entries = self.build_entries(conversation)
        for n, place in enumerate(past + branch.own_nodes):
            message, entry = conversation.messages[place], entries[place]
            entry.record = NewRecord(encode_derived(message.record), where, replace_surrogates(message.node.id))
            entry.inherited = n < len(past)
            yield entry
