"""This module scans files and folders, with the memory of a few megabytes however large a file is.

Text is read in chunks. SQLite databases are read row by row, from a copy. What cannot be looked into is named with the
reason, because a person must not believe that it was.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

from store.errors import StoreError
from store.leaks.escapes import decode_escapes, split_before_escape
from store.leaks.fingerprint import compute_fingerprint
from store.leaks.rules import Tier
from store.leaks.scanner import MAX_SECRET_BYTES, Match, Scanner, mask
from store.model.leak import Leak, LeakPlace, NotScanned
from store.sources.kit.jsonl import MAX_HOLE_BYTES
from store.sources.kit.private_copy import used_bytes
from store.sources.kit.sqlite import read_tables, snapshot
from store.sources.kit.stamps import open_regular_file

CHUNK_BYTES = 2 * 1024 * 1024
MAX_FILE_BYTES = 8 * 1024 * 1024 * 1024
"""A larger file is not scanned. It would take minutes, and a sparse one could have any size."""

BEGINNING_BYTES = 8192
SQLITE_MAGIC = b"SQLite format 3\0"
_ARCHIVES = {
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "compressed with gzip",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"\xfd7zXZ": "compressed with xz",
    b"BZh": "compressed with bzip2",
    b"7z\xbc\xaf": "a 7z archive",
}
_BASE64_MARKS = (b";base64,", b'"base64"')


class FoundValue(NamedTuple):
    """Is a match in a file, with its value. It is kept in memory only until its fingerprint is computed."""

    match: Match
    value: str
    field: str | None
    line: int | None


class _Collected:
    """Collects the places of one value."""

    def __init__(self, rule: str, tier: Tier) -> None:
        self.rule = rule
        self.tier = tier
        self.places: dict[LeakPlace, str] = {}
        "Holds for each place when its file was changed."

    def to_leak(self, fingerprint: str) -> Leak:
        times = self.places.values()
        return Leak(fingerprint, self.rule, self.tier, mask(self.rule), tuple(self.places), min(times), max(times))


class FileScan:
    """Scans files one after the other, and collects what it finds."""

    def __init__(self, scanner: Scanner, key: bytes | None = None) -> None:
        self._scanner = scanner
        self._key = key or secrets.token_bytes(32)
        self._collected: dict[str, _Collected] = {}
        self.files = 0
        self.texts = 0
        "Counts the values of databases."
        self.bytes = 0
        self.not_scanned: list[NotScanned] = []
        self.unreadable: list[NotScanned] = []

    @property
    def leaks(self) -> list[Leak]:
        """Return what was found, the surest first."""
        found = [collected.to_leak(fingerprint) for fingerprint, collected in self._collected.items()]
        return sorted(found, key=lambda leak: (Tier(leak.tier).rank, leak.places[0].path or ""))

    def scan(self, path: Path) -> None:
        """Scan a file, or all files in a folder. Links inside of a folder are not followed."""
        try:
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except (OSError, ValueError) as error:
            self._add_unreadable(path, error)
            return
        for file in self._walk(path) if is_folder else [path]:
            self.scan_file(file)

    def scan_file(self, path: Path) -> None:
        try:
            changed_at = format_change_time(path.stat())
            for found in self.find_in_file(path):
                self._add(found, str(path), changed_at)
        except (OSError, ValueError, OverflowError) as error:
            self._add_unreadable(path, error)

    def find_in_file(self, path: Path) -> Iterator[FoundValue]:
        """Yield what is found in a file. Count it, or name it as not scanned."""
        with open_regular_file(path) as file:
            beginning = file.read(BEGINNING_BYTES)
            status = os.fstat(file.fileno())
            if beginning.startswith(SQLITE_MAGIC):
                yield from self._find_in_database(path)
                if _is_truncated(beginning, status.st_size):
                    self.not_scanned.append(NotScanned(str(path), "a database whose end is missing"))
            elif reason := say_why_not(beginning, status.st_size) or _say_hole(status):
                self.not_scanned.append(NotScanned(str(path), reason))
                return
            else:
                file.seek(0)
                yield from self._find_in_text(path, file)
        self.files += 1

    def _walk(self, folder: Path) -> Iterator[Path]:
        def report(error: OSError) -> None:
            self._add_unreadable(Path(error.filename), error)

        for parent, folders, names in os.walk(folder, onerror=report):
            folders.sort()
            for name in sorted(names):
                path = Path(parent, name)
                if path.is_symlink() or is_side_file(path):
                    continue
                if path.is_file():
                    yield path
                else:
                    self.not_scanned.append(NotScanned(str(path), "not a regular file"))

    def _find_in_text(self, path: Path, file: BinaryIO) -> Iterator[FoundValue]:
        """Scan chunks that overlap, so that each secret is in one of them completely."""
        buffer = rest = b""
        line, reported, has_base64 = 1, 0, False
        while True:
            chunk = file.read(CHUNK_BYTES)
            self.bytes += len(chunk)
            has_base64 = has_base64 or any(mark in chunk for mark in _BASE64_MARKS)
            complete, rest = split_before_escape(rest + chunk) if chunk else (rest, b"")
            buffer += decode_escapes(complete)
            # A secret that ends further behind may go on in the next chunk, and is found there.
            end = len(buffer) - MAX_SECRET_BYTES if chunk else len(buffer)
            yield from self._find_in_chunk(buffer, reported, end, line)
            if not chunk:
                break
            cut = max(len(buffer) - 2 * MAX_SECRET_BYTES, 0)
            line += buffer.count(b"\n", 0, cut)
            buffer, reported = buffer[cut:], max(end - cut, 0)
        if has_base64:
            self.not_scanned.append(NotScanned(str(path), "base64 content"))

    def _find_in_chunk(self, buffer: bytes, reported: int, end: int, line: int) -> Iterator[FoundValue]:
        counted = 0
        for match in self._scanner.scan_bytes(buffer):
            if reported < match.end <= end:
                line += buffer.count(b"\n", counted, match.start)
                counted = match.start
                yield FoundValue(match, _decode(buffer[match.start : match.end]), None, line)

    def _find_in_database(self, path: Path) -> Iterator[FoundValue]:
        """Scan the text of every row. A database with values that are no text is named."""
        has_opaque = False
        try:
            with snapshot(path, check=False) as connection:
                for field, data in _list_values(connection):
                    if b"\0" in data:
                        has_opaque = True
                        continue
                    self.texts += 1
                    self.bytes += len(data)
                    decoded = decode_escapes(data)
                    for match in self._scanner.scan_bytes(decoded):
                        yield FoundValue(match, _decode(decoded[match.start : match.end]), field, None)
        except StoreError as error:
            self.unreadable.append(NotScanned(str(path), str(error)))
        if has_opaque:
            self.not_scanned.append(NotScanned(str(path), "values that are not text"))

    def _add(self, found: FoundValue, path: str, changed_at: str) -> None:
        fingerprint = compute_fingerprint(self._key, found.value)
        collected = self._collected.setdefault(fingerprint, _Collected(found.match.rule, found.match.tier))
        collected.places[LeakPlace(path=path, field=found.field, line=found.line)] = changed_at

    def _add_unreadable(self, path: Path, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        self.unreadable.append(NotScanned(str(path), reason))


def format_change_time(status: os.stat_result) -> str:
    """Return when a file was changed."""
    return datetime.fromtimestamp(status.st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_side_file(path: Path) -> bool:
    """Return whether a file belongs to a SQLite database beside it, with which it is read."""
    name, dash, kind = path.name.rpartition("-")
    return dash == "-" and kind in ("wal", "shm", "journal") and path.with_name(name).is_file()


def say_why_not(beginning: bytes, size: int) -> str:
    """Say why a file cannot be looked into, or nothing if it can."""
    for magic, reason in _ARCHIVES.items():
        if beginning.startswith(magic):
            return reason
    if b"\0" in beginning:
        return "not text"
    return f"larger than {MAX_FILE_BYTES >> 30} GB" if size > MAX_FILE_BYTES else ""


def _say_hole(status: os.stat_result) -> str:
    """Say that most of a file is not on the disk. Reading zeros would take minutes."""
    return "mostly a hole" if status.st_size - used_bytes(status) > MAX_HOLE_BYTES else ""


def _is_truncated(header: bytes, size: int) -> bool:
    """Return whether a database is shorter than its header says. SQLite reads the missing pages as empty tables."""
    page_bytes = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    is_valid = header[24:28] == header[92:96]  # old versions of SQLite do not write the number of pages
    return is_valid and size < pages * (page_bytes if page_bytes > 1 else 65_536)


def _list_values(connection: sqlite3.Connection) -> Iterator[tuple[str, bytes]]:
    """Yield the table and column of every text and blob of a database, and the value."""
    for table, columns in sorted(read_tables(connection).items()):
        name = table.replace('"', '""')
        for row in connection.execute(f'select * from "{name}"'):
            for column in columns:
                if data := _to_bytes(row[column]):
                    yield f"{table}.{column}", data


def _to_bytes(value: object) -> bytes:
    match value:
        case str():
            return value.encode("utf-8", "surrogatepass")
        case bytes():
            return value
    return b""


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")
