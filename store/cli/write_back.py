"""This module defines the command `write-back`, and runs write-backs for `facts write-back`."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import click

from store.cli import output
from store.cli.options import json_option, session_id_argument, with_store
from store.cli.output import Style, TerminalText, format_count
from store.cli.secrets import passphrase_stdin_option, run_with_unlock
from store.sources.kit.locator import is_url
from store.sources.kit.write_plan import MASK, SecretText, format_value
from store.store import Store
from store.write_back.service import WriteBackPreview

dry_run_option = click.option("--dry-run", is_flag=True, help="Only show the rows that would change.")


@click.command(name="write-back")
@session_id_argument
@dry_run_option
@passphrase_stdin_option
@json_option
@with_store
def write_back(store: Store, session_id: str, dry_run: bool, passphrase_stdin: bool, as_json: bool) -> None:
    """Write edits of a session back to the store it came from.

    A backup is taken first. `backscroll undo` reverses a write-back.
    """
    session = store.sessions.find(session_id)
    run_write_back(store, lambda: store.write_back.preview(session), dry_run, passphrase_stdin, as_json)


def run_write_back(
    store: Store, build_preview: Callable[[], WriteBackPreview], dry_run: bool, passphrase_stdin: bool, as_json: bool
) -> None:
    """Show the rows that change, and write them unless this is a dry run."""

    def preview_and_write() -> tuple[WriteBackPreview, Path | None]:
        preview = build_preview()
        return preview, None if dry_run else store.write_back.write(preview)

    preview, backup = run_with_unlock(store, preview_and_write, passphrase_stdin)
    if as_json:
        _emit_plan_json(preview, backup, dry_run)
        return
    plan = preview.plan
    for change in plan.changes:
        key = " ".join(format_value(value) for value in change.key.values())
        output.write(TerminalText(change.table, "name"), f" {key}")
        _write_columns(change.before, "- ", "bad")
        _write_columns(change.after, "+ ", "good")
    for sentence in (*plan.unsupported, *plan.conflicts):
        output.notify(sentence)
    if not plan.changes and not plan.conflicts:
        output.notify("Nothing to write back.")
    elif backup is not None:
        saved = "the old rows are saved in" if is_url(preview.locator) else "the backup is"
        output.notify(f"{format_count(len(plan.changes), 'row')} written to {preview.locator}; {saved} {backup}.")


def _emit_plan_json(preview: WriteBackPreview, backup: Path | None, dry_run: bool) -> None:
    plan = preview.plan
    rows = [
        {
            "table": change.table,
            "key": _mask_secrets(change.key),
            "before": _mask_secrets(change.before),
            "after": _mask_secrets(change.after),
        }
        for change in plan.changes
    ]
    output.emit_json(
        {
            "locator": preview.locator,
            "dry_run": dry_run,
            "changes": rows,
            "unplaced": plan.unsupported,
            "conflicts": plan.conflicts,
            "backup": str(backup) if backup else None,
        }
    )


def _mask_secrets(columns: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Convert the columns of a row to JSON, with secrets masked."""
    if columns is None:
        return None
    return {name: _to_json_value(value) for name, value in columns.items()}


def _to_json_value(value: Any) -> Any:
    match value:
        case SecretText():
            return MASK
        case bytes():
            return {"$base64": base64.b64encode(value).decode()}
        case float() if not isfinite(value):
            return str(value)
    return value


def _write_columns(columns: Mapping[str, Any] | None, sign: str, style: Style) -> None:
    for name, value in (columns or {}).items():
        output.write("  ", TerminalText(f"{sign}{name}: {format_value(value)}", style))
