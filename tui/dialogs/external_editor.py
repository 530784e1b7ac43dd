"""This module lets a person edit a text in their own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from store.errors import Refused, StoreError


def edit_in_external_editor(app: App[Any], text: str) -> str:
    """Suspend the app, and return the text as $VISUAL or $EDITOR leaves it. The error is a StoreError."""
    try:
        with app.suspend():
            return _run_editor(text)
    except SuspendNotSupported:
        raise Refused("This terminal cannot open an editor. Edit the text here.") from None


def _run_editor(text: str) -> str:
    """Edit the text in a private file, which is deleted afterwards."""
    argv = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="backscroll-") as folder:
        path = Path(folder) / "text.md"
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        try:
            done = subprocess.run([*argv, str(path)], check=False)
            if done.returncode:
                raise StoreError(f"The editor {argv[0]} ended with an error, so the text is unchanged.")
            return path.read_text("utf-8").removesuffix("\n")
        except (OSError, ValueError) as reason:
            raise StoreError(f"The editor {argv[0]} could not be run ({reason}). Set $EDITOR to another one.") from None
