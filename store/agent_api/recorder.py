"""What an agent calls in its loop to have its conversation kept. Nothing here ever raises or waits long: an agent must
not stop because a disk is full or another program holds the store. What cannot be written now waits in memory, in
order and up to a bound, and is written as soon as it can be; what had to be given up is counted, and said in the store.
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

from store.agent_api.convert import prompt_entries, response_entries
from store.agent_api.methods import AgentFields
from store.errors import BadValue, NotFound, Refused, StoreError, Unreadable
from store.formats.content_blocks import parts_of_blocks
from store.model.entry import Json, NewEntry, NewRecord, Opaque
from store.model.session import Session
from store.store import Store
from store.text.validate import decode, encode, exact_text, now

KEEP = 10_000
KEEP_BYTES = 64 * 1024 * 1024
BUSY_TIMEOUT_MS = 250
LAST_WAIT_MS = 5_000
"""How long a lock is waited for at the very end, when there is no later."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0

OUT_OF_ROOM = "the store could not be written, and the room for what waits was full"
NOT_KEPT = "the agent gave a value that cannot be kept"

_log = logging.getLogger("store.agent_api.recorder")


@dataclass(slots=True)
class _Said:
    """Entries on their way, as they were when the agent said them."""

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
class _Summed:
    """A summary on its way."""

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
    """Where something is missing; it takes no room, so that the loss itself is never lost."""

    reason: str
    missing: int
    at: str
    count: int = 0
    size: int = 0

    def write(self, store: Store, session: Session) -> None:
        told = {"type": "lost", "missing": self.missing, "reason": self.reason}
        entry = NewEntry(
            kind="event",
            text=f"Not recorded here: {self.missing:,} ({self.reason}).",
            parts=(Opaque("lost", told),),
            record=NewRecord(encode(told)),
            created_at=self.at,
        )
        store.chains.append(session.key, [entry])


