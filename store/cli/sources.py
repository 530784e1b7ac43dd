"""This module defines the command `sources`, which lists the stores that were read."""

from __future__ import annotations

from typing import Any

import click

from store.cli import output
from store.cli.options import json_option, with_store
from store.cli.output import TerminalText, format_age
from store.cli.sync_runner import notify_problems
from store.model.session import Session
from store.sources import all_sources, source_label
from store.sources.contract import Problem, Source
from store.store import Store
from store.text.validate import decode

_SELECT_SOURCES = """
    select kind, locator, changed_at, problems,
        (select count(*) from sessions where source_key = sources.key and relation is not 'superseded')
    from sources order by kind, locator
"""


@click.command()
@click.option("--all", "show_all", is_flag=True, help="List every source that Backscroll can read.")
@json_option
@with_store
def sources(store: Store, show_all: bool, as_json: bool) -> None:
    """List the stores that were read, and their problems."""
    if show_all:
        _print_kinds(as_json)
    else:
        _print_stores(store, as_json)


def _print_kinds(as_json: bool) -> None:
    kinds = [_kind_to_json(source) for source in all_sources()]
    if as_json:
        output.emit_json({"sources": kinds})
        return
    output.print_table(
        ["name", "source", "resume", "fork", "write back", "where"],
        [
            [
                kind["source"],
                TerminalText(kind["label"], "name"),
                kind["resume"] or "",
                "yes" if kind["fork"] else "",
                "yes" if kind["write_back"] else "",
                kind["where"],
            ]
            for kind in kinds
        ],
    )


def _kind_to_json(source: Source) -> dict[str, Any]:
    """Describe a kind of store. The commands are those for a session with the id `ID`."""
    session = Session._make([""] * len(Session._fields))._replace(source=source.name, native_id="ID")
    command = source.resume(session)
    return {
        "source": source.name,
        "label": source.label,
        "where": source.describe_home(),
        "resume": " ".join(command.argv) if command.argv else None,
        "fork": source.writes_forks or command.fork_argv is not None,
        "write_back": source.can_write_back,
    }


def _print_stores(store: Store, as_json: bool) -> None:
    rows = store.rows(_SELECT_SOURCES)
    if as_json:
        output.emit_json({"sources": [_source_to_json(store, *row) for row in rows]})
        return
    output.print_table(
        ["source", ":sessions", ":read", ":problems", "where"],
        [
            [
                TerminalText(source_label(kind), "name"),
                f"{sessions:,}",
                format_age(changed_at or ""),
                str(len(decode(problems))),
                locator,
            ]
            for kind, locator, changed_at, problems, sessions in rows
        ],
    )
    for kind, locator, _, problems, _ in rows:
        notify_problems([Problem(**problem) for problem in decode(problems)], f"{locator}: ")
        for backup in store.write_back.list_backups(kind, locator):
            output.notify(f"{locator}: backup from before a write-back: {backup}")
    if not rows:
        output.notify("Nothing read yet. Run `backscroll sync` to read the agents' histories.")


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
