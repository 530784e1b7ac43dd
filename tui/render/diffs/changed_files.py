"""This module renders the files that a session changed: a list of them, and the changes of one, turn by turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from textual.content import Content

from store.formats.changed_files import CallChange, ChangedFile, SessionChanges
from store.text.sanitize import cell_width, one_line
from tui.render import glyphs
from tui.render.line_diff import (
    ADDED,
    MAX_LINES,
    REMOVED,
    DiffLine,
    count_diff_lines,
    list_diff_lines,
    render_diff_lines,
)
from tui.render.session_lines import shorten_path
from tui.render.styles import FAINT, MUTED, STRONG, WARNING, StyledText, build_content, format_count, parse_time
from tui.render.viewport import HangingLine, RenderedLine

_KINDS = {"add": "new file", "write": "whole file", "delete": "deleted"}


def render_changes_heading(changes: SessionChanges, title: str, width: int) -> Content:
    """Render `Changes  Fix the test · 3 files · +12 −3`."""
    counts: list[StyledText] = [
        (format_count(len(changes.files), "file"), MUTED),
        (f"+{changes.added:,}" if changes.files else "", ADDED),
        (f"{glyphs.REMOVED}{changes.removed:,}" if changes.files else "", REMOVED),
    ]
    end = build_content([(f"  {text}", style) for text, style in counts if text])
    room = max(width - end.cell_length - len("Changes  "), 1)
    return build_content([("Changes  ", STRONG), (one_line(title, room), MUTED)]) + end


def render_limits(changes: SessionChanges) -> Content:
    """Render what is not in the list or not certain, e.g. `1 hunk without line numbers · left out: 1 failed edit`."""
    failed = format_count(changes.failed_calls, "failed edit")
    pending = f"{format_count(changes.pending_calls, 'edit')} without a result" if changes.pending_calls else ""
    left_out = ", ".join(filter(None, [failed, pending]))
    unknown = format_count(changes.unknown_hunks, "hunk")
    shell = format_count(changes.shell_calls, "shell command")
    parts = [
        f"{unknown} without line numbers" if unknown else "",
        f"{format_count(len(changes.left_out), 'change')} not in the patch" if changes.left_out else "",
        f"left out: {left_out}" if left_out else "",
        f"not known: what {shell} changed" if shell else "",
    ]
    return build_content([(" · ".join(filter(None, parts)), FAINT)])


def render_file_row(file: ChangedFile, width: int) -> Content:
    """Render a file with its counts at the right. The beginning of a long path is left out."""
    counts = build_content([(f" +{file.added:,}", ADDED), (f" {glyphs.REMOVED}{file.removed:,}", REMOVED)])
    room = max(width - counts.cell_length, 1)
    path = shorten_path(file.path or "(no name)", room)
    return (Content(path) + Content(" " * (room - cell_width(path))) + counts).truncate(width)


def render_file_changes(file: ChangedFile) -> list[list[RenderedLine]]:
    """Render each change of a file under the turn that it came from. Line numbers of all of them are aligned."""
    room = MAX_LINES
    sections: list[list[DiffLine]] = []
    for change in file.changes:
        sections.append(list(islice(_iter_lines(change), room)))
        room -= len(sections[-1])
    left = sum(count_diff_lines(change.change) for change in file.changes) - (MAX_LINES - room)
    rendered = iter(render_diff_lines((line for lines in sections for line in lines), file.path, left))
    result: list[list[RenderedLine]] = []
    for change, lines in zip(file.changes, sections, strict=True):
        body: Sequence[HangingLine] = list(islice(rendered, len(lines)))
        result.append([_render_turn(change), *body, Content("")])
    if more := list(rendered):
        result[-1][-1:] = more
    return result


def _iter_lines(change: CallChange) -> Iterator[DiffLine]:
    return (line for line in list_diff_lines([change.change]) if line.sign != "#")


def _render_turn(change: CallChange) -> Content:
    time = parse_time(change.at)
    pieces: Iterable[StyledText] = [
        (f"turn {change.turn}", "bold $text-accent"),
        (f"{time:%H:%M}" if time else "", MUTED),
        (one_line(change.tool, 40), MUTED),
        (_KINDS.get(change.change.kind, ""), MUTED),
        (f"moved to {one_line(change.change.moved_to, 200)}" if change.change.moved_to else "", MUTED),
        (f"sub-agent: {one_line(change.session_title, 80)}" if change.session_title else "", "$text-secondary"),
        ("line numbers not known" if change.unknown_hunks else "", FAINT),
        (f"not in the patch: {change.reason_left_out}" if change.reason_left_out else "", WARNING),
    ]
    return Content.styled(" · ", FAINT).join([build_content([piece]) for piece in pieces if piece[0]])
