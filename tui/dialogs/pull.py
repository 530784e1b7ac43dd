"""This dialog shows what was edited by hand in pushed blocks. What was edited here, too, is decided in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from store.memory.shared_facts import Side
from store.model.memory import PullPlan
from tui.dialogs.preview import PreviewDialog
from tui.render.memory_lines import render_pull_plan
from tui.render.viewport import RenderedLine


class PullDialog(PreviewDialog):
    """Returns whether the edits were made."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("h", "take('here')", "Keep these facts", id="pull.here", tooltip="Keep the texts of the facts here"),
        Binding(
            "t", "take('there')", "Take those of the files", id="pull.there", tooltip="Take the texts of the files"
        ),
    ]

    def __init__(
        self, title: str, load_plan: Callable[[], PullPlan], pull: Callable[[PullPlan, Side | None], object]
    ) -> None:
        super().__init__(title, self._preview, lambda: pull(self._plan, self._side))
        self._load_plan = load_plan
        self._plan = PullPlan(())
        self._side: Side | None = None

    def _preview(self) -> tuple[Sequence[RenderedLine], bool]:
        self._plan = self._load_plan()
        return render_pull_plan(self._plan), bool(self._plan.edits) and not self._plan.conflicts

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return bool(self._plan.conflicts) if action == "take" else super().check_action(action, parameters)

    def action_take(self, side: Side) -> None:
        self._side = side
        self.action_do()
