"""This module scans the texts of the store and the files of the agents, step by step, the newest session first.

What is done is noted with each step, so a scan can stop at any time and continues where it stopped. A session that grew
is scanned from the entry after the last one, and from its beginning when the rules have changed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from store.errors import Damaged, StoreError
from store.leaks.escapes import decode_escapes
from store.leaks.file_scan import FileScan, FoundValue, format_change_time, is_side_file
from store.leaks.fingerprint import compute_fingerprint, unescape_value
from store.leaks.leak_key import read_leak_key, read_or_renew_leak_key
from store.leaks.scanner import Scanner, describe_limits, has_extra, list_rules, load_scanner
from store.model.entry import Attachment, Entry, Json, Text, Thinking, ToolCall, ToolResult
from store.model.leak import NotScanned
from store.sources.kit.locator import is_url

if TYPE_CHECKING:
    from store.store import Store

SCAN_VERSION = 2
"""Is raised when places are stored in another way. Everything is scanned again then."""

STEP_BYTES = 4 * 1024 * 1024
"""Is how much of a session is scanned before the progress is noted."""

MAX_IDLE_FILE_BYTES = 64 * 1024 * 1024
"""Larger files are only scanned on request, because the worker does nothing else meanwhile."""

QUIET_SECONDS = 60.0
"""A file that changed within this time is only scanned on request. What it says is in the records anyway."""

_SELECT_PENDING = """
    select sessions.key, case when leak_progress.rules glob ?1 then leak_progress.seq else -2 end
    from sessions join entries on entries.key = sessions.tail
        left join leak_progress on leak_progress.session = sessions.key
    where leak_progress.session is null or leak_progress.rules not glob ?1 or leak_progress.seq < entries.seq
    order by sessions.updated_at desc
"""
_SELECT_ENTRIES = """
    select seq, record, text, inherited, created_at from entries where session = ? and seq > ? order by seq
"""
_SELECT_OTHER_TEXTS = """
    select key, null, 'title', own_title || ' ' || agent_title, updated_at from sessions
        where own_title || agent_title != ''
    union all select key, null, 'system prompt', system_prompt, created_at from sessions where system_prompt != ''
    union all select session, null, 'summary', text, created_at from summaries
    union all select session, entry_seq, 'note', text, created_at from notes
    union all select session, entry_seq, 'fact', text, updated_at from facts
"""
_OTHER_FIELDS = "('title', 'system prompt', 'summary', 'note', 'fact')"
_INSERT_LEAK = "insert or ignore into leaks (fingerprint, rule, tier) values (?, ?, ?)"
_INSERT_PLACE = """
    insert or ignore into leak_places (fingerprint, session, entry_seq, field, path, line, start, length, at)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_NOTE_PROGRESS = "insert or replace into leak_progress (session, seq, rules) values (?, ?, ?)"
_NOTE_FILE = "insert or replace into leak_files (path, stamp, rules, reason) values (?, ?, ?, ?)"


class _Place(NamedTuple):
    """Is a row of `leak_places`, with the value, which is never stored."""

    value: str
    rule: str
    tier: str
    session: int | None
    entry_seq: int | None
    field: str
    path: str
    line: int | None
    start: int
    length: int
    at: str


