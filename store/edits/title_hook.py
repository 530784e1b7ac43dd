"""This module lets a program of the person's own propose titles.

The program gets the first turns of a session as JSON on stdin and prints a title. Backscroll sends nothing anywhere
itself. Values of secrets that it keeps are masked, because the program may send the text anywhere.
"""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from store.config import require_setting
from store.conversations.timeline import Timelines
from store.errors import BadValue, Refused, StoreError
from store.model.session import Session
from store.paths import config_file, find_program
from store.text.json import serialize
from store.text.sanitize import one_line, sanitize

if TYPE_CHECKING:
    from store.model.entry import Turn
    from store.store import Store

MAX_TURNS = 3
MAX_TEXT_CHARACTERS = 4_000
"""Limits each prompt and each answer in the JSON."""

MAX_TITLE_CHARACTERS = 200
_MAX_OUTPUT_BYTES = 64 * 1024
_POLL_SECONDS = 0.1
MASK = "[secret]"


class TitleProposal(NamedTuple):
    """Describes what the program proposes for a session, or why it proposes nothing."""

    session: Session
    title: str
    problem: str = ""

    @property
    def is_change(self) -> bool:
        return not self.problem and self.title != self.session.title


class TitleHook:
    """Runs the program in `[titles] command`. Make it for one use: it remembers the values of secrets."""

    def __init__(self, store: Store, is_stopped: Callable[[], bool] = lambda: False) -> None:
        self._store = store
        self._is_stopped = is_stopped
        self._argv = _read_command()
        self._max_seconds = require_setting("titles.seconds", int)

    @property
    def program(self) -> str:
        return os.path.basename(self._argv[0])

    def propose_all(self, sessions: Sequence[Session]) -> list[TitleProposal]:
        return [self.propose(session) for session in sessions if not self._is_stopped()]

    def propose(self, session: Session) -> TitleProposal:
        """Ask the program for the title of a session. Whatever goes wrong is the problem of the proposal."""
        try:
            return TitleProposal(session, _check_title(self._run(self._describe(session)), self.program))
        except StoreError as error:
            return TitleProposal(session, "", str(error))

    def apply(self, proposals: Sequence[TitleProposal]) -> int:
        """Set the proposed titles as one edit, and return their number."""
        changes = [proposal for proposal in proposals if proposal.is_change]
        if changes:
            self._store.sessions.rename([(proposal.session, proposal.title) for proposal in changes])
        return len(changes)

    # ── what the program gets ─────────────────────────────────────────────────────────────────────

    def _describe(self, session: Session) -> bytes:
        turns = Timelines(self._store).load_turns(session.key, range(1, MAX_TURNS + 1))
        if not turns:
            reason = "It has no turns" if session.depth == "full" else "It is not completely read yet"
            raise Refused(f"{reason}, so there is nothing to name.")
        return serialize(
            {
                "schema": 1,
                "session": {
                    "id": session.id,
                    "source": session.source,
                    "title": self._mask(session.title),
                    "cwd": self._mask(session.cwd),
                    "created_at": session.created_at,
                    "turns": session.turns,
                },
                "turns": [self._describe_turn(turn) for turn in turns],
            }
        )

    def _describe_turn(self, turn: Turn) -> dict[str, object]:
        answers = [entry.text for entry in turn.entries if entry.kind == "message" and entry.role == "assistant"]
        return {
            "n": turn.n,
            "prompt": self._mask(turn.prompt)[:MAX_TEXT_CHARACTERS],
            "answer": self._mask("\n\n".join(filter(None, answers)))[:MAX_TEXT_CHARACTERS],
            "tools": [self._mask(name) for name in dict.fromkeys(call.name for call in turn.tool_calls)],
        }

    def _mask(self, text: str) -> str:
        for value in self._secret_values:
            text = text.replace(value, MASK)
        return text

    @cached_property
    def _secret_values(self) -> list[str]:
        """The values of all secrets, the longest first because one may contain another."""
        try:
            return sorted(filter(None, self._read_secrets()), key=len, reverse=True)
        except StoreError as error:
            raise Refused(f"{error} Their values could not be left out, so {self.program} was not run.") from None

    def _read_secrets(self) -> Iterator[str]:
        yield from self._store.secrets.all_values()
        for exposed in self._store.secrets.exposed():
            with suppress(StoreError):  # the agent's store may be gone; then its secrets are not kept anywhere
                yield self._store.write_back.read_exposed(self._store.sessions.get(exposed.session_id), exposed.key)

    # ── running it ────────────────────────────────────────────────────────────────────────────────

    def _run(self, document: bytes) -> bytes:
        """Run the program apart from the terminal, and return what it printed. It is killed if it takes too long."""
        with tempfile.TemporaryFile() as stdin:
            stdin.write(document)
            stdin.seek(0)
            try:
                process = subprocess.Popen(
                    self._argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
                )
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise Refused(f"{self._argv[0]} cannot be run: {reason}.") from None
        with process:
            try:
                printed, complaint = self._read(process)
                status = process.wait(self._max_seconds)
            except subprocess.TimeoutExpired:
                raise self._too_slow() from None
            finally:
                _kill_group(process)
        if status:
            reason = one_line(complaint.decode("utf-8", "replace").strip().rpartition("\n")[2], MAX_TITLE_CHARACTERS)
            raise Refused(f"{self.program} ended with status {status}" + (f": {reason}." if reason else "."))
        return printed

    def _read(self, process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
        """Read both outputs until they are closed, within the limits of time and size."""
        outputs = {stream: b"" for stream in (process.stdout, process.stderr) if stream is not None}
        deadline = time.monotonic() + self._max_seconds
        with selectors.DefaultSelector() as selector:
            for stream in outputs:
                selector.register(stream, selectors.EVENT_READ, stream)
            while selector.get_map():
                if self._is_stopped():
                    raise Refused("Stopped.")
                if time.monotonic() > deadline:
                    raise self._too_slow()
                for key, _ in selector.select(_POLL_SECONDS):
                    stream = key.data
                    data = os.read(key.fd, _MAX_OUTPUT_BYTES)
                    outputs[stream] += data
                    if not data:
                        selector.unregister(stream)
                    elif len(outputs[stream]) > _MAX_OUTPUT_BYTES:
                        raise Refused(f"{self.program} printed more than {_MAX_OUTPUT_BYTES >> 10} KB.")
        printed, complaint = outputs.values()
        return printed, complaint

    def _too_slow(self) -> Refused:
        unit = "second" if self._max_seconds == 1 else "seconds"
        return Refused(f"{self.program} did not end within {self._max_seconds} {unit}.")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the program and what it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _read_command() -> list[str]:
    command = require_setting("titles.command", str)
    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise BadValue(f"In {config_file()}, [titles] command is not a command: {error}.") from None
    if not argv:
        raise Refused(f"No program proposes titles. Set `command` in the section [titles] of {config_file()}.")
    program = find_program(os.path.expanduser(argv[0]))
    if not os.path.isabs(program):
        raise Refused(f"The program {argv[0]} does not exist. Correct `command` in [titles] of {config_file()}.")
    return [program, *argv[1:]]


def _check_title(printed: bytes, program: str) -> str:
    try:
        title = printed.decode().strip()
    except UnicodeDecodeError:
        raise BadValue(f"{program} printed a title that is not UTF-8.") from None
    if not title:
        raise BadValue(f"{program} printed no title.")
    if len(title) > MAX_TITLE_CHARACTERS or "\n" in title:
        limit = f"A title is one line of at most {MAX_TITLE_CHARACTERS} characters."
        raise BadValue(f"{program} printed {len(title):,} characters in {title.count(chr(10)) + 1:,} lines. {limit}")
    if sanitize(title) != title:
        raise BadValue(f"{program} printed a title with control characters.")
    return title
