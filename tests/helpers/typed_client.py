"""Checks the types of a program that uses the installed package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def check_types(program: str, folder: Path) -> str:
    """Return what mypy reports about a program, which finds the package as it is installed, by its py.typed."""
    client = folder / "client.py"
    client.write_text(program, encoding="utf-8")
    # The cache is not the one of `make check`, whose options are different.
    options = ["--strict", "--no-error-summary", "--config-file", "", "--cache-dir", str(ROOT / ".mypy_cache/client")]
    command = [sys.executable, "-m", "mypy", *options, str(client)]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return ran.stdout + ran.stderr
