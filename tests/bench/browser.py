"""This module measures the browser in a real terminal, compared with a Textual program that shows one line."""

from __future__ import annotations

import os
import random
import re
import statistics
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import orjson
from bench.processes import own_resident_megabytes, processor_ticks, resident_megabytes
from bench.table import ResultRow
from pty_terminal import Pty

from store.model.entry import NewEntry, NewRecord, Part, Text, ToolCall, ToolResult
from store.store import Store

IDLE_SECONDS = 1.5
IDLE_WAIT_SECONDS, MAX_IDLE_WAITS, MAX_IDLE_TICKS = 7.0, 30, 5
"""The worker is idle when its processes and the browser use at most these ticks, 50 ms, in that time, which is longer
than the pause that the worker makes after a key."""
"""Is long enough for a started program to become idle."""

MB = 1_000_000
MAX_MEMORY_MB, MAX_MEMORY_WITH_WORKER_MB = 110, 160
"""Are absolute limits, because the memory of the one-line program is no measure."""

WORDS = (
    "upload retry test fails when file closed before second attempt reopen check status code handler queue parser"
    " timeout migration schema index session token cache branch commit review deploy"
).split()


# ── the store that is browsed ─────────────────────────────────────────────────────────────────────────


class BrowserSize(NamedTuple):
    sessions: int
    turns: int
    record: int
    keys: int


FULL_SIZE = BrowserSize(100_000, 10_000, 15 * MB, 120)
SMALL_SIZE = BrowserSize(10_000, 1_000, 2 * MB, 40)

READABLE_SESSIONS = 50
LONG_SESSION_ROW, LARGE_RECORD_ROW = 3, 6
"""Are the rows of the sessions that are opened. They are far apart, so that neither is read before it is opened."""

FIRST_TEXT, LAST_TEXT, LARGE_RECORD_TEXT = "the-first-words", "the-last-words", "the-large-one"
FIRST_KEY, LAST_KEY = "the-first-key", "the-last-key"


def fill_store(store: Store, size: BrowserSize) -> None:
    """Fill a store with the same sessions every time. Titles are numbered in list order; the newest have entries."""
    rng = random.Random(11)
    with store.transaction(durable=False) as connection:
        for number in range(READABLE_SESSIONS):
            at = _format_time(number)
            session = store.sessions.create(
                f"claude:{number}", agent_title=_title(number), created_at=at, updated_at=at
            )
            store.chains.append(session.key, list(_conversation(number, size, rng)))
        connection.executemany(
            "insert into sessions (id, native_id, source, agent_title, model, cwd, turns, created_at, updated_at)"
            " values (?, ?, 'claude', ?, 'm', ?, ?, ?, ?)",
            (_session_row(number, rng) for number in range(READABLE_SESSIONS, size.sessions)),
        )


def _session_row(number: int, rng: random.Random) -> tuple[object, ...]:
    name, folder, at = f"claude:{number}", f"/home/dev/{rng.choice(WORDS)}", _format_time(number)
    return name, name, f"{_title(number)} {_make_sentence(rng)[:30]}", folder, rng.randint(1, 90), at, at


def _title(number: int) -> str:
    return f"Session {number:06d}"


def _format_time(number: int) -> str:
    at = datetime(2026, 1, 1, tzinfo=UTC) - timedelta(minutes=7 * number)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _conversation(number: int, size: BrowserSize, rng: random.Random) -> Iterator[NewEntry]:
    if number == LARGE_RECORD_ROW:
        yield replace(_make_entry("user", Text(LARGE_RECORD_TEXT)), record=NewRecord(_make_record(size.record, rng)))
        return
    yield _make_entry("user", Text(FIRST_TEXT))
    for turn in range(size.turns - 1 if number == LONG_SESSION_ROW else 8):
        yield _make_entry("user", Text(_make_sentence(rng)))
        call = ToolCall(f"c{turn}", "Bash", {"command": f"pytest -q {turn}"})
        yield _make_entry("assistant", Text(f"- {_make_sentence(rng)}\n- **{_make_sentence(rng)}**\n\n`{turn}`"), call)
        yield _make_entry("tool", ToolResult(f"c{turn}", _make_sentence(rng) * 5))
    yield _make_entry("assistant", Text(LAST_TEXT if number == LONG_SESSION_ROW else _make_sentence(rng)))


def _make_entry(role: str, *parts: Part) -> NewEntry:
    return NewEntry(role=role, parts=parts, created_at="2020-01-01T00:00:00.000000Z")


def _make_sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=30))


