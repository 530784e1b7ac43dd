"""What a key in the list does not do: paint what has not changed, lay anything out, or make another picture."""

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
"""Nothing is opened beside the list, which would have work of its own."""


@pytest.fixture
def many() -> Iterator[Store]:
    with Store.memory() as store:
        add_many_sessions(store, 2_000)
        yield store


class Work:
    """What was done: lines painted, widgets rendered with how many lines of each, layouts."""

    def __init__(self) -> None:
        self.painted: list[int] = []
        self.rendered: dict[Widget, int] = {}
        self.layouts = 0


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    work = Work()
    paint, renders, lay_out = SessionListView.build_strip, DirtyRegionCompositor._get_renders, Screen._refresh_layout

    def painting(self: SessionListView, line: int, width: int) -> Strip:
        work.painted.append(line)
        return paint(self, line, width)

    def rendering(self: DirtyRegionCompositor, crop: Any = None) -> Iterator[Any]:
        in_front = {region: widget for widget, (region, _) in reversed(self.visible_widgets.items())}
        for region, clip, strips in renders(self, crop):
            widget = in_front[region]
            work.rendered[widget] = work.rendered.get(widget, 0) + len(strips)
            yield region, clip, strips

    def laying_out(self: Screen[Any], *given: Any, **named: Any) -> None:
        work.layouts += 1
        lay_out(self, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(SessionListView, "build_strip", painting)
        patch.setattr(DirtyRegionCompositor, "_get_renders", rendering)
        patch.setattr(Screen, "_refresh_layout", laying_out)
        yield work


async def at_rest(pilot: Pilot[Any]) -> SessionListView:
    """All is painted that will be, ahead of the keys as well."""
    shown, screen = session_list(pilot), pilot.app.screen
    await wait_until(pilot, lambda: screen._has_conversation and shown.selected is not None)
    await wait_until(
        pilot, lambda: not screen.conversation.is_on_screen or screen.conversation.is_open(shown.selected_key)
    )
    await pilot.app.workers.wait_for_complete()
    await wait_until(pilot, lambda: not shown._requested_pages and not shown._prefetch_timer._active.is_set())
    return shown


async def test_a_step_paints_two_rows_and_looks_at_nothing_else(many: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async with make_browser(many).run_test(size=LIST_ALONE) as pilot:
        shown = await at_rest(pilot)
        line = shown._cursor_line
        with watched(monkeypatch) as work:
            await pilot.press("down")
            await wait_until(pilot, lambda: work.rendered)
        assert set(work.painted) == {line, line + 1, line + 2, line + 3}
        assert work.rendered == {shown: 4}
        assert not work.layouts


async def test_a_page_finds_its_lines_painted(many: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async with make_browser(many).run_test(size=LIST_ALONE) as pilot:
        shown = await at_rest(pilot)
        await pilot.press("pagedown", "pagedown")
        await at_rest(pilot)
        before, left = shown.scroll_offset.y, shown._cursor_line
        with watched(monkeypatch) as work:
            await pilot.press("pagedown")
            await wait_until(pilot, lambda: work.rendered)
            in_view = range(shown.scroll_offset.y, shown.scroll_offset.y + shown.page.height)
            anew = [line for line in work.painted if line in in_view]
        assert shown.scroll_offset.y > before + 30
        assert set(anew) <= {left, left + 1, shown._cursor_line, shown._cursor_line + 1}, "where the cursor is and was"
        assert not work.layouts


async def test_a_letter_paints_the_words_and_the_list_and_lays_nothing_out(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.workers.TYPING_PAUSE_SECONDS", 40)
    async with make_browser(many).run_test(size=SIZE) as pilot:
        shown = await at_rest(pilot)
        await pilot.press("slash", *"nu")
        await wait_until(pilot, lambda: shown.listing.options.query == "nu")
        with watched(monkeypatch) as work:
            await pilot.press("m")
            await wait_until(pilot, lambda: shown.listing.options.query == "num" and shown in work.rendered)
        assert not work.layouts
        assert shown.vertical_scrollbar not in work.rendered
        told = shown.vertical_scrollbar.window_virtual_size
        pilot.app.screen.refresh(layout=True)
        await pilot.pause()
        assert shown.vertical_scrollbar.window_virtual_size == told, "until all that was found is counted"
        await pilot.press("escape")
        await wait_until(pilot, lambda: not shown.listing.options.query)


async def test_what_is_painted_at_once_waits_for_no_layout_that_is_due(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_browser(many).run_test(size=SIZE) as pilot:
        shown, screen = await at_rest(pilot), pilot.app.screen
        with watched(monkeypatch) as work:
            screen._layout_required = True
            shown.invalidate_strips()
            refresh_immediately(screen, shown)
            assert shown in work.rendered
            assert not work.layouts
            await wait_until(pilot, lambda: work.layouts)


async def test_the_first_picture_has_the_sessions_though_their_scrollbar_is_yet_to_come(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = []
    make = DirtyRegionCompositor.render_full_update

    def making(self: DirtyRegionCompositor, *given: Any, **named: Any) -> Any:
        picture = make(self, *given, **named)
        pictures.append("".join(strip.text for line in picture.strips for strip in line))
        return picture

    monkeypatch.setattr(DirtyRegionCompositor, "render_full_update", making)
    async with make_browser(many).run_test(size=LIST_ALONE) as pilot:
        await at_rest(pilot)
    assert "Session number 0" in pictures[0]


@pytest.mark.parametrize("keys", [[], ["down"], ["end"], ["ctrl+p"], ["o"], ["slash", "t", "o"], ["z"], ["2"]])
async def test_the_picture_is_that_of_textual(keys: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.memory() as store:
        fill_store(store)
        add_many_sessions(store, 200)
        async with make_browser(store).run_test(size=SIZE) as pilot:
            await at_rest(pilot)
            await pilot.press(*keys)
            await pilot.pause(0.1)
            ours = pilot.app.export_screenshot()
            monkeypatch.setattr(DirtyRegionCompositor, "_get_renders", Compositor._get_renders)
            monkeypatch.setattr(LineView, "render_lines", Widget.render_lines)
            assert ours == pilot.app.export_screenshot()


async def test_the_handle_goes_where_the_list_goes(many: Store) -> None:
    async with make_browser(many).run_test(size=SIZE) as pilot:
        shown = await at_rest(pilot)
        bar = shown.vertical_scrollbar
        for key in ("down", *["pagedown"] * 3, "end", "pageup", "home"):
            await pilot.press(key)
            assert bar.position == shown.scroll_y


async def test_the_handle_is_painted_where_it_moves(many: Store) -> None:
    async with make_browser(many).run_test(size=SIZE) as pilot:
        shown = await at_rest(pilot)
        region = shown.vertical_scrollbar.region

        def handle() -> list[bool]:
            strips = pilot.app.screen._compositor.render_strips()[region.y : region.bottom]
            cells = [next(iter(strip.crop(region.x, region.right))) for strip in strips]
            return [bool(cell.style and "grab" in str(cell.style.meta)) for cell in cells]

        assert handle()[0]
        assert not handle()[-1]
        await pilot.press("end")
        await wait_until(pilot, lambda: handle()[-1] and not handle()[0])


async def test_lists_with_a_border_keep_it(many: Store) -> None:
    async with make_browser(many).run_test(size=SIZE) as pilot:
        shown = await at_rest(pilot)
        shown.styles.border = ("round", "red")
        await wait_for_text(pilot, "╭─")