class StoreScan:
    """Scans one store. `steps` does the work, a short piece at a time."""

    def __init__(self, store: Store, *, is_idle: bool = False) -> None:
        self._store = store
        self._is_idle = is_idle
        self._is_complete = has_extra()
        marker = _identify_own_values(store, is_idle)
        self._has_own_values = bool(marker)
        self.rules = _identify_rules(self._is_complete) + marker
        self._current_rules = self.rules if marker else f"{self.rules}*"
        """Matches the rules of what need not be scanned again: also for more values than are known now."""
        self._key = b""
        is_without = not marker and store.row("select 1 from secrets limit 1")
        self._locked_note = "The values of your secrets were not looked for: they are locked." if is_without else ""
        self.sessions = self.texts = self.bytes = self.files = 0

    @cached_property
    def scanner(self) -> Scanner:
        return load_scanner(self._store.secrets.all_values() if self._has_own_values else ())

    def steps(self) -> Iterator[None]:
        """Scan everything that is not scanned yet, and yield after each short step."""
        self._key = (read_leak_key if self._is_idle else read_or_renew_leak_key)(self._store)
        yield from self._scan_sessions()
        self._scan_other_texts()
        yield
        yield from self._scan_files()

    @property
    def limits(self) -> str:
        """Say what was not looked for, or nothing."""
        return " ".join(filter(None, [describe_limits(is_complete=self._is_complete), self._locked_note]))

    def count_pending(self) -> int:
        """Count the sessions with texts that are not scanned yet."""
        (unread,) = self._store.row("select count(*) from sessions where tail is null")
        return len(self._store.rows(_SELECT_PENDING, self._current_rules)) + int(unread)

    def count_pending_files(self) -> int:
        """Count the files of agents that are new or were changed since they were scanned."""
        known = self._read_file_stamps()
        return sum(known.get(str(path)) != _file_stamp(status) for path, status in _list_files(self._store))

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────

    def _scan_sessions(self) -> Iterator[None]:
        for session, last_seq in self._store.rows(_SELECT_PENDING, self._current_rules):
            if last_seq == -2:
                self._forget_session(session)
            yield from self._scan_session(session, last_seq)
            self.sessions += 1

    def _forget_session(self, session: int) -> None:
        with self._store.transaction(durable=False) as connection:
            forget = f"delete from leak_places where session = ? and field not in {_OTHER_FIELDS}"
            connection.execute(forget, (session,))

    def _scan_session(self, session: int, last_seq: int) -> Iterator[None]:
        found: list[_Place] = []
        scanned_bytes, last_record, seq = 0, None, last_seq
        for seq, record, text, inherited, at in self._store.rows(_SELECT_ENTRIES, session, last_seq):
            if inherited or (record is not None and record == last_record):
                continue
            last_record = record
            data = self._read_texts(session, seq, record, text)
            scanned_bytes += len(data)
            found += self._scan_entry(session, seq, record, data, at)
            if scanned_bytes >= STEP_BYTES:
                self._write(found, _NOTE_PROGRESS, session, seq, self.rules)
                found, scanned_bytes = [], 0
                yield
        self._write(found, _NOTE_PROGRESS, session, seq, self.rules)
        yield

    def _read_texts(self, session: int, seq: int, record: int | None, text: str) -> bytes:
        """Return the record of an entry, which has everything that was derived from it; without one, its own texts."""
        self.texts += 1
        if record is None:
            parts = self._store.chains.entry(session, seq).parts
            data = "\n".join([text, *(string for part in parts for string in list_strings(part))]).encode(
                "utf-8", "surrogatepass"
            )
        else:
            try:
                data = self._store.records.get(record)
            except Damaged:  # `doctor` reports it
                data = b""
        self.bytes += len(data)
        return decode_escapes(data)

    def _scan_entry(self, session: int, seq: int, record: int | None, data: bytes, at: str) -> Iterator[_Place]:
        """Yield what is found in a record, each with the entry and the field that shows it."""
        entries: list[Entry] = []
        for match in self.scanner.scan_bytes(data):
            value = data[match.start : match.end].decode("utf-8", "replace")
            if not entries:
                entries = self._list_entries_of(session, seq, record)
            entry, field, start, length = _find_field(entries, value, match.start)
            yield _Place(value, match.rule, match.tier, session, entry.seq, field, "", None, start, length, at)

    def _list_entries_of(self, session: int, seq: int, record: int | None) -> list[Entry]:
        if record is None:
            return [self._store.chains.entry(session, seq)]
        rows = self._store.rows(
            "select seq from entries where session = ? and record = ? order by seq", session, record
        )
        return [self._store.chains.entry(session, seq) for (seq,) in rows]

    # ── other texts ───────────────────────────────────────────────────────────────────────────────

    def _scan_other_texts(self) -> None:
        """Scan titles, system prompts, summaries, notes and facts. They are few, so all are scanned each time."""
        found: list[_Place] = []
        for session, seq, field, text, at in self._store.rows(_SELECT_OTHER_TEXTS):
            self.texts += 1
            for match in self.scanner.scan(text):
                value = text[match.start : match.end]
                span = match.start, len(value)
                found.append(_Place(value, match.rule, match.tier, session, seq, field, "", None, *span, at))
        known = self._store.rows(f"select 1 from leak_places where field in {_OTHER_FIELDS} limit 1")
        if found or known:
            self._write(found, f"delete from leak_places where field in {_OTHER_FIELDS}")

    # ── files of agents ───────────────────────────────────────────────────────────────────────────

    def _scan_files(self) -> Iterator[None]:
        known = self._read_file_stamps()
        present: set[str] = set()
        for path, status in _list_files(self._store):
            present.add(str(path))
            if known.get(str(path)) != _file_stamp(status) and not (self._is_idle and _takes_long(status)):
                self._scan_file(path, status)
                yield
        self._forget_files(known.keys() - present)

    def _read_file_stamps(self) -> dict[str, str]:
        """Return the files that were scanned, each with its stamp then, or an empty one if other rules are used now."""
        sql = "select path, case when rules glob ? then stamp else '' end from leak_files"
        return dict(self._store.rows(sql, self._current_rules))

    def _scan_file(self, path: Path, status: os.stat_result) -> None:
        scan = FileScan(self.scanner)
        try:
            at = format_change_time(status)
            found = [_place_in_file(found, str(path), at) for found in scan.find_in_file(path)]
            reasons = [item.reason for item in (*scan.unreadable, *scan.not_scanned)]
        except (OSError, OverflowError, StoreError) as error:
            found, reasons = [], [getattr(error, "strerror", "") or str(error)]
        self.files += scan.files
        self.bytes += scan.bytes
        with self._store.transaction(durable=False) as connection:
            connection.execute("delete from leak_places where path = ?", (str(path),))
            self._write(found, _NOTE_FILE, str(path), _file_stamp(status), self.rules, "; ".join(reasons))

    def _forget_files(self, paths: Iterable[str]) -> None:
        """Forget files that are gone."""
        with self._store.transaction(durable=False) as connection:
            for path in paths:
                connection.execute("delete from leak_places where path = ?", (path,))
                connection.execute("delete from leak_files where path = ?", (path,))

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    def _write(self, found: Iterable[_Place], statement: str, *values: object) -> None:
        """Execute the statement that notes the progress, and store what was found, in one transaction."""
        rows = [(compute_fingerprint(self._key, place.value), place) for place in found]
        with self._store.transaction(durable=False) as connection:
            connection.execute(statement, values)
            connection.executemany(_INSERT_LEAK, [(name, place.rule, place.tier) for name, place in rows])
            connection.executemany(_INSERT_PLACE, [(name, *place[3:]) for name, place in rows])


