"""Tests that the bookkeeping of agents is hidden until it is asked for, and that errors are shown as failures."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browser_driver import add_session, answer_entry, make_browser, prompt_entry, screen_text, time_ago, wait_for_text
from timeline_app import TimelineApp, cursor_position, text_pattern, timeline, wait_for_cursor

from store.conversations.timeline import Timelines
from store.model.entry import NewEntry, Text, Thinking, ToolCall, ToolResult
from store.model.session import Session
from store.model.timeline import is_bookkeeping, is_error_notice, mentions_failure
from store.paths import state_file
from store.store import Store

AT = time_ago(minutes=4)
SIZE = (100, 30)


def event(text: str) -> NewEntry:
    return NewEntry(kind="event", text=text, created_at=AT)


@pytest.fixture
def session(store: Store) -> Session:
    calls = [
        NewEntry(role="assistant", parts=(Thinking("Hm."), ToolCall("1", "Bash", {"command": "ls"})), created_at=AT),
        NewEntry(role="tool", parts=(ToolResult("1", "a.py"),), created_at=AT),
    ]
    return add_session(
        store,
        "claude:1",
        AT,
        event("session_snapshot"),
        prompt_entry("First question", AT),
        event("queue-operation: enqueue"),
        event(""),
        *calls,
        event("ui_telemetry"),
        answer_entry("First answer", AT),
        event("Switched to another model"),
        prompt_entry("Second question", AT),
        answer_entry("Second answer", AT),
        event("last-prompt"),
        event("token_count"),
        source="claude",
        agent_title="With events",
    )


async def test_bookkeeping_is_hidden_and_counted(store: Store, session: Session) -> None:
    async with TimelineApp(store, session).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "Second answer", "6 events hidden", "Switched to another model")
        await wait_for_cursor(pilot, 2, "text")
        assert "last-prompt" not in screen_text(pilot)
        assert "ui_telemetry" not in screen_text(pilot)


async def test_b_shows_it_and_hides_it_again(store: Store, session: Session) -> None:
    async with TimelineApp(store, session).run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 2, "text")
        await pilot.press("K", "K", "x", "enter")
        await wait_for_cursor(pilot, 1, "call")
        await pilot.press("B")
        await wait_for_text(pilot, "◦ queue-operation: enqueue", "◦ last-prompt · token_count", "◦ session_snapshot")
        assert "hidden" not in screen_text(pilot)
        assert cursor_position(pilot) == (1, "call")
        assert timeline(pilot).cards.is_open(timeline(pilot).cursor)
        await pilot.press("down")
        await wait_for_cursor(pilot, 1, "event")
        await pilot.press("B")
        await wait_for_text(pilot, "6 events hidden")
        assert cursor_position(pilot) == (1, "call")
        assert timeline(pilot).cards.is_open(timeline(pilot).cursor)


async def test_a_session_never_opens_on_bookkeeping_and_follows_its_end(store: Store, session: Session) -> None:
    async with TimelineApp(store, session).run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 2, "text")
        await pilot.press("B")
        await wait_for_text(pilot, "◦ last-prompt")
        pilot.app.open_session()  # type: ignore[attr-defined]
        await wait_for_text(pilot, "◦ last-prompt")
        await wait_for_cursor(pilot, 2, "text")
        store.chains.append(session.key, [prompt_entry("Third question", AT), event("last-prompt")])
        pilot.app.open_session(follow=True)  # type: ignore[attr-defined]
        await wait_for_cursor(pilot, 3, "prompt")


async def test_a_hit_in_a_hidden_event_shows_it(store: Store, session: Session) -> None:
    at = next(entry for entry in store.chains.entries(session.key) if entry.text == "ui_telemetry")
    app = TimelineApp(store, session, at=f"claude:1#{at.seq}", highlight=text_pattern("ui_telemetry"))
    async with app.run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 1, "event")
        await wait_for_text(pilot, "◦ ui_telemetry")
        assert "last-prompt" not in screen_text(pilot)


async def test_n_goes_to_a_hit_in_a_hidden_event(store: Store, session: Session) -> None:
    async with TimelineApp(store, session).run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 2, "text")
        await pilot.press("slash", *"enqueue", "enter")
        await wait_for_cursor(pilot, 1, "event")
        await wait_for_text(pilot, "queue-operation: enqueue")


async def test_a_session_of_bookkeeping_only_is_empty(store: Store) -> None:
    session = add_session(
        store, "claude:2", AT, event("mode: normal"), event("last-prompt"), agent_title="Nothing said"
    )
    async with TimelineApp(store, session).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "Nothing said", "2 events hidden")
        await pilot.press("J", "K", "down", "up", "G", "g", "y", "B")
        await wait_for_text(pilot, "◦ mode: normal · last-prompt")


async def test_the_choice_is_remembered(store: Store, session: Session) -> None:
    async def open_session(pilot: Any) -> None:
        await wait_for_text(pilot, "With events")
        await pilot.press("enter")
        await wait_for_text(pilot, "Second question")

    async with make_browser(store).run_test(size=(120, 30)) as pilot:
        await open_session(pilot)
        await pilot.press("B", "v", "H")
        await wait_for_text(pilot, "Second question")
    saved = {"show_time": True, "show_cost": False, "show_events": True, "fold_turns": True}
    assert json.loads(state_file().read_text())["timeline"] == saved
    async with make_browser(store).run_test(size=(120, 30)) as pilot:
        await open_session(pilot)
        assert "Second answer" not in screen_text(pilot)
        await pilot.press("H")
        await wait_for_text(pilot, "Second answer", "◦ last-prompt")


# ── failures ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "failure",
    [
        NewEntry(kind="event", text="429: quota", created_at=AT),
        NewEntry(role="system", parts=(Text("[API Error: You exceeded your quota]"),), created_at=AT),
        NewEntry(role="assistant", model="<synthetic>", parts=(Text("API Error: 429 overloaded"),), created_at=AT),
    ],
    ids=["adk", "gemini", "claude"],
)
async def test_an_error_that_ended_a_session_is_a_failure(store: Store, failure: NewEntry) -> None:
    entries = [prompt_entry("Go on", AT), failure, event("last-prompt")]
    session = add_session(store, "x:1", AT, *entries, agent_title="Ended")
    outline = Timelines(store).load_outline(session.key)
    assert [turn.errors for turn in outline.turns] == [0, 1]
    async with TimelineApp(store, session).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, f"✗ {failure.get_text()}")
        await wait_for_cursor(pilot, 1, "event")
        await pilot.press("g", "e")
        await wait_for_cursor(pilot, 1, "event")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("last-prompt", True),
        ("queue-operation: enqueue", True),
        ("openai · gpt-5 · low", True),
        ("assistant.turn_start", True),
        ("429: quota", False),
        ("turn_aborted: interrupted", False),
        ("The person changed the model", False),
        ("会話のモデルを変更しました", False),
        ("x" * 1_000_000, True),
    ],
)
def test_bookkeeping_names_things_and_says_nothing(text: str, expected: bool) -> None:
    assert is_bookkeeping(text) is expected


def test_a_long_system_prompt_or_an_answer_about_errors_is_no_notice() -> None:
    assert not is_error_notice("system", "", "Error handling rules: " + "x" * 500)
    assert not is_error_notice("assistant", "gpt-5", "Error: the file is missing")
    assert not is_error_notice("system", "", "You are a helpful agent. Report errors.")
    assert not mentions_failure("500 lines read")
