"""These tests check what is replaced in Textual's editor: it must find the same columns and rows, only sooner.

Of a text that would delay every key, the editor shows only the beginning."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual._cells import cell_width_to_column_index
from textual.app import App, ComposeResult
from textual.document import _wrapped_document
from textual.document._document import Document
from textual.document._wrapped_document import WrappedDocument
from textual.events import Paste
from textual.pilot import Pilot

from tui.textual_compat import count_rows, find_column
from tui.widgets.text_editor import MAX_CHARACTERS, MAX_LINES, MAX_WRAPPED_CHARACTERS, TOO_LONG_TO_PASTE, TextEditor

LONG_TEXTS = {
    "characters": "word " * MAX_CHARACTERS,
    "lines": "x\n" * (MAX_LINES + 1),
    "wide characters": "漢字" * MAX_WRAPPED_CHARACTERS,
    "wide lines": ("漢字" * 1_000 + "\n") * 100,
    "tabs": "\t" * MAX_WRAPPED_CHARACTERS,
    "combining marks": "e\u0301" * MAX_WRAPPED_CHARACTERS,
}
UNWRAPPED_TEXTS = {
    "one long line": "word " * 20_000,
    "many lines": ("word " * 20 + "\n") * 4_000,
    "wide lines": ("漢字" * 50 + "\n") * 1_000,
    "a long word": "漢字" * 20_000,
}


@given(st.text("ab 漢\t\x1be\u0301", max_size=12), st.integers(-2, 30))
def test_the_column_of_a_cell_is_the_same(line: str, cell: int) -> None:
    assert find_column(line, cell, 4) == cell_width_to_column_index(line, cell, 4)


@given(st.text("ab 漢\t\n", max_size=40), st.text("ab 漢\n", max_size=20), st.integers(0, 9))
def test_the_number_of_rows_is_the_same_after_every_edit(text: str, inserted: str, width: int) -> None:
    document = WrappedDocument(Document(text), width)
    for new in (inserted, ""):
        start, old_end = document.document.start, document.document.end
        result = document.document.replace_range(start, old_end, new)
        document.wrap_range(start, old_end, result.end_location)
        assert count_rows(document) == sum(len(offsets) + 1 for offsets in document._wrap_offsets)


def test_the_editor_uses_them() -> None:
    import_module("tui.widgets.text_editor")
    assert _wrapped_document.cell_width_to_column_index is find_column  # type: ignore[attr-defined]
    assert WrappedDocument.height.fget is count_rows  # type: ignore[attr-defined]


# ── long texts ────────────────────────────────────────────────────────────────────────────────────


class EditorApp(App[None]):
    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        yield TextEditor(self._text)


@asynccontextmanager
async def open_editor(text: str = "") -> AsyncIterator[tuple[Pilot[Any], TextEditor]]:
    app = EditorApp(text)
    async with app.run_test(size=(100, 30)) as pilot:
        editor = app.query_one(TextEditor)
        editor.focus()
        yield pilot, editor


def count_shown_characters(editor: TextEditor) -> int:
    return len(editor.document.text)


@pytest.mark.parametrize("way", ["opened", "loaded", "replaced"])
@pytest.mark.parametrize("name", LONG_TEXTS)
async def test_only_the_beginning_of_a_text_that_would_delay_every_key_is_shown(name: str, way: str) -> None:
    text = LONG_TEXTS[name]
    async with open_editor(text if way == "opened" else "") as (pilot, editor):
        if way == "loaded":
            editor.text = text
        elif way == "replaced":
            editor.replace_all(text)
        assert count_shown_characters(editor) < 2_200
        assert "Press F4 to edit the text in your editor" in editor.document.text
        await pilot.press("end", "x", "backspace", "ctrl+end", "enter")
        assert editor.text == text
        editor.replace_all("short")
        editor.move_cursor((0, 0))
        await pilot.press("x")
        assert (editor.text, editor.read_only) == ("xshort", False)


@pytest.mark.parametrize("name", UNWRAPPED_TEXTS)
async def test_a_long_text_that_can_be_edited_is_not_wrapped(name: str) -> None:
    text = UNWRAPPED_TEXTS[name]
    async with open_editor() as (pilot, editor):
        editor.replace_all(text)
        editor.move_cursor((0, 0))
        await pilot.press("x")
        assert (editor.text, editor.soft_wrap) == ("x" + text, False)


async def test_a_short_text_is_wrapped_again() -> None:
    async with open_editor(UNWRAPPED_TEXTS["one long line"]) as (_, editor):
        editor.text = "A short one"
        assert editor.soft_wrap


@pytest.mark.parametrize("name", LONG_TEXTS)
async def test_a_paste_that_would_delay_every_key_is_refused(name: str) -> None:
    async with open_editor("typed before") as (pilot, editor):
        pilot.app.post_message(Paste(LONG_TEXTS[name]))
        await pilot.pause()
        assert editor.text == "typed before"
        assert [notice.message for notice in pilot.app._notifications] == [TOO_LONG_TO_PASTE]


async def test_a_long_paste_that_can_be_edited_is_inserted() -> None:
    async with open_editor("typed before") as (pilot, editor):
        pilot.app.post_message(Paste(UNWRAPPED_TEXTS["many lines"]))
        await pilot.pause()
        assert editor.text == UNWRAPPED_TEXTS["many lines"] + "typed before"
        assert not editor.soft_wrap


async def test_a_text_for_reading_stays_one() -> None:
    editor = TextEditor(read_only=True)
    editor.load_text(LONG_TEXTS["lines"])
    editor.load_text("short")
    assert editor.read_only
