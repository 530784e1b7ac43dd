"""Tests that a key in the list repaints only changed lines, lays nothing out, and shows the same screen as Textual."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from browser_driver import add_many_sessions, fill_store, make_browser, session_list, wait_for_text, wait_until
from textual._compositor import Compositor
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from store.store import Store
from tui.textual_compat import DirtyRegionCompositor, refresh_immediately
from tui.widgets.line_view import LineView
from tui.widgets.session_list_view import SessionListView

SIZE = (120, 40)
LIST_ALONE = (90, 40)
"""The size at which only the list is shown, so that other panes cause no work."""


@pytest.fixture
def many() -> Iterator[Store]:
    with Store.memory() as store:
        add_many_sessions(store, 2_000)
        yield store


class Work:
    """Counts the painted lines, the rendered lines of each widget, and the layouts."""

    def __init__(self) -> None:
        self.painted: list[int] = []
        self.rendered: dict[Widget, int] = {}
        self.layouts = 0


@contextmanager
def record_work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    work = Work()
    build_strip, get_renders = SessionListView.build_strip, DirtyRegionCompositor._get_renders
    refresh_layout = Screen._refresh_layout

    def recording_build_strip(self: SessionListView, line: int, width: int) -> Strip:
        work.painted.append(line)
        return build_strip(self, line, width)

    def recording_get_renders(self: DirtyRegionCompositor, crop: Any = None) -> Iterator[Any]:
        in_front = {region: widget for widget, (region, _) in reversed(self.visible_widgets.items())}
        for region, clip, strips in get_renders(self, crop):
            widget = in_front[region]
            work.rendered[widget] = work.rendered.get(widget, 0) + len(strips)
            yield region, clip, strips

    def recording_refresh_layout(self: Screen[Any], *args: Any, **kwargs: Any) -> None:
        work.layouts += 1
        refresh_layout(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(SessionListView, "build_strip", recording_build_strip)
        patch.setattr(DirtyRegionCompositor, "_get_renders", recording_get_renders)
        patch.setattr(Screen, "_refresh_layout", recording_refresh_layout)
        yield work


async def wait_until_idle(pilot: Pilot[Any]) -> SessionListView:
    """Wait until everything is painted, including the lines that are prepared for the next key."""
    view, screen = session_list(pilot), pilot.app.screen
    await wait_until(pilot, lambda: screen.has_conversation and view.selected is not None)
    await wait_until(
        pilot, lambda: not screen.conversation.is_on_screen or screen.conversation.is_open(view.selected_key)
    )
    await pilot.app.workers.wait_for_complete()
    await wait_until(pilot, lambda: not view._requested_pages and not view._prefetch_timer._active.is_set())
    return view


async def test_a_step_paints_only_two_rows(many: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async with make_browser(many).run_test(size=LIST_ALONE) as pilot:
        view = await wait_until_idle(pilot)
        line = view._cursor_line
        with record_work(monkeypatch) as work:
            await pilot.press("down")
            await wait_until(pilot, lambda: work.rendered)
        assert set(work.painted) == {line, line + 1, line + 2, line + 3}
        assert work.rendered == {view: 4}
        assert not work.layouts


async def test_the_lines_of_the_next_page_are_prepared(many: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async with make_browser(many).run_test(size=LIST_ALONE) as pilot:
        view = await wait_until_idle(pilot)
        await pilot.press("pagedown", "pagedown")
        await wait_until_idle(pilot)
        old_top, old_line = view.scroll_offset.y, view._cursor_line
        with record_work(monkeypatch) as work:
            await pilot.press("pagedown")
            await wait_until(pilot, lambda: work.rendered)
            visible = range(view.scroll_offset.y, view.scroll_offset.y + view.page.height)
            painted = {line for line in work.painted if line in visible}
        assert view.scroll_offset.y > old_top + 30
        cursor_lines = {old_line, old_line + 1, view._cursor_line, view._cursor_line + 1}
        assert painted <= cursor_lines, "only the old and the new row of the cursor"
        assert not work.layouts


async def test_a_letter_paints_the_query_and_the_list_without_a_layout(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.workers.TYPING_PAUSE_SECONDS", 40)
    monkeypatch.setattr("store.search.recent.MAX_RARE_MATCHES", 0)
    async with make_browser(many).run_test(size=LIST_ALONE) as pilot:
        view = await wait_until_idle(pilot)
        await pilot.press("slash", *"nu")
        await wait_until(pilot, lambda: view.listing.options.query == "nu")
        with record_work(monkeypatch) as work:
            await pilot.press("m")
            await wait_until(pilot, lambda: view.listing.options.query == "num" and view in work.rendered)
        assert not work.layouts
        assert view.vertical_scrollbar not in work.rendered
        scrollbar_size = view.vertical_scrollbar.window_virtual_size
        pilot.app.screen.refresh(layout=True)
        await pilot.pause()
        assert view.vertical_scrollbar.window_virtual_size == scrollbar_size, "until all hits are counted"
        await pilot.press("escape")
        await wait_until(pilot, lambda: not view.listing.options.query)


async def test_an_immediate_refresh_does_not_wait_for_a_pending_layout(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_browser(many).run_test(size=SIZE) as pilot:
        view, screen = await wait_until_idle(pilot), pilot.app.screen
        with record_work(monkeypatch) as work:
            screen._layout_required = True
            view.invalidate_strips()
            refresh_immediately(screen, view)
            assert view in work.rendered
            assert not work.layouts
            await wait_until(pilot, lambda: work.layouts)


async def test_an_immediate_refresh_paints_the_scrollbar_with_the_list(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handle would follow later, so that one answer looks like two."""
    async with make_browser(many).run_test(size=LIST_ALONE) as pilot:
        view, screen = await wait_until_idle(pilot), pilot.app.screen
        with record_work(monkeypatch) as work:
            view.line_count = view.line_count // 2
            view.invalidate_strips()
            refresh_immediately(screen, view)
            assert {view, view.vertical_scrollbar} <= work.rendered.keys()


