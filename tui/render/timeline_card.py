"""A conversation to read: its heading, and its turns, each a card of blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from textual.content import Content

from store.model.entry import UNKNOWN_USER, Attachment, readable
from store.model.session import Session
from store.model.timeline import Outline, TurnOutline
from store.text.sanitize import cells, one_line
from tui.render.code import highlighted
from tui.render.markdown import CODE_GROUND, markdown
from tui.render.session_lines import with_tilde
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, Piece, age, content, count, mark_of, moment, title_of
from tui.render.timeline_items import Block
from tui.render.tool_call import call_body, call_line, duration, why_failed
from tui.render.viewport import Look, plain, prefixed

COVERAGE_CELLS = 15
GUTTER = 12
"""Cells at the end of a card's title: a number and a bar."""

RULE = "$foreground 15%"

_BARS = "▁▂▃▄▅▆▇█"
_INDENT = ("  ", "")
_FENCE = re.compile(r"^(```+|~~~+)[ \t]*([\w+#.-]*)[^\n]*\n(.*?)^\1[ \t]*$", re.M | re.S)

# ── the heading ───────────────────────────────────────────────────────────────────────────────────


def heading(session: Session, width: int, now: datetime) -> Content:
    """Two lines: what it is called, and where and how big it was."""
    facts: list[Piece] = [
        (one_line(session.source, 20), mark_of(session.source).style),
        (one_line(session.model, 40), MUTED),
        (count(session.turns, "turn"), MUTED),
        (count(session.tool_calls, "call"), MUTED),
        (f"{session.errors:,} failed" if session.errors else "", ERROR),
        ("being read …" if session.depth == "text" else "", STRONG),
        (age(session.updated_at, now), MUTED),
        (one_line(with_tilde(session.cwd) or session.channel, width), MUTED),
    ]
    told = Content.styled(" · ", MUTED).join([content([fact]) for fact in facts if fact[0]])
    title = one_line(title_of(session), width)
    return Content.assemble((title, STRONG), "\n", told.truncate(width, ellipsis=True))


