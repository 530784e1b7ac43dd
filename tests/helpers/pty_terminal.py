"""This module runs a program in a pseudo-terminal, and keeps its output and the screen that the output makes."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte
from browser_driver import TIMEOUT


class Pty:
    """Runs Python code, or a program by its path, in a pseudo-terminal and keeps its output as bytes."""

    def __init__(
        self, code: str | Path, *arguments: str, columns: int, rows: int, env: Mapping[str, str] = os.environ
    ) -> None:
        self.raw = b""
        program = [str(code)] if isinstance(code, Path) else [sys.executable, "-c", code]
        self._fd, child_fd = os.openpty()
        fcntl.ioctl(child_fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._process = subprocess.Popen(
            [*program, *arguments],
            stdin=child_fd,
            stdout=child_fd,
            stderr=child_fd,
            env={**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            start_new_session=True,
        )
        os.close(child_fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._fd)

    @property
    def pid(self) -> int:
        return self._process.pid

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def wait_for_output(self, pattern: bytes) -> re.Match[bytes]:
        limit = time.monotonic() + TIMEOUT
        while (match := re.search(pattern, self.raw, re.DOTALL)) is None:
            assert time.monotonic() < limit, f"{pattern!r} did not appear in {self.raw[-4000:]!r}"
            self.read(0.05)
        return match

    def read(self, timeout: float) -> None:
        while select.select([self._fd], [], [], timeout)[0]:
            try:
                data = os.read(self._fd, 65536)
            except OSError:  # the other end is closed
                return
            self.raw += data
            self.handle_output(data)
            timeout = 0

    def handle_output(self, data: bytes) -> None:
        pass


class Terminal(Pty):
    def __init__(
        self,
        code: str | Path,
        *arguments: str,
        columns: int = 100,
        rows: int = 30,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        super().__init__(code, *arguments, columns=columns, rows=rows, env=env)

    @property
    def lines(self) -> Sequence[str]:
        """Return the lines of the screen, cell by cell: pyte's display fails on the rest of a half overwritten wide
        character."""
        columns, buffer = range(self._screen.columns), self._screen.buffer
        return ["".join(buffer[y][x].data for x in columns).rstrip() for y in range(self._screen.lines)]

    def clear(self) -> None:
        self._screen.reset()

    def read_line(self, y: int) -> Sequence[pyte.screens.Char]:
        """Return the characters of a line with their styles."""
        return [self._screen.buffer[y][x] for x in range(self._screen.columns)]

    def wait_for_text(self, *texts: str) -> None:
        self._wait_until(lambda shown: all(text in shown for text in texts), f"{texts} did not appear in")

    def wait_until_gone(self, text: str) -> None:
        self._wait_until(lambda shown: text not in shown, f"{text} did not disappear from")

    def _wait_until(self, condition: Callable[[str], bool], failure: str) -> None:
        """Check the condition only after new output, because reading the lines takes longer than drawing them."""
        limit = time.monotonic() + TIMEOUT
        while not condition(shown := "\n".join(self.lines)):
            output_size = len(self.raw)
            while len(self.raw) == output_size:
                assert time.monotonic() < limit, f"{failure}:\n{shown}"
                self.read(0.05)

    def wait_for_exit(self) -> int:
        """Wait for the end of the program and return its exit status."""
        limit = time.monotonic() + TIMEOUT
        while self._process.poll() is None:
            assert time.monotonic() < limit, "The program does not end:\n" + "\n".join(self.lines)
            self.read(0.05)
        self.read(0)
        return self._process.returncode

    def handle_output(self, data: bytes) -> None:
        self._stream.feed(data)
