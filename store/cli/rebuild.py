"""A conversation as the input of an API, for whoever wants to go on with it there."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from store.cli import output
from store.cli.options import NON_NEGATIVE_INT, json_option, session_id_argument, with_store
from store.model.entry import Json
from store.rebuild import API_FORMATS, ApiFormat, RebuildResult, rebuild_session
from store.store import Store
from store.text.validate import serialize


@click.command()
@session_id_argument
@click.option("--as", "shape", type=click.Choice(API_FORMATS), required=True, help="The API whose input it is to be.")
@click.option("--turn", type=NON_NEGATIVE_INT, help="Only up to the end of this turn.")
@click.option("--no-summary", is_flag=True, help="Everything that was said, where a summary would stand for it.")
@click.option("--report", type=click.Path(path_type=Path), help="Where to say what was kept, mapped and dropped.")
@json_option
@with_store
def rebuild(
    store: Store,
    session_id: str,
    shape: ApiFormat,
    turn: int | None,
    no_summary: bool,
    report: Path | None,
    as_json: bool,
) -> None:
    """Print a conversation as the input of an API, and say what of it could not be carried.

    Calls without a result are closed, and results without a call are left out: no API would take it otherwise.
    """
    made = rebuild_session(store, store.sessions.find(session_id), shape, turn=turn, with_summary=not no_summary)
    if report is not None:
        report.write_text(
            "".join(f"{line}\n" for line in _report_lines(made)), encoding="utf-8", errors="backslashreplace"
        )
    if as_json:
        output.emit_json(asdict(made))
        return
    _print_body(made.body)
    if report is None:
        for line in _report_lines(made):
            output.notify(line)


def _print_body(body: dict[str, Json]) -> None:
    """The input alone, since an API refuses what it does not know. Laid out for the eye on a terminal."""
    if output.stdout_is_terminal():
        output.write(json.dumps(body, indent=2, ensure_ascii=False))
    else:
        output.write(serialize(body).decode())


def _report_lines(made: RebuildResult) -> list[str]:
    kept = [f"{one.how}: {one.count:,} × {one.field}" + (f" ({one.why})" if one.why else "") for one in made.carried]
    return [*kept, *(f"mended: {fault}" for fault in made.mended)]
