"""The browser in a real terminal beside the smallest program that Textual can be: how long until something is seen."""

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
from bench.processes import resident
from bench.table import Line
from pty_terminal import Pty

from store.model.entry import NewEntry, NewRecord, Part, Text, ToolCall, ToolResult
from store.store import Store

SETTLED = 1.5
"""Seconds after which a program that has started does nothing more."""

MB = 1_000_000
MEMORY = 120
"""Megabytes, however small a greeting can be."""

WORDS = (
    "upload retry test fails when file closed before second attempt reopen check status code handler queue parser"
    " timeout migration schema index session token cache branch commit review deploy"
).split()


# ── what is browsed ───────────────────────────────────────────────────────────────────────────────


class Size(NamedTuple):
    sessions: int
    turns: int
    record: int
    keys: int


WHOLE = Size(100_000, 10_000, 15 * MB, 120)
SMALL = Size(10_000, 1_000, 2 * MB, 40)

READABLE = 50
LONG, LARGE = 3, 6
"""Where in the list those stand that are opened: so far apart that neither is read before it is asked for."""

FIRST_WORDS, LAST_WORDS, LARGE_WORDS = "the-first-words", "the-last-words", "the-large-one"
FIRST_KEY, LAST_KEY = "the-first-key", "the-last-key"


def fill(store: Store, size: Size) -> None:
    """The same every time. Titles are numbered as they stand in the list; the newest have something to be read."""
    chance = random.Random(11)
    with store.transaction(durable=False) as connection:
        for number in range(READABLE):
            at = _time(number)
            session = store.sessions.create(
                f"claude:{number}", agent_title=_title(number), created_at=at, updated_at=at
            )
            store.chains.append(session.key, list(_conversation(number, size, chance)))
        connection.executemany(
            "insert into sessions (id, native_id, source, agent_title, model, cwd, turns, created_at, updated_at)"
            " values (?, ?, 'claude', ?, 'm', ?, ?, ?, ?)",
            (_row(number, chance) for number in range(READABLE, size.sessions)),
        )


def _row(number: int, chance: random.Random) -> tuple[object, ...]:
    name, folder, at = f"claude:{number}", f"/home/dev/{chance.choice(WORDS)}", _time(number)
    return name, name, f"{_title(number)} {_sentence(chance)[:30]}", folder, chance.randint(1, 90), at, at


def _title(number: int) -> str:
    return f"Session {number:06d}"


def _time(number: int) -> str:
    at = datetime(2026, 1, 1, tzinfo=UTC) - timedelta(minutes=7 * number)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _conversation(number: int, size: Size, chance: random.Random) -> Iterator[NewEntry]:
    if number == LARGE:
        yield replace(_said("user", Text(LARGE_WORDS)), record=NewRecord(_record(size.record, chance)))
        return
    yield _said("user", Text(FIRST_WORDS))
    for turn in range(size.turns - 1 if number == LONG else 8):
        yield _said("user", Text(_sentence(chance)))
        call = ToolCall(f"c{turn}", "Bash", {"command": f"pytest -q {turn}"})
        yield _said("assistant", Text(f"- {_sentence(chance)}\n- **{_sentence(chance)}**\n\n`{turn}`"), call)
        yield _said("tool", ToolResult(f"c{turn}", _sentence(chance) * 5))
    yield _said("assistant", Text(LAST_WORDS if number == LONG else _sentence(chance)))


def _said(role: str, *parts: Part) -> NewEntry:
    return NewEntry(role=role, parts=parts, created_at="2020-01-01T00:00:00.000000Z")


def _sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=30))


def _record(size: int, chance: random.Random) -> bytes:
    """Tables in a list, as tools return them."""
    table = {"id": 0, "name": "", "tags": ["a", "b"], "place": {"line": 7, "column": 40, "path": "/home/dev"}}
    items = []
    while size > 0:
        items.append(table | {"id": size, "name": _sentence(chance)})
        size -= 292
    return orjson.dumps({FIRST_KEY: 1, "items": items, LAST_KEY: 2})


# ── programs in terminals ─────────────────────────────────────────────────────────────────────────

