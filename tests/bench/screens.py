"""This module runs a program in a terminal and measures when the rows of its list appear on the screen."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyte
from bench.processes import BenchmarkError
from pty_terminal import Pty

COLUMNS, LINES = 120, 40
LIST_WIDTH = 43
"""Is the width of the list in both programs. The columns to its right show the selected session."""

TIMEOUT = 120.0
ANSWER_SECONDS = 0.9
"""Is how long to wait for the answer to a key."""

BURST_GAP_SECONDS = 0.15
"""Is the longest gap between two changes of one answer. A new order that follows a pause is a second answer."""

BACKSPACE = "\x7f"
ROW = re.compile(rb"Task \d{6}")
_ROW_TEXT = re.compile(ROW.pattern.decode())


class MeasuredScreen(Pty):
    def __init__(self, program: Path | str, *arguments: str, env: Mapping[str, str]) -> None:
        self._changes: list[float] = []
        self._last_rows: list[object] = []
        self._pending_output: list[tuple[float, bytes]] = []
        self._is_deferring = False
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)
        self._started_at = time.perf_counter()
        super().__init__(program, *arguments, columns=COLUMNS, rows=LINES, env=env)

    def __exit__(self, *raised: object) -> None:
        """End the program and all processes that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        super().__exit__(None, None, None)

    def handle_output(self, data: bytes) -> None:
        """Collect output, and process it later while a measurement runs: this emulator is slower than real terminals,
        and the program would have to wait for it."""
        self._pending_output.append((time.perf_counter(), data))
        if not self._is_deferring:
            self._process_output()

    def _process_output(self) -> None:
        chunks, self._pending_output = self._pending_output, []
        for at, data in chunks:
            self._stream.feed(data)
            rows = self._visible_rows()
            if rows != self._last_rows:
                self._last_rows = rows
                self._changes.append(at)

    def _visible_rows(self) -> list[object]:
        """Return the cells of the rows with their styles, because a changed highlight is an answer, too."""
        buffer = self._screen.buffer
        cells = [[buffer[line][column] for column in range(LIST_WIDTH)] for line in range(LINES)]
        # Do not use pyte's display: it fails on the rest of a wide character that was half overwritten.
        return [cell for line in cells if _ROW_TEXT.search("".join(cell.data for cell in line)) for cell in line]

    def time_until_output(self, pattern: re.Pattern[bytes]) -> float:
        """Return the seconds from the program's start until its output matches. The screen is built afterwards."""
        self._is_deferring = True
        while not pattern.search(self.raw):
            if self._process.poll() is not None:
                raise BenchmarkError("the program ended before its rows appeared")
            if time.perf_counter() - self._started_at > TIMEOUT:
                raise BenchmarkError(f"no rows appeared within {TIMEOUT:.0f} s")
            self.read(0.05)
        shown_at, _ = self._pending_output[-1]
        self._is_deferring = False
        self._process_output()
        return shown_at - self._started_at

    def time_key(self, keys: str) -> float | None:
        """Return the seconds until the rows that answer these keys are complete, or None if no row changed."""
        self.read(0)
        self._changes.clear()
        self.raw = b""  # new output is appended to a copy of the old output
        pressed_at = time.perf_counter()
        self._is_deferring = True
        self.press(keys)
        while time.perf_counter() - pressed_at < ANSWER_SECONDS:
            if self._process.poll() is not None:
                raise BenchmarkError("the program ended while typing")
            self.read(0.01)
        self._is_deferring = False
        self._process_output()
        return end_of_burst(self._changes) - pressed_at if self._changes else None


def end_of_burst(times: Sequence[float]) -> float:
    """Return the last of the times that follow the first one without a long gap."""
    end = times[0]
    for at in times[1:]:
        if at - end > BURST_GAP_SECONDS:
            break
        end = at
    return end


def time_typing(screen: MeasuredScreen, words: Iterable[str]) -> Iterator[float]:
    """Type words letter by letter; yield the seconds that each letter took, from the second one on."""
    for word in words:
        for number, letter in enumerate(word, 1):
            seconds = screen.time_key(letter)
            if number > 1 and seconds is not None:
                yield seconds
        screen.time_key(BACKSPACE * len(word))
