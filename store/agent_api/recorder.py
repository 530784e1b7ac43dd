"""This module records a conversation from inside an agent's loop.

Nothing here raises or waits long, because an agent must not stop when the disk is full or another program holds the
store. Whatever cannot be written now waits in memory, in order and up to a limit, and is written as soon as possible.
Entries that do not fit are counted, and the store says where they are missing.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self, Unpack
from weakref import WeakSet

from store.agent_api.convert import parse_prompt, parse_response
from store.agent_api.methods import AgentFields
from store.errors import BadValue, NotFound, Refused, StoreError, Unreadable
from store.formats.content_blocks import parse_blocks
from store.model.entry import Json, NewEntry, NewRecord, Opaque
from store.model.session import Session
from store.store import Store
from store.text.validate import decode, encode, utc_timestamp, validate_text

MAX_PENDING = 10_000
MAX_PENDING_BYTES = 64 * 1024 * 1024
BUSY_TIMEOUT_MS = 250
CLOSE_TIMEOUT_MS = 5_000
"""How long `close` waits for a lock, because it does not get another chance."""
FIRST_RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 30.0

MEMORY_FULL = "the store could not be written, and the queue was full"
UNSTORABLE = "the agent passed a value that cannot be stored"

_log = logging.getLogger("store.agent_api.recorder")


@dataclass(slots=True)
class _PendingEntries:
    """Holds entries that wait to be written, as they were when the agent recorded them."""

    entries: list[NewEntry]

    @property
    def count(self) -> int:
        return len(self.entries)

    @property
    def size(self) -> int:
        records = {id(entry.record): entry.record for entry in self.entries}
        return sum(len(record.data) for record in records.values() if record)

    def write(self, store: Store, session: Session) -> None:
        store.chains.append(session.key, self.entries)


@dataclass(slots=True)
class _PendingSummary:
    """Holds a summary that waits to be written."""

    text: str
    up_to_turn: int | None
    count: int = 1

    @property
    def size(self) -> int:
        return len(self.text)

    def write(self, store: Store, session: Session) -> None:
        store.set_summary(session.id, self.text, self.up_to_turn)


@dataclass(slots=True)
class _Gap:
    """Marks where entries are missing. It counts as empty, so that a full memory never drops it."""

    reason: str
    missing: int
    at: str
    count: int = 0
    size: int = 0

    def write(self, store: Store, session: Session) -> None:
        value = {"type": "lost", "missing": self.missing, "reason": self.reason}
        entry = NewEntry(
            kind="event",
            text=f"Not recorded here: {self.missing:,} ({self.reason}).",
            parts=(Opaque("lost", value),),
            record=NewRecord(encode(value)),
            created_at=self.at,
        )
        store.chains.append(session.key, [entry])


class Recorder:
    """Records one session. `store` is a Store or a path; it is opened when there is something to write."""

    def __init__(
        self,
        store: Store | str | os.PathLike[str] | None,
        session_id: str,
        *,
        max_pending: int = MAX_PENDING,
        max_pending_bytes: int = MAX_PENDING_BYTES,
        retry_seconds: float = FIRST_RETRY_SECONDS,
        **session: Unpack[AgentFields],
    ) -> None:
        self.session_id = session_id
        self.lost = 0
        "Counts entries that did not fit into memory while the store could not be written."
        self.refused = 0
        "Counts calls whose values can never be stored."
        self._store_or_path = store
        self._max_pending, self._max_pending_bytes, self._first_retry_seconds = (
            max_pending,
            max_pending_bytes,
            retry_seconds,
        )
        self._fields = session
        self._created_at = utc_timestamp()
        self._has_saved_session = False
        self._opened_store: Store | None = None
        self._reset()
        _recorders.add(self)

    def _reset(self) -> None:
        self._lock = threading.RLock()
        self._pending: deque[_PendingEntries | _PendingSummary | _Gap] = deque()
        self._pending_count = self._pending_bytes = 0
        self._retry_seconds = 0.0
        self._retry_at = 0.0
        self._is_registered_at_exit = False

    # ── methods for agents ────────────────────────────────────────────────────────────────────────

    def message(self, role: str, blocks: str | Sequence[Json], author: str = "", model: str = "") -> None:
        """Record one message, as `append_message` takes it."""
        self._record(lambda: _build_message(role, blocks, author, model))

    def turn(self, prompt: str | Sequence[Json], response: Json) -> None:
        """Record a prompt and the whole Response to it, as `save_turn` takes them."""
        self._record(lambda: _build_turn(prompt, response))

    def summary(self, text: str, up_to_turn: int | None = None) -> None:
        """Record a summary of the session, as `set_summary` takes it."""
        self._record(lambda: _PendingSummary(validate_text(text, "summary"), up_to_turn))

    def flush(self) -> bool:
        """Try to write everything now. Return True when nothing is waiting any more."""
        try:
            with self._lock:
                return self._write_all()
        except Exception as error:
            _warn("The recorder failed", error)
            return False

    def close(self) -> None:
        """Try for the last time, and wait longer for a lock. Whatever is still waiting then is lost."""
        try:
            with self._lock:
                if self._pending:
                    self._close_store()
                    self._write_all(CLOSE_TIMEOUT_MS)
                self._discard_pending()
                self._close_store()
                atexit.unregister(self.close)
                self._is_registered_at_exit = False
        except Exception as error:
            _warn("The recorder could not be closed", error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pending_count(self) -> int:
        """Return how many entries are not in the store yet."""
        return self._pending_count

    # ── waiting ───────────────────────────────────────────────────────────────────────────────────

    def _record(self, make: Callable[[], _PendingEntries | _PendingSummary]) -> None:
        try:
            with self._lock:
                if not self._is_registered_at_exit:
                    atexit.register(self.close)
                    self._is_registered_at_exit = True
                try:
                    self._enqueue(make())
                except Exception as error:
                    self._reject(error)
                if time.monotonic() >= self._retry_at:
                    self._write_all()
                self._drop_newest_if_full()
        except Exception as error:
            _warn("The recorder failed", error)

    def _enqueue(self, item: _PendingEntries | _PendingSummary | _Gap) -> None:
        self._pending.append(item)
        self._pending_count += item.count
        self._pending_bytes += item.size

    def _subtract_pending(self, item: _PendingEntries | _PendingSummary | _Gap) -> None:
        self._pending_count -= item.count
        self._pending_bytes -= item.size

    def _reject(self, error: Exception) -> None:
        _warn("Something was not recorded", error)
        self.refused += 1
        self._add_gap(UNSTORABLE, 1)

    def _drop_newest_if_full(self) -> None:
        """Drop the newest item, so that the recorded conversation is complete up to the gap."""
        if self._pending_count > self._max_pending or self._pending_bytes > self._max_pending_bytes:
            item = self._pending.pop()
            self._subtract_pending(item)
            self.lost += item.count
            self._add_gap(MEMORY_FULL, item.count)

    def _add_gap(self, reason: str, missing: int) -> None:
        last = self._pending[-1] if self._pending else None
        if isinstance(last, _Gap) and last.reason == reason:
            last.missing += missing
            return
        _log.warning("Parts of the conversation are being lost: %s.", reason)
        self._enqueue(_Gap(reason, missing, utc_timestamp()))

    def _discard_pending(self) -> None:
        if self._pending_count:
            _log.warning("Lost entries that could not be written: %d.", self._pending_count)
            self.lost += self._pending_count
        self._pending.clear()
        self._pending_count = self._pending_bytes = 0

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    def _write_all(self, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> bool:
        """Write everything in one transaction. If one item makes it fail, write each item in its own transaction."""
        while self._pending:
            items = list(self._pending)
            try:
                self._write(items, busy_timeout_ms)
            except Exception as error:
                if _is_temporary(error):
                    self._back_off(error)
                    return False
                if not self._write_one_by_one(items, busy_timeout_ms):
                    return False
            else:
                self._remove_written(len(items))
        self._retry_seconds = self._retry_at = 0.0
        return True

    def _write_one_by_one(
        self, items: Sequence[_PendingEntries | _PendingSummary | _Gap], busy_timeout_ms: int
    ) -> bool:
        for item in items:
            try:
                self._write([item], busy_timeout_ms)
            except Exception as error:
                if _is_temporary(error):
                    self._back_off(error)
                    return False
                _warn("Something was not recorded", error)
                self.refused += 1
                with suppress(Exception):
                    self._write([_Gap(UNSTORABLE, 1, utc_timestamp())], busy_timeout_ms)
            self._remove_written(1)
        return True

    def _remove_written(self, count: int) -> None:
        for _ in range(count):
            self._subtract_pending(self._pending.popleft())

    def _write(self, items: Sequence[_PendingEntries | _PendingSummary | _Gap], busy_timeout_ms: int) -> None:
        store = self._open_store(busy_timeout_ms)
        with store.transaction():
            session = self._load_session(store)
            for item in items:
                item.write(store, session)
        self._has_saved_session = True

    def _open_store(self, busy_timeout_ms: int) -> Store:
        """Return the recorder's own connection, so that a rollback by the agent does not undo what was recorded."""
        if self._opened_store is None:
            store_or_path = self._store_or_path
            if isinstance(store_or_path, Store) and not store_or_path.path.exists():
                raise Unreadable(f"The store {store_or_path.path} no longer exists.")
            path = store_or_path.path if isinstance(store_or_path, Store) else store_or_path
            self._opened_store = Store.open(path, busy_timeout_ms=busy_timeout_ms)
        return self._opened_store

    def _load_session(self, store: Store) -> Session:
        try:
            return self._ensure_session(store)
        except BadValue as error:
            if not self._fields:
                raise
            _warn("The fields of the session were not stored", error)
            self._fields = {}
            return self._ensure_session(store)

    def _ensure_session(self, store: Store) -> Session:
        with suppress(NotFound):
            if self._has_saved_session:
                return store.get_session(self.session_id)
            return store.update_session(self.session_id, **self._fields)
        fields: AgentFields = {"created_at": self._created_at, **self._fields}
        return store.create_session(self.session_id, **fields)

    def _back_off(self, error: Exception) -> None:
        self._retry_seconds = min(self._retry_seconds * 2 or self._first_retry_seconds, MAX_RETRY_SECONDS)
        self._retry_at = time.monotonic() + self._retry_seconds
        _warn(f"Kept in memory for now ({self._pending_count:,})", error)

    def _close_store(self) -> None:
        opened, self._opened_store = self._opened_store, None
        if opened is not None:
            opened.close()

    def _reset_after_fork(self) -> None:
        """Forget everything in a forked child: the parent writes what waits, and its connection must not be touched."""
        if self._opened_store is not None:
            _inherited_stores.append(self._opened_store)
            self._opened_store = None
        atexit.unregister(self.close)
        self._reset()


