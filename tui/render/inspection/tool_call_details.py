"""This module renders the headings of the tool call inspector, and the rows of the tool call table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from textual.content import Content

from store.model.entry import PairedCall, Status
from store.text.sanitize import cell_width, one_line
from tui.render import glyphs
from tui.render.inspection.parallel_calls import find_parallel_calls
from tui.render.line_diff import ADDED, REMOVED
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, StyledText, build_content, format_count, parse_time
from tui.render.tool_call import describe_call, format_call_duration

MAX_SUBJECT_CHARACTERS = 300
MAX_TURNS_EACH_SIDE = 3

STATUS_SIGNS: dict[Status, StyledText] = {
    "ok": (glyphs.SUCCEEDED, "$text-success"),
    "error": (glyphs.FAILED, ERROR),
    "pending": ("…", MUTED),
    "orphan": ("?", MUTED),
}
STATUS_WORDS: dict[Status, str] = {"ok": "ok", "error": "failed", "pending": "no result", "orphan": "no call"}


class ToolCallRow(NamedTuple):
    """Describes a call in the table. It is small, because a session may have very many."""

    key: int
    turn: int
    name: str
    subject: str
    status: Status
    duration_ms: float | None
    session_label: str = ""
    "The time and the session. Is empty when all calls belong to one session."
    is_parallel: bool = False
    "Is true if other calls ran at the same time."

    def matches(self, words: Sequence[str]) -> bool:
        text = f"{self.name} {self.subject} turn {self.turn} {STATUS_WORDS[self.status]}".casefold()
        return all(word in text for word in words)


def build_call_row(call: PairedCall, cwd: str = "") -> ToolCallRow:
    """Build the row of a call. Paths are relative to the folder of the session."""
    text = describe_call(call.name, call.arguments)[: 2 * MAX_SUBJECT_CHARACTERS]
    subject = one_line(text.removeprefix(f"{cwd}/") if cwd else text, MAX_SUBJECT_CHARACTERS)
    return ToolCallRow(call.key, call.turn, call.name, subject, call.status, call.duration_ms)


def build_call_rows(calls: Iterable[PairedCall], cwd: str) -> list[ToolCallRow]:
    """Build the rows of the calls of a session, and mark those that ran at the same time."""
    listed = list(calls)
    parallel = find_parallel_calls(listed)
    return [build_call_row(call, cwd)._replace(is_parallel=call.key in parallel) for call in listed]


# ── one call ──────────────────────────────────────────────────────────────────────────────────────


def render_call_heading(
    call: PairedCall, index: int, total: int, exit_code: int | None, *, is_parallel: bool = False
) -> Content:
    """Render `Bash · 3 of 52 · ✗ exit 1 · 2.1 s · turn 12, 10:41:07`."""
    sign, style = STATUS_SIGNS[call.status]
    status = STATUS_WORDS[call.status] if exit_code is None else f"exit {exit_code}"
    time = parse_time(call.at)
    pieces: list[StyledText] = [
        (one_line(call.name, 60) or "unnamed tool", STRONG),
        (f"{index + 1:,} of {total:,}" if total else "", MUTED),
        (f"{sign} {status}", style),
        (format_call_duration(call.duration_ms, is_parallel), MUTED),
        (", ".join(filter(None, [f"turn {call.turn}", f"{time:%H:%M:%S}" if time else ""])), MUTED),
    ]
    return Content.styled(" · ", FAINT).join([build_content([piece]) for piece in pieces if piece[0]])


def render_arguments_title(changed: tuple[int, int] | None) -> Content:
    if changed is None:
        return Content("arguments")
    return build_content([("edit  ", ""), (f"+{changed[0]:,}", ADDED), (f" {glyphs.REMOVED}{changed[1]:,}", REMOVED)])


def render_result_title(text: str, status: Status) -> Content:
    if status == "pending":
        return Content("no result yet")
    lines = text.removesuffix("\n").count("\n") + 1
    return Content(f"result, {format_count(lines, 'line')}" if text else "result")


def render_same_calls(rows: Sequence[ToolCallRow], index: int) -> Content:
    """Render the calls with the same command or argument, or else those of the same tool.

    For example `same call before: turn 9 ✗, turn 11 ✗   after: turn 13 ✓`.
    """
    label = "same call "
    of_tool = [n for n, row in enumerate(rows) if row.name == rows[index].name and n != index]
    others = [n for n in of_tool if rows[n].subject == rows[index].subject]
    if not others:
        label, others = "same tool ", of_tool
    if not others:
        return Content.styled("no other calls of this tool", FAINT)
    before, after = [rows[n] for n in others if n < index], [rows[n] for n in others if n > index]
    pieces: list[StyledText] = [(label, MUTED)]
    if before:
        more = len(before) - MAX_TURNS_EACH_SIDE
        pieces += [("before: ", MUTED), (f"{more:,} more … " if more > 0 else "", FAINT)]
        pieces += _render_turns(before[-MAX_TURNS_EACH_SIDE:])
    if after:
        more = len(after) - MAX_TURNS_EACH_SIDE
        pieces += [("   after: " if before else "after: ", MUTED), *_render_turns(after[:MAX_TURNS_EACH_SIDE])]
        pieces.append((f" … {more:,} more" if more > 0 else "", FAINT))
    return build_content(pieces)


def _render_turns(rows: Sequence[ToolCallRow]) -> list[StyledText]:
    pieces: list[StyledText] = []
    for row in rows:
        pieces += [(f"{', ' if pieces else ''}turn {row.turn} ", ""), STATUS_SIGNS[row.status]]
    return pieces


# ── the table ─────────────────────────────────────────────────────────────────────────────────────

_TURN_CELLS, _MAX_NAME_CELLS, _DURATION_CELLS, _GAP_CELLS = 5, 24, 9, 7
_MAX_SESSION_CELLS = 40
"""Limits the session's name, which also takes at most a third of the line."""


