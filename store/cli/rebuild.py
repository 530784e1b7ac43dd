"""This module defines the command `rebuild`."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import click

from store.cli import output
from store.cli.options import NON_NEGATIVE_INT, json_option, session_id_argument, with_store
from store.cli.sharing.leak_options import (
    allow_leaks_option,
    choose_policy,
    passphrase_stdin_option,
    redact_option,
    run_gated,
)
from store.export.checked import check_body
from store.export.writing import create_file
from store.model.entry import Json
from store.rebuild import API_FORMATS, ApiFormat, RebuildResult, rebuild_session
from store.store import Store
from store.text.validate import serialize


@click.command()
@session_id_argument
@click.option("--as", "shape", type=click.Choice(API_FORMATS), required=True, help="The API to print the input for.")
@click.option("--turn", type=NON_NEGATIVE_INT, metavar="N", help="Stop after turn N.")
@click.option("--no-summary", is_flag=True, help="Print all entries instead of a summary of them.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    help="Write what was kept, mapped, added, dropped and repaired to PATH.",
)
@click.option(
    "-o", "--output", "path", type=click.Path(path_type=Path), metavar="FILE", help="Write the input to a new file."
)
@redact_option
@allow_leaks_option
@passphrase_stdin_option
@json_option
@with_store
def rebuild(
    store: Store,
    session_id: str,
    shape: ApiFormat,
    turn: int | None,
    no_summary: bool,
    report: Path | None,
    path: Path | None,
    redact: bool,
    allow_leaks: bool,
    passphrase_stdin: bool,
    as_json: bool,
) -> None:
    """Print a conversation as the input of a model API.

    What was kept, mapped, added, dropped and repaired is printed on stderr. A tool call without a result gets one, and
    a result without a call is left out, because APIs reject them. A file with certain leaks is not written, unless you
    choose --redact or --allow-leaks.
    """
    policy = choose_policy(redact, allow_leaks)
    result = rebuild_session(store, store.sessions.find(session_id), shape, turn=turn, with_summary=not no_summary)
    if report is not None:
        report.write_text(
            "".join(f"{line}\n" for line in _report_lines(result)), encoding="utf-8", errors="backslashreplace"
        )
    if path is not None or redact:
        body = result.body
        result = replace(result, body=run_gated(store, lambda: check_body(store, body, policy), passphrase_stdin))
    if path is not None:
        with create_file(path, replace=False) as file:
            file.write(serialize(result.body) + b"\n")
    if as_json:
        output.emit_json(asdict(result))
        return
    if path is None:
        _print_body(result.body)
    if report is None:
        for line in _report_lines(result):
            output.notify(line)


def _print_body(body: dict[str, Json]) -> None:
    """Print only the input, since an API rejects unknown fields. Indent it on a terminal."""
    if output.stdout_is_terminal():
        output.write(json.dumps(body, indent=2, ensure_ascii=False))
    else:
        output.write(serialize(body).decode())


def _report_lines(result: RebuildResult) -> list[str]:
    fields = [
        f"{field.how}: {field.count:,} × {field.field}" + (f" ({field.why})" if field.why else "")
        for field in result.carried
    ]
    return [*fields, *(f"repaired: {fault}" for fault in result.mended)]
