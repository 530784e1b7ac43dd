"""Foreign stores: reading what is new, saying what was found where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from store import sources as known
from store.cli import output
from store.cli.options import as_json, with_store
from store.cli.output import Ink, age
from store.cli.sync_runner import refresh
from store.store import Store
from store.text.validate import decode


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--source", metavar="NAME", help="Only stores of this kind.")
@as_json
@with_store
def sync(store: Store, paths: Sequence[str], source: str | None, as_json: bool) -> None:
    """Read what is new: of the stores found on this machine, or of any file, folder or database URL."""
    refresh(store, paths, source, as_json=as_json)


@click.command()
@as_json
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
        output.emit_json({"sources": [_source(store, *row) for row in rows]})
        return
    labels = {source.NAME: source.LABEL for source in known.ALL}
    output.table(
        ["source", ":sessions", ":read", ":problems", "where"],
        [
            [Ink(labels.get(kind, kind), "name"), f"{sessions:,}", age(at or ""), str(len(decode(problems))), locator]
            for kind, locator, at, problems, sessions in rows
        ],
    )
    for kind, locator, _, problems, _ in rows:
        for problem in decode(problems):
            output.say(f"{locator}: {problem['where']}: {problem['reason']}")
        for backup in store.writing_back.backups(kind, locator):
            output.say(f"{locator}: as it was before edits were written back: {backup}")
    if not rows:
        output.say("Nothing was read yet; `backscroll sync` looks where the agents keep their histories.")


def _source(store: Store, kind: str, locator: str, at: str | None, problems: str, sessions: int) -> dict[str, Any]:
    return {
        "source": kind,
        "locator": locator,
        "changed_at": at,
        "problems": decode(problems),
        "sessions": sessions,
        "backups": [str(backup) for backup in store.writing_back.backups(kind, locator)],
    }
