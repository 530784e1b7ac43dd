"""How the largest archives stand, found out by a fork for each while this process still loads what will ask.

To walk ten thousand files takes as long as everything else that a refresh with nothing new does.
"""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, NoReturn

from store import sources
from store.sources.kit import homes
from store.sources.kit.locator import parse_location
from store.sync.splitting import may_fork

if TYPE_CHECKING:
    from store.sources.contract import Source


class Foretold(ExitStack):
    """What the forks say; nothing, where there may be none."""

    def __init__(self) -> None:
        super().__init__()
        self._pipes: dict[str, int] = {}
        if may_fork():
            for name in sources.LARGEST_SOURCES:
                for address in {parse_location(root).address for root in homes.find_roots(name)}:
                    if os.path.exists(address) and (source := sources.load_source(name)):
                        with suppress(OSError):  # there may be too many already
                            self._pipes[address] = self._fork(source, address)

    def _fork(self, source: Source, address: str) -> int:
        ours, theirs = os.pipe()
        self.callback(os.close, ours)
        try:
            child = os.fork()
            if not child:
                _tell(theirs, source, address)
        finally:
            os.close(theirs)
        self.callback(_end, child)
        return ours

    def stamp(self, address: str) -> str | None:
        """Once: whoever asks again wants to know how it stands by then. None where nothing was said of it."""
        pipe = self._pipes.pop(address, None)
        return os.read(pipe, 1_000).decode() or None if pipe is not None else None


def _tell(pipe: int, source: Source, address: str) -> NoReturn:
    """Comes back to nobody, and leaves everything else as it is: what is open here is the parent's."""
    try:
        os.write(pipe, source.stamp(address).encode())
    finally:
        os._exit(0)


def _end(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
