"""Runs a sync for the command line: shows the progress, and prints what was read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from store.cli import output
from store.cli.output import Span, TerminalText, format_count
from store.errors import Unreadable
from store.sources.kit.problem import Problem
from store.store import Store
from store.sync.refresh import sync_targets
from store.sync.saved_check import SyncCheck
from store.sync.targets import FoundStores, Progress, Report, Target, find_named_stores
from store.usage.stale import count_without_usage

if TYPE_CHECKING:
    from store.sync.child_process import ReaderProcesses

_MAX_SAID_PROBLEMS = 20
"""Limits how many problems of a store a terminal or a log gets to see."""


def run_sync(
    store: Store,
    paths: Sequence[str] = (),
    source: str | None = None,
    *,
    as_json: bool = False,
    processes: ReaderProcesses | None = None,
) -> None:
    """Sync the stores found on this machine, or those that are named, and print a report for each.

    `processes` may have been prepared to read.
    """
    with output.flush_on_exit():
        check = SyncCheck(store)
        found = find_named_stores(paths, source) if paths else FoundStores(check.find_targets(source))
        if not found.targets:
            found.raise_failures()
        reports = sync_with_progress_bar(store, found.targets, processes)
        if not paths and not source:
            check.save()
        if as_json:
            output.emit_json({"sources": [_report_to_json(report) for report in reports], **_found_to_json(found)})
        else:
            _write_reports(reports)
            _write_left_out(found)
        for path, reason in found.failures[1:]:
            output.notify(f"{path}: {reason}")
        found.raise_failures()
        raise_if_unreadable(paths, reports)


def sync_with_progress_bar(
    store: Store, targets: Sequence[Target], processes: ReaderProcesses | None = None
) -> list[Report]:
    """Sync these targets, with a progress bar if stderr is a terminal, and return one report for each."""
    reports: dict[int, Report] = {}
    with output.progress_bar("Reading") as show:
        for progress in sync_targets(store, targets, processes=processes):
            reports[id(progress.report)] = progress.report
            show(progress.done, progress.total)
        if count_without_usage(store):
            from store.usage.rederive import rederive_usage  # needed once in the life of a store

            for done, total in rederive_usage(store):
                show(done, total)
    return list(reports.values())


def follow(store: Store, source: str | None = None) -> None:
    """Sync what agents write until Ctrl+C is pressed, and print a line for every store that changed."""
    from store.sync.worker import Follower

    changed: dict[str, Report] = {}

    def note_change(progress: Progress) -> None:
        changed[progress.report.locator] = progress.report

    def print_changes(has_changed: bool) -> None:
        for report in changed.values():
            if report.new or report.updated:
                output.notify(f"{report.source}: {report.new:,} new, {report.updated:,} updated ({report.locator})")
            if has_changed:
                notify_problems(report.problems)
        changed.clear()

    output.notify("Following what agents write. Press Ctrl+C to stop.")
    follower = Follower(store, note_change, source)
    try:
        follower.run(print_changes)
    except KeyboardInterrupt:
        output.notify("Stopped.")


def raise_if_unreadable(paths: Sequence[str], reports: Sequence[Report]) -> None:
    """A named store that could not be opened at all is an error; problems inside one, or of one found, are not."""
    reasons = [problem.reason for report in reports for problem in _opening_problems(report)]
    if paths and reasons:
        raise Unreadable(reasons[0])
    for reason in reasons:
        output.notify(reason)


def _opening_problems(report: Report) -> list[Problem]:
    """Why the store could not be opened at all."""
    return [] if report.seen else [problem for problem in report.problems if problem.where == report.locator]


def _write_reports(reports: Sequence[Report]) -> None:
    print_report_table([_report_row(report) for report in reports])
    for report in reports:
        opening = _opening_problems(report)
        notify_problems([problem for problem in report.problems if problem not in opening])
    if not reports:
        output.notify("No agent histories found on this machine. Name a PATH to read from elsewhere.")


def notify_problems(problems: Sequence[Problem], before: str = "") -> None:
    """Say the first problems of a store, and how many others it has."""
    for problem in problems[:_MAX_SAID_PROBLEMS]:
        output.notify(f"{before}{problem.where}: {problem.reason}")
    if (left := len(problems) - _MAX_SAID_PROBLEMS) > 0:
        output.notify(f"{before}{format_count(left, 'more problem')}. Use --json to see them.")


def _write_left_out(found: FoundStores) -> None:
    """Say what was not looked at, and which files no source knows."""
    notify_problems(found.problems)
    if found.unclaimed:
        names, count = found.name_unclaimed(), format_count(len(found.unclaimed), "file")
        listed = ", ".join(names) + (", …" if len(found.unclaimed) > len(names) else "")
        output.notify(f"Not read, because no source recognises it: {listed} ({count}).")


def _found_to_json(found: FoundStores) -> dict[str, Any]:
    problems = [*(Problem(path, str(reason)) for path, reason in found.failures), *found.problems]
    unclaimed = {"count": len(found.unclaimed), "names": found.name_unclaimed()}
    return {"problems": _problems_to_json(problems), "unclaimed": unclaimed}


def _problems_to_json(problems: Iterable[Problem]) -> list[dict[str, str]]:
    return [{"where": problem.where, "reason": problem.reason} for problem in problems]


def _report_to_json(report: Report) -> dict[str, Any]:
    return {
        "source": report.source,
        "locator": report.locator,
        "seen": report.seen,
        "new": report.new,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "problems": _problems_to_json(report.problems),
    }


def print_report_table(rows: Sequence[Sequence[Span]]) -> None:
    output.print_table(["source", ":seen", ":new", ":updated", "where"], rows)


def _report_row(report: Report) -> list[Span]:
    counted = (f"{number:,}" for number in (report.seen, report.new, report.updated))
    return [TerminalText(report.source, "name"), *counted, report.locator]
