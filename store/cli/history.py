"""The journal: what was changed, from what to what, and taking it back."""

from __future__ import annotations

import base64
import difflib
from collections.abc import Iterator
from typing import Any

import click

from store.cli import printing, shapes
from store.cli.console import COUNT, NUMBER, as_json, with_store
from store.cli.printing import Ink, Piece, age, count
from store.cli.sealing import opening_if_needed, passphrase_on_stdin
from store.coding import spell
from store.journal import FOREIGN
from store.model import Change, Edit, Json
from store.store import Store

_OF_EVERY_CHANGE = {"updated_at"}
_OF_EVERY_ROW = {"id", "key", "session", "current", "created_at", "updated_at"}
"""Columns that tell a reader of the journal nothing."""
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
        printing.emit_json({"log": [shapes.edit(edit) for edit in edits]})
        return
    write_edits(edits)
    if not edits:
        printing.say("Nothing was edited yet.")


@click.command()
@click.argument("edit", type=NUMBER, required=False)
@passphrase_on_stdin
@with_store
def undo(store: Store, edit: int | None, passphrase_stdin: bool) -> None:
    """Take back an EDIT, or the newest that still stands."""
    undone = opening_if_needed(store, lambda: store.journal.undo(edit), passphrase_stdin)
    printing.say(f"Edit {undone.id} ({undone.kind}) is undone.")


def write_edits(edits: list[Edit]) -> None:
    for edit in edits:
        printing.write(*_headline(edit))
        ours = [change for change in edit.changes if change.table != FOREIGN]
        for line in [*_written_back(edit), *(line for change in ours for line in _difference(change))]:
            printing.write("    ", *line)


def _headline(edit: Edit) -> list[Piece]:
    kind = f"{edit.kind} {edit.undoes}" if edit.undoes is not None else edit.kind
    pieces: list[Piece] = [Ink(str(edit.id), "name"), "  ", Ink(kind, "title"), Ink("  " + age(edit.at), "quiet")]
    if edit.session_ids:
        pieces.append("  " + printing.flat(", ".join(edit.session_ids)))
    if edit.undone_by is not None:
        pieces.append(Ink(f"  undone by {edit.undone_by}", "quiet"))
    if edit.blanked:
        pieces.append(Ink("  purged", "quiet"))
    return pieces


# ── before and after ──────────────────────────────────────────────────────────────────────────────


def _difference(change: Change) -> Iterator[list[Piece]]:
    """Column by column; a short value on one line, a long text as a difference of its lines."""
    before, after = change.before or {}, change.after or {}
    whole_row = change.before is None or change.after is None
    for name in dict.fromkeys([*before, *after]):
        old, new = _spelled(before.get(name)), _spelled(after.get(name))
        if old == new or name in (_OF_EVERY_ROW if whole_row else _OF_EVERY_CHANGE):
            continue
        label = Ink(f"{_row(change)}{name}: ", "quiet")
        if "\n" in old or "\n" in new:
            yield [label]
            yield from _line_by_line(old, new)
        else:
            yield [label, *_arrow(old, new)]


def _row(change: Change) -> str:
    """Which row it was, if it is not the session's own. Keys of several parts begin with the session."""
    if change.table == "sessions":
        return ""
    sign = "+ " if change.before is None else "- " if change.after is None else ""
    key = change.key[1:] if isinstance(change.key, list) else [change.key]
    return " ".join([sign + change.table, *map(str, key), ""])


def _spelled(value: Json) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case {"$secret": [_, _, version]}:
            return f"sealed version {version}"
        case {"$base64": text}:
            return f"{len(base64.b64decode(text)):,} bytes"
    return spell(value).decode()


def _written_back(edit: Edit) -> Iterator[list[Piece]]:
    """Rows of a foreign store: where it is, what changed in them, and which came or went."""
    places: list[dict[str, Any]] = [change.key for change in edit.changes if change.table == FOREIGN]
    for locator in sorted({place["locator"] for place in places}):
        yield [Ink(f"in {printing.flat(locator)}", "quiet")]
    moved: dict[str, list[str]] = {}
    for change in edit.changes:
        if change.table != FOREIGN:
            continue
        table, name = change.key["table"], " ".join(map(_spelled, change.key["key"].values()))
        if change.before is not None and change.after is not None:
            yield from _difference(Change(table, name, change.before, change.after))
        else:
            moved.setdefault(("+ " if change.before is None else "- ") + table, []).append(name)
    for table, names in moved.items():
        told = f": {count(len(names), 'row')}" if len(names) > _NAMED else f" {', '.join(names)}"
        yield [Ink(table + told, "good" if table.startswith("+") else "bad")]


def _arrow(old: str, new: str) -> list[Piece]:
    both: list[Piece] = [" → "] if old and new else []
    return [*([Ink(old, "bad")] if old else []), *both, *([Ink(new, "good")] if new else [])]


def _line_by_line(old: str, new: str) -> Iterator[list[Piece]]:
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), n=1, lineterm=""):
        if line.startswith(("---", "+++", "@@")):
            continue
        yield [Ink(line, "good" if line[0] == "+" else "bad" if line[0] == "-" else "quiet")]
