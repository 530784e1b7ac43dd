"""This module defines the command `export`, which writes conversations to files."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from store.cli import output
from store.cli.options import find_sessions, json_option, session_ids_argument, with_store
from store.cli.output import TerminalText, format_count
from store.cli.sharing.leak_options import (
    allow_leaks_option,
    choose_policy,
    passphrase_stdin_option,
    redact_option,
    run_gated,
)
from store.errors import BadValue
from store.export.options import EXPORT_FORMATS, ExportFormat, ExportOptions, parse_turns
from store.export.verification import StoreComparison, Verification, verify_file
from store.export.writing import WrittenExport, export_to_file, export_to_folder, export_to_stream, suggest_name
from store.model.session import Session
from store.store import Store


@click.command()
@session_ids_argument
@click.option("--as", "shape", type=click.Choice(EXPORT_FORMATS), required=True, help="The format to write.")
@click.option("--turns", metavar="A-B", help="Export only turns A to B. Turn 0 is before the first prompt.")
@click.option("--no-tools", is_flag=True, help="Leave out tool calls, their results and sub-agents.")
@click.option("--no-thinking", is_flag=True, help="Leave out the thinking of models.")
@click.option(
    "-o", "--output", "path", type=click.Path(path_type=Path), metavar="PATH", help="Write to this file or folder."
)
@redact_option
@allow_leaks_option
@passphrase_stdin_option
@click.option("--force", is_flag=True, help="Replace files that exist.")
@json_option
@with_store
def export(
    store: Store,
    session_ids: tuple[str, ...],
    shape: ExportFormat,
    turns: str | None,
    no_tools: bool,
    no_thinking: bool,
    redact: bool,
    allow_leaks: bool,
    passphrase_stdin: bool,
    path: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write a conversation as a document: Markdown, HTML, JSON, ATIF, or the original records.

    Without -o, one session is printed. Several sessions are written to a folder, with an index. A document ends with a
    receipt, which `backscroll verify` checks. `backscroll sync FILE` reads the JSON back. Nothing is written if there
    are certain leaks, unless you choose --redact or --allow-leaks.
    """
    sessions = find_sessions(store, session_ids)
    options = ExportOptions(
        shape,
        _parse_turns(turns),
        tools=not no_tools,
        thinking=not no_thinking,
        leaks=choose_policy(redact, allow_leaks),
    )
    for session in sessions:
        if session.depth == "text":
            output.notify(f"{session.id} is not completely read yet. Run `backscroll sync`.")
    if path is None:
        if len(sessions) > 1 or as_json:
            raise click.UsageError("Name a file or folder with -o.")
        output.flush()
        run_gated(store, lambda: export_to_stream(store, sessions[0], options, sys.stdout.buffer), passphrase_stdin)
        return
    target = path
    written = run_gated(store, lambda: _write(store, sessions, options, target, force), passphrase_stdin)
    if as_json:
        output.emit_json({"exports": [_export_to_json(export) for export in written]})
    else:
        output.notify(f"Wrote {format_count(len(written), 'session')} to {path}.")


def _parse_turns(text: str | None) -> tuple[int, int] | None:
    try:
        return parse_turns(text) if text is not None else None
    except BadValue as error:
        raise click.UsageError(str(error)) from None


def _write(
    store: Store, sessions: list[Session], options: ExportOptions, path: Path, force: bool
) -> list[WrittenExport]:
    if len(sessions) > 1:
        return export_to_folder(store, sessions, options, path, replace=force)
    if path.is_dir():
        path /= suggest_name(store, sessions[0], options)
    return [export_to_file(store, sessions[0], options, path, replace=force)]


def _export_to_json(export: WrittenExport) -> dict[str, object]:
    return {"session": export.session_id, "path": str(export.path), "bytes": export.size, "receipt": export.receipt}


# ── checking ──────────────────────────────────────────────────────────────────────────────────────

_COMPARISONS: dict[StoreComparison, str] = {
    "same": "It is a true excerpt of the session in the store.",
    "heading": "The conversation is that of the store, but title, tags, notes or summary differ.",
    "text": "Its text differs from the session in the store.",
    "records": "The store has other records of this session.",
    "redacted": "The store has other records of this session: leaked values were redacted or restored since.",
    "missing": "The store does not have this session.",
    "unknown": "Its receipt does not say what it was made from.",
}


@click.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@passphrase_stdin_option
@json_option
@with_store
def verify(store: Store, paths: tuple[Path, ...], passphrase_stdin: bool, as_json: bool) -> None:
    """Check exported files by their receipts.

    Says whether a file is unchanged, and whether it is a true excerpt of the session, if the store has that. The exit
    status is 1 if a file fails.
    """
    results = run_gated(store, lambda: [verify_file(store, path) for path in paths], passphrase_stdin)
    if as_json:
        output.emit_json({"files": [_verification_to_json(result) for result in results]})
    else:
        for result in results:
            output.write(TerminalText(output.to_one_line(str(result.path)), "name"), f"  {_describe(result)}")
    if not all(result.is_good for result in results):
        raise click.exceptions.Exit(1)


def _describe(result: Verification) -> str:
    if result.receipt is None:
        return "No receipt: it is not an export, or the receipt was removed."
    return f"{'Unchanged.' if result.unchanged else 'Changed after the export.'} {_COMPARISONS[result.comparison]}"


def _verification_to_json(result: Verification) -> dict[str, object]:
    return {
        "path": str(result.path),
        "receipt": result.receipt,
        "unchanged": result.unchanged,
        "comparison": result.comparison,
        "ok": result.is_good,
    }
