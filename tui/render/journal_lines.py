"""This module renders the journal: one line for each edit, and one edit with its values before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby, islice
from typing import NamedTuple

from textual.content import Content

from store.edits.diff import (
    SEARCH_TABLE,
    ColumnDiff,
    diff_foreign_rows,
    diff_own_rows,
    find_summary_texts,
    list_added_and_removed_rows,
    list_locators,
)
from store.model.knowledge import Edit, EditLabels
from store.text.sanitize import cell_width, one_line
from tui.render import glyphs
from tui.render.line_diff import ADDED, REMOVED, render_text_diff
from tui.render.styles import FAINT, MUTED, STRONG, StyledText, build_content, format_age, format_count, format_moment
from tui.render.viewport import RenderedLine

MAX_TEXT_CHARACTERS = 300
"""Limits the subject of an edit and the names of its sessions."""

MAX_NAMED = 5
MAX_CHANGES = 200
MAX_SHORT_CHARACTERS = 60

EDIT_LABELS = {
    "title": "title changed",
    "pin": "pinned",
    "unpin": "unpinned",
    "archive": "archived",
    "unarchive": "unarchived",
    "delete": "moved to trash",
    "restore": "restored from trash",
    "fork": "forked",
    "tag": "tagged",
    "untag": "untagged",
    "note": "note added",
    "edit note": "note edited",
    "unnote": "note removed",
    "summary": "summary written",
    "learn": "fact added",
    "edit fact": "fact edited",
    "categorise fact": "fact categorised",
    "retire fact": "fact retired",
    "restore fact": "fact restored",
    "merge facts": "facts merged",
    "consolidate facts": "facts consolidated",
    "set secret": "secret set",
    "seal secret": "secret sealed",
    "remove secret": "secret deleted",
    "publish": "file published",
    "unpublish": "file unpublished",
    "meta": "value set",
    "save search": "search saved",
    "rename search": "search renamed",
    "delete search": "search deleted",
    "pin search": "search pinned",
    "unpin search": "search unpinned",
    "write-back": "written back",
    "ignore leak": "leak ignored",
    "mark leak as rotated": "leak marked as rotated",
    "reopen leak": "leak opened again",
}
"""Names the kinds of edits for people. A kind that is missing here is shown unchanged."""

_SUBJECT_COLUMNS = ("own_title", "text", "name", "filename", "content", "value", "category")
"""Lists the columns that describe an edit, the best first."""

_TABLE_LABELS = {"facts": "fact", "tags": "tag", "notes": "note", "summaries": "summary", "meta": "value"}
_COLUMN_LABELS = {
    "ignored": "reason to ignore it",
    "rotated_at": "rotated",
    "own_title": "title",
    "agent_title": "agent title",
    "up_to_turn": "covers turns up to",
    "foreign_text": "text in its agent",
    "foreign_place": "location there",
    "entry_seq": "entry",
    "retired_at": "retired",
    "current": "in use",
}
_FLAG_COLUMNS = ("pinned", "archived", "deleted", "gone", "current")


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
    subject, sessions = one_line(edit_subject(edit, names.facts), MAX_TEXT_CHARACTERS), edit.session_ids[:1]
    return EditRow(edit.id, edit_label(edit), subject, session_names, edit.at, sessions, edit.undone_by, edit.blanked)


def edit_label(edit: Edit) -> str:
    """Return what an edit did, e.g. `fact edited` or `undo of 12`."""
    if edit.undoes is not None:
        return f"undo of {edit.undoes}"
    return EDIT_LABELS.get(edit.kind) or one_line(edit.kind, MAX_SHORT_CHARACTERS)


def edit_subject(edit: Edit, facts: Mapping[int, str]) -> str:
    """Return what an edit is about: the new title, the fact or the names of the tags."""
    changes = list(islice((*diff_own_rows(edit), *diff_foreign_rows(edit)), MAX_CHANGES))
    if secrets := [change.key.rpartition(" ")[0] for change in changes if change.table == "secrets"]:
        return ", ".join(dict.fromkeys(secrets))
    if searches := list(dict.fromkeys(change.key for change in changes if change.table == SEARCH_TABLE)):
        return (" → " if edit.kind == "rename search" else ", ").join(searches)
    for column in _SUBJECT_COLUMNS:
        values = [change.new or change.old for change in changes if change.column == column]
        if values:
            return " · ".join(dict.fromkeys(values))
    fact_texts = [facts[change.key] for change in edit.changes if change.table == "facts" and change.key in facts]
    return " · ".join(dict.fromkeys(fact_texts[:MAX_CHANGES]))


def describe_edit(edit: Edit, names: EditLabels) -> str:
    """Return an edit as a phrase, e.g. `fact edited “…”, in Fix the flaky upload test` or `deleted the search @x`."""
    row = build_edit_row(edit, names)
    if row.subject and row.label.startswith("search "):
        return f"{row.label.removeprefix('search ')} the search {one_line(row.subject, MAX_SHORT_CHARACTERS)}"
    subject = f" “{one_line(row.subject, MAX_SHORT_CHARACTERS)}”" if row.subject else ""
    return f"{row.label}{subject}" + (
        f", in {one_line(row.sessions_label, MAX_SHORT_CHARACTERS)}" if row.sessions_label else ""
    )


# ── the list ──────────────────────────────────────────────────────────────────────────────────────

_ID_CELLS, _LABEL_CELLS, _AGE_CELLS = 6, 19, 8
_GAP = "  "


class _JournalColumns(NamedTuple):
    """Holds the widths of the columns that depend on the width of the list."""

    session: int
    text: int

    @classmethod
    def fit(cls, width: int) -> _JournalColumns:
        room = max(width - _ID_CELLS - _LABEL_CELLS - _AGE_CELLS - 3 * len(_GAP), 0)
        return cls(room * 2 // 5, room - room * 2 // 5)


def render_journal_columns(width: int) -> Content:
    """Render the titles of the columns."""
    columns = _JournalColumns.fit(width)
    titles = f"{'edit':>{_ID_CELLS}}{_GAP}{'change':<{_LABEL_CELLS}}{_GAP}{'session':<{columns.session}}{_GAP}"
    return build_content([(f"{titles}{'text':<{columns.text}}{'age':>{_AGE_CELLS}}", FAINT)]).truncate(width)


def render_edit_row(row: EditRow, now: datetime, width: int) -> Content:
    """Render `12  fact edited  Fix the flaky upload test   Project uses FastAPI…   3d`. Undone edits are fainter.

    A session without a text uses the room of both.
    """
    columns = _JournalColumns.fit(width)
    undone = row.undone_by is not None or row.blanked
    ending = f"undone by {row.undone_by}" if row.undone_by is not None else "purged" if row.blanked else ""
    ending = f"{_GAP}{ending}" if ending else ""
    text_room = max(columns.text - len(ending), 0)
    session_room = columns.session if row.subject else columns.session + len(_GAP) + text_room
    session = _fill(row.sessions_label, session_room)
    text = f"{_GAP}{_fill(row.subject, text_room)}" if row.subject else ""
    pieces: list[StyledText] = [
        (f"{row.id:>{_ID_CELLS},}{_GAP}", FAINT),
        (_fill(row.label, _LABEL_CELLS) + _GAP, FAINT if undone else MUTED),
        (session, FAINT if undone else MUTED),
        (text, FAINT if undone else ""),
        (ending, FAINT),
        (f"{format_age(row.at, now):>{_AGE_CELLS}}", FAINT),
    ]
    return build_content(pieces).truncate(width)


def _fill(text: str, cells: int) -> str:
    """Return a text that is exactly this wide."""
    line = one_line(text, cells) if cells else ""
    return line + " " * (cells - cell_width(line))


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
        yield build_content([(f"Undone by edit {edit.undone_by}. Undo that edit to restore it.", "$text-warning")])
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
    for (table, key, sign), columns in groupby(shown, key=lambda change: change[:3]):
        if label := _row_label(table, key, names):
            style = {"+": ADDED, "-": REMOVED}.get(sign, MUTED)
            yield build_content([(f"{_sign_character(sign)} " if sign else "", style), (label, style)])
        for change in columns:
            yield from _render_column(change)
    if left := sum(1 for _ in changes):
        yield build_content([(f"… {format_count(left, 'more change')}", FAINT)])


def _row_label(table: str, key: str, names: EditLabels) -> str:
    """Return the name of a row. A session has none, because the page names it above."""
    if table == "sessions":
        return ""
    if table == "secrets":
        name, _, version = key.rpartition(" ")
        return one_line(f"secret {name}, version {version}", MAX_TEXT_CHARACTERS)
    fact_text = names.facts.get(int(key), "") if table == "facts" and key.isdecimal() else ""
    label = f"{_TABLE_LABELS.get(table, table)} {key}" + (
        f"  “{one_line(fact_text, MAX_SHORT_CHARACTERS)}”" if fact_text else ""
    )
    return one_line(label, MAX_TEXT_CHARACTERS)


def _render_column(change: ColumnDiff) -> Iterator[RenderedLine]:
    """Render a short value on one line, and a longer text as a diff of its lines."""
    old, new = (_format_value(change.column, value) for value in (change.old, change.new))
    label = f"  {_COLUMN_LABELS.get(change.column) or one_line(change.column, MAX_SHORT_CHARACTERS)}: "
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


def _format_value(column: str, value: str) -> str:
    if column in _FLAG_COLUMNS:
        return {"0": "no", "1": "yes"}.get(value, value)
    if column == "retired_at":
        return "yes" if value else "no"
    return value


def _sign_character(sign: str) -> str:
    return glyphs.REMOVED if sign == "-" else sign
