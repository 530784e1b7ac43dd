"""Copying, wherever the terminal is: on this machine, in tmux, at the far end of ssh.

What was copied in confidence is taken off the clipboard again, where it can be known that it is still there.
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
"""A clipboard program that hangs must not keep anybody waiting for ever."""

ClipboardKind = Literal["tmux", "here"]
"""Whose clipboard took it: that of the tmux we are in, or this machine's."""


def copy_locally(text: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a program of this machine took it. If not, only the terminal can, and does not tell.

    At the far end of ssh the clipboard of this machine is not the one a person pastes from. May take a while.
    """
    return _copy_text(text, environ) is not None


def copy_secret(text: str, environ: Mapping[str, str] = os.environ) -> CopiedSecret | None:
    """As above, with what it takes to clear it later; None where only the terminal can take it."""
    way = _copy_text(text, environ)
    return CopiedSecret(way, text) if way is not None else None


class CopiedSecret:
    """What was copied, to be known again without being kept."""

    def __init__(self, way: ClipboardKind, text: str) -> None:
        self.clipboard = way
        self._key = os.urandom(32)
        self._digest = self._compute_digest(text)

    def _compute_digest(self, text: str) -> bytes:
        return blake2b(text.encode("utf-8", "surrogatepass"), key=self._key).digest()

    def clear(self) -> bool:
        """Whether it is gone now; what somebody copied since is left alone. May take a while."""
        found = _run_tmux("save-buffer", "-") if self.clipboard == "tmux" else _paste_with_pyperclip()
        if found is None:
            return False
        if hmac.compare_digest(self._compute_digest(found), self._digest):
            return _run_tmux("delete-buffer") is not None if self.clipboard == "tmux" else _copy_with_pyperclip("")
        return True


def _copy_text(text: str, environ: Mapping[str, str]) -> ClipboardKind | None:
    # tmux hands it on to the terminal around it, which it does not do for what a program in it sends.
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
    """None where it cannot be told."""
    import pyperclip

    try:
        return str(pyperclip.paste())
    except (pyperclip.PyperclipException, OSError, UnicodeError):
        return None


def _run_tmux(*command: str, stdin_text: str = "") -> str | None:
    """What it said; None when it is not there or refused."""
    tmux = shutil.which("tmux")
    if tmux is None:
        return None
    try:
        done = subprocess.run(
            [tmux, *command],
            input=stdin_text.encode("utf-8", "surrogateescape"),
            timeout=TIMEOUT_SECONDS,
            capture_output=True,
            check=False,
        )
    except (OSError, UnicodeError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else None
