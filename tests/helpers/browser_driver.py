"""This module makes a small store for browser tests, a fixed clock, and waits for what the screen should show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from textual.color import Color
from textual.geometry import Size
from textual.pilot import Pilot
from textual.screen import Screen

from store.model.entry import NewEntry, Text, Thinking, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store
from store.sync.worker_process import WorkerProcess
from tui.app import Backscroll
from tui.widgets.session_list_view import SessionListView

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
PYTEST_OUTPUT = "F\n\nValueError: I/O operation on closed file\n1 failed in 1.9 s\nsee the log\nfor more"
UPLOAD_ANSWER = "The retry ran after the file was closed.\n\n- it now reopens it\n- and tells how often it tried"


def fixed_clock() -> datetime:
    return NOW


def time_ago(**ago: float) -> str:
    return (NOW - timedelta(**ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def prompt_entry(text: str, at: str, author: str = "") -> NewEntry:
    return NewEntry(role="user", parts=(Text(text),), author=author, created_at=at)


def answer_entry(text: str, at: str) -> NewEntry:
    return NewEntry(role="assistant", parts=(Text(text),), created_at=at)


def add_session(store: Store, session_id: str, at: str, *entries: NewEntry, **fields: str) -> Session:
    session = store.sessions.create(session_id, created_at=at, updated_at=at, **fields)  # type: ignore[arg-type]
    store.chains.append(session.key, entries)
    return store.sessions.get(session_id)


def fill_store(store: Store) -> None:
    """Add sessions, newest first: the upload, the config, Telegram and its sub-agent, a Japanese one, an old one."""
    _add_upload_session(store)
    at = time_ago(hours=2)
    prompt, answer = (
        prompt_entry("Rename the config keys to snake_case", at),
        answer_entry("Done; 9 files changed.", at),
    )
    add_session(
        store, "codex:0199aa", at, prompt, answer, source="codex", cwd="/home/ada/code/beta", model="gpt-5-codex"
    )
    at = time_ago(days=1)
    add_session(
        store, "telegram:648079060", at, prompt_entry("Good morning!", at, "ada"), source="pingu", channel="telegram"
    )
    at = time_ago(days=1, minutes=5)
    add_session(
        store, "telegram:648079060:delegate:sysinfo", at, prompt_entry("How full is the disk?", at), source="pingu"
    )
    at = time_ago(days=12)
    add_session(
        store, "kiso:1", at, prompt_entry("アップロードが失敗する", at), source="kiso", agent_title="日本語の会話"
    )
    at = time_ago(days=400)
    add_session(store, "library:old", at, prompt_entry("[b]brackets[/b] and [/] stay as they are", at))


def _add_upload_session(store: Store) -> None:
    at = time_ago(minutes=4)
    parts = (
        Thinking("The retry may run after the file is closed."),
        Text("Let me run the test first."),
        ToolCall("c1", "Bash", {"command": "pytest -q tests/test_upload.py", "timeout": 120}),
    )
    failure = ToolResult("c1", PYTEST_OUTPUT, is_error=True, duration_ms=2140.0)
    session = add_session(
        store,
        "claude:e0741090",
        at,
        prompt_entry("It still fails on CI. Look at the retry, please.", at, "ada"),
        NewEntry(role="assistant", parts=parts, created_at=at),
        NewEntry(role="tool", parts=(failure,), created_at=at),
        answer_entry(UPLOAD_ANSWER, at),
        source="claude",
        cwd="/home/ada/code/alpha",
        model="claude-opus",
        agent_title="Fix the flaky upload test",
    )
    store.sessions.pin([session])
    store.summaries.set(session, "The upload test was flaky.", up_to_turn=1)


def add_many_sessions(store: Store, count: int) -> None:
    """Insert only the rows that the list of sessions needs, which is fast enough for a hundred thousand of them."""
    with store.transaction() as connection:
        connection.execute(
            """
            with recursive numbered(n) as (select 0 union all select n + 1 from numbered where n < ? - 1)
            insert into sessions (id, native_id, agent_title, created_at, updated_at)
            select 's' || n, 's' || n, 'Session number ' || n, at, at
            from (select n, strftime('%Y-%m-%dT%H:%M:%fZ', ?, '-' || n || ' minutes') as at from numbered)
            """,
            (count, NOW.strftime("%Y-%m-%d %H:%M:%S")),
        )


# ── driving the browser ───────────────────────────────────────────────────────────────────────────

TIMEOUT = 120
"""Is long, so that a test does not fail because the machine is slow."""


def make_browser(store: Store) -> Backscroll:
    return Backscroll(store, fixed_clock)


@contextmanager
def following_browser(store: Store) -> Iterator[Backscroll]:
    """Make a browser with a worker process that syncs the stores of this machine."""
    worker = WorkerProcess(store.path)
    try:
        yield Backscroll(store, worker=worker)
    finally:
        worker.close()


def session_list(pilot: Pilot[Any]) -> SessionListView:
    return pilot.app.screen.query_one(SessionListView)


def selected_id(pilot: Pilot[Any]) -> str:
    """Return the id of the session under the cursor."""
    session = session_list(pilot).selected
    return session.id if session else ""


def screen_text(pilot: Pilot[Any]) -> str:
    """Return the text on the screen, one line for each row."""
    screen: Screen[Any] = pilot.app.screen
    return "\n".join(strip.text for strip in screen._compositor.render_strips())


def contrast_ratio(one: Color, other: Color) -> float:
    """Return the contrast of two opaque colours, from 1 to 21, as WCAG 2 defines it."""
    brighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(color: Color) -> float:
    channels = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in color.normalized)
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), channels, strict=True))


async def wait_until(pilot: Pilot[Any], condition: Callable[[], object]) -> None:
    """Wait until a condition is true, because workers take different times to answer."""
    interval = 0.01
    async with asyncio.timeout(TIMEOUT):
        while not condition():
            await pilot.pause(interval)
            interval = min(interval * 1.5, 0.1)  # each check takes time from the workers


async def resize_terminal(pilot: Pilot[Any], width: int, height: int) -> None:
    """Resize the terminal, and wait until the screen has its new size and layout: Textual resizes by a timer."""
    await pilot.resize_terminal(width, height)
    await wait_until(pilot, lambda: pilot.app.screen.size == Size(width, height))
    await pilot.pause()


async def wait_for_text(pilot: Pilot[Any], *texts: str) -> None:
    try:
        await wait_until(pilot, lambda: all(text in screen_text(pilot) for text in texts))
    except TimeoutError:
        raise AssertionError(f"{texts} did not appear in:\n{screen_text(pilot)}") from None
