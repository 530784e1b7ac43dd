"""This module says for each line of a memory file who wrote it, when, and what it said before.

The edits in the transcripts are followed from the oldest to the newest. A line that no edit wrote comes from a git
commit, or else from a person.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from posixpath import isabs, join, normpath
from typing import TYPE_CHECKING, NamedTuple

from store.conversations.session_changes import ResultRecords
from store.errors import NotFound
from store.formats.file_changes import FileChange, Hunk, find_changes, find_command
from store.memory.git_blame import read_commits
from store.memory.lines import find_key, normalize, split_lines
from store.model.entry import PairedCall
from store.model.memory import BlamedLine, EarlierText, LineOrigin, MemoryFile, MemoryLine
from store.model.session import Session
from store.search.all_tool_calls import find_calls
from store.search.query import Query

if TYPE_CHECKING:
    from store.store import Store

MAX_CALLS = 20_000
"""Limits the tool calls that are looked at. The newest are taken."""

MIN_SIMILARITY = 0.4
"""Is how similar a removed line must be to be the earlier text of an added one, between 0 and 1."""

MIN_FRAGMENT_CHARACTERS = 12
"""Limits the part of a line that an edit can have written without the line around it."""

_SECONDS = len("2026-01-01T00:00:00")

HAND = LineOrigin("hand")


class _Edit(NamedTuple):
    """Is what one tool call did to the file."""

    origin: LineOrigin
    changes: tuple[FileChange, ...]
    command: str = ""
    "Is the command of a shell that names the file. What it did is not known."


def blame_lines(store: Store, file: MemoryFile, lines: Sequence[MemoryLine]) -> tuple[BlamedLine, ...]:
    """Say who wrote these lines of a file."""
    history = _History(file)
    for edit in _list_edits(store, Path(file.path)):
        history.apply(edit)
    commits = read_commits(Path(file.path))
    return tuple(
        BlamedLine(
            line,
            _choose_origin(history.find_origin(line), commits.get(line.id)),
            history.find_earlier(line),
        )
        for line in lines
    )


def _list_edits(store: Store, path: Path) -> Iterator[_Edit]:
    """Yield the successful calls that change the file, oldest first."""
    query = Query.parse('"' + path.name.replace('"', " ") + '"')
    sessions: dict[str, Session | None] = {}
    records: dict[str, ResultRecords] = {}
    names = {str(path), os.path.realpath(path)}
    calls = find_calls(store, query, limit=MAX_CALLS)
    for call in sorted(calls, key=lambda call: (call.at or "", call.key)):
        if call.status != "ok" or call.entry is None:
            continue
        if call.session_id not in sessions:
            sessions[call.session_id] = _find_session(store, call.session_id)
        session = sessions[call.session_id]
        if session is None:
            continue
        if call.session_id not in records:
            records[call.session_id] = ResultRecords(store, session.key)
        edit = _read_edit(call, session, records[call.session_id], names)
        if edit.changes or edit.command:
            yield edit


def _find_session(store: Store, session_id: str) -> Session | None:
    try:
        return store.sessions.get(session_id)
    except NotFound:
        return None


def _read_edit(call: PairedCall, session: Session, records: ResultRecords, names: set[str]) -> _Edit:
    origin = LineOrigin(
        "session", call.at or "", session.source, session.id, session.title, call.turn, call.entry or "", call.name
    )
    asked = find_changes(call.name, call.arguments)
    if not any(_is_same_file(change, session.cwd, names) for change in asked):
        command = find_command(call.name, call.arguments) or ""
        is_named = any(os.path.basename(name) in command for name in names)
        return _Edit(origin, (), command if is_named else "")
    located = find_changes(call.name, call.arguments, records.read(call))
    return _Edit(origin, tuple(change for change in located if _is_same_file(change, session.cwd, names)))


def _is_same_file(change: FileChange, cwd: str, names: set[str]) -> bool:
    for path in filter(None, (change.moved_to, change.path)):
        path = os.path.expanduser(path) if path.startswith("~/") else path
        full = normpath(path if isabs(path) or not cwd else join(cwd, path))
        if full in names or ("\0" not in full and os.path.realpath(full) in names):
            return True
    return False


class _History:
    """Holds who wrote the lines that the file has after the edits so far, by their normalised text."""

    def __init__(self, file: MemoryFile) -> None:
        self._path = file.path
        self._lines = file.lines
        self._origins: dict[str, LineOrigin] = {}
        self._texts: dict[str, str] = {}
        self._earlier: dict[str, tuple[EarlierText, ...]] = {}

    def find_origin(self, line: MemoryLine) -> LineOrigin | None:
        return self._origins.get(normalize(line.text))

    def find_earlier(self, line: MemoryLine) -> tuple[EarlierText, ...]:
        return self._earlier.get(normalize(line.text), ())

    def apply(self, edit: _Edit) -> None:
        for change in edit.changes:
            if change.kind == "delete":
                self._origins.clear()
            elif change.kind == "write":
                self._replace_all(change, edit.origin)
            else:
                for hunk in change.hunks:
                    self._apply_hunk(hunk, edit.origin)
        if edit.command:
            self._apply_command(edit)

    def _apply_hunk(self, hunk: Hunk, origin: LineOrigin) -> None:
        removed = self._read_facts(hunk, "-")
        added = self._read_facts(hunk, "+")
        kept = {normalize(text) for text in removed} & {normalize(text) for text in added}
        removed = [text for text in removed if normalize(text) not in kept]
        for text in added:
            if normalize(text) not in kept:
                self._add(text, origin, _find_replaced(text, removed))
        self._add_fragments(hunk, origin)
        for text in removed:
            if normalize(text) not in {normalize(new) for new in added}:
                self._origins.pop(normalize(text), None)

    def _replace_all(self, change: FileChange, origin: LineOrigin) -> None:
        """Apply a write of the whole file. Lines that it had before keep their origin."""
        facts = [text for hunk in change.hunks for text in self._read_facts(hunk, "+")]
        new = {normalize(text) for text in facts}
        lost = [key for key in self._origins if key not in new]
        lost_texts = [self._texts[key] for key in lost]
        for text in facts:
            if normalize(text) not in self._origins:
                self._add(text, origin, _find_replaced(text, lost_texts))
        for key in lost:
            self._origins.pop(key)

    def _apply_command(self, edit: _Edit) -> None:
        """Take a shell command that names the file and holds a line as what wrote the line."""
        for line in self._lines:
            is_long = len(line.text) >= MIN_FRAGMENT_CHARACTERS
            if is_long and line.text in edit.command and normalize(line.text) not in self._origins:
                self._add(line.text, edit.origin, None)

    def _add_fragments(self, hunk: Hunk, origin: LineOrigin) -> None:
        """Assign lines of which an edit wrote only a part, as it replaces words and not lines."""
        fragments = [normalize(line.text) for line in hunk.lines if line.sign == "+"]
        removed = [line.text for line in hunk.lines if line.sign == "-"]
        for line in self._lines:
            text = normalize(line.text)
            for fragment in fragments:
                if (
                    MIN_FRAGMENT_CHARACTERS <= len(fragment) < len(text)
                    and fragment in text
                    and text not in self._origins
                ):
                    self._add(line.text, origin, _find_replaced(fragment, removed))

    def _add(self, text: str, origin: LineOrigin, replaced: str | None) -> None:
        key = normalize(text)
        if replaced is not None and normalize(replaced) != key:
            before = normalize(replaced)
            earlier = EarlierText(replaced, self._origins.get(before, HAND))
            self._earlier[key] = (earlier, *self._earlier.get(before, ()))
        self._origins[key], self._texts[key] = origin, text

    def _read_facts(self, hunk: Hunk, sign: str) -> list[str]:
        """Return the facts in the added or removed lines of a hunk."""
        text = "\n".join(line.text for line in hunk.lines if line.sign == sign)
        return [line.text for line in split_lines(self._path, text)]


def _find_replaced(text: str, removed: Sequence[str]) -> str | None:
    """Return the removed text that an added one replaces: that with the same key, or else the most similar one."""
    pair = find_key(text)
    for candidate in removed:
        other = find_key(candidate)
        if pair and other and pair.key == other.key:
            return candidate
    matcher = SequenceMatcher(None, "", normalize(text), autojunk=False)
    best, best_ratio = None, MIN_SIMILARITY
    for candidate in removed[:50]:
        matcher.set_seq1(normalize(candidate)[:2_000])
        if matcher.real_quick_ratio() > best_ratio and (ratio := matcher.ratio()) > best_ratio:
            best, best_ratio = candidate, ratio
    return best


def _choose_origin(written: LineOrigin | None, committed: LineOrigin | None) -> LineOrigin:
    """Return the older of two origins: a line that was committed before an edit was not written by that edit."""
    if written is None or committed is None:
        return written or committed or HAND
    # git knows only seconds.
    return committed if committed.at[:_SECONDS] < written.at[:_SECONDS] else written
