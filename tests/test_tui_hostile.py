"""What a conversation says never becomes a command to the terminal it is read in."""

from __future__ import annotations

import re
from pathlib import Path

from tui_terminal import Terminal
from tui_world import add, answer, before, prompt

from store.model import Attachment, NewEntry, Opaque, Thinking, ToolCall, ToolResult
from store.store import Store

# Asks a terminal to write the clipboard, rename the window, make a link, clear and scroll the screen, report the
# cursor or a setting as if typed, switch the character set, beep; 7-bit and 8-bit; and what overwrites in place.
PAYLOADS = [
    "\x1b]52;c;UFdORUQ=\x07",
    "\x1b]52;c;UFdORUQ=\x1b\\",
    "\x9d52;c;UFdORUQ=\x9c",
    "\x1b]0;renamed\x07",
    "\x1b]8;;http://example.com/\x1b\\link\x1b]8;;\x1b\\",
    "\x1b[2J\x1b[3J\x1b[H",
    "\x9b2J",
    "\x1b[6n",
    "\x1bP$qm\x1b\\",
    "\x90$qm\x9c",
    "\x1b[5i",
    "\x1bc",
    "\x1b(0",
    "\x1b_apc\x1b\\",
    "\x07\x08\x0b\x0c\r\x00\x7f",
    "abc\x08\x08\x08xyz\rover",
    "\x1b[?1049l",
]
EVIL = " ".join(PAYLOADS)
BENIGN = "x" * len(EVIL)

QUIT = "\x11"

BROWSE = """
import sys
from pathlib import Path
from tui.main import browse
browse(Path(sys.argv[1]))
"""

# Widgets that somebody forgot to clean for, in the same application.
LEAKY = """
import sys
from rich.style import Style
from rich.text import Text
from store.store import Store
from textual.content import Content
from textual.widgets import Input, Label, OptionList, Static, Tree
from tui.app import Backscroll

evil = sys.argv[2].encode().decode("unicode_escape")

class Leaky(Backscroll):
    def on_mount(self):
        boxed = Static(Content("boxed"))
        boxed.border_title = Content(evil)
        boxed.styles.border = ("round", "red")
        widgets = [
            Static(Content(evil)), Static(Text(evil)), Label(evil, markup=False), OptionList(Content(evil)),
            Input(evil), Tree(Text(evil)), boxed, Static(Text("a link", Style(link="http://example.com/" + evil))),
        ]
        self.screen.mount(*widgets, before=0)
        for widget in widgets:
            widget.styles.height = 3
        self.notify(evil, markup=False)
        self.notify("all mounted", timeout=60)

Leaky(Store.open(sys.argv[1])).run()
"""

_STRING = re.compile(rb"\x1b[\]PX^_][^\x07\x1b]{0,12}")
_SEQUENCE = re.compile(rb"\x1b\[([0-9;?<>=!$ ]*)([@-~])")
_OTHER = re.compile(rb"\x1b[^\[\]PX^_]")
_MOVES_AND_COLOURS = (b"m", b"H")


def commands(raw: bytes) -> set[bytes]:
    """Every kind of thing the terminal was told to do; where the cursor went and in which colour does not matter."""
    told = {found[0] for found in _SEQUENCE.finditer(raw) if found[2] not in _MOVES_AND_COLOURS}
    return told | set(_STRING.findall(raw)) | set(_OTHER.findall(raw))


def control_characters(raw: bytes) -> set[str]:
    """Besides the escape character itself, which starts the commands above."""
    return set(re.findall(r"[\x00-\x1a\x1c-\x1f\x7f-\x9f]", raw.decode("utf-8", "replace")))


def assert_no_more_was_told(hostile: bytes, benign: bytes) -> None:
    assert b"\xe2\x90\x9b]52;c;" in hostile  # it was shown, as pictures
    for payload in [*PAYLOADS, "\x07"]:
        assert hostile.count(payload.encode()) == benign.count(payload.encode()), repr(payload)
    assert commands(hostile) - commands(benign) == set()
    assert control_characters(hostile) <= control_characters(benign)
    assert b"\x1b]8;" not in hostile


def fill_with(store: Store, text: str) -> None:
    at = before()
    session = add(
        store,
        "hostile",
        at,
        prompt(f"prompt {text}", at, author=f"author {text}"),
        NewEntry(
            role="assistant",
            created_at=at,
            parts=(
                Thinking(f"thinking {text}"),
                ToolCall("1", f"name {text}", {"command": f"argument {text}"}),
                Attachment(f"type {text}", f"file {text}"),
                Opaque(f"kind {text}", {}),
            ),
        ),
        NewEntry(role="tool", created_at=at, parts=(ToolResult("1", f"result {text}\nmore {text}"),)),
        NewEntry(role="tool", created_at=at, parts=(ToolResult("2", f"orphan {text}", name=f"of {text}"),)),
        answer(f"answer {text}\n\tthe end", at),
        source=f"s{text}",
        cwd=f"/home/{text}",
        model=f"model {text}",
        channel=f"channel {text}",
    )
    store.sessions.set_title(session, f"title {text}")


def browsed(path: Path, text: str) -> bytes:
    """Everything the browser sent to a terminal while a person read the one session of a store."""
    with Store.open(path) as store:
        fill_with(store, text)
    with Terminal(BROWSE, str(path), columns=180, rows=50) as terminal:
        terminal.until_shown("1 session", "title")
        terminal.press("/title\r")
        terminal.until_shown("1 found")
        terminal.press("\r")
        terminal.until_shown("prompt", "thinking", "name", "argument", "orphan", "answer", "the end", "Next error")
        terminal.press("gx\r")
        terminal.until_shown("▾ name", "command:", "│ result", "│ more")
        terminal.press("k\r")
        terminal.until_shown("▾ thinking")
        terminal.press("H")
        terminal.until_shown("▸ 1  author")
        terminal.press("?")
        terminal.until_shown("The beginning")
        terminal.press(QUIT)
        assert terminal.until_closed() == 0
        return terminal.raw


def test_no_text_of_a_conversation_reaches_the_terminal_as_a_command(tmp_path: Path) -> None:
    benign, hostile = browsed(tmp_path / "benign.db", BENIGN), browsed(tmp_path / "hostile.db", EVIL)
    assert_no_more_was_told(hostile, benign)


def leaked(path: Path, text: str) -> bytes:
    with Terminal(LEAKY, str(path), text.encode("unicode_escape").decode(), columns=140, rows=40) as terminal:
        terminal.until_shown("all mounted", "a link", "boxed")
        terminal.press(QUIT)
        assert terminal.until_closed() == 0
        return terminal.raw


def test_the_backstop_holds_where_somebody_forgot_to_clean(tmp_path: Path) -> None:
    benign, hostile = leaked(tmp_path / "store.db", BENIGN), leaked(tmp_path / "store.db", EVIL)
    assert_no_more_was_told(hostile, benign)
