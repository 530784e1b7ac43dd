"""Tests how the dialogs of a team look, above an empty screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pytest_textual_snapshot import SVGImageExtension
from textual.app import App
from textual.pilot import Pilot
from textual.screen import ModalScreen

from store.model.team import MemberMetrics, MetricsRow, TeamRequest, ValueConflict
from tui.dialogs.explanation import ExplanationDialog
from tui.dialogs.team_request import RequestDialog
from tui.dialogs.value_conflict import ValueConflictDialog
from tui.render.statistics.member_metrics import render_metrics

SVGImageExtension.file_extension = "svg"

CONFLICT = ValueConflict(
    1,
    "m1/s1",
    "summary",
    "s1",
    None,
    ["The upload test was flaky, because the retry ran after the file had been closed.", 3],
    ["Fixed by opening the file again. [b]Markup[/b] stays text.", 2],
    "anna",
    "ben",
)
REQUEST = TeamRequest("3fa1c2d0", "m2/3fa1c2d0", "ben", "anna", False, "185440b4", 3, "the same upload bug", "open")
TOTAL = MetricsRow("", 41, 230, 1_812, 37, 5_000_000, 12_340_000)
MEMBERS = [
    MemberMetrics(
        "anna", "m1", "2026-11-19", TOTAL, (TOTAL._replace(name="~/product"),), (TOTAL._replace(name="Bash"),)
    ),
    MemberMetrics("ben", "m2", "2026-11-18", TOTAL._replace(cost=None), (), ()),
]

DIALOGS: dict[str, Callable[[], ModalScreen[Any]]] = {
    "conflict": lambda: ValueConflictDialog(CONFLICT, "Fix the flaky upload test", 2),
    "request": lambda: RequestDialog(REQUEST, "It still fails on CI. Look at the retry, please.", 1),
    "metrics": lambda: ExplanationDialog("The last 30 days of the team", lambda width: render_metrics(MEMBERS, width)),
}


@pytest.mark.parametrize("size", [(120, 24), (70, 24)], ids=["wide", "narrow"])
@pytest.mark.parametrize("dialog", DIALOGS)
def test_dialog(snap_compare: Callable[..., bool], dialog: str, size: tuple[int, int]) -> None:
    async def open_it(pilot: Pilot[Any]) -> None:
        await pilot.app.push_screen(DIALOGS[dialog]())
        await pilot.pause()

    assert snap_compare(App(), terminal_size=size, run_before=open_it)
