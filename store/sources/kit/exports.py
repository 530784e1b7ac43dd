"""This module reads exports: an archive, folder or file with one huge array of conversations, read one by one.

A file may also hold a single conversation, as people save them from the page of one.
"""

from __future__ import annotations

import os
import re
import tempfile
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
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
"""Limits the size of an unpacked archive: a few kilobytes can unpack to any amount."""

_CHUNK_BYTES = 1024 * 1024
_MAX_CHUNK_BYTES = 8 * 1024 * 1024
_MAX_DETECT_ITEMS = 5
_MAX_DETECT_FILES = 4
_MAX_DETECT_BYTES = 4 * MAX_ITEM_BYTES
_BLANK = b"\xef\xbb\xbf \t\r\n"
_FILE_NAME = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json")
_STRING_BODY = rb'[^"\\]*+(?:\\.[^"\\]*+)*+'
_NO_BRACKETS = rb'(?:[^"\[\]{}]++|"' + _STRING_BODY + rb'")*+'
# The first pattern matches up to the next bracket and skips complete strings; the second matches where no bracket
# follows. The third matches the rest of a string without its closing quote.
_UP_TO_BRACKET = re.compile(_NO_BRACKETS + rb"[\[\]{}]", re.DOTALL)
_UP_TO_END = re.compile(_NO_BRACKETS, re.DOTALL)
_REST_OF_STRING = re.compile(_STRING_BODY, re.DOTALL)
_OPENING = frozenset(b"[{")
_BRACE = ord("{")

