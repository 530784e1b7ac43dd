"""This module runs programs to their end and measures their time, their memory, and when a condition became true."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

POLL_SECONDS = 0.02
"""Is the time between two measurements of a program."""

CHECK_PRECISION = 100
"""Limits how often a condition is checked: the pause is at least this fraction (1/100) of the time that has passed.
Each check takes time from the program that is measured."""

TIMEOUT = 3600
PAGE = os.sysconf("SC_PAGE_SIZE")


class BenchmarkError(Exception):
    "Says what a measured program did wrong."


class ProcessUsage(NamedTuple):
    seconds: float
    processor_seconds: float
    "Includes the processes that it started and waited for."
    peak_megabytes: float
    "Is the largest sum over all its processes."
    condition_times: tuple[float, ...]
    "Holds the seconds at which the conditions became true, one after the other."


def isolated_environment(home: Path, state: Path) -> dict[str, str]:
    """Return an environment with this home and nothing else of the user. Programs keep their data in `state`."""
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    folders = {f"XDG_{name}_HOME": str(state) for name in ("CACHE", "CONFIG", "DATA", "STATE")}
    # Installed programs are compiled already, so let Python keep its bytecode here, too.
    compiled = {"PYTHONPYCACHEPREFIX": str(state.parent.parent / "compiled")}
    return {"LANG": "C.UTF-8", **inherited, **folders, **compiled, "HOME": str(home), "TZ": "UTC"}


def run_measured(
    command: Sequence[str | Path], env: Mapping[str, str], *conditions: Callable[[], bool]
) -> ProcessUsage:
    with tempfile.TemporaryFile() as output:
        processor_before = _processor_seconds_of_children()
        started = time.perf_counter()
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        with _ProcessMonitor(process.pid, started, conditions) as monitor:
            try:
                # No timeout here, because Python then polls every 50 ms. The monitor enforces the limit.
                status = process.wait()
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
            seconds = time.perf_counter() - started
            processor_seconds = _processor_seconds_of_children() - processor_before
        if status:
            output.seek(0)
            lines = output.read().decode(errors="replace").strip().splitlines()
            raise BenchmarkError(f"{Path(command[0]).name} ended with {status}: {lines[-1] if lines else 'no message'}")
    return ProcessUsage(seconds, processor_seconds, monitor.peak_megabytes, tuple(monitor.condition_times))


class _ProcessMonitor(threading.Thread):
    """Measures a process from a thread of its own, so that the main thread notices the end immediately."""

    def __init__(self, pid: int, started: float, conditions: Sequence[Callable[[], bool]]) -> None:
        super().__init__(daemon=True)
        self.peak_megabytes = 0.0
        self.condition_times: list[float] = []
        self._pid = pid
        self._started_at = started
        self._conditions = conditions
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
            passed = time.perf_counter() - self._started_at
            if passed > self._last_check * (1 + 1 / CHECK_PRECISION):
                self._last_check = passed
                self._check_condition()
            if passed > TIMEOUT:
                os.killpg(self._pid, signal.SIGKILL)

    def _check_condition(self) -> None:
        checked_at = time.perf_counter()  # the time before the check, however long the check takes
        if len(self.condition_times) < len(self._conditions) and self._conditions[len(self.condition_times)]():
            self.condition_times.append(checked_at - self._started_at)


def _processor_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def own_resident_megabytes(pid: int) -> float:
    """Return the resident memory of a process without its children."""
    return int(Path("/proc", str(pid), "statm").read_text().split()[1]) * PAGE / 1e6


def resident_megabytes(pid: int) -> float:
    """Return the resident memory of a process and all its descendants."""
    pages = 0
    for folder in _process_folders(pid):
        with suppress(OSError):  # a process may end meanwhile
            pages += int((folder / "statm").read_text().split()[1])
    return pages * PAGE / 1e6


def processor_ticks(pid: int) -> int:
    """Return the processor time that a process and its descendants have used, in ticks of the system's clock."""
    ticks = 0
    for folder in _process_folders(pid):
        with suppress(OSError):
            user, system = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
            ticks += int(user) + int(system)
    return ticks


def _process_folders(pid: int) -> Iterator[Path]:
    """Yield the folders in /proc of a process and all its descendants."""
    pending = [str(pid)]
    while pending:
        folder = Path("/proc", pending.pop())
        with suppress(OSError):
            for task in (folder / "task").iterdir():
                pending += (task / "children").read_text().split()
        yield folder


def folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
