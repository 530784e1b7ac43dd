"""These tests check what is replaced in Textual's editor: it must find the same columns, only sooner."""

from __future__ import annotations

from importlib import import_module

from hypothesis import given
from hypothesis import strategies as st
from textual._cells import cell_width_to_column_index
from textual.document import _wrapped_document

from tui.textual_compat import find_column


@given(st.text("ab 漢\t\x1be\u0301", max_size=12), st.integers(-2, 30))
def test_the_column_of_a_cell_is_the_same(line: str, cell: int) -> None:
    assert find_column(line, cell, 4) == cell_width_to_column_index(line, cell, 4)


def test_the_editor_uses_it() -> None:
    import_module("tui.widgets.text_editor")
    assert _wrapped_document.cell_width_to_column_index is find_column  # type: ignore[attr-defined]
