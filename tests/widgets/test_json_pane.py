"""Tests the JSON pane: every key, the mouse, finding, copying, and records that are large or hostile."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from browser_driver import resize_terminal, screen_text, wait_for_text, wait_until
from textual import on
from textual.app import App, ComposeResult
from textual.pilot import Pilot

import tui
from store.model.entry import Json
from tui.json_document.parser import PAGE_BYTES
from tui.messages import Copy
from tui.widgets.json.json_view import JsonPane

ARGUMENTS = json.dumps({"command": "pytest -q", "timeout": 120})
RECORD = {
    "type": "assistant",
    "message": {"role": "assistant", "content": [{"type": "text", "text": "word " * 100}, {"type": "tool_use"}]},
    "arguments": ARGUMENTS,
    "many": list(range(100)),
    "a b": {"ok": True},
}


class JsonPaneApp(App[None]):
    CSS_PATH = Path(tui.__file__).with_name("app.tcss")

    def __init__(self) -> None:
        super().__init__()
        self.copied: list[Copy] = []

    def compose(self) -> ComposeResult:
        yield JsonPane()

    @on(Copy)
    def _record_copy(self, message: Copy) -> None:
        self.copied.append(message)


def json_pane(pilot: Pilot[Any]) -> JsonPane:
    return pilot.app.query_one(JsonPane)


def cursor_path(pilot: Pilot[Any]) -> str:
    return screen_text(pilot).splitlines()[0].strip()


def copied(pilot: Pilot[Any]) -> list[Copy]:
    assert isinstance(pilot.app, JsonPaneApp)
    return pilot.app.copied


@asynccontextmanager
async def show_record(record: Json, size: tuple[int, int] = (60, 40), focus: str = "") -> AsyncIterator[Pilot[Any]]:
    data = record if isinstance(record, bytes) else json.dumps(record).encode()
    async with JsonPaneApp().run_test(size=size, notifications=True) as pilot:
        json_pane(pilot).show(data, focus=focus)
        json_pane(pilot).json_view.focus()
        await wait_until(pilot, lambda: json_pane(pilot).json_view.json_tree)
        await pilot.pause()
        yield pilot


# ── showing ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_record_is_partly_folded_below_the_path_of_the_cursor() -> None:
    async with show_record(RECORD) as pilot:
        text = screen_text(pilot)
        assert 'role: "assistant"' in text
        assert "▸ many [100]" in text
        assert "500 characters" in text
        assert cursor_path(pilot) == ".type"


async def test_a_missing_record_shows_a_note() -> None:
    async with JsonPaneApp().run_test() as pilot:
        json_pane(pilot).show(None, "This entry has no record of its own")
        await wait_for_text(pilot, "This entry has no record of its own")
        json_pane(pilot).json_view.focus()
        await pilot.press("y", "Y", "c", "enter", "left", "right", "H", "o", "down", "end", "n")
        assert cursor_path(pilot) == ""
        assert copied(pilot) == []


async def test_text_that_is_not_json_is_shown_as_lines() -> None:
    async with show_record(b"first line\n  second [b]line[/b]\n") as pilot:
        assert "second [b]line[/b]" in screen_text(pilot)
        await pilot.press("down", "Y")
        assert cursor_path(pilot) == "line 2"


async def test_the_cursor_moves_to_the_focused_path() -> None:
    async with show_record(RECORD, focus='.["a b"].ok') as pilot:
        assert cursor_path(pilot) == '.["a b"].ok'
        json_pane(pilot).show(json.dumps(RECORD).encode(), focus=".many[70]")
        await pilot.pause()
        assert cursor_path(pilot) == ".many[70]"
        json_pane(pilot).show(b'{"other": 1}', focus=".not[0].there")
        await pilot.pause()
        assert cursor_path(pilot) == ".other"


# ── moving and folding ────────────────────────────────────────────────────────────────────────────


async def test_moving() -> None:
    async with show_record(RECORD, size=(60, 12)) as pilot:
        for keys, expected in (
            (["down", "j"], ".message.role"),
            (["k", "up"], ".type"),
            (["end"], '.["a b"].ok'),
            (["home"], ".type"),
            (["pagedown"], ".many"),
            (["pageup"], ".type"),
        ):
            await pilot.press(*keys)
            assert cursor_path(pilot) == expected


async def test_left_and_right_fold_and_move_between_levels() -> None:
    async with show_record(RECORD) as pilot:
        await pilot.press("down", "left")
        assert "▸ message {role, content}" in screen_text(pilot)
        await pilot.press("right")
        assert "▾ message" in screen_text(pilot)
        await pilot.press("right")
        assert cursor_path(pilot) == ".message.role"
        await pilot.press("left")
        assert cursor_path(pilot) == ".message"
        await pilot.press("home", "left")
        assert cursor_path(pilot) == ".type"


@pytest.mark.parametrize("key", ["enter", "space", "right"])
async def test_a_long_string_opens_in_full(key: str) -> None:
    async with show_record(RECORD, focus=".message.content[0].text") as pilot:
        await pilot.press(key)
        assert screen_text(pilot).count("word") == 100
        await pilot.press("down", "down")
        assert cursor_path(pilot) == ".message.content[0].text"
        await pilot.press("enter" if key == "right" else key)
        assert screen_text(pilot).count("word") < 20
        assert cursor_path(pilot) == ".message.content[0].text"


async def test_a_thread_wraps_a_very_long_string() -> None:
    async with show_record({"a": "x" * (PAGE_BYTES * 20), "b": 1}) as pilot:
        await pilot.press("enter")
        await wait_until(pilot, lambda: json_pane(pilot).json_view.line_count > 20_000)
        await pilot.press("end")
        assert cursor_path(pilot) == ".b"
        await pilot.press("up", "y")
        assert copied(pilot)[-1].text == "x" * (PAGE_BYTES * 20)


async def test_fold_all_and_unfold_all() -> None:
    async with show_record(RECORD, focus=".message.content[1].type") as pilot:
        await pilot.press("H")
        await wait_until(pilot, lambda: json_pane(pilot).json_view.line_count == len(RECORD))
        assert cursor_path(pilot) == ".message"
        await pilot.press("H")
        await wait_until(pilot, lambda: json_pane(pilot).json_view.line_count > 100)
        assert cursor_path(pilot) == ".message"


async def test_embedded_json_opens_and_closes() -> None:
    async with show_record(RECORD, focus=".arguments") as pilot:
        await pilot.press("o")
        assert 'command: "pytest -q"' in screen_text(pilot)
        await pilot.press("down")
        assert cursor_path(pilot) == ".arguments | fromjson | .command"
        await pilot.press("left", "o")
        assert 'command: "pytest -q"' not in screen_text(pilot)
        await pilot.press("home", "o")
        await wait_for_text(pilot, "No JSON in this value")


async def test_open_strings_follow_the_width_of_the_pane() -> None:
    async with show_record(RECORD, focus=".message.content[0].text") as pilot:
        await pilot.press("enter", "down")
        before = json_pane(pilot).json_view.line_count
        await resize_terminal(pilot, 40, 60)
        await wait_until(pilot, lambda: json_pane(pilot).json_view.line_count > before)
        assert screen_text(pilot).count("word") == 100
        assert cursor_path(pilot) == ".message.content[0].text"


async def test_the_mouse() -> None:
    async with show_record(RECORD) as pilot:
        view = json_pane(pilot).json_view
        await pilot.click(view, offset=(20, 1))
        assert cursor_path(pilot) == ".message"
        assert "▾ message" in screen_text(pilot)
        await pilot.click(view, offset=(1, 1))
        assert "▸ message" in screen_text(pilot)
        await pilot.click(view, offset=(20, 30))
        assert cursor_path(pilot) == ".message"
        await pilot.click(view, offset=(20, 3), times=2)
        assert "▾ many" in screen_text(pilot)


# ── copying ───────────────────────────────────────────────────────────────────────────────────────


async def test_copying_takes_the_original_text() -> None:
    record = b'{"s": "\\u001b[2J", "n": 1.50, "o": {"x": [1e3, {}]}, "n": 1.50}'
    async with show_record(record) as pilot:
        await pilot.press("y")
        assert copied(pilot)[-1].text == "\x1b[2J"
        await pilot.press("down", "y")
        await wait_until(pilot, lambda: copied(pilot)[-1].text == "1.50")
        await pilot.press("down", "y")
        await wait_until(pilot, lambda: copied(pilot)[-1].text == '{\n  "x": [\n    1e3,\n    {}\n  ]\n}')
        await pilot.press("end", "Y", "c")
        await pilot.pause()
        assert [(copy.text, copy.description) for copy in copied(pilot)[-2:]] == [
            (".o.x[1]", "the path"),
            (record.decode(), "the record"),
        ]


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


async def test_finding_opens_folded_rows_and_wraps_around() -> None:
    async with show_record({"a": {"b": {"c": {"d": {"needle": 1}}}}, "many": [*range(50), "a Needle"]}) as pilot:
        await pilot.press("slash", *"needle")
        await wait_for_text(pilot, "1 of 2")
        assert cursor_path(pilot) == ".a.b.c.d.needle"
        await pilot.press("enter", "n")
        await wait_for_text(pilot, "2 of 2")
        assert cursor_path(pilot) == ".many[50]"
        await pilot.press("n")
        assert cursor_path(pilot) == ".a.b.c.d.needle"
        await pilot.press("N")
        assert cursor_path(pilot) == ".many[50]"
        await pilot.press("escape")
        await pilot.pause()
        assert "find" not in screen_text(pilot)
        await pilot.press("n")
        assert cursor_path(pilot) == ".many[50]"


async def test_a_search_without_hits() -> None:
    async with show_record(RECORD) as pilot:
        await pilot.press("ctrl+f", *"zebra")
        await wait_for_text(pilot, "no matches")
        assert cursor_path(pilot) == ".type"
        await pilot.press("escape", "down")
        assert cursor_path(pilot) == ".message"


async def test_finding_continues_in_the_next_record() -> None:
    async with show_record({"x": "needle"}) as pilot:
        await pilot.press("slash", *"needle", "enter")
        await wait_for_text(pilot, "1 of 1")
        json_pane(pilot).show(b'{"a": "needle", "b": {"c": "needle"}}')
        await wait_for_text(pilot, "1 of 2")


# ── large and hostile ─────────────────────────────────────────────────────────────────────────────


async def test_another_record_is_shown_before_a_large_one_is_parsed() -> None:
    large = json.dumps({"rows": [{"n": n, "text": "x" * 50} for n in range(20_000)], "last": 1}).encode()
    async with JsonPaneApp().run_test(size=(60, 20)) as pilot:
        json_pane(pilot).show(large)
        json_pane(pilot).show(b'{"small": 1}')
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        assert "small: 1" in screen_text(pilot)
        json_pane(pilot).show(large, focus=".rows[19999].n")
        await wait_for_text(pilot, "n: 19999")
        json_pane(pilot).json_view.focus()
        await pilot.press("end")
        assert cursor_path(pilot) == ".last"
        await pilot.press("H", "H")
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()


async def test_a_large_record_works_like_a_small_one() -> None:
    rows = [{"n": n, "text": "x" * 50, "ratio": 1.50} for n in range(5_000)]
    record = json.dumps({"rows": rows, "last": "Needle"}).replace("1.5}", "1.50}").encode()
    async with show_record(record, size=(60, 20)) as pilot:
        assert "▸ rows [5,000]" in screen_text(pilot)
        await pilot.press("enter", "down", "down", "enter", "down")
        assert cursor_path(pilot) == ".rows[1].n"
        await pilot.press("up", "y")
        expected = json.dumps(rows[1], indent=2).replace("1.5\n", "1.50\n")
        await wait_until(pilot, lambda: copied(pilot) and copied(pilot)[-1].text == expected)
        await pilot.press("home", "y")
        await wait_until(pilot, lambda: copied(pilot)[-1].text.count("1.50") == 5_000)
        await pilot.press("slash", *"needle", "enter")
        await wait_for_text(pilot, "1 of 1")
        assert cursor_path(pilot) == ".last"
        await pilot.press("c")
        await wait_until(pilot, lambda: copied(pilot)[-1].text == record.decode())


async def test_a_record_nested_too_deeply_is_shown_as_text_with_a_notice() -> None:
    async with show_record(b"[" * 100_000 + b"]" * 100_000) as pilot:
        await wait_for_text(pilot, "nested too deeply")
        assert "[[[[[[" in screen_text(pilot)
        assert cursor_path(pilot) == "line 1"


async def test_a_hundred_thousand_elements() -> None:
    async with show_record(list(range(100_000)), size=(60, 20)) as pilot:
        await pilot.press("end")
        assert cursor_path(pilot) == ".[99999]"
        await pilot.press("slash", *"54321", "enter")
        await wait_for_text(pilot, "1 of 1")
        assert cursor_path(pilot) == ".[54321]"


EVIL = "\x1b]52;c;eA==\x07\x1b[2J\x9b1m\x00[@click=app.quit]x[/]\u202e\u2066\t漢字👩\u200d👧\r\n"


async def test_nothing_hostile_reaches_the_screen() -> None:
    record = {EVIL: EVIL, "list": [EVIL], "long": EVIL * 2000, "json": json.dumps({EVIL: EVIL})}
    async with show_record(record, size=(80, 40)) as pilot:
        for keys in ([], ["y"], ["end", "o"], ["end"], ["home", "enter", "down"], ["slash", "x", "enter"]):
            await pilot.press(*keys)
            await pilot.pause()
            assert not set(screen_text(pilot)) & set("\x1b\x07\x9b\x00\t\r\u202e\u2066")
        assert "[@click=app.quit]x[/]" in screen_text(pilot)
        json_pane(pilot).show(EVIL.encode() * 100)
        await pilot.pause()
        assert not set(screen_text(pilot)) & set("\x1b\x07\x9b\x00\t\r\u202e\u2066")
