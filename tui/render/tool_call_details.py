"""What the inspector says of a call beside its arguments and its result, and a call in the table of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content

from store.model.entry import PairedCall, Status
from store.text.sanitize import cell_width, one_line
from tui.render.line_diff import ADDED, REMOVED
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, StyledText, build_content, format_count, parse_time
from tui.render.tool_call import describe_arguments, format_duration

MAX_SUBJECT_CHARACTERS = 300
MAX_TURNS_EACH_SIDE = 3

STATUS_SIGNS: dict[Status, StyledText] = {
    "ok": ("✓", "$text-success"),
    "error": ("✗", ERROR),
    "pending": ("…", MUTED),
    "orphan": ("?", MUTED),
}
STATUS_WORDS: dict[Status, str] = {"ok": "ok", "error": "failed", "pending": "no answer", "orphan": "not asked for"}


class ToolCallRow(NamedTuple):
    """A call in the table: small, since a session may have very many."""

    key: int
    turn: int
    name: str
    subject: str
    status: Status
    duration_ms: float | None
    session_label: str = ""
    "When, and in which session, among calls of many."

    def matches(self, words: Sequence[str]) -> bool:
        told = f"{self.name} {self.subject} turn {self.turn} {STATUS_WORDS[self.status]}".casefold()
        return all(word in told for word in words)


def build_call_row(call: PairedCall, cwd: str = "") -> ToolCallRow:
    """Paths are told from where the session was at work."""
    told = describe_arguments(call.arguments)[: 2 * MAX_SUBJECT_CHARACTERS]
    about = one_line(told.removeprefix(f"{cwd}/") if cwd else told, MAX_SUBJECT_CHARACTERS)
    return ToolCallRow(call.key, call.turn, call.name, about, call.status, call.duration_ms)


# ── one call ──────────────────────────────────────────────────────────────────────────────────────


def render_call_heading(call: PairedCall, at: int, of: int, exit_code: int | None) -> Content:
    """`Bash · 3 of 52 · ✗ exit 1 · 2.1 s · turn 12, 10:41:07`."""
    sign, style = STATUS_SIGNS[call.status]
    ended = STATUS_WORDS[call.status] if exit_code is None else f"exit {exit_code}"
    then = parse_time(call.at)
    told: list[StyledText] = [
        (one_line(call.name, 60) or "a tool", STRONG),
        (f"{at + 1:,} of {of:,}" if of else "", MUTED),
        (f"{sign} {ended}", style),
        (format_duration(call.duration_ms) if call.duration_ms is not None else "", MUTED),
        (", ".join(filter(None, [f"turn {call.turn}", f"{then:%H:%M:%S}" if then else ""])), MUTED),
    ]
    return Content.styled(" · ", FAINT).join([build_content([piece]) for piece in told if piece[0]])


def render_arguments_title(changed: tuple[int, int] | None) -> Content:
    if changed is None:
        return Content("arguments")
    return build_content([("edit  ", ""), (f"+{changed[0]:,}", ADDED), (f" −{changed[1]:,}", REMOVED)])


def render_result_title(text: str, status: Status) -> Content:
    if status == "pending":
        return Content("result, not there yet")
    return Content(f"result, {format_count(text.count(chr(10)) + 1, 'line')}" if text else "result")


def render_same_tool_calls(lines: Sequence[ToolCallRow], at: int) -> Content:
    """`same call before: turn 9 ✗, turn 11 ✗   after: turn 13 ✓`."""
    name = lines[at].name
    before = [line for line in lines[:at] if line.name == name]
    after = [line for line in lines[at + 1 :] if line.name == name]
    if not before and not after:
        return Content.styled("no other call of this name", FAINT)
    pieces: list[StyledText] = [("same call ", MUTED)]
    if before:
        more = len(before) - MAX_TURNS_EACH_SIDE
        pieces += [("before: ", MUTED), (f"{more:,} more … " if more > 0 else "", FAINT)]
        pieces += _render_turns(before[-MAX_TURNS_EACH_SIDE:])
    if after:
        more = len(after) - MAX_TURNS_EACH_SIDE
        pieces += [("   after: " if before else "after: ", MUTED), *_render_turns(after[:MAX_TURNS_EACH_SIDE])]
        pieces.append((f" … {more:,} more" if more > 0 else "", FAINT))
    return build_content(pieces)


def _render_turns(lines: Sequence[ToolCallRow]) -> list[StyledText]:
    pieces: list[StyledText] = []
    for line in lines:
        pieces += [(f"{', ' if pieces else ''}turn {line.turn} ", ""), STATUS_SIGNS[line.status]]
    return pieces


# ── the table ─────────────────────────────────────────────────────────────────────────────────────

_TURN_CELLS, _MAX_NAME_CELLS, _DURATION_CELLS, _GAP_CELLS = 5, 24, 9, 7
_MAX_SESSION_CELLS = 40
"""What the session's name may take, within a third of the line."""


def widest_name(lines: Sequence[ToolCallRow]) -> int:
    return max((cell_width(name) for name in {line.name for line in lines}), default=4)


def _column_widths(longest: int, width: int, where: bool) -> tuple[int, int, int]:
    """For the session, where there are many; for the name, within reason; and for what it was done to."""
    session = min(_MAX_SESSION_CELLS, width // 3) if where else 0
    name = max(min(longest, _MAX_NAME_CELLS, width // 4), 4)
    return session, name, max(width - session - _TURN_CELLS - name - _DURATION_CELLS - _GAP_CELLS, 1)


def render_table_head(longest: int, width: int, *, with_session: bool = False) -> Content:
    session, name, about = _column_widths(longest, width, with_session)
    left = "when      session".ljust(session)[:session]
    return build_content(
        [
            (
                f"{left}{'turn':>{_TURN_CELLS}}     {'name':<{name}}  {'what on':<{about}}{'took':>{_DURATION_CELLS}}",
                FAINT,
            )
        ]
    )


def _pad(text: str, room: int) -> str:
    shown = one_line(text, room)
    return shown + " " * (room - cell_width(shown))


def render_call_row(line: ToolCallRow, longest: int, width: int) -> Content:
    rooms = _column_widths(longest, width, bool(line.session_label))
    session, name, about = map(_pad, (line.session_label, line.name, line.subject), rooms)
    took = format_duration(line.duration_ms) if line.duration_ms is not None else ""
    return build_content(
        [
            (session, MUTED),
            (f"{line.turn:>{_TURN_CELLS},}  ", MUTED),
            STATUS_SIGNS[line.status],
            ("  ", ""),
            (f"{name}  ", STRONG),
            (about, ""),
            (f"{took:>{_DURATION_CELLS}}", MUTED),
        ]
    ).truncate(width)
