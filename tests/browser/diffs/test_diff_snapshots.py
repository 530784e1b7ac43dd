"""Tests how diffs and the screens made of them look."""

from __future__ import annotations

import pytest
from browser_driver import make_browser
from edited_session import add_edited_session

from store.store import Store

from test_screen_snapshots import SIZES, Compare, Size, _no_blinking, after  # isort: skip

__all__ = ["_no_blinking"]

OPENED = ("Retry the upload", ["enter"], "All is done.")
SCREENS: dict[str, tuple[list[str] | str, ...]] = {
    "inspected_edit": (*OPENED, ["home", "x", "i"], "118 118"),
    "changes": (*OPENED, ["V"], "118 118", ["J", "J"], "▌tests/test_upload.py", "turn 2", "Go to turn"),
    "marked": (*OPENED, ["home", "x", "M"], "▌◆"),
    "comparison": (*OPENED, ["home", "M", "J"], "▌ And the config?", ["D"], "turn 2 of Retry", "+ And the config?"),
    "export": (*OPENED, ["V"], "118 118", ["e"], "Export the changes"),
}


@SIZES
@pytest.mark.parametrize("screen", SCREENS)
def test_diffs(snap_compare: Compare, store: Store, screen: str, size: Size) -> None:
    add_edited_session(store)
    assert snap_compare(make_browser(store), terminal_size=size, run_before=after(*SCREENS[screen]))
