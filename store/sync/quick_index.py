"""The first look at a large archive: a row for every session and the words that were said in it, within seconds.

What was only skimmed is listed and found until it is read; then its own entries are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence, Set
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection

from store import sources
from store.search.quick_index import Sight
from store.sources.contract import Skim, Skimming
from store.sync.child_process import Seconds, Sender, has_begun, tell
from store.sync.reader_process import read

FIRST = 40
"""Sessions that are told at once: more than the list shows."""

LETTERS = 1_000_000
"""Of what was said, that are told together after those."""

_SIGHTS, _END = "sights", "end"


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


class Look:
    """At one archive, by a process of its own that can then go on to read it."""

    def __init__(self, source: Skimming, address: str, processes: Seconds | None) -> None:
        self._source = source
        self._address = address
        self._processes = processes
        self.reader: Connection | None = None
        "The process, once it has seen everything."

    def sights(self, known: Set[str], *, here: bool) -> Iterator[Sequence[Sight]]:
        """The newest few first; if they are wanted, here, unless a process is at it."""
        process = self._processes.at_work_on(self._order(known)) if self._processes else None
        if process is None:
            process = self._processes.one() if self._processes else None
            newest = [Sight(skim) for skim in islice(self._source.skim(self._address, known), FIRST if here else 0)]
            if process is not None:
                tell(process, self._order({*known, *(sight.native_id for sight in newest)}))
            if newest:
                yield newest
        if process is not None and has_begun(process):
            with suppress(EOFError, OSError):  # it fell over something; whoever reads that will tell
                while _END not in (told := dict(process.recv())):
                    yield told[_SIGHTS]
                self.reader = process

    def _order(self, known: Set[str]) -> Hashable:
        return self._source.NAME, self._address, frozenset(known)


def serve(pipe: Connection) -> None:
    sender = Sender(pipe)
    with suppress(EOFError, BrokenPipeError):  # nobody waits any more
        name, address, known = pipe.recv()
        source = sources.by_name(name)
        if isinstance(source, Skimming):
            for sights in _together(source.skim(address, known)):
                sender.send((_SIGHTS, sights))
        sender.send((_END, None))
        read(pipe, sender, name, address)
    sender.finish()


def _together(skims: Iterator[Skim]) -> Iterator[list[Sight]]:
    """The newest few, then as many as are worth a commit."""
    yield [Sight(skim) for skim in islice(skims, FIRST)]
    sights: list[Sight] = []
    letters = 0
    for skim in skims:
        sights.append(Sight(skim))
        letters += len(sights[-1].text)
        if letters >= LETTERS:
            yield sights
            sights, letters = [], 0
    yield sights


# ── keeping ───────────────────────────────────────────────────────────────────────────────────────