def _is_temporary(error: Exception) -> bool:
    """Return whether the write may succeed later. A bad value never does."""
    return isinstance(error, StoreError | OSError) and not isinstance(error, BadValue | Refused)


def _warn(message: str, error: Exception) -> None:
    """Log an error. The text of a foreign exception may quote the conversation, so only its class is logged."""
    _log.warning("%s: %s", message, error if isinstance(error, StoreError) else type(error).__name__)


# ── copies of what the agent recorded ─────────────────────────────────────────────────────────────
# An agent may change its lists while they wait, so they are copied. They are copied as JSON, which also finds values
# that cannot be stored while the agent's call is still running.


def _build_message(role: str, blocks: str | Sequence[Json], author: str, model: str) -> _PendingEntries:
    data = encode({"role": validate_text(role, "role"), "content": blocks})
    parts = parse_blocks(decode(data)["content"])
    return _with_timestamps([NewEntry(role=role, parts=parts, author=author, model=model, record=NewRecord(data))])


def _build_turn(prompt: str | Sequence[Json], response: Json) -> _PendingEntries:
    items = prompt if isinstance(prompt, str) else decode(encode(list(prompt)))
    needs_no_copy = isinstance(response, str | bytes) or hasattr(response, "model_dump")
    return _with_timestamps([*parse_prompt(items), *parse_response(response if needs_no_copy else encode(response))])


def _with_timestamps(entries: list[NewEntry]) -> _PendingEntries:
    at = utc_timestamp()
    for entry in entries:
        entry.created_at = at
    return _PendingEntries(entries)


# ── forks ─────────────────────────────────────────────────────────────────────────────────────────

_recorders: WeakSet[Recorder] = WeakSet()
_inherited_stores: list[Store] = []
"""Keeps the connections of the parent process alive, so that they are never closed in the child."""


def _after_fork() -> None:
    for recorder in list(_recorders):
        recorder._reset_after_fork()


os.register_at_fork(after_in_child=_after_fork)