class Recorder:
    """`store` is a Store or the path of one; it is opened when there is something to write."""

    def __init__(
        self,
        store: Store | str | os.PathLike[str] | None,
        session_id: str,
        *,
        keep: int = KEEP,
        keep_bytes: int = KEEP_BYTES,
        pause: float = FIRST_PAUSE,
        **session: Unpack[AgentFields],
    ) -> None:
        self.session_id = session_id
        self.lost = 0
        "Entries that did not fit into memory while the store could not be written."
        self.refused = 0
        "Calls whose values cannot be kept, whatever the state of the disk."
        self._given = store
        self._keep, self._keep_bytes, self._first_pause = keep, keep_bytes, pause
        self._fields = session
        self._began = now()
        self._introduced = False
        self._opened: Store | None = None
        self._start_anew()
        _alive.add(self)

    def _start_anew(self) -> None:
        self._lock = threading.RLock()
        self._waiting: deque[_Said | _Summed | _Gap] = deque()
        self._count = self._size = 0
        self._pause = 0.0
        self._not_before = 0.0
        self._at_exit = False

    # ── what an agent says ────────────────────────────────────────────────────────────────────────

    def message(self, role: str, blocks: str | Sequence[Json], author: str = "", model: str = "") -> None:
        """One message, as `append_message` takes it."""
        self._take(lambda: _message(role, blocks, author, model))

    def turn(self, prompt: str | Sequence[Json], response: Json) -> None:
        """A prompt and the whole Response to it, as `save_turn` takes them."""
        self._take(lambda: _turn(prompt, response))

    def summary(self, text: str, up_to_turn: int | None = None) -> None:
        """What the session was about so far, as `set_summary` takes it."""
        self._take(lambda: _Summed(exact_text(text, "summary"), up_to_turn))

    def flush(self) -> bool:
        """Try now, whatever happened before; True when nothing waits any more."""
        try:
            with self._lock:
                return self._write_all()
        except Exception as error:
            _warn("The recorder failed", error)
            return False

    def close(self) -> None:
        """The last try, for which a lock is waited for longer; what still waits then is lost."""
        try:
            with self._lock:
                if self._waiting:
                    self._release()
                    self._write_all(LAST_WAIT_MS)
                self._give_up()
                self._release()
                atexit.unregister(self.close)
                self._at_exit = False
        except Exception as error:
            _warn("The recorder could not be closed", error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def waiting(self) -> int:
        """How many entries are not in the store yet."""
        return self._count

    # ── what waits ────────────────────────────────────────────────────────────────────────────────

    def _take(self, make: Callable[[], _Said | _Summed]) -> None:
        try:
            with self._lock:
                if not self._at_exit:
                    atexit.register(self.close)
                    self._at_exit = True
                try:
                    self._queue(make())
                except Exception as error:
                    self._refuse(error)
                if time.monotonic() >= self._not_before:
                    self._write_all()
                self._make_room()
        except Exception as error:
            _warn("The recorder failed", error)

    def _queue(self, item: _Said | _Summed | _Gap) -> None:
        self._waiting.append(item)
        self._count += item.count
        self._size += item.size

    def _unqueue(self, item: _Said | _Summed | _Gap) -> None:
        self._count -= item.count
        self._size -= item.size

    def _refuse(self, error: Exception) -> None:
        _warn("Something was not recorded", error)
        self.refused += 1
        self._mark_gap(NOT_KEPT, 1)

    def _make_room(self) -> None:
        """The newest goes, so that what is kept is whole from its beginning to the gap."""
        if self._count > self._keep or self._size > self._keep_bytes:
            item = self._waiting.pop()
            self._unqueue(item)
            self.lost += item.count
            self._mark_gap(OUT_OF_ROOM, item.count)

    def _mark_gap(self, reason: str, missing: int) -> None:
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, _Gap) and last.reason == reason:
            last.missing += missing
            return
        _log.warning("Parts of the conversation are being lost: %s.", reason)
        self._queue(_Gap(reason, missing, now()))

    def _give_up(self) -> None:
        if self._count:
            _log.warning("Never written, and lost: %d.", self._count)
            self.lost += self._count
        self._waiting.clear()
        self._count = self._size = 0

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    def _write_all(self, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> bool:
        """Everything in one transaction; if one item spoils it, each in one of its own."""
        while self._waiting:
            items = list(self._waiting)
            try:
                self._write(items, busy_timeout_ms)
            except Exception as error:
                if _may_pass(error):
                    self._back_off(error)
                    return False
                if not self._write_singly(items, busy_timeout_ms):
                    return False
            else:
                self._done(len(items))
        self._pause = self._not_before = 0.0
        return True

    def _write_singly(self, items: Sequence[_Said | _Summed | _Gap], busy_timeout_ms: int) -> bool:
        for item in items:
            try:
                self._write([item], busy_timeout_ms)
            except Exception as error:
                if _may_pass(error):
                    self._back_off(error)
                    return False
                _warn("Something was not recorded", error)
                self.refused += 1
                with suppress(Exception):
                    self._write([_Gap(NOT_KEPT, 1, now())], busy_timeout_ms)
            self._done(1)
        return True

    def _done(self, count: int) -> None:
        for _ in range(count):
            self._unqueue(self._waiting.popleft())

    def _write(self, items: Sequence[_Said | _Summed | _Gap], busy_timeout_ms: int) -> None:
        store = self._open(busy_timeout_ms)
        with store.transaction():
            session = self._session(store)
            for item in items:
                item.write(store, session)
        self._introduced = True

    def _open(self, busy_timeout_ms: int) -> Store:
        """A connection of its own: an agent's open transaction must not take the conversation back with it."""
        if self._opened is None:
            given = self._given
            if isinstance(given, Store) and not given.path.exists():
                raise Unreadable(f"The store {given.path} is gone.")
            path = given.path if isinstance(given, Store) else given
            self._opened = Store.open(path, busy_timeout_ms=busy_timeout_ms)
        return self._opened

    def _session(self, store: Store) -> Session:
        try:
            return self._introduce(store)
        except BadValue as error:
            if not self._fields:
                raise
            _warn("What was said of the session is not kept", error)
            self._fields = {}
            return self._introduce(store)

    def _introduce(self, store: Store) -> Session:
        with suppress(NotFound):
            if self._introduced:
                return store.get_session(self.session_id)
            return store.update_session(self.session_id, **self._fields)
        fields: AgentFields = {"created_at": self._began, **self._fields}
        return store.create_session(self.session_id, **fields)

    def _back_off(self, error: Exception) -> None:
        self._pause = min(self._pause * 2 or self._first_pause, LONGEST_PAUSE)
        self._not_before = time.monotonic() + self._pause
        _warn(f"Kept in memory for now ({self._count:,})", error)

    def _release(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _forget_parent(self) -> None:
        """In a forked child: what waits is the parent's to write, and its connection is not to be touched."""
        if self._opened is not None:
            _inherited.append(self._opened)
            self._opened = None
        atexit.unregister(self.close)
        self._start_anew()


def _may_pass(error: Exception) -> bool:
    """Whether the world is at fault and may mend, rather than the value, which will not."""
    return isinstance(error, StoreError | OSError) and not isinstance(error, BadValue | Refused)


def _warn(what: str, error: Exception) -> None:
    """Our own sentences hold no conversation; of a stranger's exception only its name is safe to log."""
    _log.warning("%s: %s", what, error if isinstance(error, StoreError) else type(error).__name__)


# ── what was said, as it was at that moment ───────────────────────────────────────────────────────
# An agent goes on changing its lists while they wait, so each is copied; by way of JSON, which also shows at once
# what cannot be kept.


def _message(role: str, blocks: str | Sequence[Json], author: str, model: str) -> _Said:
    data = encode({"role": exact_text(role, "role"), "content": blocks})
    parts = parts_of_blocks(decode(data)["content"])
    return _stamped([NewEntry(role=role, parts=parts, author=author, model=model, record=NewRecord(data))])


def _turn(prompt: str | Sequence[Json], response: Json) -> _Said:
    asked = prompt if isinstance(prompt, str) else decode(encode(list(prompt)))
    made_to_last = isinstance(response, str | bytes) or hasattr(response, "model_dump")
    return _stamped([*prompt_entries(asked), *response_entries(response if made_to_last else encode(response))])


def _stamped(entries: list[NewEntry]) -> _Said:
    at = now()
    for entry in entries:
        entry.created_at = at
    return _Said(entries)


# ── forks ─────────────────────────────────────────────────────────────────────────────────────────

_alive: WeakSet[Recorder] = WeakSet()
_inherited: list[Store] = []
"""Connections of a parent process, held so that they are never closed here."""


def _after_fork() -> None:
    for recorder in list(_alive):
        recorder._forget_parent()


os.register_at_fork(after_in_child=_after_fork)
