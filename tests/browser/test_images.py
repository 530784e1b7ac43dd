"""Tests pictures: finding them in records, rendering them, and errors."""

from __future__ import annotations

import base64
import io
import json

import pytest
from browser_driver import (
    add_session,
    make_browser,
    prompt_entry,
    screen_text,
    session_list,
    time_ago,
    wait_for_text,
    wait_until,
)
from PIL import Image

from store.model.entry import Attachment, NewEntry, NewRecord, Text
from store.store import Store
from tui.render.picture import find_pictures, render_picture
from tui.widgets.timeline.timeline_view import TimelineView


def png(*colours: str, width: int = 4) -> bytes:
    """Return a picture with a stripe of each colour, one pixel high."""
    image = Image.new("RGB", (width, len(colours)))
    for y, colour in enumerate(colours):
        image.paste(colour, (0, y, width, y + 1))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def test_a_cell_shows_two_pixels() -> None:
    lines = render_picture(png("red", "blue", "lime"), 80, 24)
    assert [line.plain for line in lines] == ["▀▀▀▀", "▀▀▀▀"]
    styles = [str(line.spans[0].style) for line in lines]
    assert styles == ["#ff0000 on #0000ff", "#00ff00"]


def test_a_large_picture_is_scaled_down() -> None:
    lines = render_picture(png(*["red"] * 200, width=400), 40, 30)
    assert (len(lines), lines[0].cell_length) == (10, 40)


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\nrubbish", png("red")[:40], b"GIF89a" + b"\xff" * 30])
def test_data_that_is_no_picture_is_refused_with_a_message(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"damaged|kind"):
        render_picture(data, 80, 24)


def test_a_decompression_bomb_is_refused() -> None:
    file = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(file, "PNG")
    with pytest.raises(ValueError, match=r"larger|damaged"):
        render_picture(file.getvalue(), 80, 24)


def test_pictures_are_found_anywhere_in_a_record_and_in_order() -> None:
    first, second = png("red"), png("blue")
    plain, url = base64.b64encode(first).decode(), "data:image/png;base64," + base64.b64encode(second).decode()
    record = {"a": [{"source": {"data": plain}}, "not base64 " * 20, "A" * 200], "b": {"image_url": {"url": url}}}
    assert list(find_pictures(record)) == [first, second]


def add_picture(store: Store, *colours: str, width: int) -> None:
    """Add a session with a picture."""
    at = time_ago(minutes=1)
    data = base64.b64encode(png(*colours, width=width)).decode()
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    record = NewRecord(json.dumps({"content": [{"type": "text", "text": "see"}, block]}).encode())
    parts = (Text("see this"), Attachment("image/png", "shot.png", len(data)))
    add_session(store, "s", at, NewEntry(role="user", parts=parts, record=record, created_at=at))


async def test_enter_on_a_picture_shows_it(store: Store) -> None:
    add_picture(store, *["red", "blue"] * 4, width=8)
    async with make_browser(store).run_test(size=(90, 30)) as pilot:
        await wait_until(pilot, lambda: session_list(pilot).selected)
        await pilot.press("enter")
        await wait_for_text(pilot, "shot.png")
        await wait_until(pilot, lambda: pilot.app.screen.query_one(TimelineView).current_item is not None)
        await pilot.press("end", "enter")
        await wait_for_text(pilot, "▀▀▀▀▀▀▀▀")
        await pilot.press("escape")
        await wait_until(pilot, lambda: "▀" not in screen_text(pilot))


async def test_a_missing_picture_shows_a_message(store: Store) -> None:
    at = time_ago(minutes=1)
    add_session(
        store,
        "s",
        at,
        prompt_entry("look", at),
        NewEntry(role="user", parts=(Attachment("image/png", "x.png"),), created_at=at),
    )
    async with make_browser(store).run_test(size=(90, 30)) as pilot:
        await wait_until(pilot, lambda: session_list(pilot).selected)
        await pilot.press("enter")
        await wait_for_text(pilot, "x.png")
        await pilot.press("end", "enter")
        await wait_for_text(pilot, "does not contain the picture")