def coverage(outline: Outline, width: int) -> Content:
    """`summary covers ━━━━━━━━━━━──── 9 of 14`; nothing when there is no summary that says."""
    last = outline.turns[-1].n if outline.turns else 0
    covered = min(outline.covered, last)
    if not covered:
        return Content("")
    full = max(COVERAGE_CELLS * covered // last, 1)
    bar: list[Piece] = [("━" * full, "$text-success"), ("─" * (COVERAGE_CELLS - full), FAINT)]
    told = content([("summary covers ", MUTED), *bar, (f" {covered:,} of {last:,}", MUTED)])
    return told.truncate(width, ellipsis=True)


# ── a card's title ────────────────────────────────────────────────────────────────────────────────


class Gutter:
    """What the turns of a conversation took, in numbers and in bars that can be compared."""

    def __init__(self, outline: Outline, *, of_time: bool = False) -> None:
        self.of_time = of_time
        self._most = max(map(self._amount, outline.turns), default=0)

    def _amount(self, turn: TurnOutline) -> float:
        if not self.of_time:
            return turn.tokens
        began, ended = moment(turn.started_at), moment(turn.ended_at)
        return max((ended - began).total_seconds(), 0) if began and ended else 0

    def told(self, turn: TurnOutline) -> Content:
        amount = self._amount(turn)
        if not amount:
            return Content(" " * GUTTER)
        number = duration(amount * 1000) if self.of_time else short(int(amount))
        bar = _BARS[min(int(amount / self._most * len(_BARS)), len(_BARS) - 1)]
        return content([(f"{number} ".rjust(GUTTER - 2), FAINT), (bar, "$text-secondary"), (" ", "")])


def short(number: int) -> str:
    """1234 is 1.2k."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.1f}{unit}" if number < 100 * size else f"{number // size:,}{unit}"
    return str(number)


def title_line(
    turn: TurnOutline, look: Look, gutter: Gutter, *, folded: bool = False, dated: bool = True, model: str = ""
) -> Content:
    """`12  you · 10:41`; folded with how it goes on. The model is told where it changes."""
    room = max(look.width - GUTTER, 1)
    told: list[Piece] = [("▸ " if folded else "", MUTED), (f"{turn.n:,}  " if turn.n else "", FAINT)]
    told += _speaker(turn, dated) if turn.n else [("before the first prompt", MUTED)]
    if model:
        told.append((f" · now {one_line(model, 40)}", MUTED))
    if folded:
        told += [("  ", ""), (one_line(turn.prompt, room), STRONG)]
        ending = f"  {turn.calls:,}⚙" if turn.calls else ""
        failed = f" {turn.errors:,}✗" if turn.errors else ""
        room -= cells(ending + failed)
        line = look.mark(content(told)).truncate(room, ellipsis=True)
        line += Content(" " * (room - line.cell_length)) + content([(ending, FAINT), (failed, ERROR)])
    else:
        line = content([*told, (" ", "")]).truncate(room, ellipsis=True)
        line += content([("─" * (room - line.cell_length), RULE)])
    return (line + gutter.told(turn)).truncate(look.width)


def _speaker(turn: TurnOutline, dated: bool) -> list[Piece]:
    speaker = "you" if turn.author in ("", UNKNOWN_USER) else one_line(turn.author, 30)
    at = moment(turn.started_at)
    told = f" · {at:%Y-%m-%d %H:%M}" if at and dated else f" · {at:%H:%M}" if at else ""
    return [(speaker, "bold $text-primary"), (told, FAINT)]


def waiting_lines(turn: TurnOutline, title: Content, look: Look) -> list[Content]:
    """A card whose text is not here yet."""
    told = [Content(""), title]
    return [*told, look.cut(content([(one_line(turn.prompt, look.width), STRONG)]))] if turn.n else told


# ── its blocks ────────────────────────────────────────────────────────────────────────────────────


def block_lines(block: Block, look: Look, *, is_open: bool) -> Iterator[Content]:
    """Without its blank line, and without the title above a prompt."""
    match block.kind:
        case "prompt":
            yield from _prompt(block.text, look)
        case "text":
            if block.label:
                yield look.cut(content([(one_line(block.label, look.width), "bold $text-secondary")]))
            yield from markdown(block.text.strip("\n"), look)
        case "thinking":
            yield from _folding(block, look, "thinking", is_open, f"italic {MUTED}")
        case "context":
            yield from _folding(block, look, one_line(block.label, 40) or "context", is_open, MUTED)
        case "call" | "result":
            yield call_line(block, look, is_open=is_open)
            yield from call_body(block, look) if is_open else why_failed(block, look)
        case "compaction":
            yield from _compaction(block, look, is_open=is_open)
        case "event":
            style, sign = (ERROR, "✗ ") if block.failed else (FAINT, "· ")
            yield look.cut(content([(sign, style), (one_line(block.text, look.width), style)]))
        case "attachment":
            yield look.cut(content(_attachment(block)))
        case "opaque":
            yield look.cut(content([("⋯ ", FAINT), (one_line(block.label, 40) or "something else", FAINT)]))


def _prompt(text: str, look: Look) -> Iterator[Content]:
    """As it was typed, since people type paths and patterns, not Markdown; but for the code that they fence."""
    text, left = look.limited(text.strip("\n"))
    at = 0
    for fence in _FENCE.finditer(text):
        if before := text[at : fence.start()].strip("\n"):
            yield from plain(before, look, STRONG)
        for line in highlighted(fence[3].rstrip("\n"), fence[2]):
            for part in look.narrower(2).fold(line):
                padded = Content(" ") + part.pad_right(max(look.width - 1 - part.cell_length, 0))
                yield padded.stylize_before(CODE_GROUND)
        at = fence.end()
    if at == 0 or text[at:].strip("\n"):
        yield from plain(text[at:], look, STRONG)
    yield from look.more(left, "characters")


def _folding(block: Block, look: Look, label: str, is_open: bool, style: str) -> Iterator[Content]:
    lines = block.text.strip("\n").count("\n") + 1
    head: list[Piece] = [("▾ " if is_open else "▸ ", MUTED), (f"{label}, {count(lines, 'line')}", MUTED)]
    if is_open:
        yield look.cut(content(head))
        yield from prefixed(_INDENT, plain(block.text, look.narrower(2), style))
    else:
        yield look.cut(content([*head, ("  ", ""), (one_line(block.text, look.width), f"italic {FAINT}")]))


def _compaction(block: Block, look: Look, *, is_open: bool) -> Iterator[Content]:
    sign = "" if not block.foldable else "▾ " if is_open else "▸ "
    label = f" {sign}∑ what came before was summarised "
    before = min(4, look.width)
    after = max(look.width - before - cells(label), 0)
    rule = content([("─" * before, FAINT), (label, "$text-secondary"), ("─" * after, FAINT)])
    yield rule.truncate(look.width, ellipsis=True)
    if is_open:
        yield from markdown(block.text.strip("\n"), look)


def _attachment(block: Block) -> list[Piece]:
    """What it is and how big; the picture itself has a screen of its own."""
    part = block.entry.parts[block.part or 0]
    if not isinstance(part, Attachment):
        return []
    sign = "▣ " if part.media_type.startswith("image") else "⎘ "
    size = bytes_told(part.size) if part.size is not None else ""
    told = [one_line(part.name, 60), one_line(part.media_type, 40), size]
    return [(sign, "$text-secondary"), (" · ".join(filter(None, told)) or "an attachment", MUTED)]


def bytes_told(size: int) -> str:
    for unit, unit_size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= unit_size:
            return f"{size / unit_size:.1f} {unit}"
    return count(size, "byte") or "empty"


def estimated(block: Block, width: int, *, is_open: bool) -> int:
    """How many lines it will take, more or less, without laying it out."""
    if block.kind in ("prompt", "text") or (is_open and block.foldable):
        text = readable(block.call.result)[:20_000] if block.call else block.text[:20_000]
        return text.count("\n") + len(text) // max(width, 1) + 1
    return 1 + block.failed
