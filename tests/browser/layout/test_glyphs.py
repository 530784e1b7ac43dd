"""Tests the marks on the screens: each has one meaning, and `?` explains it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from browser_driver import make_browser, screen_text, wait_for_text

import tui
from store.store import Store
from store.text.sanitize import cell_width
from tui.render import glyphs

MARKS = {name: value for name, value in vars(glyphs).items() if name.isupper() and isinstance(value, str)}
LEGEND = dict(glyphs.LEGEND)


def test_a_glyph_has_one_meaning() -> None:
    assert len(set(MARKS.values())) == len(MARKS)
    assert len(LEGEND) == len(glyphs.LEGEND) == len({meaning for _, meaning in glyphs.LEGEND})
    assert set(MARKS.values()) | {"#"} == set(LEGEND)


def test_no_module_uses_a_glyph_for_something_else() -> None:
    """Every use goes through the name of the mark, and the name says the meaning."""
    signs = {glyph for glyph in LEGEND if not glyph.isascii()}
    found = [
        f"{path.name}:{line}: {text!r}"
        for path in Path(tui.__path__[0]).rglob("*.py")
        if path.name != "glyphs.py"
        for line, text in _list_shown_texts(path)
        if signs & set(text)
    ]
    assert not found


def _list_shown_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the string constants of a module that are not docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def test_marks_of_a_row_are_narrow() -> None:
    assert {glyph for glyph in LEGEND if cell_width(glyph) != 1} == {glyphs.SECRETS, glyphs.EXPIRES}


async def test_the_help_explains_every_mark(filled_store: Store) -> None:
    app = make_browser(filled_store)
    async with app.run_test(size=(140, 160)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("question_mark")
        await wait_for_text(pilot, "Esc to close")
        lines = screen_text(pilot).splitlines()
        for glyph, meaning in glyphs.LEGEND:
            assert any(glyph in line and meaning in line for line in lines), meaning


async def test_no_key_is_shown_as_a_mark(filled_store: Store) -> None:
    """The signs for Enter and Backspace are marks: a line break, and a session that is gone."""
    app = make_browser(filled_store)
    async with app.run_test(size=(140, 45)) as pilot:
        await wait_for_text(pilot, "6 sessions", "↵ Open")
        shown = {app.get_key_display(binding) for _, binding, _, _ in app.screen.active_bindings.values()}
        assert not shown & set(LEGEND) - {"#", "+"}
