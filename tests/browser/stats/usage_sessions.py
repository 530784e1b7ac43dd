"""This module makes sessions with usage, and a rate table for their models, for tests of statistics and cost."""

from __future__ import annotations

import json
from pathlib import Path

from browser_driver import add_session, time_ago

from store.model.entry import NewEntry, Text, ToolCall, ToolResult
from store.model.usage import Usage
from store.store import Store
from store.usage.prices import update_table

RATES = {"input": 10, "cache_read": 1, "cache_write_5m": 12, "cache_write_1h": 20, "output": 50, "reasoning": 50}
"""Holds dollars per million tokens."""

RATE_TABLE = {
    "schema": 1,
    "name": "test prices",
    "version": "7",
    "date": "2999-01-01",
    "providers": [
        {
            "id": "acme",
            "names": ["*acme*"],
            "model_names": ["big*", "quick*"],
            "fallbacks": [],
            "models": [
                {
                    "id": name,
                    "names": [f"{name}*"],
                    "window": 200_000,
                    "rates": [
                        {"from": "", "over": 0}
                        | {kind: dollars * 1_000_000 // divisor for kind, dollars in RATES.items()}
                    ],
                }
                for name, divisor in (("big", 1), ("quick", 10))
            ],
        }
    ],
}


def use_test_prices(folder: Path) -> None:
    path = folder / "prices.json"
    path.write_text(json.dumps(RATE_TABLE))
    update_table(path)


def add_usage_sessions(store: Store) -> None:
    """Add a session of today with a sub-agent, one of two days ago without a price, and one of forty days ago."""
    _add_session_of_today(store)
    at = time_ago(days=2)
    add_session(
        store,
        "codex:beta",
        at,
        _prompt("Rename the keys", at),
        _answer(at, 0, Usage(50_000, output=1_000, model="local-llama", provider="home")),
        source="codex",
        cwd="/home/ada/code/beta",
        agent_title="Rename the keys",
        model="local-llama",
    )
    at = time_ago(days=40)
    add_session(
        store,
        "claude:old",
        at,
        _prompt("Draw a logo", at),
        _answer(at, 1, Usage(100_000, output=2_000, model="big-1", provider="acme")),
        source="claude",
        cwd="/home/ada/code/alpha",
        agent_title="Draw a logo",
        model="big-1",
    )


def _add_session_of_today(store: Store) -> None:
    first, second = time_ago(hours=2), time_ago(hours=1)
    results = (
        ToolResult("c1", "1 failed", is_error=True, duration_ms=2_000),
        ToolResult("c2", "text", duration_ms=500),
    )
    parent = add_session(
        store,
        "claude:alpha",
        first,
        _prompt("Fix the test", first),
        _answer(first, 2, Usage(100_000, 0, 20_000, output=4_000, model="big-1", provider="acme", cost=1_000_000)),
        NewEntry(role="tool", parts=results, created_at=first),
        _prompt("And the docs", second),
        _answer(second, 0, Usage(10, 120_000, 6_000, output=2_000, model="big-1", provider="acme")),
        source="claude",
        cwd="/home/ada/code/alpha",
        agent_title="Fix the test",
        model="big-1",
    )
    add_session(
        store,
        "claude:alpha:explore",
        first,
        _prompt("Look around", first),
        _answer(first, 0, Usage(40_000, output=1_000, model="quick-1", provider="acme")),
        source="claude",
        cwd="/home/ada/code/alpha",
        agent_title="Look around",
        model="quick-1",
        parent_id=parent.id,
        relation="delegate",
    )


def _prompt(text: str, at: str) -> NewEntry:
    return NewEntry(role="user", parts=(Text(text),), created_at=at)


def _answer(at: str, calls: int, usage: Usage) -> NewEntry:
    made = (ToolCall("c1", "Bash", {"command": "pytest"}), ToolCall("c2", "Read", {"file_path": "a.py"}))
    return NewEntry(
        role="assistant", parts=(Text("On it."), *made[:calls]), created_at=at, model=usage.model, usage=usage
    )


def add_repeated_reads(store: Store) -> None:
    """Add three turns that read the same large file, which is waste."""
    session = store.sessions.get("claude:old")
    for number in range(3):
        call = ToolCall(f"read{number}", "Read", {"file_path": "/src/big.py"})
        result = ToolResult(f"read{number}", "line\n" * 4_000)
        at = time_ago(days=5)
        store.chains.append(
            session.key,
            [
                NewEntry(role="user", parts=(Text(f"Look again, {number}"),), created_at=at),
                NewEntry(role="assistant", parts=(call,), created_at=at, usage=Usage(9_000, output=5, model="big-1")),
                NewEntry(role="tool", parts=(result,), created_at=at),
            ],
        )
