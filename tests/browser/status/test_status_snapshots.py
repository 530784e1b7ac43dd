"""Tests how the list looks with sessions that work, wait, are idle and have ended."""

from __future__ import annotations

from browser_driver import add_session, answer_entry, make_browser, prompt_entry, time_ago
from test_screen_snapshots import SIZES, Compare, Size, after

from store.model.entry import NewEntry
from store.store import Store


@SIZES
def test_statuses(snap_compare: Compare, store: Store, size: Size) -> None:
    failure = NewEntry(kind="event", text="429: quota error", created_at=time_ago(minutes=5))
    for name, minutes, last in (
        ("Working", 1, ()),
        ("Waiting", 2, (answer_entry("Done.", time_ago(minutes=2)),)),
        ("Ended", 5, (failure,)),
        ("Idle", 90, (answer_entry("Done.", time_ago(minutes=90)),)),
    ):
        at = time_ago(minutes=minutes)
        add_session(store, name, at, prompt_entry("Go on", at), *last, source="codex", agent_title=name)
    steps = after("4 sessions", "Idle", ["down"], "▌  Waiting")
    assert snap_compare(make_browser(store), terminal_size=size, run_before=steps)
