"""The journal: what was changed, from what to what, and taking it back."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import click

from store.cli import json_output, output
from store.cli.options import COUNT, NUMBER, as_json, with_store
from store.cli.output import Ink, Piece, age, count
from store.cli.secrets import opening_if_needed, passphrase_on_stdin
from store.edits.diff import ColumnChange, foreign_changes, locators, moved_rows, own_changes
from store.model.knowledge import Edit
from store.store import Store

_NAMED = 3
"""Of more rows that came or went in a table of another program's, only their number is told."""


@click.command()
@click.argument("session_id", metavar="[ID]", required=False)
@click.option("--limit", type=COUNT, default=20, show_default=True, help="At most so many.")
@as_json
@with_store
def log(store: Store, session_id: str | None, limit: int, as_json: bool) -> None:
    """Edits, newest first, of one session or of all."""
    session = store.sessions.find(session_id).key if session_id else None
    edits = store.journal.newest(session, limit=limit)
    if as_json:
        output.emit_json({"log": [json_output.edit(edit) for edit in edits]})
        return
    write_edits(edits)
    if not edits:
        output.say("Nothing was edited yet.")


@click.command()
@click.argument("edit", type=NUMBER, required=False)
@click.option("--with-later", is_flag=True, help="Before it, take back the later edits that build on it.")
@passphrase_on_stdin
@with_store
def undo(store: Store, edit: int | None, with_later: bool, passphrase_stdin: bool) -> None:
    """Take back an EDIT, or the newest that still stands."""
    if with_later and edit is None:
        raise click.UsageError("--with-later needs the number of an edit.")

    def take_back() -> list[Edit]:
        if edit is None or not with_later:
            return [store.journal.undo(edit)]
        return store.journal.undo_together([edit, *(later.id for later in store.journal.building_on(edit))])

    for undone in opening_if_needed(store, take_back, passphrase_stdin):
        output.say(f"Edit {undone.id} ({undone.kind}) is undone.")


def write_edits(edits: list[Edit]) -> None:
    for edit in edits:
        output.write(*_headline(edit))
        ours = (line for change in own_changes(edit) for line in _difference(change))
        for line in [*_written_back(edit), *ours]:
            output.write("    ", *line)


def _headline(edit: Edit) -> list[Piece]:
    kind = f"{edit.kind} {edit.undoes}" if edit.undoes is not None else edit.kind
    pieces: list[Piece] = [Ink(str(edit.id), "name"), "  ", Ink(kind, "title"), Ink("  " + age(edit.at), "quiet")]
    if edit.session_ids:
        pieces.append("  " + output.flat(", ".join(edit.session_ids)))
    if edit.undone_by is not None:
        pieces.append(Ink(f"  undone by {edit.undone_by}", "quiet"))
    if edit.blanked:
        pieces.append(Ink("  purged", "quiet"))
    return pieces


# ── before and after ──────────────────────────────────────────────────────────────────────────────


def _difference(change: ColumnChange) -> Iterator[list[Piece]]:
    """A short value on one line, a long text as a difference of its lines."""
    label = Ink(f"{_row(change)}{change.column}: ", "quiet")
    if "\n" in change.old or "\n" in change.new:
        yield [label]
        yield from _line_by_line(change.old, change.new)
    else:
        yield [label, *_arrow(change.old, change.new)]


def _row(change: ColumnChange) -> str:
    """Which row it was, if it is not the session's own."""
    if change.table == "sessions":
        return ""
    return " ".join(filter(None, [change.sign, change.table, change.key])) + " "


def _written_back(edit: Edit) -> Iterator[list[Piece]]:
    """Rows of a foreign store: where it is, what changed in them, and which came or went."""
    for locator in locators(edit):
        yield [Ink(f"in {output.flat(locator)}", "quiet")]
    for change in foreign_changes(edit):
        yield from _difference(change)
    for table, sign, keys in moved_rows(edit):
        told = f": {count(len(keys), 'row')}" if len(keys) > _NAMED else f" {', '.join(keys)}"
        yield [Ink(f"{sign} {table}{told}", "good" if sign == "+" else "bad")]


def _arrow(old: str, new: str) -> list[Piece]:
    both: list[Piece] = [" → "] if old and new else []
    return [*([Ink(old, "bad")] if old else []), *both, *([Ink(new, "good")] if new else [])]


def _line_by_line(old: str, new: str) -> Iterator[list[Piece]]:
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), n=1, lineterm=""):
        if line.startswith(("---", "+++", "@@")):
            continue
        yield [Ink(line, "good" if line[0] == "+" else "bad" if line[0] == "-" else "quiet")]
