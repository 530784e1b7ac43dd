"""The first look at a large archive: a row for every session and the words that were said in it, within seconds.

What was only skimmed is listed and found until it is read; then its own entries are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence, Set
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection

from store import sources
from store.search.quick_index import QuickIndexRow
from store.sources.contract import QuickSession, SupportsQuickRead
from store.sync.child_process import ReaderProcesses, ThreadedSender, send_job, wait_until_ready
from store.sync.reader_process import serve_store

FIRST_BATCH_SESSIONS = 40
"""Sessions that are told at once: more than the list shows."""

BATCH_CHARACTERS = 1_000_000
"""Of what was said, that are told together after those."""

_ROWS, _END = "sights", "end"


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


class QuickScan:
    """At one archive, by a process of its own that can then go on to read it."""

    def __init__(self, source: SupportsQuickRead, address: str, processes: ReaderProcesses | None) -> None:
        self._source = source
        self._address = address
        self._processes = processes
        self.reader_pipe: Connection | None = None
        "The process, once it has seen everything."

    def read_rows(self, known: Set[str], *, inline: bool) -> Iterator[Sequence[QuickIndexRow]]:
        """The newest few first; if they are wanted, here, unless a process is at it."""
        process = self._processes.take_started(self._job(known)) if self._processes else None
        if process is None:
            process = self._processes.start() if self._processes else None
            newest = [
                QuickIndexRow(skim)
                for skim in islice(self._source.quick_read(self._address, known), FIRST_BATCH_SESSIONS if inline else 0)
            ]
            if process is not None:
                send_job(process, self._job({*known, *(sight.native_id for sight in newest)}))
            if newest:
                yield newest
        if process is not None and wait_until_ready(process):
            with suppress(EOFError, OSError):  # it fell over something; whoever reads that will tell
                while _END not in (told := dict(process.recv())):
                    yield told[_ROWS]
                self.reader_pipe = process

    def _job(self, known: Set[str]) -> Hashable:
        return self._source.NAME, self._address, frozenset(known)


def serve(pipe: Connection) -> None:
    sender = ThreadedSender(pipe)
    with suppress(EOFError, BrokenPipeError):  # nobody waits any more
        name, address, known = pipe.recv()
        source = sources.load_source(name)
        if isinstance(source, SupportsQuickRead):
            for sights in _batch_rows(source.quick_read(address, known)):
                sender.send((_ROWS, sights))
        sender.send((_END, None))
        serve_store(pipe, sender, name, address)
    sender.finish()


def _batch_rows(skims: Iterator[QuickSession]) -> Iterator[list[QuickIndexRow]]:
    """The newest few, then as many as are worth a commit."""
    yield [QuickIndexRow(skim) for skim in islice(skims, FIRST_BATCH_SESSIONS)]
    sights: list[QuickIndexRow] = []
    letters = 0
    for skim in skims:
        sights.append(QuickIndexRow(skim))
        letters += len(sights[-1].text)
        if letters >= BATCH_CHARACTERS:
            yield sights
            sights, letters = [], 0
    yield sights


# ── keeping ───────────────────────────────────────────────────────────────────────────────────────
