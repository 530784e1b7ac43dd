"""This module renders Markdown tables, aligned at any width."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from textual.content import Content

from tui.render.styles import FAINT, build_content
from tui.render.viewport import Viewport

COLUMN_GAP = 2
MAX_CELLS = 2_000
"""Limits the cells of a table. A row may leave out its last cells, so a short text can describe a table of millions."""

MIN_COLUMN_CELLS = 4
"""The least width in which a column is readable."""


class TableCell(NamedTuple):
    text: Content
    align: str = ""


def render_table(rows: Sequence[Sequence[TableCell]], viewport: Viewport) -> list[Content]:
    """Render a table. Its first row is the heading. A table with too many columns becomes a list of `heading: cell`."""
    columns = max(map(len, rows), default=0)
    rows, left = rows[: MAX_CELLS // max(columns, 1) + 1], len(rows)
    lines = _render_rows(rows, columns, viewport)
    return [*lines, *viewport.render_more(left - len(rows), "row")]


def _render_rows(rows: Sequence[Sequence[TableCell]], columns: int, viewport: Viewport) -> list[Content]:
    if columns * (MIN_COLUMN_CELLS + COLUMN_GAP) - COLUMN_GAP > viewport.width:
        return _render_as_list(rows, viewport)
    widths = _fit_widths(
        [_natural_width(rows, column) for column in range(columns)], viewport.width - COLUMN_GAP * (columns - 1)
    )
    lines: list[Content] = []
    for n, row in enumerate(rows):
        lines += _render_row(row, widths, viewport)
        if not n:
            lines.append(build_content([("─" * (sum(widths) + COLUMN_GAP * (columns - 1)), FAINT)]))
    return lines


def _natural_width(rows: Sequence[Sequence[TableCell]], column: int) -> int:
    return max([row[column].text.cell_length for row in rows if column < len(row)] + [1])


def _fit_widths(widths: list[int], room: int) -> list[int]:
    """Shrink the widths to fit the room, the widest columns first."""
    while sum(widths) > room:
        widest = max(widths)
        second = max([width for width in widths if width < widest], default=0)
        count = widths.count(widest)
        target = max(second, widest - max((sum(widths) - room) // count, 1), MIN_COLUMN_CELLS)
        if target == widest:
            break
        over = sum(widths) - room
        for n, width in enumerate(widths):
            if width == widest and over > 0:
                widths[n] = max(target, width - over)
                over -= width - widths[n]
    return widths


def _render_row(row: Sequence[TableCell], widths: Sequence[int], viewport: Viewport) -> list[Content]:
    wrapped = [
        [_align(line, cell.align, width) for line in viewport._replace(width=width).wrap(cell.text)]
        for cell, width in zip(row, widths, strict=False)
    ]
    gap = Content(" " * COLUMN_GAP)
    return [
        gap.join(
            [line if line is not None else Content(" " * width) for line, width in zip(lines, widths, strict=False)]
        )
        for lines in zip_longest(*wrapped)
    ]


def _align(line: Content, align: str, width: int) -> Content:
    free = max(width - line.cell_length, 0)
    before = free if align == "right" else free // 2 if align == "center" else 0
    return Content(" " * before) + line + Content(" " * (free - before))


def _render_as_list(rows: Sequence[Sequence[TableCell]], viewport: Viewport) -> list[Content]:
    heading, *rest = rows
    lines: list[Content] = []
    for row in rest or [heading]:
        for name, cell in zip(heading, row, strict=False):
            if not cell.text.plain:
                continue
            lines += viewport.wrap(Content.assemble(name.text, ": ", cell.text) if rest else cell.text)
        lines.append(Content(""))
    return lines[:-1]
