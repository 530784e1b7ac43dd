"""Tests how a temporary store, and dialogs that depend on settings, look."""

from __future__ import annotations

from test_screen_snapshots import (
    LIST,
    SIZES,
    Compare,
    Size,
    _no_agents,  # noqa: F401
    _no_blinking,  # noqa: F401
    after,
    make_browser,
    world,  # noqa: F401
)

from store.paths import config_file
from store.store import Store


@SIZES
def test_proposed_titles(snap_compare: Compare, world: Store, size: Size) -> None:  # noqa: F811
    config_file().parent.mkdir(parents=True)
    config_file().write_text("[titles]\ncommand = '/bin/sh -c \"/usr/bin/cat >/dev/null; echo A title of my own\"'\n")
    asked = after(*LIST, ["space", "space", "ctrl+t"], "2 titles by sh", "A title of my own", "Apply")
    assert snap_compare(make_browser(world), terminal_size=size, run_before=asked)


@SIZES
def test_temporary(snap_compare: Compare, world: Store, size: Size) -> None:  # noqa: F811
    world.refusal = "These sessions are temporary and read-only. Run `backscroll sync old.jsonl` to keep and edit them."
    asked = after(*LIST, ["p"], "temporary and")
    assert snap_compare(make_browser(world), terminal_size=size, run_before=asked)
