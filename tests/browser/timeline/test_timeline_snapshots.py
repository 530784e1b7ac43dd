"""Tests how hidden and shown events, a failure, and the screen of a compaction look."""

from __future__ import annotations

import pytest
from browser_driver import add_session, prompt_entry, time_ago
from test_bookkeeping_events import event, session  # noqa: F401
from test_compaction_screen import compacted  # noqa: F401
from test_screen_snapshots import (
    SIZES,
    Compare,
    Size,
    _no_agents,  # noqa: F401
    _no_blinking,  # noqa: F401
    after,
    make_browser,
)

from store.model.session import Session
from store.store import Store


@SIZES
@pytest.mark.parametrize("keys", [[], ["B"]], ids=["hidden", "shown"])
def test_events(snap_compare: Compare, store: Store, session: Session, size: Size, keys: list[str]) -> None:  # noqa: F811
    opened = after("With events", ["enter"], "Second answer", keys)
    assert snap_compare(make_browser(store), terminal_size=size, run_before=opened)


@SIZES
def test_a_failure_at_the_end(snap_compare: Compare, store: Store, size: Size) -> None:
    at = time_ago(minutes=4)
    add_session(store, "adk:1", at, prompt_entry("Go on", at), event("429: quota"), source="adk", agent_title="Ended")
    opened = after("Ended", ["enter"], "429: quota")
    assert snap_compare(make_browser(store), terminal_size=size, run_before=opened)


@SIZES
@pytest.mark.parametrize("with_dialog", [False, True], ids=["screen", "own_summary"])
def test_a_compaction(snap_compare: Compare, compacted: Store, size: Size, with_dialog: bool) -> None:  # noqa: F811
    """The session opens at its end, which is a compaction without a summary; the one before it has one."""
    steps: list[list[str] | str] = [["i"], "Compaction 2 of 2", ["K"], "Compaction 1 of 2"]
    if with_dialog:
        steps += [["S"], "a summary of your own"]
    opened = after("Compacted", ["enter"], "Go on", *steps)
    assert snap_compare(make_browser(compacted), terminal_size=size, run_before=opened)
