"""Foreign stores: reading what is new, saying what was found where."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from store import sources as known
from store.cli import printing
from store.cli.console import as_json, with_store
from store.cli.printing import Ink, Piece, age
from store.coding import decode
from store.errors import Unreadable
from store.sources.shape import Problem
from store.store import Store
from store.sync import Report, Target, targets
from store.sync import sync as run_sync


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--source", metavar="NAME", help="Only stores of this kind.")
@as_json
@with_store
def sync(store: Store, paths: Sequence[str], source: str | None, as_json: bool) -> None:
    """Read what is new: of the stores found on this machine, or of any file, folder or database URL."""
    reports = read(store, targets(paths, source))
    if as_json:
        printing.emit_json({"sources": [_report(report) for report in reports]})
    else:
        _write_reports(reports)
    refuse_unread(paths, reports)


def _write_reports(reports: Sequence[Report]) -> None:
    printing.table(["source", ":seen", ":new", ":updated", "where"], [_report_row(report) for report in reports])
    for report in reports:
        for problem in report.problems:
            if problem not in _unread(report):
                printing.say(f"{problem.where}: {problem.reason}")
    if not reports:
        printing.say("No conversations were found where the agents keep them; name a PATH to read from elsewhere.")


def _unread(report: Report) -> list[Problem]:
    """Why the store could not be opened at all."""
    return [] if report.seen else [problem for problem in report.problems if problem.where == report.locator]


def refuse_unread(paths: Sequence[str], reports: Sequence[Report]) -> None:
    """A named store that could not be opened at all is an error; problems inside one, or of one found, are not."""
    reasons = [problem.reason for report in reports for problem in _unread(report)]
    if paths and reasons:
        raise Unreadable(reasons[0])
    for reason in reasons:
        printing.say(reason)


def read(store: Store, chosen: Sequence[Target]) -> list[Report]:
    """All of it, with a bar on a terminal; each store's report once."""
    reports: dict[int, Report] = {}
    talk = sys.stderr
    with click.progressbar(range(0), length=0, label="Reading", file=talk, hidden=not talk.isatty()) as bar:
        for progress in run_sync(store, chosen):
            reports[id(progress.report)] = progress.report
            bar.length = progress.total
            bar.pos = 0
            bar.update(progress.done)
    return list(reports.values())


def _report(report: Report) -> dict[str, Any]:
    return {
        "source": report.source,
        "locator": report.locator,
        "seen": report.seen,
        "new": report.new,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "problems": [{"where": problem.where, "reason": problem.reason} for problem in report.problems],
    }


def _report_row(report: Report) -> list[Piece]:
    counted = (f"{number:,}" for number in (report.seen, report.new, report.updated))
    return [Ink(report.source, "name"), *counted, report.locator]


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
        printing.emit_json({"sources": [_source(store, *row) for row in rows]})
        return
    labels = {source.NAME: source.LABEL for source in known.ALL}
    printing.table(
        ["source", ":sessions", ":read", ":problems", "where"],
        [
            [Ink(labels.get(kind, kind), "name"), f"{sessions:,}", age(at or ""), str(len(decode(problems))), locator]
            for kind, locator, at, problems, sessions in rows
        ],
    )
    for kind, locator, _, problems, _ in rows:
        for problem in decode(problems):
            printing.say(f"{locator}: {problem['where']}: {problem['reason']}")
        for backup in store.writing_back.backups(kind, locator):
            printing.say(f"{locator}: as it was before edits were written back: {backup}")
    if not rows:
        printing.say("Nothing was read yet; `backscroll sync` looks where the agents keep their histories.")


def _source(store: Store, kind: str, locator: str, at: str | None, problems: str, sessions: int) -> dict[str, Any]:
    return {
        "source": kind,
        "locator": locator,
        "changed_at": at,
        "problems": decode(problems),
        "sessions": sessions,
        "backups": [str(backup) for backup in store.writing_back.backups(kind, locator)],
    }
