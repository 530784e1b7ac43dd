"""These tests press keys faster than the store answers, in a real terminal. Every key must reach its target."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_driver import add_session, answer_entry, prompt_entry, time_ago
from pty_terminal import Terminal
from sample_conversations import make_call_entries

from store.store import Store

SLOW_BROWSER = """
import sys, time
from store.conversations.timeline import Timelines
from store.store import Store
from tui.app import Backscroll

path, outline_seconds, turns_seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
load_outline, load_turns = Timelines.load_outline, Timelines.load_turns

def load_outline_slowly(self, *arguments):
    time.sleep(outline_seconds)
    return load_outline(self, *arguments)

def load_turns_slowly(self, *arguments):
    time.sleep(turns_seconds)
    return load_turns(self, *arguments)

Timelines.load_outline, Timelines.load_turns = load_outline_slowly, load_turns_slowly
app = Backscroll(Store.open(path))
app.run()
app.close_stores()
"""
"""Reads conversations as from a slow disk."""


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """Return a store whose newest session has no tool call, and whose second one has a failed call in its middle."""
    path = tmp_path / "keys.db"
    with Store.open(path) as store:
        at = time_ago(hours=1)
        add_session(store, "calm", at, prompt_entry("A calm question", at), answer_entry("A calm answer", at))
        at = time_ago(hours=2)
        turns = [[prompt_entry(f"Question {n}", at), answer_entry(f"Answer {n}\n" * 40, at)] for n in range(60)]
        turns[30] += make_call_entries(1, "Bash", "the narwhal", 100, failed=True)
        add_session(store, "rough", at, *(entry for turn in turns for entry in turn))
    return path


def test_keys_in_the_same_write_as_the_enter_reach_the_conversation(store_path: Path) -> None:
    with Terminal(SLOW_BROWSER, str(store_path), "0.5", "0.2", columns=120) as terminal:
        terminal.wait_for_text("2 sessions", "A calm answer")
        terminal.press("j\rgei")
        terminal.wait_for_text("Go to turn", "did the narwhal")


def test_keys_before_the_conversation_pane_is_there_reach_the_conversation(store_path: Path) -> None:
    """The pane is imported after the list is painted; a person may be faster."""
    with Terminal(SLOW_BROWSER, str(store_path), "0.2", "0.2", columns=120) as terminal:
        terminal.wait_for_text("Question 0")
        terminal.press("j\rgei")
        terminal.wait_for_text("Go to turn", "did the narwhal")


def test_keys_wait_for_a_conversation_that_takes_long_to_open(store_path: Path) -> None:
    """The conversation that is still shown must not get them."""
    with Terminal(SLOW_BROWSER, str(store_path), "1.5", "0.2", columns=120) as terminal:
        terminal.wait_for_text("2 sessions", "A calm answer")
        terminal.press("j\r")
        terminal.wait_for_text("Errors")
        terminal.press("gei")
        terminal.wait_for_text("Go to turn", "did the narwhal")


@pytest.mark.parametrize("keys", ["gei", "Ei", "gxi", "gJei"])
def test_a_failed_call_that_is_not_loaded_yet_is_inspected(store_path: Path, keys: str) -> None:
    with Terminal(SLOW_BROWSER, str(store_path), "0", "0.5", columns=120) as terminal:
        terminal.wait_for_text("2 sessions", "A calm answer")
        terminal.press("j\r")
        terminal.wait_for_text("Answer 59")
        terminal.press(keys)
        terminal.wait_for_text("Go to turn", "did the narwhal")
