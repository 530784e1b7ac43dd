"""Tests the screen that lists leaks: where they are, what a person decides about them, and what it never shows."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from browser_driver import (
    add_session,
    answer_entry,
    make_browser,
    prompt_entry,
    screen_text,
    time_ago,
    wait_for_text,
    wait_until,
)
from foreign_databases import sync_paths
from textual.pilot import Pilot

from store.leaks.rule_table import RULES_BY_ID
from store.model.entry import NewEntry, NewRecord, ToolCall, ToolResult
from store.model.leak import Leak
from store.store import Store
from tui.screens.leaks.screen import LeaksScreen

AWS_KEY = RULES_BY_ID["aws-access-key"].example
GROQ_KEY = RULES_BY_ID["groq-key"].example
STRIPE_KEY = RULES_BY_ID["stripe-secret-key"].example
PRIVATE_KEY = RULES_BY_ID["rsa-private-key"].example
VALUES = (AWS_KEY, STRIPE_KEY, PRIVATE_KEY.splitlines()[1])


def add_leaky_sessions(store: Store) -> None:
    """Add a session with three leaks, one of them in many turns, and one that has only the last of them."""
    at = time_ago(hours=1)
    result = {"content": f"done\n{PRIVATE_KEY}"}
    call = ToolCall("c1", "Bash", {"command": f"deploy --key {STRIPE_KEY}"})
    add_session(
        store,
        "deploy",
        at,
        prompt_entry(f"Deploy with {AWS_KEY}, please", at),
        NewEntry(role="assistant", parts=(call,), created_at=at, record=_record({"arguments": call.arguments})),
        NewEntry(role="tool", parts=(ToolResult("c1", result["content"]),), created_at=at, record=_record(result)),
        answer_entry("Done.", at),
    )
    at = time_ago(days=3)
    add_session(store, "older", at, prompt_entry("Hello", at), answer_entry(f"The key is still {AWS_KEY}.", at))


def _record(value: object) -> NewRecord:
    return NewRecord(json.dumps(value).encode())


def scan(store: Store) -> list[Leak]:
    for _ in store.leaks.begin_scan().steps():
        pass
    return store.leaks.list_leaks()


@pytest.fixture
def leaky(store: Store) -> Store:
    add_leaky_sessions(store)
    scan(store)
    return store


def leaks_screen(pilot: Pilot[Any]) -> LeaksScreen:
    assert isinstance(pilot.app.screen, LeaksScreen)
    return pilot.app.screen


async def select(pilot: Pilot[Any], rule: str) -> None:
    """Move the cursor to the leak of a rule."""
    table = leaks_screen(pilot).table
    while table.selected is None or table.selected.leak.rule != rule:
        await pilot.press("down")
        assert table.cursor < 9


def find_values(pilot: Pilot[Any]) -> list[str]:
    text = screen_text(pilot)
    return [value for value in VALUES if value in text]


def assert_no_value(pilot: Pilot[Any]) -> None:
    assert find_values(pilot) == []


async def test_a_leak_opens_its_turn_with_the_value_hidden(leaky: Store) -> None:
    app = make_browser(leaky)
    async with app.run_test(size=(150, 45)) as pilot:
        await wait_for_text(pilot, "Hello")
        await pilot.press("exclamation_mark")
        await wait_for_text(pilot, "3 open, 3 certain", "AKIA••••••••", "sk_live_••••••••")
        assert_no_value(pilot)
        await select(pilot, "rsa-private-key")
        await wait_for_text(pilot, "tool result    turn 1    Deploy with")
        await pilot.press("enter")
        await wait_for_text(
            pilot, "turn 1 of 1 · leaks hidden", "Deploy with AKIA••••••••, please", "deploy --key sk_live_••••••••"
        )
        await pilot.press("z", "x", "right")  # zoomed: the list of sessions shows titles as they are
        await wait_for_text(pilot, "done")
        assert_no_value(pilot)
        await pilot.press("3")
        await wait_for_text(pilot, "arguments")
        assert_no_value(pilot)
        await pilot.press("2", "escape", "escape", "escape")
        await wait_for_text(pilot, "3 open, 3 certain")
        selected = leaks_screen(pilot).table.selected
        assert selected is not None
        assert selected.leak.rule == "rsa-private-key"
        await pilot.press("escape", "enter")
        await wait_for_text(pilot, AWS_KEY)  # a session that is opened from the list is shown as it is


async def test_all_that_is_opened_from_a_turn_with_hidden_leaks_hides_them(store: Store) -> None:
    """Also where a title ends within a value."""
    at = time_ago(hours=1)
    for name in ("one", "two"):
        write = ToolCall("c1", "Write", {"file_path": "/w/keys.env", "content": f"{name} = {AWS_KEY}\n"})
        called = NewEntry(role="assistant", parts=(write,), created_at=at, record=_record(write.arguments))
        result = NewEntry(role="tool", parts=(ToolResult("c1", f"wrote {STRIPE_KEY}"),), created_at=at)
        session = add_session(store, name, at, prompt_entry(f"{name} writes {AWS_KEY}", at), called, result)
        store.sessions.set_title(session, f"{name} writes {AWS_KEY[:12]}")
    scan(store)
    app = make_browser(store)
    async with app.run_test(size=(150, 45)) as pilot:

        async def check(*keys: str, shows: Sequence[str]) -> None:
            await pilot.press(*keys)
            await wait_for_text(pilot, *shows)
            text = screen_text(pilot)
            assert [value for value in (AWS_KEY[:9], STRIPE_KEY) if value in text] == []

        await wait_for_text(pilot, "two writes")
        await pilot.press("exclamation_mark")
        await wait_for_text(pilot, "2 open")
        await select(pilot, "aws-access-key")
        await pilot.press("enter")
        await wait_for_text(pilot, "leaks hidden")
        await check("z", shows=["leaks hidden", "writes AKIA••••••••"])
        await check("a", shows=["Write", "keys.env"])
        await check("enter", shows=["= AKIA••••••••", "wrote sk_live_••••••••", "1 of 1"])
        await check("enter", shows=["leaks hidden", "writes AKIA••••••••"])
        await check("V", shows=["keys.env", "= AKIA••••••••"])
        await check("enter", shows=["leaks hidden", "writes AKIA••••••••"])
        await check("A", shows=["writes AKIA••••••••", "keys.env"])
        await check("enter", shows=["= AKIA••••••••", "wrote sk_live_••••••••"])
        await check("escape", "escape", "M", "down", "D", shows=["turn 1", "AKIA••••••••"])


async def test_a_place_in_a_fact_a_summary_or_a_file_is_opened(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = time_ago(hours=1)
    session = add_session(store, "deploy", at, prompt_entry("Deploy", at))
    fact = store.facts.learn(f"The key is {AWS_KEY}").facts[0]
    store.facts.retire(fact.id)
    store.summaries.set(session, f"It used {STRIPE_KEY}")
    folder = tmp_path / "agent"
    folder.mkdir()
    (folder / "notes.txt").write_text(f"first\n{PRIVATE_KEY}\n")
    with closing(sqlite3.connect(folder / "agent.db")) as database, database:
        database.execute("create table said (text)")
        database.execute("insert into said values (?)", (GROQ_KEY,))
    with store.transaction() as connection:
        connection.execute("insert into sources (kind, locator) values ('claude', ?)", (str(folder),))
    scan(store)
    monkeypatch.setenv("EDITOR", "true")
    app = make_browser(store)
    async with app.run_test(size=(150, 45), notifications=True) as pilot:
        await wait_for_text(pilot, "Deploy")
        await pilot.press("exclamation_mark")
        await wait_for_text(pilot, "4 open")
        for rule, shown in {
            "aws-access-key": ("The key is AKIA", "retired"),
            "stripe-secret-key": ("It used sk_live_", "Versions"),
            "rsa-private-key": ("notes.txt:2", "It shows the value."),
        }.items():
            await pilot.press("home")
            await select(pilot, rule)
            await pilot.press("enter")
            await wait_for_text(pilot, *shown)
            await pilot.press("escape")
            await wait_for_text(pilot, "4 open")
        await pilot.press("home")
        await select(pilot, "groq-key")
        await pilot.press("enter")
        await wait_until(pilot, lambda: "said.text of the database" in repr(list(app._notifications)))
        (folder / "notes.txt").unlink()
        await pilot.press("home")
        await select(pilot, "rsa-private-key")
        await pilot.press("enter")
        await wait_for_text(pilot, "No such file")


async def test_n_goes_to_the_next_leak_in_the_session(leaky: Store) -> None:
    app = make_browser(leaky)
    async with app.run_test(size=(150, 45)) as pilot:
        await wait_for_text(pilot, "Hello")
        await pilot.press("exclamation_mark")
        await wait_for_text(pilot, "3 open")
        await select(pilot, "aws-access-key")
        await pilot.press("tab", "down", "enter")
        await wait_for_text(pilot, "Hello", "turn 1 of 1 · leaks hidden", "The key is still AKIA••••••••.")
        await pilot.press("n")
        view = app.screen.conversation.timeline_pane.timeline_view  # type: ignore[attr-defined]
        await wait_until(pilot, lambda: view.has_hits)


async def test_decisions_are_kept_and_can_be_undone(leaky: Store) -> None:
    app = make_browser(leaky)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await wait_for_text(pilot, "Hello")
        await pilot.press("exclamation_mark")
        await wait_for_text(pilot, "3 open")
        await select(pilot, "stripe-secret-key")
        await pilot.press("i")
        await wait_for_text(pilot, "Ignore stripe-secret-key sk_live_••••••••")
        await pilot.press("enter")
        await wait_for_text(pilot, "Say why the leak can be ignored.")
        await pilot.press(*"test account", "enter")
        await wait_for_text(pilot, "2 open, 2 certain · 1 closed", "Ignored: test account")
        await pilot.press("u")
        await wait_for_text(pilot, "3 open", "Undone: ignoring the leak")
        await pilot.press("r")
        await wait_for_text(pilot, "2 open", "Rotated ")
        await pilot.press("r")
        await wait_for_text(pilot, "3 open", "Replace it at its vendor")
        assert [leak.is_open for leak in leaky.leaks.list_leaks()] == [True] * 3


async def test_the_filter_knows_kinds_states_and_sessions(leaky: Store) -> None:
    leaks = leaky.leaks.list_leaks()
    leaky.leaks.ignore(next(leak.fingerprint for leak in leaks if leak.rule == "aws-access-key"), "an old one")
    app = make_browser(leaky)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await wait_for_text(pilot, "Hello")
        await pilot.press("exclamation_mark")
        await wait_for_text(pilot, "2 open")
        for words, count in {"ignored": 1, "open deploy": 2, "stripe": 1, "old one": 1, "hello": 1}.items():
            await pilot.press("slash", *words)
            await wait_for_text(pilot, f"{count} of 3 shown")
            await pilot.press("escape")
        await pilot.press("slash", *"nothing")
        await wait_for_text(pilot, "No leaks match.")


async def test_a_scan_shows_what_was_found_and_what_was_not_looked_into(store: Store, home: Path) -> None:
    transcript = home / ".claude/projects/-p/11111111-1111-4111-8111-111111111111.jsonl"
    line = {"type": "user", "uuid": "a", "sessionId": transcript.stem, "timestamp": "2026-01-01T00:00:00Z"}
    line |= {"message": {"role": "user", "content": f"Use {AWS_KEY} now"}}
    transcript.parent.mkdir(parents=True)
    transcript.write_text(json.dumps(line) + "\n")
    transcript.with_name("old.zip").write_bytes(b"PK\x03\x04")
    sync_paths(store, home / ".claude/projects")
    app = make_browser(store)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await wait_for_text(pilot, "Use AKIA")
        await pilot.press("exclamation_mark")
        await wait_for_text(pilot, "Not scanned yet: 1 session and 2 files. Press s to scan.", "No leaks found so far.")
        await pilot.press("s")
        await wait_for_text(pilot, "1 open, 1 certain", "Scanned 1 session and 1 file.", "Not looked into: 1 file.")
        await pilot.press("n")
        await wait_for_text(pilot, "a zip archive (1)", "old.zip")
        await pilot.press("escape", "tab", "down", "enter")
        await wait_for_text(pilot, f"{transcript.name}:1", "It shows the value.")


async def test_without_the_extra_it_says_that_few_rules_are_used(leaky: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("re2", "ahocorasick_rs"):
        monkeypatch.setitem(sys.modules, package, None)
    app = make_browser(leaky)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await wait_for_text(pilot, "Hello")
        await pilot.press("exclamation_mark")
        await wait_for_text(pilot, "rules were used. Install `backscroll[leaks]`", "Not scanned yet: 2 sessions")


async def test_a_scan_can_be_stopped(leaky: Store) -> None:
    app = make_browser(leaky)
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_for_text(pilot, "Hello")
        await pilot.press("exclamation_mark")
        await wait_for_text(pilot, "3 open")
        await pilot.press("s", "s")
        await wait_until(pilot, lambda: not leaks_screen(pilot)._is_scanning)
        assert len(leaky.leaks.list_leaks()) == 3


async def test_a_narrow_terminal_hides_values_too(leaky: Store) -> None:
    app = make_browser(leaky)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "Hello")
        await pilot.press("exclamation_mark")
        await wait_for_text(pilot, "3 open", "AKIA••••••••, please")
        assert_no_value(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, "sessions › Deploy with AKIA••••••••")
        assert_no_value(pilot)
