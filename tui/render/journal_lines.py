"""This module renders the journal: one line for each edit, and one edit with its values before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby, islice
from typing import NamedTuple

from textual.content import Content

from store.edits.diff import (
    ColumnDiff,
    diff_foreign_rows,
    diff_own_rows,
    find_summary_texts,
    list_added_and_removed_rows,
    list_locators,
)
from store.edits.wording import column_label, edit_label, edit_subject, readable_value, row_label
from store.model.knowledge import Edit, EditLabels
from store.text.sanitize import cell_width, one_line
from tui.render import glyphs
from tui.render.line_diff import ADDED, REMOVED, render_text_diff
from tui.render.styles import (
    FAINT,
    MUTED,
    STRONG,
    StyledText,
    build_content,
    fill_cells,
    format_age,
    format_count,
    format_moment,
    share_room,
)
from tui.render.viewport import RenderedLine

MAX_TEXT_CHARACTERS = 300
"""Limits the subject of an edit and the names of its sessions."""

MAX_NAMED = 5
MAX_CHANGES = 200
MAX_SHORT_CHARACTERS = 60


class EditRow(NamedTuple):
    """Describes an edit in the list. It is small, because there may be very many."""

    id: int
    label: str
    subject: str
    sessions_label: str
    at: str
    sessions: tuple[str, ...]
    undone_by: int | None
    blanked: bool

    def matches(self, words: Sequence[str]) -> bool:
        undone = "undone" if self.undone_by is not None else ""
        text = f"{self.id} {self.label} {self.subject} {self.sessions_label} {undone}".casefold()
        return all(word in text for word in words)


def build_edit_row(edit: Edit, names: EditLabels) -> EditRow:
    session_names = ", ".join(
        one_line(names.titles.get(name, name), MAX_TEXT_CHARACTERS) for name in edit.session_ids[:MAX_NAMED]
    )
    if len(edit.session_ids) > MAX_NAMED:
        session_names += f" and {len(edit.session_ids) - MAX_NAMED:,} more"
    if edit.author:
        session_names = ", ".join(filter(None, [f"by {one_line(edit.author, MAX_SHORT_CHARACTERS)}", session_names]))
    subject, sessions = one_line(edit_subject(edit, names), MAX_TEXT_CHARACTERS), edit.session_ids[:1]
    return EditRow(edit.id, edit_label(edit), subject, session_names, edit.at, sessions, edit.undone_by, edit.blanked)


# ── the list ──────────────────────────────────────────────────────────────────────────────────────

_AGE_CELLS = 8
_GAP = "  "
_TITLES = ("edit", "change", "session", "text")


class JournalColumns(NamedTuple):
    """Holds the widths of the columns."""

    id: int = 0
    label: int = 0
    session: int = 0
    text: int = 0

    @classmethod
    def measure(cls, rows: Sequence[EditRow]) -> JournalColumns:
        """Return the widths that show every cell in full."""
        cells = (_TITLES, *((f"{row.id:,}", row.label, row.sessions_label, _describe_text(row)) for row in rows))
        return cls(*(max(map(cell_width, column)) for column in zip(*cells, strict=True)))

    def fit(self, width: int) -> JournalColumns:
        """Return the widths in a list of this width. What the sessions do not need goes to the texts."""
        room = max(width - self.id - self.label - _AGE_CELLS - 4 * len(_GAP), 0)
        session = share_room(room, self.session, self.text)
        return self._replace(session=session, text=room - session)


def render_journal_columns(widths: JournalColumns, width: int) -> Content:
    """Render the titles of the columns."""
    columns = widths.fit(width)
    number, *titles = (title.ljust(cells) for title, cells in zip(_TITLES, columns, strict=True))
    line = _GAP.join([number.strip().rjust(columns.id), *titles, ""])
    return build_content([(f"{line}{'age':>{_AGE_CELLS}}", FAINT)]).truncate(width)


def render_edit_row(row: EditRow, now: datetime, width: int, widths: JournalColumns) -> Content:
    """Render `12  fact edited  Fix the flaky upload test   Project uses FastAPI…   3d`. Undone edits are fainter.

    A session without a text uses the room of both.
    """
    columns = widths.fit(width)
    undone = row.undone_by is not None or row.blanked
    text = _describe_text(row)
    session_room = columns.session if text else columns.session + len(_GAP) + columns.text
    pieces: list[StyledText] = [
        (f"{row.id:>{columns.id},}{_GAP}", FAINT),
        (fill_cells(row.label, columns.label) + _GAP, FAINT if undone else MUTED),
        (fill_cells(row.sessions_label, session_room) + _GAP, FAINT if undone else MUTED),
        (fill_cells(text, columns.text) + _GAP if text else "", FAINT if undone else ""),
        (f"{format_age(row.at, now):>{_AGE_CELLS}}", FAINT),
    ]
    return build_content(pieces).truncate(width)


def _describe_text(row: EditRow) -> str:
    """Return the subject of an edit, after what became of the edit."""
    state = "undone" if row.undone_by is not None else "purged" if row.blanked else ""
    return " · ".join(filter(None, [state, row.subject]))


def render_journal_heading(shown: int, known: int, more: bool) -> Content:
    """Render `Journal · 12 of 340 edits`."""
    count = f"{shown:,} of {known:,}" if shown != known else f"{known:,}"
    plus = "+" if more else ""
    return build_content([("Journal", STRONG), (f" · {count}{plus} {'edit' if known == 1 else 'edits'}", MUTED)])


# ── one edit ──────────────────────────────────────────────────────────────────────────────────────


def render_edit_page(edit: Edit, names: EditLabels, later: Sequence[Edit], now: datetime) -> list[RenderedLine]:
    """Render everything about one edit: its state, its sessions, and the values before and after."""
    return [*_render_edit_state(edit, names, later, now), Content(""), *_render_changes(edit, names)]


def _render_edit_state(edit: Edit, names: EditLabels, later: Sequence[Edit], now: datetime) -> Iterator[Content]:
    yield build_content([(f"{edit.id:,} {edit_label(edit)}", STRONG), (f"   {format_moment(edit.at, now)}", MUTED)])
    for name in edit.session_ids[:MAX_NAMED]:
        yield build_content([("in ", FAINT), (one_line(names.titles.get(name, name), MAX_TEXT_CHARACTERS), MUTED)])
    if len(edit.session_ids) > MAX_NAMED:
        yield build_content([(f"and {format_count(len(edit.session_ids) - MAX_NAMED, 'more session')}", FAINT)])
    if edit.undone_by is not None:
        yield build_content([(f"Undone by edit {edit.undone_by}. Undo that edit to do this again.", "$text-warning")])
    elif later:
        yield build_content([(describe_later_edits(later), "$text-warning")])


def describe_later_edits(later: Sequence[Edit]) -> str:
    """Return a sentence that names the edits that depend on this one, e.g. `Edits 14 and 15 depend on it.`"""
    numbers = [str(edit.id) for edit in reversed(later)]
    if len(numbers) == 1:
        return f"Edit {numbers[0]} depends on it."
    named = ", ".join(numbers[:MAX_NAMED])
    rest = f" and {len(numbers) - MAX_NAMED:,} more" if len(numbers) > MAX_NAMED else ""
    return (
        f"Edits {named}{rest} depend on it."
        if rest
        else f"Edits {', '.join(numbers[:-1])} and {numbers[-1]} depend on it."
    )


def _render_changes(edit: Edit, names: EditLabels) -> Iterator[RenderedLine]:
    if edit.blanked:
        yield build_content([("Its data was purged and cannot be restored.", MUTED)])
    for locator in list_locators(edit):
        yield build_content([("in the store ", FAINT), (one_line(locator, MAX_TEXT_CHARACTERS), MUTED)])
    yield from _render_rows(diff_foreign_rows(edit), EditLabels({}, {}))
    for rows in list_added_and_removed_rows(edit):
        keys = ", ".join(rows.keys[:MAX_NAMED]) if len(rows.keys) <= MAX_NAMED else format_count(len(rows.keys), "row")
        style = ADDED if rows.sign == "+" else REMOVED
        yield build_content(
            [(f"{_sign_character(rows.sign)} {one_line(f'{rows.table}: {keys}', MAX_TEXT_CHARACTERS)}", style)]
        )
    yield from _render_summary_change(edit, names)
    yield from _render_rows((change for change in diff_own_rows(edit) if change.table != "summaries"), names)


def _render_summary_change(edit: Edit, names: EditLabels) -> Iterator[RenderedLine]:
    """Render the difference between the summaries that were current before and after the edit."""
    texts = find_summary_texts(edit, names.summaries)
    if texts is None:
        return
    yield build_content([("summary", MUTED)])
    yield from (line.indent(2) for line in render_text_diff(*texts))
    for change in edit.changes:
        is_new = change.table == "summaries" and change.before is None
        if is_new and change.after is not None and change.after.get("up_to_turn") is not None:
            yield build_content([(f"  covers turns up to {change.after['up_to_turn']}", FAINT)])


def _render_rows(changes: Iterator[ColumnDiff], names: EditLabels) -> Iterator[RenderedLine]:
    """Render the changed rows up to a limit, because an edit may have changed thousands."""
    shown = list(islice(changes, MAX_CHANGES))
    for (_, _, sign), group in groupby(shown, key=lambda change: change[:3]):
        columns = list(group)
        if label := _label_row(columns[0], names):
            style = {"+": ADDED, "-": REMOVED}.get(sign, MUTED)
            yield build_content([(f"{_sign_character(sign)} " if sign else "", style), (label, style)])
        for change in (column for column in columns if not column.is_key):
            yield from _render_column(change)
    if left := sum(1 for _ in changes):
        yield build_content([(f"… {format_count(left, 'more change')}", FAINT)])


def _label_row(change: ColumnDiff, names: EditLabels) -> str:
    """Return the name of a row, with the text of a fact. A session has none, because the page names it above."""
    is_fact = change.table == "facts" and change.key.isdecimal()
    fact_text = names.facts.get(int(change.key), "") if is_fact else ""
    label = row_label(change) + (f"  “{one_line(fact_text, MAX_SHORT_CHARACTERS)}”" if fact_text else "")
    return one_line(label, MAX_TEXT_CHARACTERS)


def _render_column(change: ColumnDiff) -> Iterator[RenderedLine]:
    """Render a short value on one line, and a longer text as a diff of its lines."""
    old, new = (readable_value(change, value) for value in (change.old, change.new))
    label = f"  {one_line(column_label(change.column), MAX_SHORT_CHARACTERS)}: "
    if len(old) + len(new) > MAX_SHORT_CHARACTERS or "\n" in old + new:
        yield build_content([(label, FAINT)])
        for line in render_text_diff(old, new):
            yield line.indent(2)
        return
    pieces: list[StyledText] = [(label, FAINT)]
    pieces += [(one_line(old), REMOVED)] if old else []
    pieces += [(" → ", FAINT)] if old and new else []
    pieces += [(one_line(new), ADDED)] if new else [(" removed", FAINT)] if not change.sign else []
    yield build_content(pieces)


def _sign_character(sign: str) -> str:
    return glyphs.REMOVED if sign == "-" else sign