OURS = "import sys; from tui.main import main; sys.exit(main())"
HELLO = """
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
LIST, RECORD = "1", "3"

GREETING = b"hello, world"
ROW = rb"Session \d{6}"


def chosen(but: bytes = b"none") -> bytes:
    """The bytes of a row of the list that is under the cursor; of another than that."""
    return "▌".encode() + rb"[^S]{0,80}Session (?!%b)(\d{6})" % but


@contextmanager
def running(code: str, *arguments: str, home: Path) -> Iterator[tuple[Pty, float]]:
    """The program in a terminal, and when it was started."""
    settings = {name: str(home) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
    # As installed programs are: compiled already, whatever is usual where this runs.
    settings |= {"PYTHONPYCACHEPREFIX": str(home / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
    begun = time.perf_counter()
    with Pty(code, *arguments, columns=120, rows=40, env={**os.environ, **settings}) as terminal:
        yield terminal, begun


def seen_after(terminal: Pty, keys: str, pattern: bytes) -> float:
    """The seconds until such bytes come."""
    terminal.read(0)
    terminal.raw = b""
    begun = time.perf_counter()
    terminal.press(keys)
    terminal.until_sent(pattern)
    return time.perf_counter() - begun


def settle(terminal: Pty, seconds: float = SETTLED) -> None:
    limit = time.perf_counter() + seconds
    while (left := limit - time.perf_counter()) > 0:
        terminal.read(left)


def pauses(count: int) -> list[float]:
    """Of a person: some keys are held, and after some there is a look at what has come."""
    chance = random.Random(5)
    return [chance.choice((0.03, 0.03, 0.03, 0.25)) for _ in range(count)]


def list_keys(count: int) -> list[str]:
    """There and back; each moves the cursor."""
    chance = random.Random(3)
    there = [PAGE_DOWN, *(chance.choice((DOWN, DOWN, DOWN, PAGE_DOWN)) for _ in range(count // 2)), END]
    back = [PAGE_UP, *(chance.choice((UP, UP, UP, PAGE_UP)) for _ in range(count - len(there) - 2)), HOME]
    return there + back


# ── what is measured ──────────────────────────────────────────────────────────────────────────────


class Hello(NamedTuple):
    start: float
    echo: float


class Browsed(NamedTuple):
    start: float
    key: float
    conversation: float
    conversation_end: float
    record: float
    record_end: float
    megabytes: float


def p95(times: Iterable[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def warm_up(home: Path, store: Path) -> None:
    for program, seen in (((HELLO,), GREETING), ((OURS, "--store", str(store)), ROW)):
        with running(*program, home=home) as (terminal, _):
            terminal.until_sent(seen)
            settle(terminal)


def greet(size: Size, home: Path) -> Hello:
    with running(HELLO, home=home) as (terminal, begun):
        terminal.until_sent(GREETING)
        start = time.perf_counter() - begun
        settle(terminal)
        return Hello(start, p95(_echoes(terminal, size.keys)))


def _echoes(terminal: Pty, keys: int) -> Iterator[float]:
    for number, pause in enumerate(pauses(keys), 1):
        yield seen_after(terminal, "x", b"pressed:%d\\." % number)
        settle(terminal, pause)


def browse(size: Size, home: Path, store: Path) -> Browsed:
    with running(OURS, "--store", str(store), home=home) as (terminal, begun):
        terminal.until_sent(ROW)
        start = time.perf_counter() - begun
        settle(terminal)
        key = p95(_moves(terminal, size.keys))
        settle(terminal)
        conversation = seen_after(terminal, DOWN * LONG + ENTER, LAST_WORDS.encode())
        settle(terminal)
        seen_after(terminal, HOME, FIRST_WORDS.encode())
        settle(terminal)
        conversation_end = seen_after(terminal, END, LAST_WORDS.encode())
        seen_after(terminal, LIST, chosen())
        seen_after(terminal, DOWN * (LARGE - LONG) + ENTER, LARGE_WORDS.encode())
        settle(terminal)
        record = seen_after(terminal, RECORD, FIRST_KEY.encode())
        settle(terminal)
        record_end = seen_after(terminal, END, LAST_KEY.encode())
        return Browsed(start, key, conversation, conversation_end, record, record_end, resident(terminal.pid))


def _moves(terminal: Pty, keys: int) -> Iterator[float]:
    """Each until the session that the cursor goes to is told."""
    before = b"000000"
    for key, pause in zip(list_keys(keys), pauses(keys), strict=True):
        yield seen_after(terminal, key, chosen(but=before))
        before = re.findall(chosen(), terminal.raw)[-1]
        settle(terminal, pause)


# ── what is told ──────────────────────────────────────────────────────────────────────────────────


def measure(folder: Path, size: Size, runs: int) -> list[Line]:
    store, home = folder / "store.db", folder / "home"
    home.mkdir()
    with Store.open(store) as opened:
        fill(opened, size)
    warm_up(home, store)
    greeted, browsed = [], []
    for _ in range(runs):
        greeted.append(greet(size, home))
        browsed.append(browse(size, home, store))
    return list(_lines(size, greeted, browsed))


def _lines(size: Size, greeted: list[Hello], browsed: list[Browsed]) -> Iterator[Line]:
    start, echo = [one.start for one in greeted], [one.echo for one in greeted]

    def line(name: str, ours: list[float], hello: list[float], ratio: float) -> Line:
        return Line(name=name, ours=ours, other=hello, beside="hello", ratio=ratio)

    yield line(f"launch to rows, {size.sessions:,} sessions", [one.start for one in browsed], start, 1.3)
    yield line(f"key to screen in the list, p95 of {size.keys}", [one.key for one in browsed], echo, 2.0)
    yield line(f"open a session of {size.turns:,} turns", [one.conversation for one in browsed], start, 1.2)
    yield line("End in it", [one.conversation_end for one in browsed], start, 0.4)
    yield line(f"open a record of {size.record // MB} MB", [one.record for one in browsed], start, 1.2)
    yield line("End in it", [one.record_end for one in browsed], start, 0.4)
    megabytes = [one.megabytes for one in browsed]
    yield Line(name="memory with all of that open", ours=megabytes, unit="MB", limit=MEMORY)
