"""Tests how the screen with memory files, facts and proposals looks, and its dialogs."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_driver import make_browser, time_ago

from store.model.memory import Audience
from store.store import Store

from test_memory_screen import project as project  # isort: skip
from test_screen_snapshots import SIZES, Compare, Size, after  # isort: skip

OPEN = ("Set up the linter", ["f"], "Staging is on port 8443.", ["M"], "By a person")


@pytest.fixture
def shared(store: Store, project: Path) -> Path:
    """A project whose times are all the same, with a fact that is shared and not pushed."""
    store.shared_facts.share([1], Audience("codex", str(project)))
    with store.transaction() as connection:
        for column in ("sessions set created_at", "sessions set updated_at", "fact_proposals set created_at"):
            connection.execute(f"update {column} = ?", (time_ago(days=2),))
    return project


@SIZES
def test_memory(snap_compare: Compare, store: Store, shared: Path, size: Size) -> None:
    steps = after(*OPEN, ["end"], "by hand, as far as the store knows", "Used in")
    assert snap_compare(make_browser(store), terminal_size=size, run_before=steps)


@SIZES
def test_audience(snap_compare: Compare, store: Store, shared: Path, size: Size) -> None:
    steps = after(*OPEN, ["j", "S"], "Which agents get this fact?", ["right", "down", "space"], "Shared with Codex in")
    assert snap_compare(make_browser(store), terminal_size=size, run_before=steps)


@SIZES
def test_merge(snap_compare: Compare, store: Store, shared: Path, size: Size) -> None:
    (shared / "CLAUDE.md").write_text("- Port: 1\n")
    (shared / "AGENTS.md").write_text("- Port: 2\n")
    steps = after(
        "Set up the linter", ["f"], "Staging is", ["M"], "Port: 2", ["end"], "Differs", ["m"], "different values"
    )
    assert snap_compare(make_browser(store), terminal_size=size, run_before=steps)


@SIZES
def test_push_preview(snap_compare: Compare, store: Store, shared: Path, size: Size) -> None:
    steps = after(*OPEN, ["P"], "Push facts into memory files", "Staging is on port 8443.")
    assert snap_compare(make_browser(store), terminal_size=size, run_before=steps)


@SIZES
def test_pull(snap_compare: Compare, store: Store, shared: Path, size: Size) -> None:
    store.shared_facts.push(store.shared_facts.plan_push())
    path = shared / "AGENTS.md"
    path.write_text(path.read_text().replace("8443", "9100"))
    store.facts.edit(1, "Staging is gone.")
    steps = after("Set up the linter", ["f"], "Staging is gone.", ["M"], "By a person", ["L"], "Press h to keep")
    assert snap_compare(make_browser(store), terminal_size=size, run_before=steps)
