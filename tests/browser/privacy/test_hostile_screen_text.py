"""Tests that no text of a conversation becomes a command to the terminal."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from browser_driver import add_session, answer_entry, prompt_entry, time_ago
from pty_terminal import Terminal

from store.errors import StoreError
from store.model.entry import Attachment, NewEntry, NewRecord, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from store.store import Store

# Asks a terminal to write the clipboard, rename the window, make a link, clear and scroll the screen, report the
# cursor or a setting as if typed, switch the character set, beep; 7-bit and 8-bit; and what overwrites in place.
PAYLOADS = [
    "\x1b]52;c;UFdORUQ=\x07",
    "\x1b]52;c;UFdORUQ=\x1b\\",
    "\x1b]52;p;?\x07",
    "\x9d52;c;UFdORUQ=\x9c",
    "\x1b]0;renamed\x07",
    "\x1b]2;renamed\x1b\\",
    "\x1b]8;;http://example.com/\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]4;1;?\x07",
    "\x1b]10;?\x1b\\",
    "\x1b]1337;File=inline=1:AAAA\x07",
    "\x1b[2J\x1b[3J\x1b[H",
    "\x9b2J",
    "\x1b[6n",
    "\x9b6n",
    "\x1b[c",
    "\x1b[21t",
    "\x1b[5i",
    "\x1b[?1049l",
    "\x1b[?2004h",
    "\x1b[8;1;1t",
    "\x1b[201~",
    "\x1bP$qm\x1b\\",
    "\x90$qm\x9c",
    "\x1bPtmux;\x1b\x1b]52;c;UFdORUQ=\x07\x1b\\",
    "\x1b_Ga=T;AAAA\x1b\\",
    "\x1b^pm\x1b\\",
    "\x1bX sos\x1b\\",
    "\x1bc",
    "\x1b(0",
    "\x1b#8",
    "\x0e\x0f",
    "\x07\x08\x0b\x0c\r\x00\x7f",
    "abc\x08\x08\x08xyz\rover",
    "\x1b",
    "\x85\x84\x8d",
]
# Markup that acts on the application or changes how text looks.
MARKUP = [
    "[@click=app.quit]quit[/]",
    "[/]",
    "[b",
    "[link=file:///etc]x[/link]",
    "[$error]x[/$error]",
    "\\[x",
    "[on red",
]
UNSEEN = ["\u202eevil\u202c", "\u2066a\u2069", "a\u200bb\ufeff", "\u2028\u2029", "\U000e0041\U000e007f", "\u061c\u200e"]
UNSEEN_CHARACTERS = re.compile("[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
EVIL = " ".join(PAYLOADS)
BENIGN = "x" * len(EVIL)

QUIT = "\x11"


@pytest.fixture(autouse=True)
def _far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies go only to the terminal, and to no clipboard of this machine."""
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")


BROWSE = """
import json
import sys
from store.errors import StoreError
from store.store import Store
from tui.app import Backscroll

class Failing(Backscroll):
    def action_fail(self):
        texts = json.loads(sys.argv[2])
        for number in range(0, len(texts), 16):  # a long message is shortened
            self.show_error(StoreError("that went wrong: " + chr(10).join(texts[number : number + 16]) + " p99 "))

app = Failing(Store.open(sys.argv[1]))
app.bind("f9", "fail")
app.run()
app.close_stores()
"""

# Widgets whose text is not sanitized, in the same application.
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
    """Return every kind of command that the terminal got, except cursor moves and colours."""
    sequences = {found[0] for found in _SEQUENCE.finditer(raw) if found[2] not in _MOVES_AND_COLOURS}
    return sequences | set(_STRING.findall(raw)) | set(_OTHER.findall(raw))


def control_characters(raw: bytes) -> set[str]:
    """Return the control characters, except Escape, which starts the commands above."""
    return set(re.findall(r"[\x00-\x1a\x1c-\x1f\x7f-\x9f]", raw.decode("utf-8", "replace")))


