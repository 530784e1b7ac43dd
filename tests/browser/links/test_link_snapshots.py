"""Tests how the dialogs for links look."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_driver import make_browser
from link_session import ONE_ADDRESS, add_linked_session

from store.store import Store

from test_screen_snapshots import SIZES, Compare, Size, after  # isort: skip

SEVERAL = "See /dev/null, /nowhere/upload.py:41:7, https://example.com/docs?page=2 and https://example.com/more."
HOSTILE = f"https://xn--pple-43d.com/{'long/' * 80}end"


@SIZES
@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (SEVERAL, "Open a link of this item"),
        (ONE_ADDRESS, "The host is"),
        (HOSTILE, "looks like"),
        ("It is in /etc/passwd:1.", "Open this file in your editor?"),
    ],
    ids=["picker", "address", "hostile", "outside"],
)
def test_links(snap_compare: Compare, store: Store, answer: str, shown: str, size: Size) -> None:
    add_linked_session(store, answer, Path("/nowhere"))
    steps = after("1 session", "Links", ["enter"], "Where is it?", ["O"], shown)
    assert snap_compare(make_browser(store), terminal_size=size, run_before=steps)