def _make_record(size: int, rng: random.Random) -> bytes:
    """Return a JSON record with a list of tables, as tools return them."""
    table = {"id": 0, "name": "", "tags": ["a", "b"], "place": {"line": 7, "column": 40, "path": "/home/dev"}}
    items = []
    while size > 0:
        items.append(table | {"id": size, "name": _make_sentence(rng)})
        size -= 292
    return orjson.dumps({FIRST_KEY: 1, "items": items, LAST_KEY: 2})


# ── programs in terminals ─────────────────────────────────────────────────────────────────────────

BACKSCROLL_PROGRAM = "import sys; from tui.main import main; sys.exit(main())"
HELLO_PROGRAM = """
from textual.app import App
from textual.widgets import Static

class Hello(App):
    pressed = 0

    def compose(self):
        yield Static("hello, world")

    def on_key(self):
        self.pressed += 1
        self.query_one(Static).update(f"pressed:{self.pressed}.")

Hello().run()
"""

UP, DOWN, HOME, END, PAGE_UP, PAGE_DOWN = "\x1b[A", "\x1b[B", "\x1b[H", "\x1b[F", "\x1b[5~", "\x1b[6~"
ENTER = "\r"
LIST_KEY, RECORD_KEY = "1", "3"

GREETING = b"hello, world"
ROW = rb"Session \d{6}"


def selected_row_pattern(other_than: bytes = b"none") -> bytes:
    """Return a pattern for the output of the selected row, unless it is the row with the given number."""
    return "▌".encode() + rb"[^S]{0,80}Session (?!%b)(\d{6})" % other_than