def assert_no_more_commands(hostile: bytes, benign: bytes) -> None:
    assert b"\xe2\x90\x9b]52;c;" in hostile  # it was shown, as pictures
    for payload in [*(one for one in PAYLOADS if len(one) > 1), "\x07"]:
        assert hostile.count(payload.encode()) == benign.count(payload.encode()), repr(payload)
    assert commands(hostile) - commands(benign) == set()
    assert control_characters(hostile) <= control_characters(benign)
    assert b"\x1b]8;" not in hostile
    assert not UNSEEN_CHARACTERS.search(hostile.decode("utf-8", "replace"))


ALL = [*PAYLOADS, *MARKUP, *UNSEEN]


def numbered(texts: list[str]) -> list[str]:
    """Number the texts, so that a test can wait for each of them."""
    return [f"p{n:02} {text}" for n, text in enumerate(texts)]


def fill_list(store: Store, texts: list[str]) -> None:
    """Add a session for each text: in its title, folder, model, channel and prompt, and as a tag if possible."""
    for n, text in enumerate(numbered(texts)):
        at, folder = time_ago(minutes=n + 1), "/home/" + text.replace("/", "|").replace("\0", "")
        session = add_session(
            store,
            f"s{n}",
            at,
            prompt_entry(f"needle {text}", at, author=text),
            source="claude",
            native_id=text,
            cwd=folder,
            model=text,
            channel=text,
            agent_title=text,
        )
        with suppress(StoreError):
            store.notes.tag([session], [text])


