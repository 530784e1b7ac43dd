"""This module opens a file or a web address with the program that the system uses for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from threading import Thread

from store.errors import Refused, StoreError
from store.paths import find_program

FAILURE_SECONDS = 2.0
"""An opener that has not failed after this time has opened the file. Some openers run until the file is closed."""

_OPENERS = ("open",) if sys.platform == "darwin" else ("xdg-open", "wslview")


def find_opener(things: str = "files") -> str:
    """Return the absolute path of the system's opener. Raise Refused if there is none."""
    if program := next(filter(None, map(find_program, _OPENERS)), ""):
        return program
    instead = "path" if things == "files" else "address"
    raise Refused(f"This system has no {' or '.join(_OPENERS)} to open {things} with. Copy the {instead} instead.")


def open_with_system(program: str, target: Path | str) -> None:
    """Open a file or an address. The opener runs apart from the terminal, so that it can neither read keys nor write
    to the screen."""
    thing, instead = ("file", "path") if isinstance(target, Path) else ("address", "address")
    try:
        process = subprocess.Popen(
            [program, str(target)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as reason:
        raise StoreError(f"{program} could not be run ({reason}). Copy the {instead} instead.") from None
    try:
        status = process.wait(FAILURE_SECONDS)
    except subprocess.TimeoutExpired:
        Thread(target=process.wait, daemon=True).start()
    else:
        if status:
            raise StoreError(f"{program} could not open the {thing} (status {status}). Copy the {instead} instead.")
