"""This module is a pane with a diff in sections, in which words can be found."""

from __future__ import annotations

from typing import TypeAlias

from textual import on
from textual.app import ComposeResult
from textual.getters import query_one

from tui.widgets.diff_view import DiffView
from tui.widgets.find_bar import FindBar
from tui.widgets.find_pane import FindPane


class DiffPane(FindPane):
    SectionSelected: TypeAlias = DiffView.SectionSelected

    diff_view = query_one(DiffView)

    def compose(self) -> ComposeResult:
        yield DiffView()
        yield FindBar()

    @property
    def view(self) -> DiffView:
        return self.diff_view

    @on(DiffView.TextWrapped)
    @on(DiffView.LinesWrapped)
    def _search_wrapped_text(self) -> None:
        self.search_again()