async def test_the_first_screen_shows_sessions_before_the_scrollbar_is_laid_out(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    screens = []
    render_full_update = DirtyRegionCompositor.render_full_update

    def recording_render(self: DirtyRegionCompositor, *args: Any, **kwargs: Any) -> Any:
        update = render_full_update(self, *args, **kwargs)
        screens.append("".join(strip.text for line in update.strips for strip in line))
        return update

    monkeypatch.setattr(DirtyRegionCompositor, "render_full_update", recording_render)
    async with make_browser(many).run_test(size=LIST_ALONE) as pilot:
        await wait_until_idle(pilot)
    assert "Session number 0" in screens[0]


@pytest.mark.parametrize("keys", [[], ["down"], ["end"], ["ctrl+p"], ["o"], ["slash", "t", "o"], ["z"], ["2"]])
async def test_the_screen_equals_that_of_textual(keys: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.memory() as store:
        fill_store(store)
        add_many_sessions(store, 200)
        async with make_browser(store).run_test(size=SIZE) as pilot:
            await wait_until_idle(pilot)
            await pilot.press(*keys)
            await pilot.pause(0.1)
            ours = pilot.app.export_screenshot()
            monkeypatch.setattr(DirtyRegionCompositor, "_get_renders", Compositor._get_renders)
            monkeypatch.setattr(LineView, "render_lines", Widget.render_lines)
            assert ours == pilot.app.export_screenshot()


async def test_the_scrollbar_handle_follows_the_list(many: Store) -> None:
    async with make_browser(many).run_test(size=SIZE) as pilot:
        view = await wait_until_idle(pilot)
        bar = view.vertical_scrollbar
        for key in ("down", *["pagedown"] * 3, "end", "pageup", "home"):
            await pilot.press(key)
            assert bar.position == view.scroll_y


async def test_the_scrollbar_handle_is_repainted_when_it_moves(many: Store) -> None:
    async with make_browser(many).run_test(size=SIZE) as pilot:
        view = await wait_until_idle(pilot)
        region = view.vertical_scrollbar.region

        def handle_cells() -> list[bool]:
            strips = pilot.app.screen._compositor.render_strips()[region.y : region.bottom]
            cells = [next(iter(strip.crop(region.x, region.right))) for strip in strips]
            return [bool(cell.style and "grab" in str(cell.style.meta)) for cell in cells]

        assert handle_cells()[0]
        assert not handle_cells()[-1]
        await pilot.press("end")
        await wait_until(pilot, lambda: handle_cells()[-1] and not handle_cells()[0])


async def test_lists_with_a_border_keep_it(many: Store) -> None:
    async with make_browser(many).run_test(size=SIZE) as pilot:
        view = await wait_until_idle(pilot)
        view.styles.border = ("round", "red")
        await wait_for_text(pilot, "╭─")
