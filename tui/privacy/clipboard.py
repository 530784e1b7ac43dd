"""This module copies text to the clipboard: on this machine, in tmux, or through ssh.

A copied secret is removed from the clipboard later, if it is still there. The browser does that itself; a small process
that runs as long as the secret may be on the clipboard does it if the browser is killed or suspended. The process knows
a digest of the secret, not the secret.
"""

from __future__ import annotations

import hmac
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Literal, get_args

from store.paths import find_program

TIMEOUT_SECONDS = 2.0
"""Limits the time that a clipboard program may take."""

PROCESS_DELAY_SECONDS = 5.0
"""The process waits this much longer than the browser, so that usually only the browser clears the clipboard."""

MAX_TERMINAL_BYTES = 8_000_000
"""Limits the text that is sent to the terminal's clipboard."""

KEY_BYTES = 32
CLIPBOARD_PROGRAMS = ("xclip", "xsel", "wl-copy", "wl-paste", "klipper", "qdbus", "pbcopy", "pbpaste", "clip.exe")
"""Lists the programs that pyperclip runs."""

ClipboardKind = Literal["tmux", "here"]
"""Names the clipboard: that of the tmux around the program, or that of this machine."""


def copy_locally(text: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Copy a text with a program of this machine, and return whether that worked. Otherwise only the terminal can copy
    it. Through ssh, this machine's clipboard is not the one that a person pastes from. Call this in a thread.
    """
    return _copy_text(text, environ) is not None


def encode_for_terminal(text: str) -> str:
    """Return the sequence by which a terminal copies a text. Raise Refused if it is so long that terminals ignore it,
    and nothing else could be shown until the terminal has read it. Call this in a thread."""
    from base64 import b64encode

    from store.errors import Refused

    data = text.encode()
    if len(data) > MAX_TERMINAL_BYTES:
        raise Refused("The text is too long for the terminal's clipboard. Export the session to a file instead.")
    return f"\x1b]52;c;{b64encode(data).decode()}\a"


def copy_secret(text: str, seconds: float, environ: Mapping[str, str] = os.environ) -> CopiedSecret | None:
    """Copy a secret as `copy_locally` does. Return None if only the terminal can copy it, and cannot clear it.

    The caller clears the clipboard after these seconds. A process does it if the caller has ended or is suspended.
    """
    key = os.urandom(KEY_BYTES)
    digest = _compute_digest(text, key)
    process = ClearingProcess(key, digest, seconds)  # first, because we may be killed right after copying
    clipboard = _copy_text(text, environ)
    if clipboard is None:
        process.end()
        return None
    return CopiedSecret(clipboard, key, digest, process)


class CopiedSecret:
    """Recognizes a copied secret by its digest, without keeping it."""

    def __init__(self, clipboard: ClipboardKind, key: bytes, digest: bytes, process: ClearingProcess) -> None:
        self.clipboard = clipboard
        self._key = key
        self._digest = digest
        self._process = process

    def clear(self) -> bool:
        """Clear the clipboard if it still contains the secret, and return whether it is gone. Call this in a thread."""
        is_gone = _clear_clipboard(self.clipboard, self._key, self._digest)
        self._process.end()
        return is_gone


def _compute_digest(text: str, key: bytes) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), key=key).digest()


def _clear_clipboard(clipboard: ClipboardKind, key: bytes, digest: bytes) -> bool:
    """Clear a clipboard if it contains the text with this digest, and return whether the text is gone."""
    text = _run_tmux("save-buffer", "-") if clipboard == "tmux" else _paste_with_pyperclip()
    if text is None:
        return False
    if hmac.compare_digest(_compute_digest(text, key), digest):
        return _run_tmux("delete-buffer") is not None if clipboard == "tmux" else _copy_with_pyperclip("")
    return True


def _copy_text(text: str, environ: Mapping[str, str]) -> ClipboardKind | None:
    # tmux forwards its buffer to the terminal around it; it does not forward escape sequences of programs.
    if environ.get("TMUX") and _run_tmux("load-buffer", "-w", "-", stdin_text=text) is not None:
        return "tmux"
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return None
    return "here" if not _is_program_planted() and _copy_with_pyperclip(text) else None


def _is_program_planted() -> bool:
    """Return whether pyperclip would run a program in a relative folder of PATH: a repository could contain it."""
    found = filter(None, map(shutil.which, CLIPBOARD_PROGRAMS))
    return not all(map(os.path.isabs, found))


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
    tmux = find_program("tmux")
    if not tmux:
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


# ── the process that clears the clipboard if the browser cannot ───────────────────────────────────


class ClearingProcess:
    """Starts the process in a session of its own, so that what ends the browser and its terminal does not end it.

    Only the digest and its key are sent to it, through a pipe, because other users can see the arguments.
    """

    def __init__(self, key: bytes, digest: bytes, seconds: float) -> None:
        command = [sys.executable, "-P", "-m", "tui.privacy.clipboard", str(seconds + PROCESS_DELAY_SECONDS)]
        devnull = subprocess.DEVNULL
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=devnull, stderr=devnull, start_new_session=True
            )
            self._send(key + digest)

    def _send(self, data: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def end(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.kill()
            self._process.wait()
            with suppress(OSError):
                self._process.stdin.close()


def main() -> None:
    """Wait until the browser has ended, which closes stdin, or has had enough time. Then clear the clipboard."""
    key, digest = sys.stdin.buffer.read(KEY_BYTES), sys.stdin.buffer.read(blake2b.MAX_DIGEST_SIZE)
    select.select([sys.stdin], [], [], float(sys.argv[1]))
    for clipboard in get_args(ClipboardKind):
        _clear_clipboard(clipboard, key, digest)


if __name__ == "__main__":
    main()
