"""What the inspector says of a call beside its arguments and its result, and a call in the table of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content

from store.model.entry import PairedCall, Status
from store.text.sanitize import cells, one_line
from tui.render.line_diff import ADDED, REMOVED
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, Piece, content, count, moment
from tui.render.tool_call import brief, duration

LONGEST_BRIEF = 300
NAMED_BEFORE_AND_AFTER = 3

SIGNS: dict[Status, Piece] = {
    "ok": ("✓", "$text-success"),
    "error": ("✗", ERROR),
    "pending": ("…", MUTED),
    "orphan": ("?", MUTED),
}
WORDS: dict[Status, str] = {"ok": "ok", "error": "failed", "pending": "no answer", "orphan": "not asked for"}


class CallLine(NamedTuple):
    """A call in the table: small, since a session may have very many."""

    key: int
    turn: int
    name: str
    about: str
    status: Status
    duration_ms: float | None
    where: str = ""
    "When, and in which session, among calls of many."

    def holds(self, words: Sequence[str]) -> bool:
        told = f"{self.name} {self.about} turn {self.turn} {WORDS[self.status]}".casefold()
        return all(word in told for word in words)


def call_line(call: PairedCall, cwd: str = "") -> CallLine:
    """Paths are told from where the session was at work."""
    told = brief(call.arguments)[: 2 * LONGEST_BRIEF]
    about = one_line(told.removeprefix(f"{cwd}/") if cwd else told, LONGEST_BRIEF)
    return CallLine(call.key, call.turn, call.name, about, call.status, call.duration_ms)


# ── one call ──────────────────────────────────────────────────────────────────────────────────────


def heading(call: PairedCall, at: int, of: int, exit_code: int | None) -> Content:
    """`Bash · 3 of 52 · ✗ exit 1 · 2.1 s · turn 12, 10:41:07`."""
    sign, style = SIGNS[call.status]
    ended = WORDS[call.status] if exit_code is None else f"exit {exit_code}"
    then = moment(call.at)
    told: list[Piece] = [
        (one_line(call.name, 60) or "a tool", STRONG),
        (f"{at + 1:,} of {of:,}" if of else "", MUTED),
        (f"{sign} {ended}", style),
        (duration(call.duration_ms) if call.duration_ms is not None else "", MUTED),
        (", ".join(filter(None, [f"turn {call.turn}", f"{then:%H:%M:%S}" if then else ""])), MUTED),
    ]
    return Content.styled(" · ", FAINT).join([content([piece]) for piece in told if piece[0]])


def arguments_title(changed: tuple[int, int] | None) -> Content:
    if changed is None:
        return Content("arguments")
    return content([("edit  ", ""), (f"+{changed[0]:,}", ADDED), (f" −{changed[1]:,}", REMOVED)])


def result_title(text: str, status: Status) -> Content:
    if status == "pending":
        return Content("result, not there yet")
    return Content(f"result, {count(text.count(chr(10)) + 1, 'line')}" if text else "result")


def same_calls(lines: Sequence[CallLine], at: int) -> Content:
    """`same call before: turn 9 ✗, turn 11 ✗   after: turn 13 ✓`."""
    name = lines[at].name
    before = [line for line in lines[:at] if line.name == name]
    after = [line for line in lines[at + 1 :] if line.name == name]
    if not before and not after:
        return Content.styled("no other call of this name", FAINT)
    pieces: list[Piece] = [("same call ", MUTED)]
    if before:
        more = len(before) - NAMED_BEFORE_AND_AFTER
        pieces += [("before: ", MUTED), (f"{more:,} more … " if more > 0 else "", FAINT)]
        pieces += _turns(before[-NAMED_BEFORE_AND_AFTER:])
    if after:
        more = len(after) - NAMED_BEFORE_AND_AFTER
        pieces += [("   after: " if before else "after: ", MUTED), *_turns(after[:NAMED_BEFORE_AND_AFTER])]
        pieces.append((f" … {more:,} more" if more > 0 else "", FAINT))
    return content(pieces)


def _turns(lines: Sequence[CallLine]) -> list[Piece]:
    pieces: list[Piece] = []
    for line in lines:
        pieces += [(f"{', ' if pieces else ''}turn {line.turn} ", ""), SIGNS[line.status]]
    return pieces


# ── the table ─────────────────────────────────────────────────────────────────────────────────────

_TURN, _NAME, _TOOK, _BETWEEN = 5, 24, 9, 7
_WHERE = 40
"""What the session's name may take, within a third of the line."""


def longest_name(lines: Sequence[CallLine]) -> int:
    return max((cells(name) for name in {line.name for line in lines}), default=4)


def _rooms(longest: int, width: int, where: bool) -> tuple[int, int, int]:
    """For the session, where there are many; for the name, within reason; and for what it was done to."""
    session = min(_WHERE, width // 3) if where else 0
    name = max(min(longest, _NAME, width // 4), 4)
    return session, name, max(width - session - _TURN - name - _TOOK - _BETWEEN, 1)


def table_head(longest: int, width: int, *, where: bool = False) -> Content:
    session, name, about = _rooms(longest, width, where)
    left = "when      session".ljust(session)[:session]
    return content([(f"{left}{'turn':>{_TURN}}     {'name':<{name}}  {'what on':<{about}}{'took':>{_TOOK}}", FAINT)])


def _filled(text: str, room: int) -> str:
    shown = one_line(text, room)
    return shown + " " * (room - cells(shown))


def table_line(line: CallLine, longest: int, width: int) -> Content:
    rooms = _rooms(longest, width, bool(line.where))
    session, name, about = map(_filled, (line.where, line.name, line.about), rooms)
    took = duration(line.duration_ms) if line.duration_ms is not None else ""
    return content(
        [
            (session, MUTED),
            (f"{line.turn:>{_TURN},}  ", MUTED),
            SIGNS[line.status],
            ("  ", ""),
            (f"{name}  ", STRONG),
            (about, ""),
            (f"{took:>{_TOOK}}", MUTED),
        ]
    ).truncate(width)
