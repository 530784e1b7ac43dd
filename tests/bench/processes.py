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

POLL_SECONDS = 0.02
"""Seconds between two looks at a program."""

CHECK_PRECISION = 100
"""Between two questions whether something is there lies at least this part of the time that has passed: whoever asks
takes time from who is asked about."""

TIMEOUT = 900
PAGE = os.sysconf("SC_PAGE_SIZE")


class BenchmarkError(Exception):
    "A program did not do what it should; the words say what."


class ProcessUsage(NamedTuple):
    seconds: float
    peak_megabytes: float
    "At most, of all its processes together."
    condition_times: tuple[float, ...]
    "The seconds at which what was waited for was there, one after the other."


def isolated_environment(home: Path, state: Path) -> dict[str, str]:
    """A person with that home and nothing else; whatever a program keeps goes to `state`."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    places = {f"XDG_{name}_HOME": str(state) for name in ("CACHE", "CONFIG", "DATA", "STATE")}
    # As installed programs are: compiled already, whatever is usual where this runs.
    compiled = {"PYTHONPYCACHEPREFIX": str(state.parent.parent / "compiled")}
    return {"LANG": "C.UTF-8", **kept, **places, **compiled, "HOME": str(home), "TZ": "UTC"}


def run_measured(command: Sequence[str | Path], env: Mapping[str, str], *there: Callable[[], bool]) -> ProcessUsage:
    with tempfile.TemporaryFile() as said:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
        with _ProcessMonitor(process.pid, begun, there) as watch:
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
            raise BenchmarkError(
                f"{Path(command[0]).name} ended with {status}: {words[-1] if words else 'without a word'}"
            )
    return ProcessUsage(seconds, watch.peak_megabytes, tuple(watch.condition_times))


class _ProcessMonitor(threading.Thread):
    """Looks on from a thread of its own, so that the end is noticed at once."""

    def __init__(self, pid: int, begun: float, awaited: Sequence[Callable[[], bool]]) -> None:
        super().__init__(daemon=True)
        self.peak_megabytes = 0.0
        self.condition_times: list[float] = []
        self._pid = pid
        self._begun = begun
        self._conditions = awaited
        self._last_check = 0.0
        self._stopped = threading.Event()

    def __enter__(self) -> _ProcessMonitor:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join()
        self._check_condition()

    def run(self) -> None:
        while not self._stopped.wait(POLL_SECONDS):
            self.peak_megabytes = max(self.peak_megabytes, resident_megabytes(self._pid))
            passed = time.perf_counter() - self._begun
            if passed > self._last_check * (1 + 1 / CHECK_PRECISION):
                self._last_check = passed
                self._check_condition()
            if passed > TIMEOUT:
                os.killpg(self._pid, signal.SIGKILL)

    def _check_condition(self) -> None:
        begun = time.perf_counter()  # what is seen was there by then, however long the look takes
        if len(self.condition_times) < len(self._conditions) and self._conditions[len(self.condition_times)]():
            self.condition_times.append(begun - self._begun)


def resident_megabytes(pid: int) -> float:
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


def folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
