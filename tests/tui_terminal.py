"""A real terminal for a program under test: a pty, every byte it sent, and the screen those bytes make."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import pyte
from tui_world import PATIENCE


class Terminal:
    def __init__(self, code: str, *arguments: str, columns: int = 100, rows: int = 30) -> None:
        self.raw = b""
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._fd, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor"},
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._fd)

    @property
    def lines(self) -> Sequence[str]:
        return [line.rstrip() for line in self._screen.display]

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def until_shown(self, *texts: str) -> None:
        limit = time.monotonic() + PATIENCE
        while not all(text in "\n".join(self.lines) for text in texts):
            assert time.monotonic() < limit, f"{texts} never came up in:\n" + "\n".join(self.lines)
            self._read(0.05)

    def until_closed(self) -> int:
        """Gives the exit status."""
        limit = time.monotonic() + PATIENCE
        while self._process.poll() is None:
            assert time.monotonic() < limit, "it does not end:\n" + "\n".join(self.lines)
            self._read(0.05)
        self._read(0)
        return self._process.returncode

    def _read(self, patience: float) -> None:
        while select.select([self._fd], [], [], patience)[0]:
            try:
                data = os.read(self._fd, 65536)
            except OSError:  # the other end is closed
                return
            self.raw += data
            self._stream.feed(data)
            patience = 0
