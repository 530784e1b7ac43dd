"""This module finds the values of leaks again, and every place where they are: in our store and in agents' files."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from store import sources
from store.errors import Damaged, NotFound, StoreError
from store.leaks.escapes import decode_escapes
from store.leaks.file_scan import BEGINNING_BYTES, SQLITE_MAGIC, FileScan, is_side_file, say_why_not
from store.leaks.fingerprint import compute_fingerprint
from store.leaks.leak_key import read_leak_key
from store.leaks.redaction.databases import describe_fixed, find_cells, has_residue
from store.leaks.redaction.own_texts import (
    IS_A_NAME,
    FoundTexts,
    StoredText,
    find_texts,
    locate_records,
    locate_text,
)
from store.leaks.redaction.replacer import LeakedValue, Replacer
from store.leaks.redaction.text_files import find_obstacle, iter_segments
from store.leaks.scanner import Scanner
from store.leaks.store_scan import list_agent_files, list_strings
from store.model.leak import NotScanned
from store.model.redaction import RedactionPlace
from store.model.session import entry_id
from store.paths import recent_searches_file, state_file
from store.sources.kit.locator import is_url
from store.sources.kit.stamps import open_regular_file, sidecar_path
from store.write_back.processes import find_agents_of, find_processes_using, find_users

if TYPE_CHECKING:
    from store.store import Store

FileKind = Literal["file", "database"]

_SELECT_PLACES = """
    select session, entry_seq, field, path from leak_places where fingerprint = ? order by path != '', key
"""
_SELECT_RECORD = "select record from entries where session = ? and seq = ?"
_SELECT_TEXTS = """
    select own_title || ' ' || agent_title || ' ' || system_prompt from sessions where key = ?1
    union all select text from summaries where session = ?1 union all select text from notes where session = ?1
    union all select text from facts where session is ?1
"""
_SELECT_AGENT = "select kind, locator from sources order by length(locator) desc"
_SELECT_NEWEST = "select key from sessions where source = ? and relation is null order by updated_at desc limit 1"


_FIELDS = {
    "entries.parts": "parts",
    "entries.text": "text",
    "facts.foreign_text": "fact",
    "facts.text": "fact",
    "notes.text": "note",
    "sessions.agent_title": "title",
    "sessions.first_prompt": "title",
    "sessions.own_title": "title",
    "sessions.system_prompt": "system prompt",
    "summaries.text": "summary",
}
"""Names texts of the store as a scan does. The others have the names of their columns."""

_DERIVED_COLUMNS = ("first_prompt", "agent_title", "replacement")


class LeakyFile(NamedTuple):
    """Is a file of an agent that has values."""

    path: Path
    kind: FileKind
    times: int
    problem: str
    "Says why it cannot be rewritten now, or nothing."


class Survey(NamedTuple):
    """Holds every place where values were found."""

    own: FoundTexts
    files: list[LeakyFile]
    not_scanned: list[NotScanned]
    "Names the files that could not be looked into."


# ── values ────────────────────────────────────────────────────────────────────────────────────────


class ValueFinder:
    """Finds the values of leaks. Only their fingerprints are stored, so the places are scanned again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._key = read_leak_key(store)
        self._scanner: Scanner = store.leaks.begin_scan().scanner
        self._found: dict[str, LeakedValue] = {}

    def find(self, fingerprint: str) -> LeakedValue:
        """Return the value of a leak, or raise NotFound if it is at none of its places any more."""
        for session, seq, _, path in self._store.rows(_SELECT_PLACES, fingerprint):
            if fingerprint not in self._found:
                with suppress(StoreError, OSError, ValueError):
                    self._scan_file(Path(path)) if path else self._scan_texts(session, seq)
        if fingerprint not in self._found:
            raise NotFound(f"The leak {fingerprint} is not where it was found any more. Run `backscroll leaks` again.")
        return self._found[fingerprint]

    def find_by_rules(self, data: bytes) -> Iterator[tuple[str, int]]:
        """Yield the fingerprint of everything that the rules find in a text, and where it begins."""
        for match in self._scanner.scan_bytes(data):
            yield self._fingerprint(data[match.start : match.end].decode("utf-8", "replace")), match.start

    def _fingerprint(self, value: str) -> str:
        return compute_fingerprint(self._key, value)

    def _remember(self, rule: str, value: str) -> None:
        fingerprint = self._fingerprint(value)
        self._found.setdefault(fingerprint, LeakedValue(fingerprint, rule, value))

    def _scan_file(self, path: Path) -> None:
        for found in FileScan(self._scanner).find_in_file(path):
            self._remember(found.match.rule, found.value)

    def _scan_texts(self, session: int | None, seq: int | None) -> None:
        texts = [text for (text,) in self._store.rows(_SELECT_TEXTS, session)]
        if session is not None and seq is not None:
            texts.append(self._read_entry(session, seq))
        for text in texts:
            for match in self._scanner.scan(text):
                self._remember(match.rule, text[match.start : match.end])

    def _read_entry(self, session: int, seq: int) -> str:
        """Return what a scan of an entry reads: its record, or else its own texts."""
        (record,) = self._store.row(_SELECT_RECORD, session, seq) or (None,)
        if record is not None:
            with suppress(Damaged):
                return decode_escapes(self._store.records.get(record)).decode("utf-8", "replace")
        entry = self._store.chains.entry(session, seq)
        return "\n".join([entry.text, *(string for part in entry.parts for string in list_strings(part))])


