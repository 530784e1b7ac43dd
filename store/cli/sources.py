"""This module defines the command `sources`, which lists the stores that were read."""

from __future__ import annotations

from typing import Any

import click

from store.cli import output
from store.cli.options import json_option, with_store
from store.cli.output import TerminalText, format_age
from store.sources import ALL as ALL_SOURCES
from store.store import Store
from store.text.validate import decode

_SELECT_SOURCES = """
    select kind, locator, changed_at, problems,
        (select count(*) from sessions where source_key = sources.key and relation is not 'superseded')
    from sources order by kind, locator
"""


@click.command()
@json_option
@with_store
def sources(store: Store, as_json: bool) -> None:
    """List the stores that were read, and their problems."""
    rows = store.rows(_SELECT_SOURCES)
    if as_json:
        output.emit_json({"sources": [_source_to_json(store, *row) for row in rows]})
        return
    labels = {source.NAME: source.LABEL for source in ALL_SOURCES}
    output.print_table(
        ["source", ":sessions", ":read", ":problems", "where"],
        [
            [
                TerminalText(labels.get(kind, kind), "name"),
                f"{sessions:,}",
                format_age(changed_at or ""),
                str(len(decode(problems))),
                locator,
            ]
            for kind, locator, changed_at, problems, sessions in rows
        ],
    )
    for kind, locator, _, problems, _ in rows:
        for problem in decode(problems):
            output.notify(f"{locator}: {problem['where']}: {problem['reason']}")
        for backup in store.write_back.list_backups(kind, locator):
            output.notify(f"{locator}: backup from before edits were written back: {backup}")
    if not rows:
        output.notify("Nothing read yet; run `backscroll sync` to read the agents' histories.")


def _source_to_json(
    store: Store, kind: str, locator: str, changed_at: str | None, problems: str, sessions: int
) -> dict[str, Any]:
    return {
        "source": kind,
        "locator": locator,
        "changed_at": changed_at,
        "problems": decode(problems),
        "sessions": sessions,
        "backups": [str(backup) for backup in store.write_back.list_backups(kind, locator)],
    }
