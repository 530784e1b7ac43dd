"""Tests of the view that scrolls through many lines."""

from __future__ import annotations

import pytest
from rich.segment import Segment
from textual.app import App, ComposeResult
from textual.content import Content
from textual.strip import Strip

from store.text.sanitize import CHARACTERS_PER_CELL
from tui.textual_compat import refresh_immediately
from tui.widgets.line_view import LineView


class NumberView(LineView):
    def build_strip(self, line: int, width: int) -> Strip:
        return Strip([Segment(str(line))])


class NumberApp(App[None]):
    CSS = "NumberView { overflow-y: auto; }"

    def compose(self) -> ComposeResult:
        yield NumberView()


async def test_the_handle_is_right_when_the_view_scrolled_before_its_scrollbar_was_shown() -> None:
    app = NumberApp()
    async with app.run_test(size=(20, 10)) as pilot:
        view = app.query_one(NumberView)
        view.line_count = 100
        view.set_reactive(NumberView.show_vertical_scrollbar, False)
        view.scroll_to(y=40, animate=False, force=True, immediate=True)
        await pilot.pause()
        assert view.show_vertical_scrollbar
        assert (view.scroll_y, view.vertical_scrollbar.position) == (40, 40)


@pytest.mark.parametrize(("before", "after"), [(100, 3), (3, 100)], ids=["disappears", "appears"])
async def test_a_scrollbar_appears_and_disappears_together_with_the_lines(before: int, after: int) -> None:
    app = NumberApp()
    async with app.run_test(size=(20, 10)) as pilot:
        view = app.query_one(NumberView)
        view.line_count = before
        await pilot.pause()
        view.line_count = after
        refresh_immediately(app.screen, view)
        assert view.vertical_scrollbar.is_on_screen == (after > before)


class MarkedView(LineView):
    def build_strip(self, line: int, width: int) -> Strip:
        return self.make_strip(Content("e" + "\u0301" * 300_000), width, self.visual_style)


async def test_of_a_letter_with_very_many_marks_only_the_beginning_is_painted() -> None:
    """They take no room, so all of them would be on one line, and be measured whenever anything is painted."""
    app = App[None]()
    async with app.run_test(size=(20, 10)) as pilot:
        view = MarkedView()
        await app.mount(view)
        view.line_count = 1
        await pilot.pause()
        strip = view.render_line(0)
        assert strip.text.startswith("e\u0301")
        assert len(strip.text.rstrip()) == CHARACTERS_PER_CELL * view.page.width + 1
        assert strip.cell_length == view.page.width
