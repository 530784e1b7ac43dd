"""Reads a large foreign store in a process of its own: understood on one core while it is written on the other.

And a file that brings SQLite down takes only that process with it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from store import sources
from store.conversations.derive import derive
from store.conversations.record_blocks import BLOCK_BYTES, Parcels
from store.errors import Busy, StoreError, Unreadable
from store.sources.contract import (
    Batch,
    ForeignFact,
    ForeignFile,
    ForeignSecret,
    Opened,
    Problem,
    Ref,
    Source,
    Unhurried,
)
from store.sources.kit.sqlite import BROKEN
from store.sync.child_process import Sender, has_begun, is_large, second

REFS, BEGIN, BATCH, END, FAILED, KNOWN, BROKE = "refs", "begin", "batch", "end", "failed", "known", "broke"


def opening(
    source: Source, address: str, reader: Connection | None, *, new: bool
) -> AbstractContextManager[Opened | Ahead]:
    """The foreign store, read here or ahead, whichever is quicker; new, when the store has nothing of it yet. By the
    process that has looked at it, where there is one."""
    if reader is not None:
        return nullcontext(Ahead(reader))
    return _ahead(source, address) if is_large(Path(address), new) else source.open(address)


def go_on_to_read(pipe: Connection) -> None:
    """Asks for what there is, with stamps; `Ahead` will meet the answer."""
    with suppress(OSError):  # who expects the answer will be told
        pipe.send(True)


def scan(opened: Opened | Ahead, *, stamped: bool) -> Iterator[Ref]:
    """What there is; without stamps when nothing is known to compare them with."""
    if isinstance(opened, Ahead):
        return opened.ask(stamped)
    return opened.scan_unstamped() if isinstance(opened, Unhurried) and not stamped else opened.scan()


@contextmanager
def _ahead(source: Source, address: str) -> Iterator[Opened | Ahead]:
    with second("reader_process") as pipe:
        if pipe is not None and has_begun(pipe):
            # Not among its arguments, which everybody on the machine can read: the address may hold a password.
            pipe.send((source.NAME, address))
            yield Ahead(pipe, asked=False)
            return
    # A program that cannot be started a second time, such as one that was frozen into a file, reads by itself.
    with source.open(address) as opened:
        yield opened


class Ahead:
    """A foreign store on the other side of a pipe, which is never full of more than a batch or two."""

    def __init__(self, pipe: Connection, *, asked: bool = True) -> None:
        self._pipe = pipe
        self._asked = asked
        self._told: deque[tuple[str, Any]] = deque()
        self._waiting = 0
        self._known: tuple[list[ForeignFact], list[ForeignSecret], list[ForeignFile]] | None = None
        self.problems: list[Problem] = []

    @property
    def has_more(self) -> bool:
        """Of what belongs together and came together: none of it may be kept without the rest."""
        return bool(self._told)

    def ask(self, stamped: bool) -> Iterator[Ref]:
        if not self._asked:
            self._pipe.send(stamped)
        yield from self._expect(REFS)

    def scan(self) -> Iterator[Ref]:
        return self.ask(stamped=True)

    def prepare(self, refs: Iterable[tuple[Ref, bool]]) -> None:
        """What will be read, in order; True where the store has nothing of it, so that rows can be made ready."""
        told = {ref.native_id: (ref, fresh) for ref, fresh in refs}
        self._waiting = len(told)
        self._pipe.send(told)

    def hurry(self, native_id: str) -> None:
        """That one before the others, if it was not read yet."""
        with suppress(BrokenPipeError):  # all was read, and waits to be taken
            self._pipe.send(native_id)

    def sessions(self) -> Iterator[tuple[Ref, Iterator[Batch]]]:
        """Those that were prepared, as they come."""
        for _ in range(self._waiting):
            ref = self._expect(BEGIN)
            batches = self._batches()
            yield ref, batches
            with suppress(Unreadable):
                for _ in batches:
                    pass  # whoever took it had enough of it

    def _batches(self) -> Iterator[Batch]:
        while True:
            what, told = self._receive()
            if what == END:
                return
            if what == FAILED:
                raise Unreadable(told)
            yield told

    def facts(self) -> Iterable[ForeignFact]:
        return self._rest()[0]

    def secrets(self) -> Iterable[ForeignSecret]:
        return self._rest()[1]

    def published(self) -> Iterable[ForeignFile]:
        return self._rest()[2]

    def _rest(self) -> tuple[list[ForeignFact], list[ForeignSecret], list[ForeignFile]]:
        if self._known is None:
            *known, self.problems = self._expect(KNOWN)
            self._known = (known[0], known[1], known[2])
        return self._known

    def _expect(self, wanted: str) -> Any:
        what, told = self._receive()
        if what != wanted:
            raise Unreadable("The reader said something unexpected.")
        return told

    def _receive(self) -> tuple[str, Any]:
        try:
            if not self._told:
                self._told.extend(self._pipe.recv())
        except (EOFError, OSError):
            raise Unreadable("The file brought its reader down; it may be damaged.") from None
        what, told = self._told.popleft()
        if what == BROKE:
            sentence, busy = told
            raise Busy(sentence) if busy else Unreadable(sentence)
        return what, told


# ── the other side ────────────────────────────────────────────────────────────────────────────────


def serve(pipe: Connection) -> None:
    sender = Sender(pipe)
    with suppress(EOFError, BrokenPipeError):  # nobody waits any more
        name, address = pipe.recv()
        read(pipe, sender, name, address)
    sender.finish()


def read(pipe: Connection, sender: Sender, name: str, address: str) -> None:
    """When somebody asks."""
    source = sources.by_name(name)
    stamped = pipe.recv()
    if source is None:
        return
    telling = _Telling(sender)
    # One that is damaged may bring its reader down; what was told before that is kept.
    many = os.path.isdir(address)
    try:
        with source.open(address) as opened:
            sender.send((REFS, list(scan(opened, stamped=stamped))))
            for ref, fresh, hurried in in_wanted_order(pipe, pipe.recv()):
                telling.session(opened, ref, fresh)
                if hurried or not many:
                    telling.send()
            known = (list(opened.facts()), list(opened.secrets()), list(opened.published()))
            telling.tell(KNOWN, (*known, opened.problems))
    except (StoreError, *BROKEN) as reason:
        telling.tell(BROKE, (str(reason), isinstance(reason, Busy)))
    telling.send()


def in_wanted_order(pipe: Connection, waiting: dict[str, tuple[Ref, bool]]) -> Iterator[tuple[Ref, bool, bool]]:
    """In their order, but for those that somebody asks for meanwhile: of those, True."""
    while waiting:
        while pipe.poll():
            if (asked := waiting.pop(pipe.recv(), None)) is not None:
                yield *asked, True
        if waiting:
            yield *waiting.pop(next(iter(waiting))), False


class _Telling:
    """Sends what belongs together, records in a block of their own: several small sessions, or a piece of a large."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._parcels = Parcels()
        self._told: list[tuple[str, Any]] = []
        self._size = 0
        "Of records that are in no block."

    def session(self, opened: Opened, ref: Ref, fresh: bool) -> None:
        self.tell(BEGIN, ref)
        try:
            for batch in opened.read(ref):
                if fresh:
                    batch.rows, batch.entries = self._parcels.lay(derive(batch.entries)), []
                else:
                    self._size += sum(len(entry.record.data) for entry in batch.entries if entry.record)
                self.tell(BATCH, batch)
        except (StoreError, *BROKEN) as reason:
            self.tell(FAILED, str(reason))
        else:
            self.tell(END, None)

    def tell(self, what: str, told: Any) -> None:
        self._told.append((what, told))
        if self._parcels.size + self._size >= BLOCK_BYTES:
            self.send()

    def send(self) -> None:
        self._parcels.close()
        self._sender.send(*self._told)
        self._told, self._size = [], 0
