"""Foreign stores: carrying edits back into them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import click

from store.cli import output
from store.cli.options import as_json, session_id, with_store
from store.cli.output import Ink, Style, count
from store.cli.secrets import opening_if_needed, passphrase_on_stdin
from store.sources.kit.locator import is_url
from store.sources.kit.write_plan import MASK, SecretText, spelled
from store.store import Store
from store.write_back.service import Preview

rows_only = click.option("--dry-run", is_flag=True, help="Only show the rows, before and after.")


@click.command(name="write-back")
@session_id
@rows_only
@passphrase_on_stdin
@as_json
@with_store
def write_back(store: Store, session_id: str, dry_run: bool, passphrase_stdin: bool, as_json: bool) -> None:
    """Carry edits of a session into the store it came from."""
    session = store.sessions.find(session_id)

    carry_back(store, lambda: store.writing_back.preview(session), dry_run, passphrase_stdin, as_json)


def carry_back(store: Store, look: Callable[[], Preview], dry_run: bool, passphrase_stdin: bool, as_json: bool) -> None:
    """Show what would be written, and write it unless this is a dry run."""

    def carry() -> tuple[Preview, Path | None]:
        preview = look()
        return preview, None if dry_run else store.writing_back.write(preview)

    preview, backup = opening_if_needed(store, carry, passphrase_stdin)
    if as_json:
        _emit_plan(preview, backup, dry_run)
        return
    plan = preview.plan
    for change in plan.changes:
        named = " ".join(spelled(value) for value in change.key.values())
        output.write(Ink(change.table, "name"), f" {named}")
        _write_side(change.before, "- ", "bad")
        _write_side(change.after, "+ ", "good")
    for sentence in (*plan.unplaced, *plan.conflicts):
        output.say(sentence)
    if not plan.changes and not plan.conflicts:
        output.say("There is nothing to write back.")
    elif backup is not None:
        kept = "the rows as they were are in" if is_url(preview.locator) else "a backup is"
        output.say(f"{count(len(plan.changes), 'row')} written to {preview.locator}; {kept} {backup}.")


def _emit_plan(preview: Preview, backup: Path | None, dry_run: bool) -> None:
    plan = preview.plan
    rows = [
        {
            "table": change.table,
            "key": _masked(change.key),
            "before": _masked(change.before),
            "after": _masked(change.after),
        }
        for change in plan.changes
    ]
    told = {"changes": rows, "unplaced": plan.unplaced, "conflicts": plan.conflicts}
    taken = str(backup) if backup else None
    output.emit_json({"locator": preview.locator, "dry_run": dry_run, **told, "backup": taken})


def _masked(columns: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """As JSON can spell it, and without the value of a secret."""
    if columns is None:
        return None
    return {name: _in_json(value) for name, value in columns.items()}


def _in_json(value: Any) -> Any:
    match value:
        case SecretText():
            return MASK
        case bytes():
            return {"$base64": base64.b64encode(value).decode()}
        case float() if not isfinite(value):
            return str(value)
    return value


def _write_side(columns: Mapping[str, Any] | None, mark: str, style: Style) -> None:
    for name, value in (columns or {}).items():
        output.write("  ", Ink(f"{mark}{name}: {spelled(value)}", style))
