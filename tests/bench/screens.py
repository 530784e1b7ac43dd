"""This module runs a program in a terminal and measures when the rows of its list, and the conversation beside them,
appear on the screen."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyte
from bench.browser import read_output_for
from bench.processes import BenchmarkError
from pty_terminal import Pty

COLUMNS, LINES = 120, 40
LIST_WIDTH = 43
"""Is a width that belongs to the list in both programs, and shows its titles."""

LINES_BESIDE, COLUMNS_BESIDE = range(6, 34), range(76, COLUMNS)
"""Are cells that belong to the conversation of the selected session in both programs."""

TIMEOUT = 120.0
ANSWER_SECONDS = 0.9
"""Is how long to wait for the answer to a key."""

BURST_GAP_SECONDS = 0.15
"""Is the longest gap between two changes of one answer. A new order that follows a pause is a second answer."""

BACKSPACE = "\x7f"
LETTER_PAUSE_SECONDS = 0.06
"""Is the pause between two letters of a person who types a word that they know."""


class MeasuredScreen(Pty):
    def __init__(self, program: Path | str, *arguments: str, env: Mapping[str, str], row: re.Pattern[bytes]) -> None:
        self._row = row
        self._row_text = re.compile(row.pattern.decode())
        self._changes: dict[str, list[float]] = {"rows": [], "beside": []}
        self._last_shown: dict[str, list[object]] = {}
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
            for region, shown in (("rows", self._visible_rows()), ("beside", self._visible_text_beside())):
                if shown != self._last_shown.get(region):
                    self._last_shown[region] = shown
                    self._changes[region].append(at)

    def _visible_rows(self) -> list[object]:
        """Return the cells of the rows with their styles, because a changed highlight is an answer, too."""
        buffer = self._screen.buffer
        cells = [[buffer[line][column] for column in range(LIST_WIDTH)] for line in range(LINES)]
        # Do not use pyte's display: it fails on the rest of a wide character that was half overwritten.
        return [cell for line in cells if self._row_text.search("".join(cell.data for cell in line)) for cell in line]

    def _visible_text_beside(self) -> list[object]:
        buffer = self._screen.buffer
        return [buffer[line][column].data for line in LINES_BESIDE for column in COLUMNS_BESIDE]

    def time_until_rows(self) -> float:
        """Return the seconds from the program's start until its first rows."""
        return self.time_until_output(self._row)

    def time_until_output(self, pattern: re.Pattern[bytes]) -> float:
        """Return the seconds from the program's start until its output matches. The screen is built afterwards."""
        return self._wait_for_output(pattern) - self._started_at

    def time_key_until_output(self, key: str, pattern: re.Pattern[bytes]) -> float:
        """Return the seconds from a key until the output after it matches."""
        self.read(0)
        self.raw = b""
        pressed_at = time.perf_counter()
        self.press(key)
        return self._wait_for_output(pattern) - pressed_at

    def _wait_for_output(self, pattern: re.Pattern[bytes]) -> float:
        """Return when the output matched."""
        began = time.perf_counter()
        self._is_deferring = True
        while not pattern.search(self.raw):
            if self._process.poll() is not None:
                raise BenchmarkError("the program ended before its rows appeared")
            if time.perf_counter() - began > TIMEOUT:
                raise BenchmarkError(f"no rows appeared within {TIMEOUT:.0f} s")
            self.read(0.05)
        shown_at, _ = self._pending_output[-1]
        self._is_deferring = False
        self._process_output()
        return shown_at

    def time_key(self, keys: str) -> float | None:
        """Return the seconds until the rows that answer these keys are complete, or None if no row changed."""
        pressed_at = self._press_and_wait(keys)
        changes = self._changes["rows"]
        return end_of_burst(changes) - pressed_at if changes else None

    def time_word_to_conversation(self, word: str) -> float | None:
        """Type a word; return the seconds from its last letter until the text beside the list stops changing."""
        for letter in word[:-1]:
            self.press(letter)
            read_output_for(self, LETTER_PAUSE_SECONDS)
        pressed_at = self._press_and_wait(word[-1])
        changes = self._changes["beside"]
        return changes[-1] - pressed_at if changes else None

    def _press_and_wait(self, keys: str) -> float:
        """Press keys and collect what they change. Return when they were pressed."""
        self.read(0)
        for changes in self._changes.values():
            changes.clear()
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
        return pressed_at


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
