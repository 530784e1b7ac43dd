"""This module renders items of the timeline in another process if they take long.

The thread that paints tries for a moment, shows the beginning of such an item without styles, and replaces it when the
lines come from here. They talk in JSON lines over the process's stdin and stdout. The process ends when its stdin ends,
so it also ends when the browser is killed.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Lock
from typing import IO, Any

from textual.content import Content, Span

from store.model.entry import Entry, PairedCall
from tui.render.markdown import preload_parsers
from tui.render.time_limit import LIMIT_SECONDS, run_with_time_limit
from tui.render.timeline_card import ItemRendering
from tui.render.timeline_items import TimelineItem
from tui.render.viewport import Viewport

_NO_ENTRY = Entry(0, 0, None, 0, None, 0, "", "", "", "", "", "", (), False, None, "")
"""Stands for the entry of an item. No text that can take long is rendered from it."""


LINES_PER_PIECE = 1_000
"""The number of lines that are sent together."""


class RenderProcess:
    """Starts the process when the first item needs it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """Return the process id, or None if no process runs."""
        return self._process.pid if self._process else None

    def render(self, rendering: ItemRendering) -> list[Content] | None:
        """Return the lines of an item, or None if the process stopped. The next item then starts another one.

        The lines have no styles if the item takes too long here as well. Call this in a thread.
        """
        with self._lock:
            process = self._process = self._process or (None if self._is_closed else self._start())
            if process is None or process.stdin is None or process.stdout is None:
                return None
            try:
                process.stdin.write(_encode_rendering(rendering))
                process.stdin.flush()
                return list(_read_lines(process.stdout))
            except (OSError, ValueError):
                self._stop(process)
                return None

    def close(self) -> None:
        """End the process for good. A rendering that waits for it ends, too, and those behind it start no other."""
        self._is_closed = True
        if (process := self._process) is not None:
            self._stop(process)

    @staticmethod
    def _start() -> subprocess.Popen[bytes] | None:
        command = [sys.executable, "-P", "-m", "tui.render_process"]
        with suppress(OSError):
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return None

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        self._process = None
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def _encode_rendering(rendering: ItemRendering) -> bytes:
    item, viewport = rendering.item, rendering.viewport
    pattern = viewport.highlight
    values = {
        "kind": item.kind,
        "value": item.value,
        "label": item.label,
        "call": item.call,
        "viewport": viewport._replace(highlight=None),
        "highlight": (pattern.pattern, pattern.flags) if pattern else None,
        "is_open": rendering.is_open,
    }
    return json.dumps(values).encode() + b"\n"


def _decode_rendering(line: bytes) -> ItemRendering:
    values: dict[str, Any] = json.loads(line)
    call = PairedCall(*values["call"]) if values["call"] else None
    item = TimelineItem(values["kind"], _NO_ENTRY, None, values["value"], values["label"], call)
    pattern = re.compile(*values["highlight"]) if values["highlight"] else None
    return ItemRendering(item, Viewport(*values["viewport"])._replace(highlight=pattern), values["is_open"])


def _write_lines(lines: Sequence[Content], output: IO[bytes]) -> None:
    """Write the lines in pieces, because the browser's other threads wait while a piece is decoded."""
    for first in range(0, len(lines) + LINES_PER_PIECE, LINES_PER_PIECE):  # the last piece is empty
        piece = lines[first : first + LINES_PER_PIECE]
        values = [(line.plain, [(start, end, str(style)) for start, end, style in line.spans]) for line in piece]
        output.write(json.dumps(values).encode() + b"\n")
    output.flush()


def _read_lines(output: IO[bytes]) -> Iterator[Content]:
    """Read the lines up to the empty piece after them. No piece at all, because the process stopped, raises
    ValueError."""
    while values := json.loads(output.readline()):
        yield from (Content(plain, spans=[Span(*span) for span in spans]) for plain, spans in values)


def main() -> None:
    """Render one item after the other until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C in the terminal is meant for the browser
    preload_parsers()  # loading them is not part of the time of the first item
    for line in sys.stdin.buffer:
        rendering = _decode_rendering(line)
        lines = run_with_time_limit(rendering.render, rendering.render_without_styles, LIMIT_SECONDS)
        _write_lines(lines, sys.stdout.buffer)


if __name__ == "__main__":
    main()