def fill_conversation(store: Store, texts: list[str]) -> None:
    """Add all texts in every kind of part, a call for each, and a record with each as a name and as a value."""
    at, lines = time_ago(), numbered(texts)
    every = "\n".join(lines)
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| {x} | [{x}](http://x/{x}) |" for x in map(_cell, lines))
    record = NewRecord(json.dumps({x: {x: [x]} for x in lines}).encode())
    edit = {"file_path": lines[0], "old_string": every, "new_string": every + "\nmore"}
    calls = [ToolCall(str(n), f"t{n}{x}", {f"k{x}": x, "command": x}) for n, x in enumerate(lines)]
    parts: tuple[Part, ...] = (
        Thinking(f"thinking\n{every}"),
        *calls,
        ToolCall("edit", "Edit", edit),
        ToolCall("all", "Bash", lines),
    )
    results = [ToolResult(str(n), f"{x}\n{x}", is_error=True) for n, x in enumerate(lines)]
    results += [ToolResult("all", f"result\n{every}"), ToolResult("nobody", every, name=every)]
    session = add_session(
        store,
        "hostile",
        at,
        NewEntry(role="user", parts=(Text(f"prompt\n{every}"),), author=every, created_at=at, record=record),
        NewEntry(role="assistant", parts=parts, created_at=at),
        NewEntry(role="tool", parts=tuple(results), created_at=at),
        NewEntry(role="assistant", parts=(Attachment(every, every), Opaque(every, lines)), created_at=at, kind="x"),
        answer_entry(f"answer\n\n{every}\n\n```{lines[0]}\nfence\n{every}\n```\n\n{table}\n\n\tthe end", at),
        source=f"s{every}",
        cwd=f"/home/{every}",
        model=every,
        channel=every,
    )
    store.sessions.set_title(session, f"title {every}")
    store.summaries.set(session, every, up_to_turn=1)


def _cell(text: str) -> str:
    return text.replace("|", "").replace("\r", "")


def harmless(texts: list[str]) -> list[str]:
    return ["x" * len(text) for text in texts]


OWN_COPY = re.compile(rb"\x1b\]52;c;(?!UFdORUQ)[A-Za-z0-9+/=]{20,}\x07")
"""Matches what the person copied."""


def listed(path: Path, texts: list[str]) -> bytes:
    """Return all output while a person uses the list: headings, hits, completions, cards, messages."""
    last = f"p{len(texts) - 1:02}"
    with Store.open(path) as store:
        fill_list(store, texts)
    with Terminal(BROWSE, str(path), json.dumps(texts), columns=90, rows=150) as terminal:
        terminal.wait_for_text(f"{len(texts)} sessions", "p00", last)
        terminal.press("o")
        terminal.wait_for_text("Headings", "folders")
        terminal.press("f")
        terminal.wait_for_text("/home/p00", f"/home/{last}")
        for name in ("cwd", "model", "tag"):
            terminal.press(f"/{name}:p")
            terminal.wait_for_text(f"{name}:p")
            terminal.press("\x15")  # an empty line again
            terminal.wait_until_gone(f"{name}:p")
            terminal.press("\r")  # and back to the list
            terminal.wait_for_text("s Scope")
        terminal.press("/needle\r")
        terminal.wait_for_text(f"{len(texts)} found", last, "Open")
        terminal.press("r")
        terminal.wait_for_text("Resume in Claude Code")
        terminal.press("c")
        terminal.wait_for_output(OWN_COPY.pattern)
        terminal.press("q?")
        terminal.wait_for_text("Go to the last session")
        terminal.press("q")
        terminal.wait_until_gone("Go to the last session")
        terminal.press("\x10")
        terminal.wait_for_text("Search for commands")
        terminal.press("\x1b")
        terminal.wait_until_gone("Search for commands")
        terminal.press("\x1b[20~")  # F9
        terminal.wait_for_text("that went wrong", "p99")
        terminal.press(QUIT)
        assert terminal.wait_for_exit() == 0
        return OWN_COPY.sub(b"", terminal.raw, count=1)


def read(path: Path, texts: list[str]) -> bytes:
    """Return all output while a person reads the only conversation of a store: its parts, record and calls."""
    last = f"p{len(texts) - 1:02}"
    with Store.open(path) as store:
        fill_conversation(store, texts)
    with Terminal(BROWSE, str(path), json.dumps(texts), columns=160, rows=90) as terminal:
        terminal.wait_for_text("1 session", "title")
        terminal.press("\r")
        terminal.wait_for_text("the end", last, "Errors")
        terminal.press("g")
        terminal.wait_for_text("prompt", "p00", last)
        terminal.press("3" + "j" * 3 * len(texts))
        terminal.wait_for_text(last)
        terminal.press("2j")
        terminal.press("\r")
        terminal.wait_for_text("▾ thinking")
        terminal.press("jjjj\r")
        terminal.press("    ")
        terminal.wait_for_text("the end")
        terminal.press("GXi")
        terminal.wait_for_text("of", "Go to turn")
        terminal.press("KK")
        terminal.wait_for_text("result", last)
        terminal.press("a")
        terminal.wait_for_text("All calls of this session", last)
        terminal.press("\x1b")
        terminal.wait_until_gone("All calls of this session")
        terminal.press("q")
        terminal.wait_for_text("Errors")
        terminal.press("r")
        terminal.wait_for_text("Resume in", "written with the Python library")
        terminal.press(QUIT)
        assert terminal.wait_for_exit() == 0
        return terminal.raw


def test_no_text_of_a_list_reaches_the_terminal_as_a_command(tmp_path: Path) -> None:
    benign, hostile = listed(tmp_path / "benign.db", harmless(ALL)), listed(tmp_path / "hostile.db", ALL)
    assert_no_more_commands(hostile, benign)


def test_no_text_of_a_conversation_reaches_the_terminal_as_a_command(tmp_path: Path) -> None:
    benign, hostile = read(tmp_path / "benign.db", harmless(ALL)), read(tmp_path / "hostile.db", ALL)
    assert_no_more_commands(hostile, benign)


def test_there_are_enough_payloads_and_all_differ() -> None:
    assert len(set(PAYLOADS)) == len(PAYLOADS) >= 30


def leaked(path: Path, text: str) -> bytes:
    with Terminal(LEAKY, str(path), text.encode("unicode_escape").decode(), columns=140, rows=40) as terminal:
        terminal.wait_for_text("all mounted", "a link", "boxed")
        terminal.press(QUIT)
        assert terminal.wait_for_exit() == 0
        return terminal.raw


def test_the_terminal_filter_stops_text_that_was_not_sanitized(tmp_path: Path) -> None:
    benign, hostile = leaked(tmp_path / "store.db", BENIGN), leaked(tmp_path / "store.db", EVIL)
    assert_no_more_commands(hostile, benign)
