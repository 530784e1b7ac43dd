"""Tests in a real terminal, with the real worker, that the status of a session follows its transcript."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pty_terminal import Terminal

RUN = "import sys; from tui.main import main; sys.exit(main())"
SESSION = "11111111-2222-4333-8444-555555555555"
OSC_SEQUENCE = rb"\x1b\][^\x07\x1b]*\x07"
"""Is e.g. what Textual sends to change the pointer: it ends with the same byte as a bell."""

HOSTILE_TITLE = "Fix; the\x1b]52;c;eA==\x07 upload " + "x" * 200


class Transcript:
    """Is a transcript of Claude Code that grows as the agent would let it grow."""

    def __init__(self, home: Path) -> None:
        self._path = home / ".claude" / "projects" / "-srv-app" / f"{SESSION}.jsonl"
        self._path.parent.mkdir(parents=True)
        self._count = 0

    def add(self, role: str, text: str, **message: Any) -> None:
        parent, self._count = self._count, self._count + 1
        record = {
            "type": role,
            "uuid": f"r{self._count}",
            "parentUuid": f"r{parent}" if parent else None,
            "sessionId": SESSION,
            "cwd": "/srv/app",
            "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            "message": {"role": role, "content": [{"type": "text", "text": text}], **message},
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def answer(self, text: str, reason: str = "end_turn") -> None:
        self.add("assistant", text, id=f"m{self._count}", model="claude-opus", stop_reason=reason)


@pytest.fixture
def transcript(home: Path) -> Transcript:
    transcript = Transcript(home)
    transcript.add("user", HOSTILE_TITLE)
    return transcript


@pytest.fixture
def notify(home: Path, request: pytest.FixtureRequest) -> str:
    config = home / ".config" / "backscroll" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[browser]\nnotify = "{request.param}"\n')
    return str(request.param)


def open_browser(tmp_path: Path) -> Terminal:
    return Terminal(RUN, "--store", str(tmp_path / "store.db"), columns=140, rows=45)


def test_the_status_follows_what_the_agent_writes(transcript: Transcript, tmp_path: Path) -> None:
    with open_browser(tmp_path) as terminal:
        terminal.wait_for_text("1 session", "cc ● ", "● working")
        transcript.answer("Let me look.", "tool_use")
        transcript.answer("It is done.")
        terminal.wait_for_text("cc ◔ ", "◔ waiting for you")
        transcript.add("user", "Once more")
        terminal.wait_for_text("cc ● ", "● working")


@pytest.mark.parametrize(
    ("notify", "sequence"),
    [
        ("bell", rb"\A(?>" + OSC_SEQUENCE + rb"|[^\x07])*+\x07"),
        ("osc9", rb"\x1b\]9;([^\x07\x1b]*)\x07"),
        ("osc777", rb"\x1b\]777;notify;Backscroll;([^;\x07\x1b]*)\x07"),
    ],
    indirect=["notify"],
)
def test_the_terminal_is_told_once_that_a_session_waits(
    transcript: Transcript, notify: str, sequence: bytes, tmp_path: Path
) -> None:
    with open_browser(tmp_path) as terminal:
        terminal.wait_for_text("1 session", "● working")
        assert not re.search(sequence, terminal.raw)
        transcript.answer("It is done.")
        found = terminal.wait_for_output(sequence)
        if found.groups():
            text = found[1].decode()
            assert text.startswith("Waiting for you: Fix")
            assert len(text) <= 80
            assert ";" not in text
        terminal.wait_for_text("waiting for you")
        transcript.answer("And there is a note on it.")  # the same wait goes on
        terminal.wait_for_text("a note on it")
        transcript.add("user", "Once more")
        terminal.wait_for_text("● working")
        rest = re.sub(sequence, b"", terminal.raw, count=1)
        assert not re.search(sequence, rest)


@pytest.mark.parametrize("notify", ["off"], indirect=True)
def test_without_the_setting_the_terminal_is_told_nothing(transcript: Transcript, notify: str, tmp_path: Path) -> None:
    with open_browser(tmp_path) as terminal:
        terminal.wait_for_text("1 session", "● working")
        transcript.answer("It is done.")
        terminal.wait_for_text("waiting for you")
        terminal.press("q")
        terminal.wait_for_exit()
        assert b"\x07" not in re.sub(OSC_SEQUENCE, b"", terminal.raw)