def _takes_long(status: os.stat_result) -> bool:
    """Return whether a file is large, or is being written to, so that it would be scanned again and again."""
    return status.st_size > MAX_IDLE_FILE_BYTES or abs(time.time() - status.st_mtime) < QUIET_SECONDS


def _file_stamp(status: os.stat_result) -> str:
    return f"{status.st_size}:{status.st_mtime_ns}"


def list_agent_files(store: Store) -> Iterator[Path]:
    """Yield the files in the stores that were synced, and the settings of Claude Code in the folders of sessions."""
    return (path for path, _ in _list_files(store))


def _list_files(store: Store) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files of agents with their status. Links are not followed, and what cannot be looked at is left out."""
    seen: set[Path] = set()
    for path in _list_paths(store):
        if path not in seen:
            seen.add(path)
            with suppress(OSError, ValueError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and not is_side_file(path):
                    yield path, status


def _list_paths(store: Store) -> Iterator[Path]:
    for (locator,) in store.rows("select locator from sources order by key"):
        if not is_url(locator):
            root = Path(os.path.expanduser(locator))
            yield from _walk(root) if root.is_dir() else [root]
    for (folder,) in store.rows("select distinct cwd from sessions where cwd != ''"):
        yield Path(folder, ".claude", "settings.local.json")


def list_not_scanned(store: Store) -> list[NotScanned]:
    """Return the files that could not be looked into, each with the reason."""
    rows = store.rows("select path, reason from leak_files where reason != '' order by path")
    return [NotScanned(path, reason) for path, reason in rows]


def _walk(root: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(root):
        folders.sort()
        yield from (Path(parent, name) for name in sorted(names))


def _identify_own_values(store: Store, is_idle: bool) -> str:
    """Return what identifies the current secrets of the store, or nothing if their values are not looked for.

    They are left out where reading them would need a passphrase, or could make the system's keyring ask for one.
    """
    count, newest = store.row("select count(*), max(created_at) from secrets")
    return "" if not count or is_idle or store.secrets.is_locked else f" with {count} secrets of {newest}"


@cache
def _identify_rules(is_complete: bool) -> str:
    """Return a text that changes when other rules are used."""
    patterns = "\n".join(f"{rule.id} {rule.tier} {rule.pattern}" for rule in list_rules(is_complete=is_complete))
    return hashlib.sha256(f"{SCAN_VERSION}\n{patterns}".encode()).hexdigest()[:16]


def _place_in_file(found: FoundValue, path: str, at: str) -> _Place:
    rule, tier, span = found.match.rule, found.match.tier, (found.match.start, len(found.value))
    return _Place(found.value, rule, tier, None, None, found.field or "", path, found.line, *span, at)


def _find_field(entries: list[Entry], value: str, start: int) -> tuple[Entry, str, int, int]:
    """Return the entry and the field that show a value, where it begins there, and its length.

    Otherwise it is in the record, where it begins at `start`.
    """
    forms = unescape_value(value)
    for entry in entries:
        for field, text in list_field_texts(entry):
            for form in forms:
                if (found := text.find(form)) >= 0:
                    return entry, field, found, len(form)
    return entries[0], "record", start, len(value)


def list_field_texts(entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield every text that an entry shows, with the name of its field."""
    for part in entry.parts:
        for string in list_strings(part):
            yield _FIELD_NAMES.get(type(part), "other"), string
    yield "text", entry.text


_FIELD_NAMES: dict[type, str] = {
    Text: "text",
    Thinking: "thinking",
    ToolCall: "tool arguments",
    ToolResult: "tool result",
    Attachment: "attachment",
}


def list_strings(part: object) -> Iterator[str]:
    """Yield every text in a part, however deep."""
    match part:
        case Text() | Thinking():
            yield part.text
            return
        case ToolCall():
            waiting: list[Json] = [part.arguments]
        case ToolResult():
            waiting = [part.output]
        case Attachment():
            waiting = [part.name, part.uri]
        case _:
            waiting = [getattr(part, "value", None)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            waiting += value
