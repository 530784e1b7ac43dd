"""This module renders the changes that a write-back would make in an agent's store, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from textual.content import Content

from store.text.sanitize import one_line
from tui.render import glyphs
from tui.render.line_diff import ADDED, REMOVED, render_text_diff
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, WARNING, build_content, format_count
from tui.render.viewport import RenderedLine

MAX_ROWS = 1_000
MAX_VALUE_CHARACTERS = 2_000


class ShownColumnChange(NamedTuple):
    name: str
    before: str | None
    after: str | None


class ShownRowChange(NamedTuple):
    table: str
    key: str
    change: str
    "Is `changed`, `new` or `deleted`."
    columns: Sequence[ShownColumnChange]


_CHANGE_STYLES = {"changed": MUTED, "new": ADDED, "deleted": REMOVED}


def render_write_back_plan(
    rows: Sequence[ShownRowChange], unplaced: Sequence[str], conflicts: Sequence[str]
) -> list[RenderedLine]:
    lines: list[RenderedLine] = []
    for sentence in conflicts:
        lines += [build_content([(f"{glyphs.FAILED} ", ERROR), (one_line(sentence), ERROR)]), Content("")]
    for sentence in unplaced:
        lines += [build_content([("! ", WARNING), (one_line(sentence), WARNING)]), Content("")]
    for row in rows[:MAX_ROWS]:
        lines += [*_render_row(row), Content("")]
    if len(rows) > MAX_ROWS:
        lines.append(build_content([(f"… {format_count(len(rows) - MAX_ROWS, 'more row')}", FAINT)]))
    return lines


def describe_row_changes(rows: Sequence[ShownRowChange]) -> str:
    """Return e.g. `2 rows changed, 1 row deleted`. A row with several changes counts once."""
    different = {(row.table, row.key, row.change) for row in rows}
    counts = ((sum(row[2] == change for row in different), change) for change in ("changed", "new", "deleted"))
    return ", ".join(f"{format_count(n, 'row')} {change}" for n, change in counts if n)


def _render_row(row: ShownRowChange) -> Iterator[RenderedLine]:
    name = one_line(f"{row.table} {row.key}", 200)
    yield build_content([(name, STRONG), (f"  {row.change}", _CHANGE_STYLES[row.change])])
    for column in row.columns:
        yield build_content([(f"  {one_line(column.name, 60)}", MUTED)])
        if column.before is not None and column.after is not None and column.before != column.after:
            yield from render_text_diff(column.before, column.after)
        else:  # a masked secret has equal sides
            sides = ((f"{glyphs.REMOVED} ", column.before, REMOVED), ("+ ", column.after, ADDED))
            yield from (
                build_content([(sign + one_line(text, MAX_VALUE_CHARACTERS), style)])
                for sign, text, style in sides
                if text is not None
            )
