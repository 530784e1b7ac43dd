"""What would change in another program's store: row by row, before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from textual.content import Content

from store.text.sanitize import one_line
from tui.render.line_diff import ADDED, REMOVED, difference
from tui.render.styles import ERROR, FAINT, MUTED, STAR, STRONG, content, count

ROWS_SHOWN = 1_000
SHORT = 2_000


class ColumnChange(NamedTuple):
    name: str
    before: str | None
    after: str | None


class ChangedRow(NamedTuple):
    table: str
    key: str
    what: str
    "changed, new or deleted."
    columns: Sequence[ColumnChange]


_STYLES = {"changed": MUTED, "new": ADDED, "deleted": REMOVED}


def plan_lines(rows: Sequence[ChangedRow], unplaced: Sequence[str], conflicts: Sequence[str]) -> list[Content]:
    lines: list[Content] = []
    for sentence in conflicts:
        lines += [content([("✗ ", ERROR), (one_line(sentence), ERROR)]), Content("")]
    for sentence in unplaced:
        lines += [content([("! ", STAR), (one_line(sentence), STAR)]), Content("")]
    for row in rows[:ROWS_SHOWN]:
        lines += [*_row_lines(row), Content("")]
    if len(rows) > ROWS_SHOWN:
        lines.append(content([(f"… {count(len(rows) - ROWS_SHOWN, 'more row')}", FAINT)]))
    return lines


def tally(rows: Sequence[ChangedRow]) -> str:
    """`2 rows changed, 1 row deleted`; a row in which two things change is one."""
    different = {(row.table, row.key, row.what) for row in rows}
    told = ((sum(row[2] == what for row in different), what) for what in ("changed", "new", "deleted"))
    return ", ".join(f"{count(n, 'row')} {what}" for n, what in told if n)


def _row_lines(row: ChangedRow) -> Iterator[Content]:
    name = one_line(f"{row.table} {row.key}", 200)
    yield content([(name, STRONG), (f"  {row.what}", _STYLES[row.what])])
    for column in row.columns:
        yield content([(f"  {one_line(column.name, 60)}", MUTED)])
        if column.before is not None and column.after is not None and column.before != column.after:
            yield from difference(column.before, column.after)
        else:  # of a secret both sides are dots
            sides = (("− ", column.before, REMOVED), ("+ ", column.after, ADDED))
            yield from (
                content([(sign + one_line(text, SHORT), style)]) for sign, text, style in sides if text is not None
            )
