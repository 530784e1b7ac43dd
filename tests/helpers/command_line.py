"""This module runs the command line in this process, in a new process, and in a terminal."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from store.cli import run
from store.cli.context import BrowserLauncher
from store.model.session import Session
from store.store import Store

TIMEOUT = 60
UNEXPECTED_ERROR = "Unexpected error"


@dataclass(frozen=True)
class CommandResult:
    status: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.lines]

    @property
    def json(self) -> dict[str, Any]:
        """Return the JSON object on stdout, which must be the only output."""
        assert self.status in (0, 1), self.err
        value = json.loads(self.out)
        assert value["schema"] == 1
        return dict(value)


class FakeBrowser:
    """Records the stores on which the browser would have been opened."""

    def __init__(self) -> None:
        self.paths: list[Path] = []

    def __call__(self, path: Path, *, follow: bool, pick: bool = False, refusal: str = "") -> None:
        self.paths.append(path)
        self.refusal = refusal


class CommandLine:
    def __init__(self, path: Path, browser_commands: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._browser_commands = browser_commands

    def __call__(self, *args: str, stdin: str | bytes = b"", browse: BrowserLauncher | None = None) -> CommandResult:
        with CliRunner().isolation(input=stdin) as (out, err, _):
            status = run(browse, ["--store", str(self.path), *args], self._browser_commands)
            result = CommandResult(status, out.getvalue(), err.getvalue().decode())
        assert UNEXPECTED_ERROR not in result.err
        return result

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "store", "--store", str(self.path), *args]

    def run_process(self, *args: str) -> CommandResult:
        process = subprocess.run(self.command(*args), capture_output=True, stdin=subprocess.DEVNULL)
        return CommandResult(process.returncode, process.stdout, process.stderr.decode())

    def run_in_terminal(self, *args: str, answers: Sequence[tuple[str, str]] = (), **environment: str) -> CommandResult:
        """Run in a terminal that is 100 columns wide. Each answer is typed when its prompt has appeared."""
        keyboard, screen = pty.openpty()
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        process = subprocess.Popen(
            self.command(*args),
            stdin=screen,
            stdout=screen,
            stderr=screen,
            start_new_session=True,
            preexec_fn=_attach_terminal,
            env={**os.environ, "TERM": "xterm", **environment},
        )
        os.close(screen)
        try:
            output = b""
            for prompt, answer in answers:
                while prompt.encode() not in output:
                    output += _read_terminal(keyboard) or _fail_not_shown(prompt, output)
                os.write(keyboard, answer.encode() + b"\n")
                output = output.replace(prompt.encode(), b"", 1)
            while more := _read_terminal(keyboard):
                output += more
            return CommandResult(process.wait(), output.replace(b"\r\n", b"\n"), "")
        finally:
            os.close(keyboard)
            process.kill()
            process.wait()


def _attach_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # The shell ignores SIGINT for tests that run in the background, and children inherit that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _read_terminal(keyboard: int) -> bytes:
    ready, _, _ = select.select([keyboard], [], [], TIMEOUT)
    assert ready, f"no output for {TIMEOUT} seconds"
    try:
        return os.read(keyboard, 65536)
    except OSError as reason:
        if reason.errno != errno.EIO:
            raise
        return b""


def _fail_not_shown(prompt: str, output: bytes) -> bytes:
    raise AssertionError(f"The prompt {prompt!r} did not appear: {output!r}")


def add_upload_session(store: Store, session_id: str = "telegram:648079060") -> Session:
    """Add a session with two turns, a failed call, two pending ones, and escapes that must never reach a terminal."""
    store.create_session(
        session_id,
        agent_title="Fix the upload",
        channel="telegram",
        user="ada",
        model="opus",
        provider="anthropic",
        cwd=str(store.path.parent),
        system_prompt="Be brief.",
    )
    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "pytest -q"}}
    output = "\n".join(f"    line {n}" for n in range(40))
    result = {"type": "tool_result", "tool_use_id": "c1", "content": output, "is_error": True}
    store.append_message(session_id, "user", "Look at the retry.")
    store.append_message(session_id, "assistant", [{"type": "thinking", "thinking": "Where is it?"}, call])
    store.append_message(session_id, "user", [result])
    store.append_message(session_id, "assistant", "Closed too early.\x1b]52;c;aGk=\x07\x9b2J\u202e")
    store.append_message(session_id, "user", "Mend it. 上传失败")
    edit = {"type": "tool_use", "id": "c2", "name": "Edit", "input": {"path": "upload.py"}}
    read = {"type": "tool_use", "id": "c3", "name": "Read", "input": {"path": "other.py"}}
    store.append_message(session_id, "assistant", [edit, read])
    return store.sessions.get(session_id)
