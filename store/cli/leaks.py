"""This module defines the command group `leaks`. No output of it ever contains a secret."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from store.cli import json_output, output
from store.cli.lazy_group import WordGroup
from store.cli.options import NON_NEGATIVE_INT, complete_query, json_option, with_store
from store.cli.output import Span, Style, TerminalText, format_age, format_count
from store.cli.secrets import passphrase_stdin_option, run_with_unlock
from store.model.leak import Leak, LeakPlace, NotScanned
from store.model.redaction import RedactionPlace, RedactionPreview, RedactionReport
from store.store import Store

if TYPE_CHECKING:
    from store.leaks.redaction.redactions import RedactionRun, Redactions

_MAX_NAMED = 10
"""Is how many files of one reason a terminal or a log gets to see. The JSON has them all."""

_TIER_STYLES: Mapping[str, Style] = {"certain": "bad", "likely": "hit", "possible": "quiet"}


@click.group(cls=WordGroup, default="list", default_if_no_args=True)
def leaks() -> None:
    """Find keys, tokens and passwords in conversations and in files.

    Without a command, list those in the store: `backscroll leaks [QUERY]`. No value is ever printed.
    """


@leaks.command("list")
@click.argument("words", metavar="[QUERY]...", nargs=-1, shell_complete=complete_query)
@click.option("--no-scan", is_flag=True, help="Only list what is known, without scanning what is new.")
@json_option
@with_store
def list_leaks(store: Store, words: Sequence[str], no_scan: bool, as_json: bool) -> None:
    """Scan what is not scanned yet, and list the leaks.

    With a QUERY, list only those in matching sessions. What was ignored or rotated comes last.
    """
    from store.leaks.store_scan import list_not_scanned

    scan = store.leaks.begin_scan()
    if not no_scan:
        for _ in scan.steps():
            pass
    found = store.leaks.list_leaks(" ".join(words))
    pending, not_scanned = scan.count_pending(), list_not_scanned(store)
    if as_json:
        scanned = {"texts": scan.texts, "bytes": scan.bytes, "files": scan.files, "pending_sessions": pending}
        output.emit_json(json_output.leaks_to_json(found, scanned, not_scanned, scan.limits))
        return
    _print_leaks(found)
    if not found:
        output.notify("No leaks found.")
    if pending:
        output.notify(f"Not scanned yet: {format_count(pending, 'session')}.")
    _notify_not_scanned(not_scanned)
    if scan.limits:
        output.notify(scan.limits)


@leaks.command()
@click.argument("fingerprint")
@click.option("--reason", required=True, help="Why it can be ignored.")
@with_store
def ignore(store: Store, fingerprint: str, reason: str) -> None:
    """Ignore a leak, for example because it is an example.

    `backscroll undo` reverses it.
    """
    store.leaks.ignore(fingerprint, reason)


@leaks.command()
@click.argument("fingerprint")
@with_store
def rotated(store: Store, fingerprint: str) -> None:
    """Note that you replaced a key at its vendor, so that the leaked one is worthless.

    `backscroll undo` reverses it.
    """
    store.leaks.set_rotated(fingerprint)


@leaks.command()
@click.argument("fingerprint")
@with_store
def reopen(store: Store, fingerprint: str) -> None:
    """List a leak that was ignored or rotated among the open ones again.

    `backscroll undo` reverses it.
    """
    store.leaks.reopen(fingerprint)


@leaks.command()
@click.argument("fingerprints", metavar="[FINGERPRINT]...", nargs=-1)
@click.option("--certain", is_flag=True, help="Redact every open leak that is certain.")
@click.option("--dry-run", is_flag=True, help="Only list the places that would change.")
@passphrase_stdin_option
@json_option
@with_store
def redact(
    store: Store,
    fingerprints: Sequence[str],
    certain: bool,
    dry_run: bool,
    passphrase_stdin: bool,
    as_json: bool,
) -> None:
    """Remove leaked values from this store and from the files of agents.

    Without a FINGERPRINT, continue a redaction that was interrupted or could not write some files. The values are
    sealed first: `backscroll undo` restores every byte, until you run `backscroll leaks forget`.
    """
    from store.sync.refresh import sync_known_stores

    if certain:
        for _ in store.leaks.begin_scan().steps():
            pass
        known = (leak for leak in store.leaks.list_leaks() if leak.places)
        open_leaks = (leak for leak in known if not leak.ignored and leak.tier == "certain")
        fingerprints = [*fingerprints, *(leak.fingerprint for leak in open_leaks)]
    if certain and not fingerprints:
        output.notify("No certain leaks found.")
        return
    if dry_run:
        _show_preview(store.leaks.redactions.preview(fingerprints), as_json)
        return
    redactions = store.leaks.redactions
    runs = [redactions.begin(fingerprints)] if fingerprints else _continue_unfinished(redactions)
    reports = [run_with_unlock(store, partial(_follow, run), passphrase_stdin) for run in runs]
    sync_known_stores(store)
    if as_json:
        output.emit_json({"redactions": [json_output.redaction_report_to_json(report) for report in reports]})
    else:
        for report in reports:
            _print_report(report)
    if any(report.left for report in reports):
        raise click.exceptions.Exit(1)


def _continue_unfinished(redactions: Redactions) -> list[RedactionRun]:
    unfinished = redactions.list_unfinished()
    if not unfinished:
        raise click.UsageError("Name the FINGERPRINT of a leak, or use --certain. `backscroll leaks` lists them.")
    return [redactions.begin_rest(redaction.id) for redaction in reversed(unfinished)]


@leaks.command()
@json_option
@with_store
def redactions(store: Store, as_json: bool) -> None:
    """List redactions, newest first, and the files that are still to be written."""
    found = store.leaks.redactions.list_all()
    if as_json:
        output.emit_json({"redactions": [json_output.redaction_to_json(redaction) for redaction in found]})
        return
    rows: list[list[Span]] = [
        [
            TerminalText(str(redaction.id), "name"),
            "forgotten" if redaction.is_forgotten else redaction.state,
            format_age(redaction.at),
            str(redaction.count),
            ", ".join(value.rule for value in redaction.values),
        ]
        for redaction in found
    ]
    output.print_table([":id", "state", ":age", ":values", "rules"], rows)
    for redaction in found:
        _notify_left(redaction.left)
    if not found:
        output.notify("Nothing was redacted yet.")


@leaks.command()
@click.argument("redaction", type=NON_NEGATIVE_INT)
@with_store
def forget(store: Store, redaction: int) -> None:
    """Forget the values of a redaction for good. It cannot be undone afterwards.

    REDACTION is its number in `leaks redactions`.
    """
    store.leaks.redactions.forget(redaction)
    output.notify(f"The values of redaction {redaction} are forgotten.")


def _follow(run: RedactionRun) -> RedactionReport:
    """Run to the end, with a progress bar if stderr is a terminal."""
    if not sys.stderr.isatty():
        for _ in run.steps():
            pass
        return run.report
    with click.progressbar(range(0), length=1, label="Redacting", file=sys.stderr) as bar:
        for progress in run.steps():
            bar.length, bar.pos = progress.total or 1, 0
            bar.update(progress.done)
    return run.report


def _show_preview(preview: RedactionPreview, as_json: bool) -> None:
    if as_json:
        output.emit_json(json_output.redaction_preview_to_json(preview))
        return
    output.print_table(["where", ":values", "place"], [_place_row(place) for place in preview.places])
    files = sum(place.is_foreign for place in preview.places)
    places = format_count(len(preview.places), "place")
    output.notify(f"{format_count(preview.count, 'value')} in {places}, {files} of them files of agents.")
    _notify_left(preview.problems)
    _notify_not_scanned(preview.not_scanned)
    _notify_backups(preview.backups)
    _notify_shared(preview.shared)


def _place_row(place: RedactionPlace) -> list[Span]:
    where = place.path or place.entry or place.session_id or ""
    return [TerminalText(place.kind, "name"), str(place.times), f"{where} ({place.field})" if place.field else where]


def _print_report(report: RedactionReport) -> None:
    verb = "restored" if report.state in ("undoing", "undone") else "redacted"
    output.notify(f"{report.left_count} left of {report.count} {verb}.")
    _notify_left(report.left)
    _notify_not_scanned(report.not_scanned)
    if verb == "redacted":
        _notify_backups(report.backups)
        _notify_shared(report.shared)
        output.notify(f"To restore them, run `backscroll undo`. To forget them, `backscroll leaks forget {report.id}`.")


def _notify_left(places: Sequence[RedactionPlace]) -> None:
    for place in places:
        where = place.path or place.entry or place.session_id or place.field or ""
        output.notify(f"Left: {output.to_one_line(where)}. {place.problem}")


def _notify_shared(session_ids: Sequence[str]) -> None:
    if session_ids:
        count = format_count(len(session_ids), "session")
        names = f"{' '.join(session_ids[:_MAX_NAMED])}{' …' if len(session_ids) > _MAX_NAMED else ''}"
        output.notify(f"Also in {count} shared with your team. Withdraw them: `backscroll team unshare {names}`.")


def _notify_backups(backups: Sequence[str]) -> None:
    if backups:
        names = f"{', '.join(backups[:_MAX_NAMED])}{' …' if len(backups) > _MAX_NAMED else ''}"
        output.notify(f"Backups may still have the values, and are not changed: {names}.")


@leaks.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--environment", is_flag=True, help="Also look for values of your environment variables.")
@json_option
def scan(paths: Sequence[Path], environment: bool, as_json: bool) -> None:
    """Scan files and folders, without a store.

    The exit status is 3 if a PATH cannot be read, otherwise 1 if something certain is found. Values are never printed.
    """
    from store.leaks.file_scan import FileScan
    from store.leaks.scanner import load_scanner

    scanner = load_scanner(environment=os.environ if environment else None)
    result = FileScan(scanner)
    for path in paths:
        result.scan(path)
    found = result.leaks
    scanned = {"texts": result.texts, "bytes": result.bytes, "files": result.files}
    if as_json:
        output.emit_json(
            json_output.leaks_to_json(found, scanned, [*result.unreadable, *result.not_scanned], scanner.limits)
        )
    else:
        _print_leaks(found)
        output.notify(f"{format_count(result.files, 'file')} scanned, {result.bytes / 1e6:,.1f} MB.")
        _notify_not_scanned(result.not_scanned)
    for item in result.unreadable:
        output.notify(f"Cannot read {item.path}: {item.reason}.")
    if scanner.limits:
        output.notify(scanner.limits)
    if result.unreadable:
        raise click.exceptions.Exit(3)
    if any(leak.tier == "certain" for leak in found):
        raise click.exceptions.Exit(1)


def _print_leaks(found: Sequence[Leak]) -> None:
    """Print a line for each place. The first line of a leak also says what it is."""
    rows: list[list[Span]] = []
    for leak in found:
        for place in leak.places or [LeakPlace(field="redacted")]:
            rows.append(
                [
                    leak.fingerprint,
                    TerminalText(leak.tier, _TIER_STYLES[leak.tier]),
                    TerminalText(leak.rule, "name"),
                    leak.masked,
                    "ignored" if leak.ignored else "rotated" if leak.rotated else "open",
                    format_age(leak.last_at),
                    _format_place(place),
                ]
            )
    output.print_table(["fingerprint", "tier", "rule", "masked", "state", ":age", "place"], rows)


def _format_place(place: LeakPlace) -> str:
    where = place.entry or place.session_id or place.path or ""
    if place.line is not None:
        where += f":{place.line}"
    return f"{where} ({place.field})" if place.field else where


def _notify_not_scanned(not_scanned: Sequence[NotScanned]) -> None:
    for reason, count in Counter(item.reason for item in not_scanned).most_common():
        names = [item.path for item in not_scanned if item.reason == reason]
        more = f" and {count - _MAX_NAMED} more" if count > _MAX_NAMED else ""
        output.notify(f"Not looked into ({reason}): {', '.join(names[:_MAX_NAMED])}{more}.")