# ── places ────────────────────────────────────────────────────────────────────────────────────────


def survey_places(store: Store, replacer: Replacer) -> Survey:
    """Look for values in our store, in every file of agents, and in what the browser keeps beside the store."""
    files: list[LeakyFile] = []
    not_scanned: list[NotScanned] = []
    for path in list_files(store):
        try:
            found = survey_file(path, replacer)
        except (OSError, StoreError, ValueError) as error:
            not_scanned.append(NotScanned(str(path), getattr(error, "strerror", None) or str(error)))
            continue
        if isinstance(found, NotScanned):
            not_scanned.append(found)
        elif found is not None:
            files.append(found)
    return Survey(find_texts(store, replacer), _find_obstacles(store, files), not_scanned)


def _find_obstacles(store: Store, files: Sequence[LeakyFile]) -> list[LeakyFile]:
    """Return the files with what keeps each from being rewritten now. To look at all processes takes long."""
    try:
        users = find_users([file.path for file in files])
    except StoreError:  # each file says why
        users = {}
    return [
        file._replace(problem=file.problem or find_file_obstacle(store, file.path, users.get(file.path)))
        for file in files
    ]


def list_files(store: Store) -> Iterator[Path]:
    yield from (path for path in list_agent_files(store) if not is_side_file(path))
    drafts = state_file().with_name("drafts")
    for path in (recent_searches_file(), *sorted(drafts.glob("*.md"))):
        if path.is_file() and not path.is_symlink():
            yield path


def survey_file(path: Path, replacer: Replacer) -> LeakyFile | NotScanned | None:
    """Return a file if it has values, or the reason why it cannot be looked into."""
    with open_regular_file(path) as file:
        beginning = file.read(BEGINNING_BYTES)
        if beginning.startswith(SQLITE_MAGIC):
            cells, fixed = find_cells(path, replacer)
            times = sum(len(replacer.find(cell.data)) for cell in cells) + len(fixed)
            if times or has_residue(path, replacer):  # the agent may have deleted a row, but not its bytes
                return LeakyFile(path, "database", times or 1, describe_fixed(fixed))
            return None
        if reason := say_why_not(beginning, os.fstat(file.fileno()).st_size):
            return NotScanned(str(path), reason)
        file.seek(0)
        times = sum(len(replacer.find(segment)) for segment in iter_segments(file))
    return LeakyFile(path, "file", times, "") if times else None


def find_file_obstacle(store: Store, path: Path, users: Sequence[int] | None = None) -> str:
    """Say why a file cannot be rewritten now: it changed just now, is in use, or its agent is running.

    `users` are the processes that have it open, if that is known.
    """
    for suffix in ("", "-wal"):
        file = sidecar_path(path, suffix)
        if (not suffix or file.exists()) and (obstacle := find_obstacle(file)):
            return obstacle
    try:
        users = find_processes_using(path) if users is None else users
    except StoreError as error:
        return str(error)
    if users:
        return f"It is open in process {users[0]}."
    return _find_running_agent(store, path)


def _find_running_agent(store: Store, path: Path) -> str:
    for name, locator in store.rows(_SELECT_AGENT):
        if is_url(locator) or not (path.is_relative_to(os.path.expanduser(locator)) or path.parent.name == ".claude"):
            continue
        source, newest = sources.load_source(name), store.row(_SELECT_NEWEST, name)
        if source is None or newest is None:
            continue
        argv = source.resume(store.sessions.by_key(newest[0])).argv
        if argv and (pids := find_agents_of(os.path.basename(argv[0]), path)):
            return f"{source.label} is running (process {pids[0]})."
    return ""


# ── what a person sees ────────────────────────────────────────────────────────────────────────────


def list_places(store: Store, survey: Survey) -> tuple[RedactionPlace, ...]:
    """Return the places for a person to read. What is derived from a record is part of the record."""
    return (*_list_own_places(store, survey.own), *(_describe_file(file) for file in survey.files))


def _describe_file(file: LeakyFile) -> RedactionPlace:
    return RedactionPlace(file.kind, path=str(file.path), times=file.times, problem=file.problem)


def _list_own_places(store: Store, own: FoundTexts) -> Iterator[RedactionPlace]:
    located = locate_records(store, own.records)
    sessions = {session for session, _ in located.values()}
    for record, times in own.records.items():
        session, seq = located.get(record, (None, None))
        entry = entry_id(session, seq) if session is not None and seq is not None else None
        yield RedactionPlace("record", session, entry, times=times)
    for text, times in own.texts.items():
        if not is_derived(store, text, own, sessions):
            yield describe_text(store, text, times, "")
    for text, times in own.names.items():
        if not is_derived(store, text, own, sessions):
            yield describe_text(store, text, times, IS_A_NAME)


def is_derived(store: Store, text: StoredText, own: FoundTexts, sessions: Container[str]) -> bool:
    """Return whether a text comes from a record in which the value was found, too."""
    if text.table == "sessions" and text.column in _DERIVED_COLUMNS:
        return locate_text(store, text)[0] in sessions
    return text in own.derived


def describe_text(store: Store, text: StoredText, times: int, problem: str) -> RedactionPlace:
    session, seq = locate_text(store, text)
    entry = entry_id(session, seq) if session is not None and seq is not None else None
    name = f"{text.table}.{text.column}"
    field = "journal" if text.table == "edits" else _FIELDS.get(name, name)
    return RedactionPlace("text", session, entry, field, times=times, problem=problem)
