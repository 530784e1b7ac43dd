"""A conversation as the input of an API, for whoever wants to go on with it there."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from store.cli import output
from store.cli.options import NUMBER, as_json, session_id, with_store
from store.model.entry import Json
from store.rebuild import SHAPES, Rebuilt, Shape, rebuilt
from store.store import Store
from store.text.validate import spell


@click.command()
@session_id
@click.option("--as", "shape", type=click.Choice(SHAPES), required=True, help="The API whose input it is to be.")
@click.option("--turn", type=NUMBER, help="Only up to the end of this turn.")
@click.option("--no-summary", is_flag=True, help="Everything that was said, where a summary would stand for it.")
@click.option("--report", type=click.Path(path_type=Path), help="Where to say what was kept, mapped and dropped.")
@as_json
@with_store
def rebuild(
    store: Store,
    session_id: str,
    shape: Shape,
    turn: int | None,
    no_summary: bool,
    report: Path | None,
    as_json: bool,
) -> None:
    """Print a conversation as the input of an API, and say what of it could not be carried.

    Calls without a result are closed, and results without a call are left out: no API would take it otherwise.
    """
    made = rebuilt(store, store.sessions.find(session_id), shape, turn=turn, with_summary=not no_summary)
    if report is not None:
        report.write_text("".join(f"{line}\n" for line in _report(made)), encoding="utf-8", errors="backslashreplace")
    if as_json:
        output.emit_json(asdict(made))
        return
    _print(made.body)
    if report is None:
        for line in _report(made):
            output.say(line)


def _print(body: dict[str, Json]) -> None:
    """The input alone, since an API refuses what it does not know. Laid out for the eye on a terminal."""
    if output.on_terminal():
        output.write(json.dumps(body, indent=2, ensure_ascii=False))
    else:
        output.write(spell(body).decode())


def _report(made: Rebuilt) -> list[str]:
    kept = [f"{one.how}: {one.count:,} × {one.field}" + (f" ({one.why})" if one.why else "") for one in made.carried]
    return [*kept, *(f"mended: {fault}" for fault in made.mended)]
