"""Tests how the dialog that exports a session looks."""

from __future__ import annotations

from browser_driver import add_session, answer_entry, make_browser, prompt_entry, time_ago

from store.store import Store

from test_screen_snapshots import SIZES, Compare, Size, after  # isort: skip


@SIZES
def test_export_dialog(snap_compare: Compare, store: Store, size: Size) -> None:
    prompt, answer = prompt_entry("Why does it fail?", time_ago(hours=1)), answer_entry("The key.", time_ago(hours=1))
    add_session(store, "s1", time_ago(hours=1), prompt, answer)
    steps = after("Why does it fail?", ["enter"], "The key.", ["W"], "## Turn 1", ["s"], "markdown · turn 1")
    assert snap_compare(make_browser(store), terminal_size=size, run_before=steps)


@SIZES
def test_the_path_of_an_export(snap_compare: Compare, store: Store, size: Size) -> None:
    add_session(store, "s1", time_ago(hours=1), prompt_entry("Why does it fail?", time_ago(hours=1)))
    steps = after("Why does it fail?", ["W"], "## Turn 1", ["enter"], "Write the export to", "why-does-it-fail")
    assert snap_compare(make_browser(store), terminal_size=size, run_before=steps)
