"""A program in a terminal, and when the rows of its list are on the screen."""

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
"""Columns in which both programs keep their list; what is right of it shows the session under the cursor."""

TIMEOUT = 120.0
ANSWER_SECONDS = 0.9
"""Seconds after a key in which its answer comes."""

BURST_GAP_SECONDS = 0.15
"""Seconds between two changes that belong to one answer; what is ordered anew after a pause is a second one."""

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
        self._begun = time.perf_counter()
        super().__init__(program, *arguments, columns=COLUMNS, rows=LINES, env=env)

    def __exit__(self, *raised: object) -> None:
        """With all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        super().__exit__(None, None, None)

    def handle_output(self, data: bytes) -> None:
        """Looked at when there is time: the screen that is made of it here is slower than any that people have, and the
        program would wait for it."""
        self._pending_output.append((time.perf_counter(), data))
        if not self._is_deferring:
            self._process_output()

    def _process_output(self) -> None:
        arrived, self._pending_output = self._pending_output, []
        for at, data in arrived:
            self._stream.feed(data)
            painted = self._visible_rows()
            if painted != self._last_rows:
                self._last_rows = painted
                self._changes.append(at)

    def _visible_rows(self) -> list[object]:
        """The rows as they look: the same ones, with other letters set off, are an answer, too."""
        buffer = self._screen.buffer
        cells = [[buffer[line][column] for column in range(LIST_WIDTH)] for line in range(LINES)]
        # Not of pyte's own lines: it stumbles over what is left of a wide character that was half painted over.
        return [cell for line in cells if _ROW_TEXT.search("".join(cell.data for cell in line)) for cell in line]

    def time_until_output(self, sent: re.Pattern[bytes]) -> float:
        """Seconds from the program's start until such bytes came. A screen is made of them afterwards."""
        self._is_deferring = True
        while not sent.search(self.raw):
            if self._process.poll() is not None:
                raise BenchmarkError("it ended before anything came")
            if time.perf_counter() - self._begun > TIMEOUT:
                raise BenchmarkError(f"nothing came in {TIMEOUT:.0f} s")
            self.read(0.05)
        came, _ = self._pending_output[-1]
        self._is_deferring = False
        self._process_output()
        return came - self._begun

    def time_key(self, keys: str) -> float | None:
        """Seconds until the rows that these keys bring stand; None when none of them looks other than before."""
        self.read(0)
        self._changes.clear()
        self.raw = b""  # whatever comes would be put behind all that came before, in a copy of the whole
        begun = time.perf_counter()
        self._is_deferring = True
        self.press(keys)
        while time.perf_counter() - begun < ANSWER_SECONDS:
            if self._process.poll() is not None:
                raise BenchmarkError("it ended while one typed")
            self.read(0.01)
        self._is_deferring = False
        self._process_output()
        return end_of_burst(self._changes) - begun if self._changes else None


def end_of_burst(times: Sequence[float]) -> float:
    """The last of those that follow each other closely from the first."""
    end = times[0]
    for at in times[1:]:
        if at - end > BURST_GAP_SECONDS:
            break
        end = at
    return end


def time_typing(screen: MeasuredScreen, words: Iterable[str]) -> Iterator[float]:
    """Letter by letter: how long each from the second on took to bring its rows."""
    for word in words:
        for number, letter in enumerate(word, 1):
            took = screen.time_key(letter)
            if number > 1 and took is not None:
                yield took
        screen.time_key(BACKSPACE * len(word))
