"""This module copies text to the clipboard: on this machine, in tmux, or through ssh.

A copied secret is removed from the clipboard later, if it is still there.
"""

from __future__ import annotations

import hmac
import os
import shutil
import subprocess
from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal

TIMEOUT_SECONDS = 2.0
"""Limits the time that a clipboard program may take."""

ClipboardKind = Literal["tmux", "here"]
"""Names the clipboard: that of the tmux around the program, or that of this machine."""


def copy_locally(text: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Copy a text with a program of this machine, and return whether that worked. Otherwise only the terminal can copy
    it. Through ssh, this machine's clipboard is not the one that a person pastes from. Call this in a thread.
    """
    return _copy_text(text, environ) is not None


def copy_secret(text: str, environ: Mapping[str, str] = os.environ) -> CopiedSecret | None:
    """Copy a secret as `copy_locally` does. Return None if only the terminal can copy it, and cannot clear it."""
    clipboard = _copy_text(text, environ)
    return CopiedSecret(clipboard, text) if clipboard is not None else None


class CopiedSecret:
    """Recognizes a copied secret by its digest, without keeping it."""

    def __init__(self, clipboard: ClipboardKind, text: str) -> None:
        self.clipboard = clipboard
        self._key = os.urandom(32)
        self._digest = self._compute_digest(text)

    def _compute_digest(self, text: str) -> bytes:
        return blake2b(text.encode("utf-8", "surrogatepass"), key=self._key).digest()

    def clear(self) -> bool:
        """Clear the clipboard if it still contains the secret, and return whether it is gone. Call this in a thread."""
        text = _run_tmux("save-buffer", "-") if self.clipboard == "tmux" else _paste_with_pyperclip()
        if text is None:
            return False
        if hmac.compare_digest(self._compute_digest(text), self._digest):
            return _run_tmux("delete-buffer") is not None if self.clipboard == "tmux" else _copy_with_pyperclip("")
        return True


def _copy_text(text: str, environ: Mapping[str, str]) -> ClipboardKind | None:
    # tmux forwards its buffer to the terminal around it; it does not forward escape sequences of programs.
    if environ.get("TMUX") and _run_tmux("load-buffer", "-w", "-", stdin_text=text) is not None:
        return "tmux"
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return None
    return "here" if _copy_with_pyperclip(text) else None


def _copy_with_pyperclip(text: str) -> bool:
    import pyperclip

    try:
        pyperclip.copy(text)
    except (pyperclip.PyperclipException, OSError, UnicodeError):
        return False
    return True


def _paste_with_pyperclip() -> str | None:
    """Return the text on the clipboard, or None if it cannot be read."""
    import pyperclip

    try:
        return str(pyperclip.paste())
    except (pyperclip.PyperclipException, OSError, UnicodeError):
        return None


def _run_tmux(*command: str, stdin_text: str = "") -> str | None:
    """Return the output of tmux, or None if it is missing or fails."""
    tmux = shutil.which("tmux")
    if tmux is None:
        return None
    try:
        result = subprocess.run(
            [tmux, *command],
            input=stdin_text.encode("utf-8", "surrogateescape"),
            timeout=TIMEOUT_SECONDS,
            capture_output=True,
            check=False,
        )
    except (OSError, UnicodeError, subprocess.SubprocessError):
        return None
    return result.stdout.decode("utf-8", "surrogateescape") if result.returncode == 0 else None
