"""This module defines the commands `changes`, which shows the files that a session changed, and `diff`, which compares
two things."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from store.cli import json_output, output
from store.cli.options import json_option, session_id_argument, with_store
from store.cli.output import Span, Style, TerminalText, format_count
from store.conversations.comparison import compare
from store.conversations.session_changes import read_session_changes
from store.errors import StoreError, Unreadable
from store.formats.changed_files import CallChange, ChangedFile, SessionChanges, format_session_patch
from store.formats.comparison import Comparison, Section
from store.formats.file_changes import format_hunk_header

if TYPE_CHECKING:
    from store.store import Store

_LINE_STYLES: dict[str, Style] = {"+": "good", "-": "bad", " ": "quiet"}
_ONLY = {"left": "only in A", "right": "only in B"}

DIFFERENT, FAILED = 1, 2
"""Are the exit statuses of `diff` programs."""


@click.command()
@session_id_argument
@click.option("--patch", "as_patch", is_flag=True, help="Print one patch, to apply with `patch -p1`.")
@click.option(
    "-o", "--output", "path", type=click.Path(path_type=Path), metavar="FILE", help="Write the patch to FILE."
)
@json_option
@with_store
def changes(store: Store, session_id: str, as_patch: bool, path: Path | None, as_json: bool) -> None:
    """Show the files that a session and its sub-agents changed, and the turn of each change.

    Changes are read from the calls that edit files. Calls that failed are left out. What shell commands changed is not
    known.
    """
    session = store.sessions.find(session_id)
    found = read_session_changes(store, session)
    patch = format_session_patch(found, session.title or session.id)
    if path is not None:
        path.write_text(patch, encoding="utf-8", errors="surrogateescape", newline="")
    if as_json:
        output.emit_json(json_output.changes_to_json(session.id, found) | ({"patch": patch} if as_patch else {}))
    elif as_patch and path is None:
        output.write(patch.removesuffix("\n"))
    elif path is None:
        for file in found.files:
            _write_file(file)
    for line in _describe_limits(found):
        output.notify(line)
    if path is not None and not as_json:
        output.notify(f"Wrote the patch to {path}.")


def _write_file(file: ChangedFile) -> None:
    output.write(TerminalText(output.to_one_line(file.path or "(no name)"), "title"), *_format_counts(file))
    for change in file.changes:
        output.write("    ", *_format_change(change))


def _format_counts(changed: ChangedFile | SessionChanges) -> list[Span]:
    return [TerminalText(f"  +{changed.added:,}", "good"), TerminalText(f" −{changed.removed:,}", "bad")]


def _format_change(change: CallChange) -> list[Span]:
    starts = [str(hunk.new_start) for hunk in change.change.hunks if hunk.new_start is not None]
    lines = f"line {', '.join(starts)}" if starts and not change.unknown_hunks else "line numbers not known"
    details = [
        change.tool,
        f"+{change.change.added:,} −{change.change.removed:,}",
        {"add": "new file", "write": "whole file", "delete": "deleted"}.get(change.change.kind, lines),
        f"moved to {change.change.moved_to}" if change.change.moved_to else "",
        f"not in the patch: {change.reason_left_out}" if change.reason_left_out else "",
        f"sub-agent {change.session_id}" if change.session_title else "",
    ]
    return [
        TerminalText(f"turn {change.turn}", "name"),
        TerminalText(f"  {output.to_one_line(' · '.join(filter(None, details)))}", "quiet"),
    ]


def _describe_limits(found: SessionChanges) -> list[str]:
    """Return what is not in the list or not certain, in sentences."""
    if not found.files:
        lines = ["No file changes in this session."]
    else:
        lines = [f"{format_count(len(found.files), 'file')}, +{found.added:,} −{found.removed:,}."]
    if found.unknown_hunks:
        lines.append(f"{format_count(found.unknown_hunks, 'hunk')} without line numbers.")
    if found.left_out:
        lines.append(f"{format_count(len(found.left_out), 'change')} cannot be part of a patch.")
    failed = format_count(found.failed_calls, "failed edit") if found.failed_calls else ""
    pending = f"{format_count(found.pending_calls, 'edit')} without a result" if found.pending_calls else ""
    if failed or pending:
        lines.append(f"Left out: {', '.join(filter(None, [failed, pending]))}.")
    if found.shell_calls:
        lines.append(f"Not known: what {format_count(found.shell_calls, 'shell command')} changed.")
    return lines


# ── comparing ─────────────────────────────────────────────────────────────────────────────────────


@click.command()
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@json_option
@with_store
def diff(store: Store, left: str, right: str, as_json: bool) -> None:
    """Compare two sessions, turns, entries, or versions of a summary or fact.

    A and B are ids of sessions, or ID#tN for turn N, ID#N for an entry, ID#sN for version N of the summary, fact:N for
    a fact, fact:N@EDIT for its text after an edit, edit:N:before and edit:N:after.

    The exit status is 0 if both are equal, 1 if they differ, and 2 if something is wrong.
    """
    context = click.get_current_context()
    try:
        comparison = compare(store, left, right)
    except Unreadable:
        raise
    except StoreError as error:
        output.report_error(error)
        context.exit(FAILED)
    if as_json:
        output.emit_json(json_output.comparison_to_json(comparison))
    else:
        _write_comparison(comparison)
    context.exit(0 if comparison.is_equal else DIFFERENT)


def _write_comparison(comparison: Comparison) -> None:
    if comparison.is_equal:
        output.notify("They are equal.")
        return
    output.write(TerminalText(f"--- {output.to_one_line(comparison.left)}", "bad"))
    output.write(TerminalText(f"+++ {output.to_one_line(comparison.right)}", "good"))
    for section in comparison.sections:
        _write_section(section)
    for note in comparison.notes:
        output.notify(note)


def _write_section(section: Section) -> None:
    if section.kind == "shared":
        what = (
            format_count(section.count, "shared turn") if section.title.startswith("turn") else f"{section.title}: same"
        )
        output.write(TerminalText(f"= {what}", "quiet"))
        return
    details = [
        section.title,
        _ONLY.get(section.kind, ""),
        "too long to compare by lines" if section.is_too_long else "",
    ]
    output.write(TerminalText(f"# {output.to_one_line(' · '.join(filter(None, details)))}", "title"))
    for hunk in section.compare():
        output.write(TerminalText(format_hunk_header(hunk, hunk.old_start or 0, hunk.new_start or 0), "name"))
        for line in hunk.lines:
            output.write(TerminalText(line.sign + line.text, _LINE_STYLES[line.sign]))
