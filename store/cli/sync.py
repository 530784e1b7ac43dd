"""Foreign stores: reading what is new, saying what was found where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from store import sources as known
from store.cli import output
from store.cli.options import json_option, with_store
from store.cli.output import TerminalText, format_age
from store.cli.sync_runner import run_sync
from store.store import Store
from store.text.validate import decode


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--source", metavar="NAME", help="Only stores of this kind.")
@json_option
@with_store
def sync(store: Store, paths: Sequence[str], source: str | None, as_json: bool) -> None:
    """Read what is new: of the stores found on this machine, or of any file, folder or database URL."""
    run_sync(store, paths, source, as_json=as_json)


@click.command()
@json_option
@with_store
def sources(store: Store, as_json: bool) -> None:
    """What was found where, when it last changed, what went wrong."""
    rows = store.rows(
        """
        select kind, locator, changed_at, problems,
            (select count(*) from sessions where source_key = sources.key and relation is not 'superseded')
        from sources order by kind, locator
        """
    )
    if as_json:
        output.emit_json({"sources": [_source_to_json(store, *row) for row in rows]})
        return
    labels = {source.NAME: source.LABEL for source in known.ALL}
    output.print_table(
        ["source", ":sessions", ":read", ":problems", "where"],
        [
            [
                TerminalText(labels.get(kind, kind), "name"),
                f"{sessions:,}",
                format_age(at or ""),
                str(len(decode(problems))),
                locator,
            ]
            for kind, locator, at, problems, sessions in rows
        ],
    )
    for kind, locator, _, problems, _ in rows:
        for problem in decode(problems):
            output.notify(f"{locator}: {problem['where']}: {problem['reason']}")
        for backup in store.write_back.list_backups(kind, locator):
            output.notify(f"{locator}: as it was before edits were written back: {backup}")
    if not rows:
        output.notify("Nothing was read yet; `backscroll sync` looks where the agents keep their histories.")


def _source_to_json(
    store: Store, kind: str, locator: str, at: str | None, problems: str, sessions: int
) -> dict[str, Any]:
    return {
        "source": kind,
        "locator": locator,
        "changed_at": at,
        "problems": decode(problems),
        "sessions": sessions,
        "backups": [str(backup) for backup in store.write_back.list_backups(kind, locator)],
    }
