"""This module renders what a compaction dropped, and what the model saw after it."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content

from store.model.compaction import Compaction
from store.text.sanitize import one_line, sanitize
from tui.render import glyphs
from tui.render.styles import (
    ERROR,
    FAINT,
    MUTED,
    STRONG,
    StyledText,
    build_content,
    format_count,
    parse_time,
)
from tui.render.timeline_card import format_short_number
from tui.render.viewport import HangingLine, RenderedLine

MAX_LINE_CHARACTERS = 400
NO_SUMMARY = "The agent recorded that it compacted the conversation, but not the summary."


def render_compaction_heading(compaction: Compaction, total: int) -> Content:
    """Render `Compaction 1 of 2 · turn 14, 10:41 · 13 turns, 9 files · 154k → 12k tokens`."""
    time = parse_time(compaction.at)
    dropped = [format_count(len(compaction.turns), "turn"), format_count(len(compaction.files), "file")]
    before, after = format_short_number(compaction.tokens_before), format_short_number(compaction.tokens_after)
    is_size_known = compaction.tokens_before and compaction.tokens_after
    pieces: list[StyledText] = [
        (f"Compaction {compaction.number:,} of {total:,}", STRONG),
        (", ".join(filter(None, [f"turn {compaction.turn:,}", f"{time:%H:%M}" if time else ""])), MUTED),
        (", ".join(filter(None, dropped)), MUTED),
        (f"{before} → {after} tokens" if is_size_known else "", MUTED),
    ]
    return Content.styled(" · ", FAINT).join([build_content([piece]) for piece in pieces if piece[0]])


def render_before_title(compaction: Compaction) -> Content:
    is_known = compaction.count and compaction.summary.strip()
    count = f", {compaction.missing:,} of {compaction.count:,} missing in the summary" if is_known else ""
    return Content(f"before: dropped{count}")


def render_dropped(compaction: Compaction) -> Iterator[RenderedLine]:
    """Yield the turns, files and decisions before the compaction. Each says whether the summary names it."""
    render_row = _render_row if compaction.summary.strip() else _render_row_without_summary
    yield _render_section("Turns", len(compaction.turns))
    for turn in compaction.turns:
        counts = [f"{turn.calls:,}{glyphs.CALLS}" if turn.calls else "", format_count(turn.files, "file")]
        prompt = one_line(turn.prompt, MAX_LINE_CHARACTERS) or "(no prompt)"
        yield render_row(turn.is_named, f"{turn.n:>3}  ", prompt, " ".join(filter(None, counts)))
    yield from (Content(""), _render_section("Files", len(compaction.files)))
    for file in compaction.files:
        turns = ", ".join(map(str, file.turns[:5])) + (", …" if len(file.turns) > 5 else "")
        details = f"{'changed' if file.is_changed else 'read'} in turn {turns}"
        yield render_row(file.is_named, "", one_line(file.path, MAX_LINE_CHARACTERS), details)
    yield from (Content(""), _render_section("Decisions", len(compaction.decisions)))
    for decision in compaction.decisions:
        yield render_row(decision.is_named, f"{decision.turn:>3}  ", one_line(decision.text, MAX_LINE_CHARACTERS), "")


def _render_section(name: str, count: int) -> Content:
    return build_content([(name, "bold $text-secondary"), (f"  {count:,}" if count else "  none", FAINT)])


def _render_row(is_named: bool, start: str, text: str, details: str) -> RenderedLine:
    label, style = ("named  ", "$text-success") if is_named else ("missing", ERROR)
    row = _render_row_without_summary(is_named, start, text, details)
    return row._replace(head=build_content([(f"{label}  ", style)]) + row.head)


def _render_row_without_summary(is_named: bool, start: str, text: str, details: str) -> HangingLine:
    pieces = [(text, MUTED if is_named else ""), (f"  {details}" if details else "", FAINT)]
    return HangingLine(build_content([(start, FAINT)]), build_content(pieces))


def render_after(compaction: Compaction) -> Iterator[Content]:
    """Yield the lines of the summary, as the model saw it."""
    if not compaction.summary.strip():
        yield build_content([(NO_SUMMARY, MUTED)])
    for line in compaction.summary.strip("\n").split("\n"):
        yield Content(sanitize(line))
