"""Trees of folders that the system itself watches: as long as it tells of nothing, they are as they were.

An open browser looks several times a second at what agents write, and to walk ten thousand files each time would take a
fifth of a processor. By hand, since the libraries for it hold the interpreter for a tenth of a second to begin with,
ten times as long as the system takes for as many folders.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from store.sources.kit.stamps import current_watcher

MAX_UNCHECKED_SECONDS = 15.0
"""So long at most nobody looks: the system does not tell of what another machine writes, or where a link leads."""

_ANY_CHANGE = 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
"""Written, touched, come, gone, moved, in a folder or the folder itself."""

_ONLY_DIRECTORIES = 0x01000000
_EVENT_BUFFER_BYTES = 1 << 16


@contextmanager
def watch_trees() -> Iterator[None]:
    """In this thread, a tree is not walked again before something has happened in it."""
    with ExitStack() as open_ones:
        before = current_watcher.set(_start_watcher(open_ones))
        try:
            yield
        finally:
            current_watcher.reset(before)


def _start_watcher(open_ones: ExitStack) -> TreeWatcher | None:
    """None where the system is another one, or a Python that was linked by itself cannot ask it."""
    with suppress(OSError):
        return TreeWatcher(open_ones) if sys.platform == "linux" else None
    return None


class TreeWatcher:
    def __init__(self, open_ones: ExitStack) -> None:
        self._exit_stack = open_ones
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._trees: dict[Hashable, _WatchedTree] = {}

    def stamp(self, tree: Hashable, walk: Callable[[Callable[[str], None]], str]) -> str:
        """The one that the tree had, or has. To walk it is to tell of each folder before it is looked into."""
        if tree not in self._trees:
            self._trees[tree] = _WatchedTree(self._libc, self._exit_stack)
        return self._trees[tree].stamp(walk)


class _WatchedTree:
    def __init__(self, system: ctypes.CDLL, open_ones: ExitStack) -> None:
        self._libc = system
        self._handle: int = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._handle >= 0:
            open_ones.callback(os.close, self._handle)
        self._stamp = ""
        self._valid_until = 0.0
        self._is_fully_watched = False

    def stamp(self, walk: Callable[[Callable[[str], None]], str]) -> str:
        if self._has_events() or time.monotonic() > self._valid_until:
            self._is_fully_watched = self._handle >= 0
            self._stamp = walk(self._watch_folder)
            self._valid_until = (
                time.monotonic() + MAX_UNCHECKED_SECONDS if self._is_fully_watched and self._stamp else 0.0
            )
        return self._stamp

    def _watch_folder(self, folder: str) -> None:
        """One that the system does not watch, since it may not, or has too many, leaves the tree to be walked."""
        if self._is_fully_watched:
            watch = self._libc.inotify_add_watch(self._handle, os.fsencode(folder), _ANY_CHANGE | _ONLY_DIRECTORIES)
            self._is_fully_watched = watch >= 0

    def _has_events(self) -> bool:
        """Anything since the last time. Also that the system could not note all of it is a thing it tells."""
        has_happened = False
        try:
            while self._handle >= 0 and os.read(self._handle, _EVENT_BUFFER_BYTES):
                has_happened = True
        except BlockingIOError:
            pass  # that was all
        return has_happened
