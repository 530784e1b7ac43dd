"""Programs run to their end, and what they took: time, memory of all their processes, and when something was there."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

EVERY = 0.02
"""Seconds between two looks at a program."""

PRECISELY = 100
"""Between two questions whether something is there lies at least this part of the time that has passed: whoever asks
takes time from who is asked about."""

PATIENCE = 900
PAGE = os.sysconf("SC_PAGE_SIZE")


class Failed(Exception):
    "A program did not do what it should; the words say what."


class Ran(NamedTuple):
    seconds: float
    megabytes: float
    "At most, of all its processes together."
    there: tuple[float, ...]
    "The seconds at which what was waited for was there, one after the other."


def environment(home: Path, state: Path) -> dict[str, str]:
    """A person with that home and nothing else; whatever a program keeps goes to `state`."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    places = {f"XDG_{name}_HOME": str(state) for name in ("CACHE", "CONFIG", "DATA", "STATE")}
    # As installed programs are: compiled already, whatever is usual where this runs.
    compiled = {"PYTHONPYCACHEPREFIX": str(state.parent.parent / "compiled")}
    return {"LANG": "C.UTF-8", **kept, **places, **compiled, "HOME": str(home), "TZ": "UTC"}


def run(command: Sequence[str | Path], env: Mapping[str, str], *there: Callable[[], bool]) -> Ran:
    with tempfile.TemporaryFile() as said:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
        with _Watch(process.pid, begun, there) as watch:
            try:
                # Without a limit, which the watch has: Python waits for an end within one in steps of 50 ms.
                status = process.wait()
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
            seconds = time.perf_counter() - begun
        if status:
            said.seek(0)
            words = said.read().decode(errors="replace").strip().splitlines()
            raise Failed(f"{Path(command[0]).name} ended with {status}: {words[-1] if words else 'without a word'}")
    return Ran(seconds, watch.megabytes, tuple(watch.there))


class _Watch(threading.Thread):
    """Looks on from a thread of its own, so that the end is noticed at once."""

    def __init__(self, pid: int, begun: float, awaited: Sequence[Callable[[], bool]]) -> None:
        super().__init__(daemon=True)
        self.megabytes = 0.0
        self.there: list[float] = []
        self._pid = pid
        self._begun = begun
        self._awaited = awaited
        self._looked_after = 0.0
        self._over = threading.Event()

    def __enter__(self) -> _Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        self._look()

    def run(self) -> None:
        while not self._over.wait(EVERY):
            self.megabytes = max(self.megabytes, resident(self._pid))
            passed = time.perf_counter() - self._begun
            if passed > self._looked_after * (1 + 1 / PRECISELY):
                self._looked_after = passed
                self._look()
            if passed > PATIENCE:
                os.killpg(self._pid, signal.SIGKILL)

    def _look(self) -> None:
        begun = time.perf_counter()  # what is seen was there by then, however long the look takes
        if len(self.there) < len(self._awaited) and self._awaited[len(self.there)]():
            self.there.append(begun - self._begun)


def resident(pid: int) -> float:
    """Megabytes of it and of all below it."""
    pages = 0
    waiting = [str(pid)]
    while waiting:
        folder = Path("/proc", waiting.pop())
        with suppress(OSError):  # it may end while one looks
            pages += int((folder / "statm").read_text().split()[1])
            for task in (folder / "task").iterdir():
                waiting += (task / "children").read_text().split()
    return pages * PAGE / 1e6


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
