"""Tests redacting in the browser: the preview of every place, the result, the way back and the second step."""

from __future__ import annotations

from pathlib import Path

from browser_driver import make_browser, wait_for_text
from foreign_databases import sync_paths

from store.leaks.rule_table import RULES_BY_ID
from store.store import Store

from test_leaks_screen import assert_no_value, leaky, scan, select  # isort: skip  # noqa: F401

AWS_KEY = RULES_BY_ID["aws-access-key"].example


def is_in_store(store: Store, value: str) -> bool:
    entries = [entry for session in store.sessions.newest() for entry in store.chains.entries(session.key)]
    return value in repr(entries)


async def test_one_leak_is_redacted_and_restored(leaky: Store) -> None:  # noqa: F811
    app = make_browser(leaky)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await wait_for_text(pilot, "Hello")
        await pilot.press("exclamation_mark")
        await wait_for_text(pilot, "3 open")
        await select(pilot, "aws-access-key")
        await pilot.press("x")
        await wait_for_text(pilot, "Redact aws-access-key AKIA••••••••?", "Texts in Backscroll", "deploy#0 (text)")
        assert_no_value(pilot)
        await pilot.press("escape")
        assert is_in_store(leaky, AWS_KEY)

        await pilot.press("x")
        await wait_for_text(pilot, "deploy#0")
        await pilot.press("y")
        await wait_for_text(pilot, "0 left of ", "forget them for good")
        assert not is_in_store(leaky, AWS_KEY)
        await pilot.press("escape")
        await wait_for_text(pilot, "3 open", "redacted", "It was removed from every place.")

        await pilot.press("D")
        await wait_for_text(pilot, "Redactions · 1 redaction", "1 value", "done")
        await pilot.press("u")
        await wait_for_text(pilot, "Undo this redaction?")
        await pilot.press("y")
        await wait_for_text(pilot, "Everything is as it was before.")
        assert is_in_store(leaky, AWS_KEY)
        await pilot.press("escape")
        await wait_for_text(pilot, "undone")


async def test_all_certain_leaks_are_redacted_and_forgotten(leaky: Store) -> None:  # noqa: F811
    app = make_browser(leaky)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await wait_for_text(pilot, "Hello")
        await pilot.press("exclamation_mark")
        await wait_for_text(pilot, "3 open")
        await pilot.press("X")
        await wait_for_text(pilot, "Redact 3 certain leaks?", "stripe-secret-key sk_live_")
        assert_no_value(pilot)
        await pilot.press("y")
        await wait_for_text(pilot, "0 left of ")
        await pilot.press("escape", "D")
        await wait_for_text(pilot, "3 values", "done")
        await pilot.press("F")
        await wait_for_text(pilot, "Forget 3 values for good?")
        await pilot.press("y")
        await wait_for_text(pilot, "forgotten", "The values are forgotten.")
        redaction = leaky.leaks.redactions.list_all()[0]
        assert redaction.is_forgotten
        await pilot.press("escape")
        await wait_for_text(pilot, "3 open", "redacted")
        await pilot.press("r")
        await wait_for_text(pilot, "2 open")


async def test_a_file_in_use_is_named_and_left(store: Store, home: Path) -> None:
    transcript = home / ".claude/projects/-p/11111111-1111-4111-8111-111111111111.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text(
        '{"type":"user","uuid":"a","sessionId":"11111111-1111-4111-8111-111111111111",'
        f'"timestamp":"2026-01-01T00:00:00Z","message":{{"role":"user","content":"Use {AWS_KEY}"}}}}\n'
    )
    sync_paths(store, home / ".claude/projects")
    scan(store)
    app = make_browser(store)
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_for_text(pilot, "Use AKIA")
        await pilot.press("exclamation_mark")
        await wait_for_text(pilot, "1 open")
        await pilot.press("x")
        await wait_for_text(pilot, "Cannot be changed now", "1111.jsonl")
        await pilot.press("y")
        await wait_for_text(pilot, "1 left of 2.")
        assert AWS_KEY in transcript.read_text()
        assert not is_in_store(store, AWS_KEY)
