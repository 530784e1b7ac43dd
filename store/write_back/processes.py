"""This module finds processes: those that have a file open (in /proc, or with lsof), and those that run a program."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from store.errors import Refused
from store.paths import find_program

PROC = Path("/proc")
_SQLITE_SUFFIXES = ("", "-wal", "-shm", "-journal")
_FILES_AT_ONCE = 500


def has_proc() -> bool:
    """Return whether the system lists its processes in /proc."""
    return (PROC / "self").exists()


def find_processes_using(path: Path) -> list[int]:
    """Return the ids of other processes that have the file open, or a file that SQLite puts next to it."""
    return find_users([path])[path]


def find_users(paths: Sequence[Path]) -> dict[Path, list[int]]:
    """Return the ids of other processes that have each of the files open. One look at all processes answers for all.

    Processes of other people are invisible.
    """
    files = {Path(f"{path}{suffix}"): path for path in paths for suffix in _SQLITE_SUFFIXES}
    files = {file: path for file, path in files.items() if file.exists()}
    users: dict[Path, set[int]] = {path: set() for path in paths}
    if has_proc():
        for file, pid in _search_proc(files):
            users[files[file]].add(pid)
    else:
        for file, pid in _search_with_lsof([*files]):
            users[files[file]].add(pid)
    return {path: sorted(pids - {os.getpid()}) for path, pids in users.items()}


def _search_proc(files: Iterable[Path]) -> Iterator[tuple[Path, int]]:
    """Compare device and inode, because a process may see the file under another name."""
    by_identity: dict[tuple[int, int], list[Path]] = {}
    for file in files:
        stat = file.stat()
        by_identity.setdefault((stat.st_dev, stat.st_ino), []).append(file)
    for folder in PROC.glob("[0-9]*/fd"):
        with suppress(OSError):
            for descriptor in folder.iterdir():
                with suppress(OSError):
                    stat = descriptor.stat()
                    for file in by_identity.get((stat.st_dev, stat.st_ino), ()):
                        yield file, int(folder.parent.name)


def _search_with_lsof(files: Sequence[Path]) -> Iterator[tuple[Path, int]]:
    """Ask about many files at once, because one question takes long and mostly nobody has any of them open."""
    for start in range(0, len(files), _FILES_AT_ONCE):
        batch = files[start : start + _FILES_AT_ONCE]
        if _run_lsof(batch) - {os.getpid()}:
            yield from ((file, pid) for file in batch for pid in _run_lsof([file]))


def _run_lsof(files: Sequence[Path]) -> set[int]:
    program = find_program("lsof")
    if not program:
        raise Refused(f"Cannot check whether another program has {files[0]} open. Install lsof.")
    result = subprocess.run([program, "-t", "--", *map(str, files)], capture_output=True, text=True)
    return set(map(int, result.stdout.split()))


def find_processes_running(program: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the id and the arguments of other processes that run a program. Without /proc, there are none."""
    for path in PROC.glob("[0-9]*/cmdline"):
        with suppress(OSError):
            arguments = path.read_bytes().decode("utf-8", "replace").split("\0")
            # A script's name comes after that of its interpreter.
            runs_program = any(os.path.basename(argument) == program for argument in arguments[:2])
            if runs_program and int(path.parent.name) != os.getpid():
                yield int(path.parent.name), arguments


def find_agents_of(program: str, path: Path) -> list[int]:
    """Return the processes that run a program and may use a file: their environment names a folder that it is in.

    This is mostly HOME. A process whose environment cannot be read may use any file.
    """
    return [pid for pid, _ in find_processes_running(program) if _names_folder_of(pid, path)]


def _names_folder_of(pid: int, path: Path) -> bool:
    try:
        variables = (PROC / str(pid) / "environ").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return True
    folders = [value for _, _, value in (variable.partition("=") for variable in variables) if len(value) > 1]
    return any(folder.startswith("/") and path.is_relative_to(folder) for folder in folders)


def is_running(pid: int) -> bool:
    """Return whether a process with this id exists."""
    if pid <= 0:
        return False  # such a number means a group of processes
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def read_process_name(pid: int) -> str:
    """Return the name of a process, or an empty string if it cannot be read."""
    with suppress(OSError):
        return (PROC / str(pid) / "comm").read_text("utf-8", "replace").strip()
    return ""
