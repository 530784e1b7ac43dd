"""A conversation to read: its heading, and its turns, each a card of blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from textual.content import Content

from store.model.entry import UNKNOWN_USER, Attachment, readable_text
from store.model.session import Session
from store.model.timeline import TimelineOutline, TurnOutline
from store.text.sanitize import cell_width, one_line
from tui.render.code import highlight_code
from tui.render.markdown import CODE_BACKGROUND, render_markdown
from tui.render.session_lines import abbreviate_home
from tui.render.styles import (
    ERROR,
    FAINT,
    MUTED,
    STRONG,
    StyledText,
    agent_badge,
    build_content,
    format_age,
    format_count,
    parse_time,
    session_title,
)
from tui.render.timeline_items import TimelineItem
from tui.render.tool_call import format_duration, render_call_body, render_call_line, render_failure_reason
from tui.render.viewport import Viewport, prefix_lines, render_plain_text

COVERAGE_CELLS = 15
GUTTER_CELLS = 12
"""Cells at the end of a card's title: a number and a bar."""

RULE_STYLE = "$foreground 15%"

_BARS = "▁▂▃▄▅▆▇█"
_INDENT = ("  ", "")
_FENCE = re.compile(r"^(```+|~~~+)[ \t]*([\w+#.-]*)[^\n]*\n(.*?)^\1[ \t]*$", re.M | re.S)

# ── the heading ───────────────────────────────────────────────────────────────────────────────────


def render_session_heading(session: Session, width: int, now: datetime) -> Content:
    """Two lines: what it is called, and where and how big it was."""
    facts: list[StyledText] = [
        (one_line(session.source, 20), agent_badge(session.source).style),
        (one_line(session.model, 40), MUTED),
        (format_count(session.turns, "turn"), MUTED),
        (format_count(session.tool_calls, "call"), MUTED),
        (f"{session.errors:,} failed" if session.errors else "", ERROR),
        ("being read …" if session.depth == "text" else "", STRONG),
        (format_age(session.updated_at, now), MUTED),
        (one_line(abbreviate_home(session.cwd) or session.channel, width), MUTED),
    ]
    told = Content.styled(" · ", MUTED).join([build_content([fact]) for fact in facts if fact[0]])
    title = one_line(session_title(session), width)
    return Content.assemble((title, STRONG), "\n", told.truncate(width, ellipsis=True))


