"""Copying, wherever the terminal is: on this machine, in tmux, at the far end of ssh."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping

SECONDS = 2.0
"""A clipboard program that hangs must not keep anybody waiting for ever."""


def copied_here(text: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a program of this machine took it. If not, only the terminal can, and does not tell.

    At the far end of ssh the clipboard of this machine is not the one a person pastes from. May take a while.
    """
    if environ.get("TMUX") and _through_tmux(text):
        return True
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return False
    import pyperclip

    try:
        pyperclip.copy(text)
    except (pyperclip.PyperclipException, OSError, UnicodeError):
        return False
    return True


def _through_tmux(text: str) -> bool:
    """tmux hands it on to the terminal around it, which it does not do for what a program in it sends."""
    tmux = shutil.which("tmux")
    if tmux is None:
        return False
    try:
        done = subprocess.run(
            [tmux, "load-buffer", "-w", "-"],
            input=text.encode("utf-8", "surrogateescape"),
            timeout=SECONDS,
            capture_output=True,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
