"""Makes `tour.svg`, an animated picture: find a session, open it, inspect a failed call, and resume.

It runs the browser in a pseudo-terminal, on the demo store and with a fixed clock, and types keys. `make screenshots`
runs it. Nothing is fetched from the network, and the same program makes the same picture.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER), str(FOLDER.parent / "tests" / "helpers")]

from make import NOW, FrozenDatetime  # noqa: E402
from pty_terminal import Terminal  # noqa: E402
from rich.cells import cell_len  # noqa: E402

from store import demo  # noqa: E402
from store.paths import config_file  # noqa: E402
from store.store import Store  # noqa: E402
from store.text import json  # noqa: E402
from tui.render.styles import THEME  # noqa: E402

COLUMNS, ROWS = 110, 30
CELL_WIDTH, LINE_HEIGHT, FONT_SIZE = 8.54, 17.08, 14
MARGIN = 12
QUIET_SECONDS = 0.6
"""A screen is complete after this long without output."""

AGENT = """#!/bin/sh
echo claude "$1" "$2"
echo "The agent goes on here. (This recording uses a stand-in for it.)"
sleep 30
"""


class Step(NamedTuple):
    keys: str
    caption: str
    seconds: float
    shows: str = ""
    "A text that the screen shows after the keys."


STEPS = (
    Step("", "every conversation that your agents had", 2.4, "sessions · "),
    Step("/", "/  find", 0.6),
    *(Step(letters, "/  find", 0.16) for letters in ("pyd", *"anti")),
    Step("c", "/  find", 1.8, "1 found"),
    Step("\r", "enter  to the results", 0.8),
    Step("\r", "enter  open the session where the words are", 2.4),
    Step("E", "E  the failed call before", 1.8),
    Step("i", "i  inspect the call", 3.0, "arguments"),
    Step("\x1b", "esc  back", 0.8, "Conversation"),
    Step("r", "r  resume in its agent", 2.6, "Resume in Claude Code"),
    Step("h", "h  in this folder", 1.8),
    Step("\r", "enter  the agent takes over", 3.0, "The agent goes on"),
)


class Frame(NamedTuple):
    lines: Sequence[str]
    "The lines as SVG."
    caption: str
    seconds: float


class RecordedTerminal(Terminal):
    """Understands the end of a full-screen program, which pyte does not."""

    def handle_output(self, data: bytes) -> None:
        _, end, rest = data.rpartition(b"\x1b[?1049l")
        if end:
            self.clear()
        super().handle_output((rest if end else data).replace(b"\x1b[<u", b""))


# ── running the browser ───────────────────────────────────────────────────────────────────────────


def browse(path: str) -> None:
    """Run the browser with the fixed clock, and resume what was chosen. This is what the terminal runs."""
    from tui.app import Backscroll

    with patch.object(json, "datetime", FrozenDatetime):
        app = Backscroll(Store.open(Path(path)), lambda: NOW)
        chosen = app.run()
        app.close_stores()
    if chosen is not None:
        chosen.execute()


def record(home: Path) -> list[Frame]:
    """Return a frame for each step."""
    store_path, folder = home / "demo.db", home / "alpha"
    folder.mkdir()
    with (
        patch.object(demo, "datetime", FrozenDatetime),
        patch.object(json, "datetime", FrozenDatetime),
        Store.open(store_path) as store,
    ):
        demo.fill_store(store)
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text("[browser]\nmotion = false\n")  # a blinking cursor would never be quiet
    agent = home / "bin" / "claude"
    agent.parent.mkdir()
    agent.write_text(AGENT)
    agent.chmod(0o755)
    os.environ["PATH"] = f"{agent.parent}:/usr/bin:/bin"
    os.chdir(folder)
    code = f"import sys; sys.path.insert(0, {str(FOLDER)!r}); import tour; tour.browse({str(store_path)!r})"
    with RecordedTerminal(code, columns=COLUMNS, rows=ROWS) as terminal:
        return [take_frame(terminal, step) for step in STEPS]


def take_frame(terminal: Terminal, step: Step) -> Frame:
    terminal.press(step.keys)
    if step.shows:
        terminal.wait_for_text(step.shows)
    size = -1
    while size != len(terminal.raw):
        size = len(terminal.raw)
        terminal.read(QUIET_SECONDS)
    return Frame([render_line(terminal, y) for y in range(ROWS)], step.caption, step.seconds)


# ── drawing ───────────────────────────────────────────────────────────────────────────────────────


class Look(NamedTuple):
    color: str
    background: str
    attributes: str


def render_line(terminal: Terminal, y: int) -> str:
    """Draw one line of the screen: backgrounds first, then the text, in runs of the same look."""
    rectangles, texts, x = [], [], 0
    for look, cells in groupby(read_cells(terminal, y), key=lambda cell: cell[1]):
        text = "".join(data for data, _ in cells)
        width = cell_len(text)
        if look.background != THEME.background:
            rectangles.append(
                f'<rect x="{x * CELL_WIDTH:.2f}" width="{width * CELL_WIDTH:.2f}" height="{LINE_HEIGHT}"'
                f' fill="{look.background}"/>'
            )
        for match in re.finditer(r"\S+(?: \S+)*", text):  # blanks are not drawn, and runs of them not stretched
            start = x + cell_len(text[: match.start()])
            texts.append(
                f'<text x="{start * CELL_WIDTH:.2f}" y="13" fill="{look.color}"{look.attributes}'
                f' textLength="{cell_len(match.group()) * CELL_WIDTH:.2f}">{escape(match.group())}</text>'
            )
        x += width
    return "".join(rectangles + texts)


def read_cells(terminal: Terminal, y: int) -> Iterator[tuple[str, Look]]:
    for character in terminal.read_line(y):
        color = parse_color(character.fg, str(THEME.foreground))
        background = parse_color(character.bg, str(THEME.background))
        if character.reverse:
            color, background = background, color
        attributes = ' font-weight="bold"' * character.bold + ' font-style="italic"' * character.italics
        yield character.data, Look(color, background, attributes)


def parse_color(name: str, default: str) -> str:
    return f"#{name.upper()}" if re.fullmatch("[0-9a-fA-F]{6}", name) else default


def draw(frames: Sequence[Frame]) -> str:
    """Return the SVG. Equal lines are drawn once, and each frame is visible for its time."""
    lines = {
        line: number for number, line in enumerate(dict.fromkeys(line for frame in frames for line in frame.lines))
    }
    total = sum(frame.seconds for frame in frames)
    width, height = COLUMNS * CELL_WIDTH + 2 * MARGIN, (ROWS + 2) * LINE_HEIGHT + 2 * MARGIN
    styles, groups, at = [], [], 0.0
    for number, frame in enumerate(frames):
        start, at = at, at + frame.seconds
        styles.append(
            f"@keyframes f{number}{{0%{{visibility:hidden}}{100 * start / total:.3f}%{{visibility:visible}}"
            f"{100 * at / total:.3f}%{{visibility:{'hidden' if at < total else 'visible'}}}}}"
            f".f{number}{{animation:f{number} {total:.2f}s step-end infinite}}"
        )
        shown = "".join(
            f'<use href="#l{lines[line]}" y="{y * LINE_HEIGHT:.2f}"/>' for y, line in enumerate(frame.lines) if line
        )
        caption = f'<text x="0" y="{(ROWS + 1) * LINE_HEIGHT + 10:.2f}" class="caption">{escape(frame.caption)}</text>'
        groups.append(f'<g class="frame f{number}">{shown}{caption}</g>')
    definitions = "".join(f'<g id="l{number}">{line}</g>' for line, number in lines.items() if line)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" font-size="{FONT_SIZE}">'
        "<title>Find a session, open it, inspect a failed call, and resume</title>"
        "<style>text{font-family:'Fira Code','DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}"
        f".frame{{visibility:hidden}}.caption{{fill:{THEME.accent};font-weight:bold}}{''.join(styles)}"
        "@media (prefers-reduced-motion:reduce){.frame{animation:none}.f0{visibility:visible}}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="{THEME.background}"/><defs>{definitions}</defs>'
        f'<g transform="translate({MARGIN} {MARGIN})">{"".join(groups)}</g></svg>\n'
    )


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "TZ": "UTC", "SHELL": "/bin/sh", "LANG": "C.UTF-8"} | {
            f"XDG_{kind}_HOME": f"{home}/{kind.lower()}" for kind in ("DATA", "STATE", "CONFIG", "CACHE")
        }
        with patch.dict(os.environ, environment, clear=True):
            frames = record(Path(home))
            os.chdir(folder)
    (folder / "tour.svg").write_text(draw(frames), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else FOLDER)