@contextmanager
def run_in_terminal(code: str, *arguments: str, home: Path) -> Iterator[tuple[Pty, float]]:
    """Run a program in a terminal; yield the terminal and the time of the start."""
    settings = {name: str(home) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
    # Installed programs are compiled already, so let Python keep its bytecode here, too.
    settings |= {"PYTHONPYCACHEPREFIX": str(home / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
    started = time.perf_counter()
    with Pty(code, *arguments, columns=120, rows=40, env={**os.environ, **settings}) as terminal:
        yield terminal, started


def time_keys_to_output(terminal: Pty, keys: str, pattern: bytes) -> float:
    """Press keys and return the seconds until output matches the pattern."""
    terminal.read(0)
    terminal.raw = b""
    started = time.perf_counter()
    terminal.press(keys)
    terminal.wait_for_output(pattern)
    return time.perf_counter() - started


def read_output_for(terminal: Pty, seconds: float = IDLE_SECONDS) -> None:
    limit = time.perf_counter() + seconds
    while (left := limit - time.perf_counter()) > 0:
        terminal.read(left)


def typing_pauses(count: int) -> list[float]:
    """Return pauses between keys like those of a person: most keys are repeated, after some the person reads."""
    rng = random.Random(5)
    return [rng.choice((0.03, 0.03, 0.03, 0.25)) for _ in range(count)]


def list_navigation_keys(count: int) -> list[str]:
    """Return keys that go to the end of the list and back; each of them moves the cursor."""
    rng = random.Random(3)
    to_end = [PAGE_DOWN, *(rng.choice((DOWN, DOWN, DOWN, PAGE_DOWN)) for _ in range(count // 2)), END]
    to_start = [PAGE_UP, *(rng.choice((UP, UP, UP, PAGE_UP)) for _ in range(count - len(to_end) - 2)), HOME]
    return to_end + to_start


# ── measurements ──────────────────────────────────────────────────────────────────────────────────


class HelloTimes(NamedTuple):
    start: float
    echo: float


class BrowserTimes(NamedTuple):
    start: float
    key: float
    conversation: float
    conversation_end: float
    record: float
    record_end: float
    megabytes: float
    megabytes_with_worker: float


def p95(times: Iterable[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def warm_up(home: Path, store: Path) -> None:
    for program, pattern in (((HELLO_PROGRAM,), GREETING), ((BACKSCROLL_PROGRAM, "--store", str(store)), ROW)):
        with run_in_terminal(*program, home=home) as (terminal, _):
            terminal.wait_for_output(pattern)
            read_output_for(terminal)


def measure_hello(size: BrowserSize, home: Path) -> HelloTimes:
    with run_in_terminal(HELLO_PROGRAM, home=home) as (terminal, started):
        terminal.wait_for_output(GREETING)
        start = time.perf_counter() - started
        read_output_for(terminal)
        return HelloTimes(start, p95(_time_key_echoes(terminal, size.keys)))


def _time_key_echoes(terminal: Pty, keys: int) -> Iterator[float]:
    for number, pause in enumerate(typing_pauses(keys), 1):
        yield time_keys_to_output(terminal, "x", b"pressed:%d\\." % number)
        read_output_for(terminal, pause)


def measure_browser(size: BrowserSize, home: Path, store: Path) -> BrowserTimes:
    with run_in_terminal(BACKSCROLL_PROGRAM, "--store", str(store), home=home) as (terminal, started):
        terminal.wait_for_output(ROW)
        start = time.perf_counter() - started
        read_output_for(terminal)
        key = p95(_time_cursor_moves(terminal, size.keys))
        read_output_for(terminal)
        conversation = time_keys_to_output(terminal, DOWN * LONG_SESSION_ROW + ENTER, LAST_TEXT.encode())
        read_output_for(terminal)
        time_keys_to_output(terminal, HOME, FIRST_TEXT.encode())
        read_output_for(terminal)
        conversation_end = time_keys_to_output(terminal, END, LAST_TEXT.encode())
        time_keys_to_output(terminal, LIST_KEY, selected_row_pattern())
        time_keys_to_output(terminal, DOWN * (LARGE_RECORD_ROW - LONG_SESSION_ROW) + ENTER, LARGE_RECORD_TEXT.encode())
        read_output_for(terminal)
        record = time_keys_to_output(terminal, RECORD_KEY, FIRST_KEY.encode())
        read_output_for(terminal)
        record_end = time_keys_to_output(terminal, END, LAST_KEY.encode())
        own = own_resident_megabytes(terminal.pid)
        _wait_until_idle(terminal)
        memory = own, resident_megabytes(terminal.pid)
        return BrowserTimes(start, key, conversation, conversation_end, record, record_end, *memory)


def _wait_until_idle(terminal: Pty) -> None:
    """Wait until the worker has packed and scanned the store. It needs up to 40 MB more while it does."""
    for _ in range(MAX_IDLE_WAITS):
        before = processor_ticks(terminal.pid)
        read_output_for(terminal, IDLE_WAIT_SECONDS)
        if processor_ticks(terminal.pid) - before <= MAX_IDLE_TICKS:
            return


def _time_cursor_moves(terminal: Pty, keys: int) -> Iterator[float]:
    """Yield the seconds from each key until the list shows another selected session."""
    before = b"000000"
    for key, pause in zip(list_navigation_keys(keys), typing_pauses(keys), strict=True):
        yield time_keys_to_output(terminal, key, selected_row_pattern(other_than=before))
        before = re.findall(selected_row_pattern(), terminal.raw)[-1]
        read_output_for(terminal, pause)


# ── results ───────────────────────────────────────────────────────────────────────────────────────


def measure(folder: Path, size: BrowserSize, runs: int) -> list[ResultRow]:
    store, home = folder / "store.db", folder / "home"
    home.mkdir()
    with Store.open(store) as opened:
        fill_store(opened, size)
    warm_up(home, store)
    hello_runs, browser_runs = [], []
    for _ in range(runs):
        hello_runs.append(measure_hello(size, home))
        browser_runs.append(measure_browser(size, home, store))
    return list(_result_rows(size, hello_runs, browser_runs))


def _result_rows(
    size: BrowserSize, hello_runs: list[HelloTimes], browser_runs: list[BrowserTimes]
) -> Iterator[ResultRow]:
    start, echo = [run.start for run in hello_runs], [run.echo for run in hello_runs]

    def row(name: str, ours: list[float], hello: list[float], ratio: float) -> ResultRow:
        return ResultRow(name=name, ours=ours, baseline=hello, baseline_name="hello", ratio=ratio)

    yield row(f"launch to rows, {size.sessions:,} sessions", [run.start for run in browser_runs], start, 1.3)
    yield row(f"key to screen in the list, p95 of {size.keys}", [run.key for run in browser_runs], echo, 2.0)
    yield row(f"open a session of {size.turns:,} turns", [run.conversation for run in browser_runs], start, 1.2)
    yield row("jump to its end", [run.conversation_end for run in browser_runs], start, 0.4)
    yield row(f"open a record of {size.record // MB} MB", [run.record for run in browser_runs], start, 1.2)
    yield row("jump to its end", [run.record_end for run in browser_runs], start, 0.4)
    own = [run.megabytes for run in browser_runs]
    yield ResultRow(name="memory with all of that open", ours=own, unit="MB", limit=MAX_MEMORY_MB)
    together = [run.megabytes_with_worker for run in browser_runs]
    yield ResultRow(name="the same with its idle worker", ours=together, unit="MB", limit=MAX_MEMORY_WITH_WORKER_MB)