ARCHIVE_ERRORS = (OSError, ValueError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""These are raised for a damaged, encrypted or unsupported archive."""


class ArrayItem(NamedTuple):
    """Holds one object of the array and where it begins."""

    offset: int
    data: bytes


class ItemLocation(NamedTuple):
    """Says where a conversation is in the export, so that it can be read again."""

    file_index: int
    offset: int
    position: int
    "Is where `ExportFile.read` finds it."
    length: int


def split_array(
    file: IO[bytes], name: str, problems: list[Problem], max_bytes: int = MAX_EXPORT_BYTES, depth: int | None = None
) -> Iterator[ArrayItem]:
    """Yield the objects of an array of any length. One that is too large or cut off is reported as a problem.

    `depth` is the number of brackets around the objects. By default it is that of an array of objects, or of an object
    by itself.
    """
    splitter = _ArraySplitter(name, problems, depth or 0)
    while chunk := file.read(min(max(_CHUNK_BYTES, splitter.held), _MAX_CHUNK_BYTES)):
        if not splitter.scanned and depth is None:
            beginning = chunk.lstrip(_BLANK)[:1]
            if beginning not in (b"[", b"{"):
                problems.append(Problem(name, "It is neither a conversation nor a list of them."))
                return
            splitter.item_depth = int(beginning == b"[")
        yield from splitter.feed(chunk)
        if splitter.scanned >= max_bytes:
            problems.append(Problem(f"{name}:{splitter.scanned}", "The file is too large. The rest is left out."))
            return
    splitter.finish()


class _ArraySplitter:
    """Finds the objects of an array in chunks of any size. It holds no more than one object."""

    def __init__(self, name: str, problems: list[Problem], item_depth: int) -> None:
        self.item_depth = item_depth
        "Is the number of brackets around an item."
        self._name = name
        self._problems = problems
        self._buffer = b""
        self._buffer_offset = 0
        self._position = 0
        self._depth = 0
        self._is_in_string = False
        self._item_start: int | None = None
        self._is_too_large = False
        self._string_offset = 0

    @property
    def scanned(self) -> int:
        return self._buffer_offset + self._position

    @property
    def held(self) -> int:
        """Return how much of an incomplete object is held. Each chunk is appended to it, so chunks grow with it."""
        return len(self._buffer)

    def feed(self, chunk: bytes) -> Iterator[ArrayItem]:
        self._buffer += chunk
        while self._finish_string() and (match := _UP_TO_BRACKET.match(self._buffer, self._position)) is not None:
            self._position = match.end()
            bracket = self._buffer[self._position - 1]
            if bracket in _OPENING:
                if self._depth == self.item_depth and bracket == _BRACE:
                    self._item_start = self._position - 1
                self._depth += 1
            else:
                self._depth = max(self._depth - 1, 0)
                if self._depth == self.item_depth and self._item_start is not None:
                    yield from self._finish_item()
        if not self._is_in_string:
            self._scan_without_brackets()
        self._drop_scanned()

    def _finish_string(self) -> bool:
        """Scan the rest of a string that began in an earlier chunk, and return whether it ends here."""
        if self._is_in_string:
            self._position = self._find_end_of_string()
            if self._buffer[self._position : self._position + 1] == b'"':
                self._position += 1
                self._is_in_string = False
                self._is_too_large = self._is_too_large and self._item_start is not None
        return not self._is_in_string

    def _find_end_of_string(self) -> int:
        """Return where the closing quote is, or else where the scan continues with the next chunk.

        Searching for two characters is ten times as fast as a pattern, which is only needed for what is escaped.
        """
        quote = self._buffer.find(b'"', self._position)
        end = quote if quote >= 0 else len(self._buffer)
        if self._buffer.find(b"\\", self._position, end) < 0:
            return end
        rest = _REST_OF_STRING.match(self._buffer, self._position)
        # A final backslash stays, because it may escape the next byte.
        return rest.end() if rest else end

    def _scan_without_brackets(self) -> None:
        if (rest := _UP_TO_END.match(self._buffer, self._position)) is not None:
            self._position = rest.end()
        if self._position < len(self._buffer):
            self._string_offset = self.scanned
            self._position += 1
            self._is_in_string = True
            self._finish_string()

    def _finish_item(self) -> Iterator[ArrayItem]:
        start, self._item_start = self._item_start or 0, None
        if self._is_too_large:
            self._is_too_large = False
        else:
            yield ArrayItem(self._buffer_offset + start, self._buffer[start : self._position])

    def _drop_scanned(self) -> None:
        """Forget the scanned bytes, except those of an object that is not complete yet and not too large."""
        self._report_if_too_large()
        start = self._position if self._item_start is None or self._is_too_large else self._item_start
        self._buffer = self._buffer[start:]
        self._buffer_offset += start
        self._position -= start
        if self._item_start is not None:
            self._item_start = 0

    def _report_if_too_large(self) -> None:
        start = self._string_offset if self._is_in_string else self.scanned
        if self._item_start is not None:
            start = self._buffer_offset + self._item_start
        if self.scanned - start > MAX_ITEM_BYTES and not self._is_too_large:
            what = "conversation" if self._item_start is not None else "text"
            reason = f"The {what} is larger than {MAX_ITEM_BYTES >> 20} MB and is left out."
            self._problems.append(Problem(f"{self._name}:{start}", reason))
            self._is_too_large = True

    def finish(self) -> None:
        if self._depth > 0:
            self._problems.append(Problem(f"{self._name}:{self.scanned}", "The file is incomplete."))


# ── archives, folders and files ───────────────────────────────────────────────────────────────────


def is_conversations_file(name: str) -> bool:
    """Return whether a file has the name that services give to the files of conversations in an export."""
    return _FILE_NAME.fullmatch(name) is not None


def _find_files(path: Path) -> list[Path]:
    """Return the files of an unpacked export, or the single file that was named."""
    if os.path.isdir(path):
        try:
            return sorted(file for file in path.iterdir() if _FILE_NAME.fullmatch(file.name) and os.path.isfile(file))
        except OSError:
            return []
    return [path] if os.path.isfile(path) else []


def stamp(locator: str) -> str:
    files = _find_files(Path(locator))
    return sqlite.digest(*((str(path), jsonl.plain_file_stamp(path)) for path in files)) if files else ""


class ExportFile:
    """Is a file of an export. It is read once from its beginning, and then its conversations in any order."""

    def __init__(self, name: str, stream: IO[bytes], copy: IO[bytes] | None = None) -> None:
        self.name = name
        self.stream = stream
        self._copy = copy
        "Receives what is unpacked from an archive and read again."

    def keep(self, item: ArrayItem) -> int:
        """Return the position from which the conversation can be read again."""
        if self._copy is None:
            return item.offset
        position = self._copy.seek(0, os.SEEK_END)
        self._copy.write(item.data)
        return position

    def read(self, position: int, length: int) -> bytes:
        file = self._copy or self.stream
        file.seek(position)
        return file.read(length)


@contextmanager
def _open_streams(path: Path) -> Iterator[list[tuple[str, IO[bytes]]]]:
    """Yield the name and content of each file. Those of an archive are unpacked while they are read."""
    with ExitStack() as stack:
        if os.path.isfile(path) and zipfile.is_zipfile(path):
            archive = stack.enter_context(zipfile.ZipFile(path))
            names = sorted(name for name in archive.namelist() if _FILE_NAME.fullmatch(name))
            yield [(name, stack.enter_context(archive.open(name))) for name in names]
        else:
            yield [(str(file), stack.enter_context(jsonl.open_file(file))) for file in _find_files(path)]


def detect(locator: str, is_mine: Callable[[Mapping[str, Json]], bool]) -> bool:
    """Return whether one of the first conversations is recognized."""
    try:
        with _open_streams(Path(locator)) as streams:
            for name, stream in streams[:_MAX_DETECT_FILES]:
                items = islice(split_array(stream, name, [], _MAX_DETECT_BYTES), _MAX_DETECT_ITEMS)
                if any(is_mine(_parse_item(item, name, [])) for item in items):
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
    """Open each file of an export. What is kept of an archive disappears in the end, even if this process is killed."""
    with ExitStack() as stack:
        try:
            files = [
                ExportFile(name, stream, _open_copy(stack) if isinstance(stream, zipfile.ZipExtFile) else None)
                for name, stream in stack.enter_context(_open_streams(Path(locator)))
            ]
        except ARCHIVE_ERRORS as reason:
            raise Unreadable(f"{locator} cannot be read: {sqlite.to_one_line(reason)}.") from None
        if not files:
            raise Unreadable(f"{locator} has no conversations.json.")
        yield files


def _open_copy(stack: ExitStack) -> IO[bytes]:
    return stack.enter_context(tempfile.TemporaryFile(prefix="backscroll-"))


# ── conversations ─────────────────────────────────────────────────────────────────────────────────


class ExportMessage(NamedTuple):
    """Holds a message before it becomes an entry."""

    node: Node
    record: Json
    "Is the part that does not change when the conversation continues."
    value: Mapping[str, Json]


@dataclass(slots=True)
class ExportConversation:
    """Holds a conversation of an export as a tree of messages."""

    native_id: str
    header: Mapping[str, Json]
    fields: SessionFields
    messages: list[ExportMessage] = field(default_factory=list)
    "Lists parents before their children."
    leaf: int | None = None
    summary: str = ""
    archived: bool = False

    def branches(self) -> list[Branch]:
        return find_branches([message.node for message in self.messages], self.leaf)


def sort_parents_first(messages: Sequence[ExportMessage]) -> list[ExportMessage]:
    """Sort messages level by level, so that later additions move nothing. A circle is broken at its first message."""
    index_of = {message.node.id: index for index, message in enumerate(messages)}
    children: dict[int | None, list[int]] = {}
    for index, message in enumerate(messages):
        parent_index = index_of.get(message.node.parent) if message.node.parent is not None else None
        children.setdefault(parent_index if parent_index != index else None, []).append(index)
    order: dict[int, None] = {}
    level = children.get(None, [])
    indexes = iter(range(len(messages)))
    while len(order) < len(messages):
        level = level or [next(index for index in indexes if index not in order)]
        order.update(dict.fromkeys(level))
        level = [child for parent in level for child in children.get(parent, ()) if child not in order]
    return [messages[index] for index in order]


class _LoadedConversation(NamedTuple):
    conversation: ExportConversation
    branches: Mapping[str, Branch]
    "The branches by name."
    entries: Sequence[NewEntry]
    "The entry of each message."


class ExportReader(SourceReader):
    """Reads the conversations of an export. A subclass parses one conversation."""

    def __init__(self, files: Sequence[ExportFile]) -> None:
        super().__init__()
        self._files = files
        self._locations: dict[str, ItemLocation] = {}
        self._branches: dict[str, tuple[str, str]] = {}
        self._loaded: _LoadedConversation | None = None

    @abstractmethod
    def parse_conversation(self, value: Mapping[str, Json]) -> ExportConversation | None: ...

    @abstractmethod
    def build_entries(self, conversation: ExportConversation) -> list[NewEntry]:
        """Return one entry for each message."""

    def scan(self) -> Iterator[SessionRef]:
        remaining = MAX_EXPORT_BYTES
        for file_index, file in enumerate(self._files):
            try:
                for item in split_array(file.stream, file.name, self.problems, remaining):
                    yield from self._refs_of_item(file_index, item)
                remaining -= file.stream.tell()
            except ARCHIVE_ERRORS as reason:
                self.problems.append(Problem(file.name, f"It cannot be read: {sqlite.to_one_line(reason)}."))

    def _refs_of_item(self, file_index: int, item: ArrayItem) -> Iterator[SessionRef]:
        file = self._files[file_index]
        name = file.name
        value = _parse_item(item, name, self.problems)
        conversation = self.parse_conversation(value)
        if conversation is None:
            if value:
                self.problems.append(Problem(f"{name}:{item.offset}", "It is not a conversation."))
            return
        native_id = conversation.native_id
        if not any(message.node.is_message for message in conversation.messages):
            return
        if native_id in self._locations:
            self.problems.append(
                Problem(f"{name}:{item.offset}", f"The conversation {native_id} is a duplicate and is left out.")
            )
            return
        self._locations[native_id] = ItemLocation(file_index, item.offset, file.keep(item), len(item.data))
        stamp = sqlite.digest(item.data)
        for branch in conversation.branches():
            self._branches[branch.native_id(native_id)] = native_id, branch.name
            yield SessionRef(branch.native_id(native_id), stamp, conversation.fields.get("updated_at", ""))

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        problems: list[Problem] = []
        native_id, name = self._branches[ref.native_id]
        location = self._locations[native_id]
        file_name = replace_surrogates(self._files[location.file_index].name)
        conversation, branches, entries_of_all = self._load_conversation(native_id, location, problems)
        branch = branches.get(name)
        if branch is not None:
            entries = list(_build_branch_entries(conversation, branch, entries_of_all, file_name))
            yield self._build_header_batch(conversation, branch, file_name, location.offset, entries[-1].created_at)
            yield from sqlite.build_batches(([entry] for entry in entries), problems)

    def _load_conversation(
        self, native_id: str, location: ItemLocation, problems: list[Problem]
    ) -> _LoadedConversation:
        """Return a conversation. The last one is kept, because its branches are read one by one."""
        if self._loaded is None or self._loaded.conversation.native_id != native_id:
            self._loaded = None
            file = self._files[location.file_index]
            item = ArrayItem(location.offset, file.read(location.position, location.length))
            conversation = self.parse_conversation(_parse_item(item, file.name, problems))
            if conversation is None or conversation.native_id != native_id:
                raise Unreadable("The file was changed while it was read; it will be read later.")
            branches = {branch.name: branch for branch in conversation.branches()}
            self._loaded = _LoadedConversation(conversation, branches, self.build_entries(conversation))
        return self._loaded

    def _build_header_batch(
        self, conversation: ExportConversation, branch: Branch, file_name: str, offset: int, updated_at: str
    ) -> Batch:
        fields: SessionFields = {**conversation.fields, **branch.fork_fields(conversation.native_id)}
        if branch.name and updated_at:
            fields["updated_at"] = updated_at
        return Batch(
            header=NewEntry(
                kind="header", record=NewRecord(encode_derived(conversation.header), file_name, str(offset))
            ),
            fields=sanitize_fields(fields),
            summary=ForeignSummary(conversation.summary) if conversation.summary and not branch.name else None,
            archived=conversation.archived,
        )


def _build_branch_entries(
    conversation: ExportConversation, branch: Branch, entries: Sequence[NewEntry], file_name: str
) -> Iterator[NewEntry]:
    shared = branch.shared_nodes()
    for number, index in enumerate(shared + branch.own_nodes):
        message, entry = conversation.messages[index], copy(entries[index])
        entry.record = NewRecord(encode_derived(message.record), file_name, replace_surrogates(message.node.id))
        entry.inherited = number < len(shared)
        yield entry
