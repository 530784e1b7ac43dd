"""This module defines the commands `log` and `undo`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import click

from store.cli import json_output, output
from store.cli.options import (
    NON_NEGATIVE_INT,
    POSITIVE_INT,
    json_option,
    optional_session_argument,
    with_store,
)
from store.cli.output import Span, TerminalText, format_age, format_count
from store.cli.secrets import passphrase_stdin_option, run_with_unlock
from store.edits.diff import ColumnDiff, diff_foreign_rows, diff_own_rows, list_added_and_removed_rows, list_locators
from store.edits.labels import label_edits
from store.edits.wording import column_label, edit_label, readable_value, report_undo, row_label
from store.model.knowledge import Edit
from store.store import Store
from store.text.sentences import tidy_sentences

_MAX_NAMED_ROWS = 3
"""Limits how many added or removed rows of a foreign table are named; beyond it, only their number is shown."""


@click.command()
@optional_session_argument
@click.option("--limit", type=POSITIVE_INT, metavar="N", default=20, show_default=True, help="Show at most N edits.")
@json_option
@with_store
def log(store: Store, session_id: str | None, limit: int, as_json: bool) -> None:
    """List edits, newest first.

    With an ID, list only the edits of that session.
    """
    session = store.sessions.find(session_id).key if session_id else None
    edits = store.journal.list_edits(session, limit=limit)
    if as_json:
        output.emit_json({"log": [json_output.edit_to_json(edit) for edit in edits]})
        return
    write_edits(edits)
    if not edits:
        output.notify("No edits yet.")


@click.command()
@click.argument("edit", type=NON_NEGATIVE_INT, required=False)
@click.option("--with-later", is_flag=True, help="First undo the later edits that depend on it.")
@passphrase_stdin_option
@with_store
def undo(store: Store, edit: int | None, with_later: bool, passphrase_stdin: bool) -> None:
    """Undo an edit.

    EDIT is its number in `log`. Without it, undo the newest edit.
    """
    if with_later and edit is None:
        raise click.UsageError("--with-later needs the number of an EDIT.")

    def undo_edits() -> list[Edit]:
        if edit is None or not with_later:
            return [store.journal.undo(edit)]
        return store.journal.undo_all([edit, *(later.id for later in store.journal.list_dependent_edits(edit))])

    for undone in run_with_unlock(store, undo_edits, passphrase_stdin):
        output.notify(tidy_sentences(report_undo(undone, label_edits(store, [undone]))))
        if undone.is_redaction:
            _follow_undone_redaction(store)


def _follow_undone_redaction(store: Store) -> None:
    """Name the files that could not be restored, and read the others again."""
    from store.sync.refresh import sync_known_stores

    for redaction in store.leaks.redactions.list_unfinished():
        for place in redaction.left:
            output.notify(f"Not restored yet: {place.path}. {place.problem} Run `backscroll leaks redact` to continue.")
    sync_known_stores(store)


def write_edits(edits: list[Edit]) -> None:
    for edit in edits:
        output.write(*_format_headline(edit))
        own_changes = (line for change in diff_own_rows(edit) for line in _format_change(change))
        for line in [*_format_write_back(edit), *own_changes]:
            output.write("    ", *line)


def _format_headline(edit: Edit) -> list[Span]:
    pieces: list[Span] = [
        TerminalText(str(edit.id), "name"),
        "  ",
        TerminalText(edit_label(edit), "title"),
        TerminalText("  " + format_age(edit.at), "quiet"),
    ]
    if edit.session_ids:
        pieces.append("  " + output.to_one_line(", ".join(edit.session_ids)))
    if edit.author:
        pieces.append(f"  by {output.to_one_line(edit.author)}")
    if edit.undone_by is not None:
        pieces.append(TerminalText(f"  undone by {edit.undone_by}", "quiet"))
    if edit.blanked:
        pieces.append(TerminalText("  purged", "quiet"))
    return pieces


# ── before and after ──────────────────────────────────────────────────────────────────────────────


def _format_change(change: ColumnDiff) -> Iterator[list[Span]]:
    """Format a short value on one line, and text with line breaks as a diff."""
    row = " ".join(filter(None, [change.sign, row_label(change)]))
    if change.is_key:
        yield [TerminalText(row, "quiet")]
        return
    label = TerminalText(f"{', '.join(filter(None, [row, column_label(change.column)]))}: ", "quiet")
    old, new = (readable_value(change, value) for value in (change.old, change.new))
    if "\n" in old or "\n" in new:
        yield [label]
        yield from _format_unified_diff(old, new)
    else:
        yield [label, *_format_inline_change(old, new)]


def _format_write_back(edit: Edit) -> Iterator[list[Span]]:
    """Format a write-back: the foreign store, the changed columns, and the added and removed rows."""
    for locator in list_locators(edit):
        yield [TerminalText(f"in {output.to_one_line(locator)}", "quiet")]
    for change in diff_foreign_rows(edit):
        yield from _format_change(change)
    for table, sign, keys in list_added_and_removed_rows(edit):
        rows = f": {format_count(len(keys), 'row')}" if len(keys) > _MAX_NAMED_ROWS else f" {', '.join(keys)}"
        yield [TerminalText(f"{sign} {table}{rows}", "good" if sign == "+" else "bad")]


def _format_inline_change(old: str, new: str) -> list[Span]:
    arrow: list[Span] = [" → "] if old and new else []
    return [*([TerminalText(old, "bad")] if old else []), *arrow, *([TerminalText(new, "good")] if new else [])]


def _format_unified_diff(old: str, new: str) -> Iterator[list[Span]]:
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), n=1, lineterm=""):
        if line.startswith(("---", "+++", "@@")):
            continue
        yield [TerminalText(line, "good" if line[0] == "+" else "bad" if line[0] == "-" else "quiet")]
