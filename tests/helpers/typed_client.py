"""Checks the types of a program that uses the installed package."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

# This is not the cache of `make check`, whose options are different.
CACHE = Path(__file__).resolve().parents[2] / ".mypy_cache" / "client"


def check_types(program: str, folder: Path) -> str:
    """Return what mypy reports about a program, which finds the package as it is installed, by its py.typed."""
    client = folder / "client.py"
    client.write_text(program, encoding="utf-8")
    options = ["--strict", "--no-error-summary", "--config-file", "", "--cache-dir", str(CACHE)]
    CACHE.mkdir(parents=True, exist_ok=True)
    # Tests run in several processes, and mypy does not share its cache.
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [sys.executable, "-m", "mypy", *options, str(client)]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return ran.stdout + ran.stderr
