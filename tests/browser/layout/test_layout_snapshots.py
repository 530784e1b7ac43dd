"""Tests how the layout looks: three panes, resized panes, a huge terminal, no colours and the marks."""

from __future__ import annotations

import pytest
from test_screen_snapshots import (
    LIST,
    READING,
    SIZES,
    Compare,
    Size,
    _no_agents,  # noqa: F401
    _no_blinking,  # noqa: F401
    after,
    make_browser,
    world,  # noqa: F401
)

from store.store import Store

HUGE = (200, 55)

LAYOUTS: dict[str, tuple[list[str] | str, ...]] = {
    "focus_on_the_record": (*READING, ["3"], "This entry was added"),
    "marks": (*LIST, ["question_mark"], "Open the session", ["end"], "Esc to close"),
    "no_published_files": (*LIST, ["P"], "No published files"),
}


@SIZES
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout(snap_compare: Compare, world: Store, layout: str, size: Size) -> None:  # noqa: F811
    assert snap_compare(make_browser(world), terminal_size=size, run_before=after(*LAYOUTS[layout]))


@pytest.mark.parametrize("keys", [[], ["less_than_sign"] * 3], ids=["huge", "resized"])
def test_huge_terminal(snap_compare: Compare, world: Store, keys: list[str]) -> None:  # noqa: F811
    assert snap_compare(make_browser(world), terminal_size=HUGE, run_before=after(*READING, keys))


@SIZES
def test_no_colours(snap_compare: Compare, world: Store, size: Size, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(make_browser(world), terminal_size=size, run_before=after(*READING))