def widest_name(rows: Sequence[ToolCallRow]) -> int:
    return max((cell_width(name) for name in {row.name for row in rows}), default=4)


def _column_widths(name_width: int, width: int, with_session: bool) -> tuple[int, int, int]:
    """Return the widths of the columns for the session, the tool and the subject. The first may be absent."""
    session = min(_MAX_SESSION_CELLS, width // 3) if with_session else 0
    name = max(min(name_width, _MAX_NAME_CELLS, width // 4), 4)
    return session, name, max(width - session - _TURN_CELLS - name - _DURATION_CELLS - _GAP_CELLS, 1)


def render_table_head(name_width: int, width: int, *, with_session: bool = False) -> Content:
    session, name, subject = _column_widths(name_width, width, with_session)
    titles = (
        "when      session".ljust(session)[:session]
        + f"{'turn':>{_TURN_CELLS}}     {'name':<{name}}  {'argument':<{subject}}{'took':>{_DURATION_CELLS}}"
    )
    return build_content([(titles, FAINT)])


def _pad(text: str, width: int) -> str:
    shown = one_line(text, width)
    return shown + " " * (width - cell_width(shown))


def render_call_row(row: ToolCallRow, name_width: int, width: int) -> Content:
    widths = _column_widths(name_width, width, bool(row.session_label))
    session, name, subject = map(_pad, (row.session_label, row.name, row.subject), widths)
    duration = format_call_duration(row.duration_ms, row.is_parallel)
    return build_content(
        [
            (session, MUTED),
            (f"{row.turn:>{_TURN_CELLS},}  ", MUTED),
            STATUS_SIGNS[row.status],
            ("  ", ""),
            (f"{name}  ", STRONG),
            (subject, ""),
            (f"{duration:>{_DURATION_CELLS}}", MUTED),
        ]
    ).truncate(width)
