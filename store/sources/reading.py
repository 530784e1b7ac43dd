"""What readers share: a foreign SQLite file opened so that its owner never notices and its schema can do no harm."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from store.errors import Busy, Unreadable
from store.model import NewRecord

Row = sqlite3.Row

LONGEST_VALUE = 64 * 1024 * 1024
SECONDS_PER_STATEMENT = 60.0
COPY_TRIES = 3
BATCH_ENTRIES = 500
BATCH_BYTES = 4 * 1024 * 1024


# ── the file, untouched ───────────────────────────────────────────────────────────────────────────


def file_stamp(path: Path) -> str:
    """Size, time and change counter of the file, and of the WAL beside it. Empty when it cannot be told."""
    try:
        main = path.stat()
        with path.open("rb") as file:
            counter = file.read(28)[24:28].hex()
        wal = _side_file(path, "-wal")
        beside = wal.stat() if wal.exists() else None
    except OSError:
        return ""
    told = [main.st_size, main.st_mtime_ns, counter]
    if beside:
        told += [beside.st_size, beside.st_mtime_ns]
    return ":".join(map(str, told))


def is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


@contextmanager
def snapshot(path: Path, *, check: bool = True) -> Iterator[sqlite3.Connection]:
    """The store as it was at one moment, readable for as long as it takes."""
    with private_copy(path) as copy:
        try:
            connection = _guarded(copy, path, check)
        except sqlite3.Error as reason:
            raise Unreadable(f"{path} cannot be read: {reason}.") from None
        with closing(connection):
            try:
                yield connection
            except (sqlite3.Error, UnicodeDecodeError) as reason:
                # Damage that no check found; a name in the schema that is no text.
                raise Unreadable(f"{path} cannot be read: {reason}.") from None


@contextmanager
def private_copy(path: Path) -> Iterator[Path]:
    """A copy, since a lock held while rows are understood makes owners without a busy timeout lose what they write."""
    if not is_sqlite(path):
        raise Unreadable(f"{path} is not a SQLite database.")
    with tempfile.TemporaryDirectory(prefix="backscroll-") as folder:
        copy = Path(folder) / "copy.db"
        os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        _copy(path, copy)
        yield copy


def _side_file(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _is_wal(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(20)[18:20] == b"\x02\x02"


def _copy(path: Path, copy: Path) -> None:
    try:
        if _is_wal(path) and _side_file(path, "-wal").exists() and _side_file(path, "-shm").exists():
            _copy_live_wal(path, copy)
        else:
            _copy_settled(path, copy)
    except OSError as reason:
        raise Unreadable(f"{path} cannot be read: {reason.strerror}.") from None


def _copy_live_wal(path: Path, copy: Path) -> None:
    """One short read transaction, which in WAL mode no writer ever waits for."""
    try:
        with (
            closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as live,
            closing(sqlite3.connect(copy)) as target,
        ):
            live.backup(target)
    except sqlite3.Error:
        _copy_settled(path, copy)


def _copy_settled(path: Path, copy: Path) -> None:
    """No SQLite lock at all: byte for byte, accepted when nothing moved meanwhile."""
    for attempt in range(COPY_TRIES):
        if attempt:
            time.sleep(0.05 * attempt)
        before = file_stamp(path)
        if _side_file(path, "-journal").exists() and _side_file(path, "-journal").stat().st_size:
            continue
        shutil.copyfile(path, copy)
        wal = _side_file(path, "-wal")
        if _is_wal(path) and wal.exists():
            shutil.copyfile(wal, _side_file(copy, "-wal"))
        if file_stamp(path) == before and not _side_file(path, "-journal").exists():
            return
    raise Busy(f"{path} is being written to; it will be read later.")


_ALLOWED = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)


def _guarded(copy: Path, path: Path, check: bool) -> sqlite3.Connection:
    """Selects only, bounded in time and size, nothing of the schema trusted."""
    connection = sqlite3.connect(copy, isolation_level=None)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.row_factory = sqlite3.Row
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    for pragma in ("trusted_schema = off", "cell_size_check = on", "query_only = on", "mmap_size = 0"):
        connection.execute(f"pragma {pragma}")
    try:
        found = connection.execute("pragma quick_check(1)").fetchone()[0] if check else "ok"
        if found != "ok":
            raise Unreadable(f"{path} is damaged: {found}.")
        _give_up_after(connection, SECONDS_PER_STATEMENT)
        connection.set_authorizer(
            lambda action, what, *_: (
                sqlite3.SQLITE_OK if action in _ALLOWED or _is_harmless(action, what) else sqlite3.SQLITE_DENY
            )
        )
    except BaseException:
        connection.close()
        raise
    return connection


def _is_harmless(action: int, what: str | None) -> bool:
    return action == sqlite3.SQLITE_PRAGMA and (what or "").lower() in ("table_info", "table_xinfo")


def _give_up_after(connection: sqlite3.Connection, seconds: float) -> None:
    """A hostile view can select for ever; an honest table gives its next row soon."""
    deadline = [time.monotonic() + seconds]

    def past_deadline() -> int:
        return time.monotonic() > deadline[0]

    def restart(_: str) -> None:
        deadline[0] = time.monotonic() + seconds

    connection.set_progress_handler(past_deadline, 100_000)
    connection.set_trace_callback(restart)


def tables(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    """Real tables and their columns; views and virtual tables are not looked at."""
    names = connection.execute(
        "select name from sqlite_master where type = 'table' and sql not like 'create virtual%'"
    ).fetchall()
    return {
        name: frozenset(row[1] for row in connection.execute(f"pragma table_info({_quoted(name)})").fetchall())
        for (name,) in names
    }


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def looks_like(locator: str, wanted: Mapping[str, Iterable[str]]) -> bool:
    """Whether the file is a SQLite database with these tables and columns. By content, never by name."""
    path = Path(locator)
    try:
        found = _peek(path, file_stamp(path))
    except (Unreadable, Busy):
        return False
    return all(set(columns) <= found.get(table, frozenset()) for table, columns in wanted.items())


@lru_cache(maxsize=32)
def _peek(path: Path, stamp: str) -> dict[str, frozenset[str]]:
    """Tables and columns, looked up once however many sources ask whether the file is theirs."""
    with snapshot(path, check=False) as connection:
        return tables(connection)


# ── rows and records ──────────────────────────────────────────────────────────────────────────────


def row_record(row: Row, place: str, position: object, *, without: Collection[str] = ()) -> NewRecord:
    """The row verbatim, as a JSON object; `without` what must not be kept."""
    shown = dict(zip(row.keys(), row, strict=True))
    for name in without:
        shown.pop(name, None)
    return NewRecord(orjson.dumps(shown, default=_blob), place, str(position))


def _blob(value: object) -> object:
    if not isinstance(value, bytes):
        raise TypeError
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"$base64": base64.b64encode(value).decode()}


def digest(*values: object) -> str:
    """A stamp of what was read."""
    sum_ = hashlib.blake2b(digest_size=12)
    for value in values:
        data = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")
        sum_.update(len(data).to_bytes(8, "big"))
        sum_.update(data)
    return sum_.hexdigest()


# ── times ─────────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=4096)
def utc(value: object) -> str:
    """A time as foreign programs spell it, in ours; empty when it is none. Without a zone it is UTC."""
    if isinstance(value, str):
        try:
            return _spelled(datetime.fromisoformat(value.strip()))
        except (ValueError, OverflowError):
            return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _from_epoch(float(value))
    return ""


def _from_epoch(seconds: float) -> str:
    if abs(seconds) > 1e11:  # milliseconds
        seconds /= 1000
    try:
        return _spelled(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return ""


def _spelled(moment: datetime) -> str:
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="microseconds") + "Z"


def latest(times: Iterable[str]) -> str:
    return max(times, default="")


def chunked(sequence: Sequence[Any], size: int = BATCH_ENTRIES) -> Iterator[Sequence[Any]]:
    for start in range(0, len(sequence), size):
        yield sequence[start : start + size]
