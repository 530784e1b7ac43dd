"""This module lets a person edit a text in their own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from store.errors import StoreError


def edit_in_external_editor(text: str) -> str:
    """Return the text as $VISUAL or $EDITOR leaves it. The file is private, and is deleted afterwards."""
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
