"""Foreign stores: carrying edits back into them."""

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

dry_run_option = click.option("--dry-run", is_flag=True, help="Only show the rows, before and after.")


@click.command(name="write-back")
@session_id_argument
@dry_run_option
@passphrase_stdin_option
@json_option
@with_store
def write_back(store: Store, session_id: str, dry_run: bool, passphrase_stdin: bool, as_json: bool) -> None:
    """Carry edits of a session into the store it came from."""
    session = store.sessions.find(session_id)

    run_write_back(store, lambda: store.write_back.preview(session), dry_run, passphrase_stdin, as_json)


def run_write_back(
    store: Store, look: Callable[[], WriteBackPreview], dry_run: bool, passphrase_stdin: bool, as_json: bool
) -> None:
    """Show what would be written, and write it unless this is a dry run."""

    def carry() -> tuple[WriteBackPreview, Path | None]:
        preview = look()
        return preview, None if dry_run else store.write_back.write(preview)

    preview, backup = run_with_unlock(store, carry, passphrase_stdin)
    if as_json:
        _emit_plan_json(preview, backup, dry_run)
        return
    plan = preview.plan
    for change in plan.changes:
        named = " ".join(format_value(value) for value in change.key.values())
        output.write(TerminalText(change.table, "name"), f" {named}")
        _write_columns(change.before, "- ", "bad")
        _write_columns(change.after, "+ ", "good")
    for sentence in (*plan.unsupported, *plan.conflicts):
        output.notify(sentence)
    if not plan.changes and not plan.conflicts:
        output.notify("There is nothing to write back.")
    elif backup is not None:
        kept = "the rows as they were are in" if is_url(preview.locator) else "a backup is"
        output.notify(f"{format_count(len(plan.changes), 'row')} written to {preview.locator}; {kept} {backup}.")


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
    told = {"changes": rows, "unplaced": plan.unsupported, "conflicts": plan.conflicts}
    taken = str(backup) if backup else None
    output.emit_json({"locator": preview.locator, "dry_run": dry_run, **told, "backup": taken})


def _mask_secrets(columns: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """As JSON can spell it, and without the value of a secret."""
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


def _write_columns(columns: Mapping[str, Any] | None, mark: str, style: Style) -> None:
    for name, value in (columns or {}).items():
        output.write("  ", TerminalText(f"{mark}{name}: {format_value(value)}", style))