def render_summary_coverage(outline: TimelineOutline, width: int) -> Content:
    """`summary covers ━━━━━━━━━━━──── 9 of 14`; nothing when there is no summary that says."""
    last = outline.turns[-1].n if outline.turns else 0
    covered = min(outline.summarized_up_to, last)
    if not covered:
        return Content("")
    full = max(COVERAGE_CELLS * covered // last, 1)
    bar: list[StyledText] = [("━" * full, "$text-success"), ("─" * (COVERAGE_CELLS - full), FAINT)]
    told = build_content([("summary covers ", MUTED), *bar, (f" {covered:,} of {last:,}", MUTED)])
    return told.truncate(width, ellipsis=True)


# ── a card's title ────────────────────────────────────────────────────────────────────────────────


class TurnGutter:
    """What the turns of a conversation took, in numbers and in bars that can be compared."""

    def __init__(self, outline: TimelineOutline, *, show_time: bool = False) -> None:
        self.shows_time = show_time
        self._maximum = max(map(self._amount, outline.turns), default=0)

    def _amount(self, turn: TurnOutline) -> float:
        if not self.shows_time:
            return turn.tokens
        began, ended = parse_time(turn.started_at), parse_time(turn.ended_at)
        return max((ended - began).total_seconds(), 0) if began and ended else 0

    def render(self, turn: TurnOutline) -> Content:
        amount = self._amount(turn)
        if not amount:
            return Content(" " * GUTTER_CELLS)
        number = format_duration(amount * 1000) if self.shows_time else format_short_number(int(amount))
        bar = _BARS[min(int(amount / self._maximum * len(_BARS)), len(_BARS) - 1)]
        return build_content([(f"{number} ".rjust(GUTTER_CELLS - 2), FAINT), (bar, "$text-secondary"), (" ", "")])


def format_short_number(number: int) -> str:
    """1234 is 1.2k."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.1f}{unit}" if number < 100 * size else f"{number // size:,}{unit}"
    return str(number)


def render_card_title(
    turn: TurnOutline,
    look: Viewport,
    gutter: TurnGutter,
    *,
    folded: bool = False,
    with_date: bool = True,
    model: str = "",
) -> Content:
    """`12  you · 10:41`; folded with how it goes on. The model is told where it changes."""
    room = max(look.width - GUTTER_CELLS, 1)
    told: list[StyledText] = [("▸ " if folded else "", MUTED), (f"{turn.n:,}  " if turn.n else "", FAINT)]
    told += _render_speaker(turn, with_date) if turn.n else [("before the first prompt", MUTED)]
    if model:
        told.append((f" · now {one_line(model, 40)}", MUTED))
    if folded:
        told += [("  ", ""), (one_line(turn.prompt, room), STRONG)]
        ending = f"  {turn.calls:,}⚙" if turn.calls else ""
        failed = f" {turn.errors:,}✗" if turn.errors else ""
        room -= cell_width(ending + failed)
        line = look.apply_highlight(build_content(told)).truncate(room, ellipsis=True)
        line += Content(" " * (room - line.cell_length)) + build_content([(ending, FAINT), (failed, ERROR)])
    else:
        line = build_content([*told, (" ", "")]).truncate(room, ellipsis=True)
        line += build_content([("─" * (room - line.cell_length), RULE_STYLE)])
    return (line + gutter.render(turn)).truncate(look.width)


def _render_speaker(turn: TurnOutline, dated: bool) -> list[StyledText]:
    speaker = "you" if turn.author in ("", UNKNOWN_USER) else one_line(turn.author, 30)
    at = parse_time(turn.started_at)
    told = f" · {at:%Y-%m-%d %H:%M}" if at and dated else f" · {at:%H:%M}" if at else ""
    return [(speaker, "bold $text-primary"), (told, FAINT)]


def render_unloaded_card(turn: TurnOutline, title: Content, look: Viewport) -> list[Content]:
    """A card whose text is not here yet."""
    told = [Content(""), title]
    return [*told, look.truncate(build_content([(one_line(turn.prompt, look.width), STRONG)]))] if turn.n else told


# ── its blocks ────────────────────────────────────────────────────────────────────────────────────


def render_item(block: TimelineItem, look: Viewport, *, is_open: bool) -> Iterator[Content]:
    """Without its blank line, and without the title above a prompt."""
    match block.kind:
        case "prompt":
            yield from _render_prompt(block.text, look)
        case "text":
            if block.label:
                yield look.truncate(build_content([(one_line(block.label, look.width), "bold $text-secondary")]))
            yield from render_markdown(block.text.strip("\n"), look)
        case "thinking":
            yield from _render_foldable(block, look, "thinking", is_open, f"italic {MUTED}")
        case "context":
            yield from _render_foldable(block, look, one_line(block.label, 40) or "context", is_open, MUTED)
        case "call" | "result":
            yield render_call_line(block, look, is_open=is_open)
            yield from render_call_body(block, look) if is_open else render_failure_reason(block, look)
        case "compaction":
            yield from _render_compaction(block, look, is_open=is_open)
        case "event":
            style, sign = (ERROR, "✗ ") if block.has_failed else (FAINT, "· ")
            yield look.truncate(build_content([(sign, style), (one_line(block.text, look.width), style)]))
        case "attachment":
            yield look.truncate(build_content(_render_attachment(block)))
        case "opaque":
            yield look.truncate(build_content([("⋯ ", FAINT), (one_line(block.label, 40) or "something else", FAINT)]))


def _render_prompt(text: str, look: Viewport) -> Iterator[Content]:
    """As it was typed, since people type paths and patterns, not Markdown; but for the code that they fence."""
    text, left = look.limit_text(text.strip("\n"))
    at = 0
    for fence in _FENCE.finditer(text):
        if before := text[at : fence.start()].strip("\n"):
            yield from render_plain_text(before, look, STRONG)
        for line in highlight_code(fence[3].rstrip("\n"), fence[2]):
            for part in look.narrow_by(2).hard_wrap(line):
                padded = Content(" ") + part.pad_right(max(look.width - 1 - part.cell_length, 0))
                yield padded.stylize_before(CODE_BACKGROUND)
        at = fence.end()
    if at == 0 or text[at:].strip("\n"):
        yield from render_plain_text(text[at:], look, STRONG)
    yield from look.render_more(left, "characters")


def _render_foldable(block: TimelineItem, look: Viewport, label: str, is_open: bool, style: str) -> Iterator[Content]:
    lines = block.text.strip("\n").count("\n") + 1
    head: list[StyledText] = [("▾ " if is_open else "▸ ", MUTED), (f"{label}, {format_count(lines, 'line')}", MUTED)]
    if is_open:
        yield look.truncate(build_content(head))
        yield from prefix_lines(_INDENT, render_plain_text(block.text, look.narrow_by(2), style))
    else:
        yield look.truncate(build_content([*head, ("  ", ""), (one_line(block.text, look.width), f"italic {FAINT}")]))


def _render_compaction(block: TimelineItem, look: Viewport, *, is_open: bool) -> Iterator[Content]:
    sign = "" if not block.is_foldable else "▾ " if is_open else "▸ "
    label = f" {sign}∑ what came before was summarised "
    before = min(4, look.width)
    after = max(look.width - before - cell_width(label), 0)
    rule = build_content([("─" * before, FAINT), (label, "$text-secondary"), ("─" * after, FAINT)])
    yield rule.truncate(look.width, ellipsis=True)
    if is_open:
        yield from render_markdown(block.text.strip("\n"), look)


def _render_attachment(block: TimelineItem) -> list[StyledText]:
    """What it is and how big; the picture itself has a screen of its own."""
    part = block.entry.parts[block.part_index or 0]
    if not isinstance(part, Attachment):
        return []
    sign = "▣ " if part.media_type.startswith("image") else "⎘ "
    size = format_bytes(part.size) if part.size is not None else ""
    told = [one_line(part.name, 60), one_line(part.media_type, 40), size]
    return [(sign, "$text-secondary"), (" · ".join(filter(None, told)) or "an attachment", MUTED)]


def format_bytes(size: int) -> str:
    for unit, unit_size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= unit_size:
            return f"{size / unit_size:.1f} {unit}"
    return format_count(size, "byte") or "empty"


def estimate_height(block: TimelineItem, width: int, *, is_open: bool) -> int:
    """How many lines it will take, more or less, without laying it out."""
    if block.kind in ("prompt", "text") or (is_open and block.is_foldable):
        text = readable_text(block.call.result)[:20_000] if block.call else block.text[:20_000]
        return text.count("\n") + len(text) // max(width, 1) + 1
    return 1 + block.has_failed
