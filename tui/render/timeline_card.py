"""This module renders the timeline of a session: its heading, and each turn as a card of items."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Literal, NamedTuple

from textual.content import Content

from store.model.entry import Attachment, readable_text
from store.model.knowledge import Note
from store.model.session import UNKNOWN_USER, Session
from store.model.statistics import SessionCost, TurnCost
from store.model.status import find_status, is_recent
from store.model.timeline import TimelineOutline, TurnOutline
from store.sources import source_label
from store.text.sanitize import cell_width, one_line
from tui.render import glyphs
from tui.render.charts.measures import COST, TOKENS, UNPRICED
from tui.render.code import highlight_code
from tui.render.markdown import CODE_BACKGROUND, render_markdown
from tui.render.session_card import render_circumstances
from tui.render.session_lines import STATUS_MARKS, abbreviate_home
from tui.render.statistics.figures import read_amount, write_amount
from tui.render.styles import (
    ERROR,
    FAINT,
    MUTED,
    STRONG,
    WARNING,
    StyledText,
    agent_badge,
    build_content,
    format_age,
    format_count,
    format_counts,
    format_size,
    parse_time,
    session_title,
)
from tui.render.timeline_items import TimelineItem
from tui.render.tool_call import (
    describe_call,
    format_duration,
    render_call_body,
    render_call_line,
    render_failure_reason,
    render_plain_output,
)
from tui.render.viewport import Viewport, prefix_lines, render_plain_text
from tui.render.word_wrap import wrap_text

COVERAGE_CELLS = 15
GUTTER_CELLS = 13
"""The width of a number and a bar at the end of a card's title."""

PLACE_CELLS = 60
"""The width of the first words of an item, by which a dialog names it."""

MAX_NOTE_LINES = 4
MAX_NOTE_CHARACTERS = 4_000
"""Limit the lines of notes at the head of a session, and the text of a note that is wrapped to count them. The session
card shows all of them."""

WORDS_CELLS = 80
"""The width from which a folded card shows counts in words."""

MIN_WRAPPED_CELLS = 40
"""The width from which the details of a session are wrapped. In a narrower one, they are cut off."""

GAP = Content.styled(" · ", MUTED)
"""Separates the details of a session."""

RULE_STYLE = "$foreground 15%"

_BARS = "▁▂▃▄▅▆▇█"
_INDENT = ("  ", "")
_FENCE = re.compile(r"^(```+|~~~+)[ \t]*([\w+#.-]*)[^\n]*\n(.*?)^\1[ \t]*$", re.M | re.S)

# ── the heading ───────────────────────────────────────────────────────────────────────────────────


def render_session_heading(
    session: Session, width: int, now: datetime, *, hidden_events: int = 0, cost: SessionCost | None = None
) -> Content:
    """Render the title of a session, and below it its agent, counts, age and folder, and who spoke where, if known."""
    details: list[StyledText] = [
        (one_line(source_label(session.source), 20), agent_badge(session.source).style),
        (one_line(session.model, 40), MUTED),
        (format_count(session.turns, "turn"), MUTED),
        (format_count(session.tool_calls, "call"), MUTED),
        (f"{session.errors:,} failed" if session.errors else "", ERROR),
        (render_session_cost(cost) if cost else "", MUTED),
        (f"prices {one_line(cost.prices.short, 40)}" if cost and cost.with_subagents.cost is not None else "", FAINT),
        ("loading…" if session.depth == "text" else "", STRONG),
        _render_status(session, now),
        (format_age(session.updated_at, now), MUTED),
        (f"{format_count(hidden_events, 'event')} hidden" if hidden_events else "", FAINT),
    ]
    pieces = [build_content([detail]) for detail in details if detail[0]]
    place = [
        build_content([(one_line(abbreviate_home(session.cwd), width), MUTED)]),
        render_circumstances(session, width),
    ]
    place = [piece for piece in place if piece]
    title = Content.styled(one_line(session_title(session), width), STRONG)
    if place and width >= MIN_WRAPPED_CELLS:
        lines = [title, *_wrap_pieces([*pieces, *place], width)]
    else:
        lines = [title, GAP.join(pieces), GAP.join(place)]
    return Content("\n").join([line.truncate(width, ellipsis=True) for line in lines if line])


def render_session_cost(cost: SessionCost) -> str:
    """Return the API value and the tokens of a session, together with its sub-agents if it has any."""
    own, total = cost.own, cost.with_subagents
    text = f"{write_amount(total, TOKENS)} tokens"
    if read_amount(total, COST) is None:
        text = f"{text}, {UNPRICED}"
    else:
        text = f"{write_amount(total, COST)} {COST.label}, {text}"
        text += f", {TOKENS.format(total.unpriced_tokens)} of them {UNPRICED}" if total.unpriced_tokens else ""
    return text if own == total else f"{text} with sub-agents"


def _wrap_pieces(pieces: Sequence[Content], width: int) -> list[Content]:
    """Put the pieces on as few lines as they need."""
    lines: list[Content] = []
    for piece in pieces:
        if lines and lines[-1].cell_length + GAP.cell_length + piece.cell_length <= width:
            lines[-1] += GAP + piece
        else:
            lines.append(piece)
    return lines


def _render_status(session: Session, now: datetime) -> StyledText:
    """Render what the session does. An old session that has not ended is idle, which goes without saying."""
    if session.activity == "failed":
        return f"{glyphs.FAILED} ended with an error", ERROR
    status = find_status(session, now)
    sign, style, words = STATUS_MARKS[status]
    is_known = status == "ended" or (session.activity and is_recent(session, now))
    return (f"{sign} {words}", style) if is_known else ("", "")


def render_summary_coverage(outline: TimelineOutline, width: int) -> Content:
    """Render `summary covers ━━━━━━━━━━━──── 9 of 14`, or nothing if no summary names the turns it covers."""
    last = outline.turns[-1].n if outline.turns else 0
    covered = min(outline.summarized_up_to, last)
    if not covered:
        return Content("")
    filled_cells = max(COVERAGE_CELLS * covered // last, 1)
    bar: list[StyledText] = [("━" * filled_cells, "$text-success"), ("─" * (COVERAGE_CELLS - filled_cells), FAINT)]
    line = build_content([("summary covers ", MUTED), *bar, (f" {covered:,} of {last:,}", MUTED)])
    return line.truncate(width, ellipsis=True)


def render_session_notes(notes: Sequence[Note], width: int) -> Content:
    """Render the notes on a session, the newest first, or nothing if there are none."""
    texts = [note.signed_text.strip("\n") for note in reversed(notes)]
    wrapped = [
        ("  " if number else f"{glyphs.NOTE} ", line)
        for text in texts[:MAX_NOTE_LINES]
        for number, line in enumerate(wrap_text(text[:MAX_NOTE_CHARACTERS], width - 2))
    ]
    is_cut = len(texts) > MAX_NOTE_LINES or any(len(text) > MAX_NOTE_CHARACTERS for text in texts)
    lines = [build_content([(sign, WARNING), (line, "")]) for sign, line in wrapped[:MAX_NOTE_LINES]]
    if is_cut or len(wrapped) > MAX_NOTE_LINES:
        more = "more" if is_cut else format_count(len(wrapped) - MAX_NOTE_LINES + 1, "more line")
        lines[MAX_NOTE_LINES - 1 :] = [build_content([(f"  … {more} · I to read", FAINT)])]
    return Content("\n").join([line.truncate(width, ellipsis=True) for line in lines])


NO_COSTS: Mapping[int, TurnCost] = {}

# ── the title of a card ───────────────────────────────────────────────────────────────────────────


GutterName = Literal["tokens", "time", "cost"]

TurnCosts = Mapping[int, TurnCost]
"""Maps the numbers of turns to what they cost."""

COST_STYLES = ((0.2, ERROR), (0.1, WARNING), (0.04, "$text-secondary"))
"""Holds shares of the cost of a session from which a turn has this style."""


class TurnGutter:
    """Renders the tokens, the time or the cost of each turn, as a number and a bar on a common scale."""

    def __init__(self, outline: TimelineOutline, shown: GutterName = "tokens", costs: TurnCosts = NO_COSTS) -> None:
        self.shown = shown
        self.costs = costs
        self._maximum = max(map(self._amount, outline.turns), default=0)

    def _amount(self, turn: TurnOutline) -> float:
        if self.shown == "tokens":
            return turn.tokens
        if self.shown == "cost":
            cost = self.costs.get(turn.n)
            return cost.cost or 0 if cost else 0
        started, ended = parse_time(turn.started_at), parse_time(turn.ended_at)
        return max((ended - started).total_seconds(), 0) if started and ended else 0

    def render(self, turn: TurnOutline) -> Content:
        amount, number_style, bar_style = self._amount(turn), FAINT, "$text-secondary"
        if self.shown == "cost":
            cost = self.costs.get(turn.n)
            if cost and cost.cost is None and cost.unpriced_tokens:
                return build_content([(f"{UNPRICED}  ".rjust(GUTTER_CELLS), FAINT)])
            number, number_style = COST.format(int(amount)), find_cost_style(cost)
            bar_style = number_style
        elif self.shown == "time":
            number = format_duration(amount * 1000)
        else:
            number = f"{format_short_number(int(amount))} tok"
        if not amount:
            return Content(" " * GUTTER_CELLS)
        bar = _BARS[min(int(amount / self._maximum * len(_BARS)), len(_BARS) - 1)]
        return build_content([(f"{number} ".rjust(GUTTER_CELLS - 2), number_style), (bar, bar_style), (" ", "")])


def find_cost_style(cost: TurnCost | None) -> str:
    """Return the style of a turn by its share of the cost of the session."""
    return next((style for least, style in COST_STYLES if cost and cost.share >= least), FAINT)


def format_short_number(number: int) -> str:
    """Return a short form of a number, e.g. `1.2k` for 1234."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.1f}{unit}" if number < 100 * size else f"{number // size:,}{unit}"
    return str(number)


def render_card_title(
    turn: TurnOutline,
    viewport: Viewport,
    gutter: TurnGutter,
    *,
    folded: bool = False,
    with_date: bool = True,
    model: str = "",
) -> Content:
    """Render `12  you · 10:41`. A folded card adds its prompt and counts. Pass a model to show that it changed."""
    room = max(viewport.width - GUTTER_CELLS, 1)
    pieces: list[StyledText] = [
        (f"{glyphs.FOLDED} " if folded else "", MUTED),
        (f"{turn.n:,}  " if turn.n else "", FAINT),
    ]
    pieces += _render_speaker(turn, with_date) if turn.n else [("before the first prompt", MUTED)]
    if model:
        pieces.append((f" · now {one_line(model, 40)}", MUTED))
    if folded:
        pieces += [("  ", ""), (one_line(turn.prompt, room), STRONG)]
        calls, errors = format_counts(0, turn.calls, turn.errors, in_words=viewport.width >= WORDS_CELLS)
        calls = f"  {calls}"
        room -= cell_width(calls + errors)
        line = viewport.apply_highlight(build_content(pieces)).truncate(room, ellipsis=True)
        line += Content(" " * (room - line.cell_length)) + build_content([(calls, FAINT), (errors, ERROR)])
    else:
        line = build_content([*pieces, (" ", "")]).truncate(room, ellipsis=True)
        line += build_content([("─" * (room - line.cell_length), RULE_STYLE)])
    return (line + gutter.render(turn)).truncate(viewport.width)


def _render_speaker(turn: TurnOutline, with_date: bool) -> list[StyledText]:
    speaker = "you" if turn.author in ("", UNKNOWN_USER) else one_line(turn.author, 30)
    time = parse_time(turn.started_at)
    time_text = f" · {time:%Y-%m-%d %H:%M}" if time and with_date else f" · {time:%H:%M}" if time else ""
    return [(speaker, "bold $text-primary"), (time_text, FAINT)]


def render_unloaded_card(turn: TurnOutline, title: Content, viewport: Viewport) -> list[Content]:
    """Render a card whose entries are not loaded yet."""
    lines = [Content(""), title]
    if turn.n:
        lines.append(viewport.truncate(build_content([(one_line(turn.prompt, viewport.width), STRONG)])))
    return lines


# ── the items of a card ───────────────────────────────────────────────────────────────────────────


MAX_PREVIEW_CHARACTERS = 4_000
MAX_PREVIEW_LINES = 80
"""Limit the text of an item that is shown until another process has rendered the item."""

_OUTPUT_BAR: StyledText = ("  │ ", FAINT)


class ItemRendering(NamedTuple):
    """Holds everything that the lines of an item depend on, so that another process can render it."""

    item: TimelineItem
    viewport: Viewport
    is_open: bool

    def render(self) -> list[Content]:
        return list(render_item(self.item, self.viewport, is_open=self.is_open))

    def render_without_styles(self) -> list[Content]:
        """Render the item without parsing its text."""
        if self.item.kind not in ("call", "result"):
            return list(render_plain_text(self.item.text, self.viewport))
        return [self._render_name(), *(render_plain_output(self.item, self.viewport) if self.is_open else ())]

    def render_preview(self) -> list[Content]:
        """Render the beginning of the item without parsing its text, which takes little time for any item."""
        is_call = self.item.kind in ("call", "result")
        value = self.item.call.result if self.item.call else self.item.value
        text = value if isinstance(value, str) and (self.is_open or not is_call) else ""
        viewport = self.viewport.narrow_by(4) if is_call else self.viewport
        shown = "\n".join(text[:MAX_PREVIEW_CHARACTERS].split("\n", MAX_PREVIEW_LINES)[:MAX_PREVIEW_LINES])
        lines = chain(
            render_plain_text(shown, viewport) if shown else (),
            viewport.render_more(len(text) - len(shown), "character"),
        )
        return [self._render_name(), *prefix_lines(_OUTPUT_BAR, lines)] if is_call else list(lines)

    def _render_name(self) -> Content:
        name = one_line(self.item.label, 40)
        return self.viewport.truncate(build_content([(f"{glyphs.CALLS} ", MUTED), (name, STRONG)]))


def render_item(item: TimelineItem, viewport: Viewport, *, is_open: bool) -> Iterator[Content]:
    """Render an item, without the blank line before it and without the title above a prompt."""
    match item.kind:
        case "prompt":
            yield from _render_prompt(item.text, viewport)
        case "text":
            if item.label:
                yield viewport.truncate(build_content([(one_line(item.label, viewport.width), "bold $text-secondary")]))
            yield from render_markdown(item.text.strip("\n"), viewport)
        case "thinking":
            yield from _render_foldable(item, viewport, "thinking", is_open, f"italic {MUTED}")
        case "context":
            yield from _render_foldable(item, viewport, one_line(item.label, 40) or "context", is_open, MUTED)
        case "call" | "result":
            yield render_call_line(item, viewport, is_open=is_open)
            yield from render_call_body(item, viewport) if is_open else render_failure_reason(item, viewport)
        case "compaction":
            yield from _render_compaction(item, viewport, is_open=is_open)
        case "event":
            yield from _render_event(item, viewport)
        case "attachment":
            yield viewport.truncate(build_content(_render_attachment(item)))
        case "note":
            yield from _render_note(item, viewport)
        case "opaque":
            yield viewport.truncate(
                build_content([(f"{glyphs.UNKNOWN} ", FAINT), (one_line(item.label, 40) or "unknown part", FAINT)])
            )


def _render_event(item: TimelineItem, viewport: Viewport) -> Iterator[Content]:
    """Render an event on one line. A failure is rendered in full, because it tells why a session ended."""
    style, sign = (f"bold {ERROR}", glyphs.FAILED) if item.has_failed else (FAINT, glyphs.EVENT)
    if not item.has_failed:
        yield viewport.truncate(build_content([(f"{sign} ", style), (one_line(item.text, viewport.width), style)]))
        return
    text = item.text.strip("\n")[:MAX_FAILURE_CHARACTERS]
    for number, line in enumerate(render_plain_text(text, viewport.narrow_by(2), ERROR)):
        yield build_content([(f"{sign} " if not number else "  ", style)]) + line


MAX_FAILURE_CHARACTERS = 2_000
"""Limits the text of a failure. The record has the rest."""


def _render_prompt(text: str, viewport: Viewport) -> Iterator[Content]:
    """Render a prompt as plain text, because people type paths and patterns, not Markdown. Style only fenced code."""
    text, left = viewport.limit_text(text.strip("\n"))
    position = 0
    for fence in _FENCE.finditer(text):
        if before := text[position : fence.start()].strip("\n"):
            yield from render_plain_text(before, viewport, STRONG)
        for line in highlight_code(fence[3].rstrip("\n"), fence[2]):
            for part in viewport.narrow_by(2).hard_wrap(line):
                padded = Content(" ") + part.pad_right(max(viewport.width - 1 - part.cell_length, 0))
                yield padded.stylize_before(CODE_BACKGROUND)
        position = fence.end()
    if position == 0 or text[position:].strip("\n"):
        yield from render_plain_text(text[position:], viewport, STRONG)
    yield from viewport.render_more(left, "character")


def _render_foldable(
    item: TimelineItem, viewport: Viewport, label: str, is_open: bool, style: str
) -> Iterator[Content]:
    lines = item.text.strip("\n").count("\n") + 1
    head: list[StyledText] = [
        (f"{glyphs.fold_mark(is_open)} ", MUTED),
        (f"{label}, {format_count(lines, 'line')}", MUTED),
    ]
    if is_open:
        yield viewport.truncate(build_content(head))
        yield from prefix_lines(_INDENT, render_plain_text(item.text, viewport.narrow_by(2), style))
    else:
        yield viewport.truncate(
            build_content([*head, ("  ", ""), (one_line(item.text, viewport.width), f"italic {FAINT}")])
        )


def _render_note(item: TimelineItem, viewport: Viewport) -> Iterator[Content]:
    """Render a note with a bar at its side, so that it is not taken for something that was said."""
    time = parse_time(item.label)
    kind = "comment" if item.note and item.note.is_comment else "note"
    head = f"{glyphs.NOTE} {kind}" + (f" · {time:%Y-%m-%d %H:%M}" if time else "")
    yield viewport.truncate(build_content([(head, WARNING)]))
    yield from prefix_lines(("▎ ", WARNING), render_plain_text(item.text, viewport.narrow_by(2)))


def _render_compaction(item: TimelineItem, viewport: Viewport, *, is_open: bool) -> Iterator[Content]:
    sign = f"{glyphs.fold_mark(is_open)} " if item.is_foldable else ""
    label = f" {sign}{glyphs.SUMMARY} earlier turns summarised "
    before = min(4, viewport.width)
    after = max(viewport.width - before - cell_width(label), 0)
    rule = build_content([("─" * before, FAINT), (label, "$text-secondary"), ("─" * after, FAINT)])
    yield rule.truncate(viewport.width, ellipsis=True)
    if is_open:
        yield from render_markdown(item.text.strip("\n"), viewport)


def _render_attachment(item: TimelineItem) -> list[StyledText]:
    """Render the name, type and size of an attachment. A picture itself has its own screen."""
    part = item.entry.parts[item.part_index or 0]
    if not isinstance(part, Attachment):
        return []
    sign = glyphs.IMAGE if part.media_type.startswith("image") else glyphs.FILE
    size = format_size(part.size) if part.size is not None else ""
    details = [one_line(part.name, 60), one_line(part.media_type, 40), size]
    return [(f"{sign} ", "$text-secondary"), (" · ".join(filter(None, details)) or "attachment", MUTED)]


def estimate_height(item: TimelineItem, width: int, *, is_open: bool) -> int:
    """Estimate the height of an item in lines without rendering it."""
    if item.kind in ("prompt", "text", "note") or (is_open and item.is_foldable):
        value = item.call.result if item.call else item.value
        if isinstance(value, list | dict):
            return len(value) + 1
        text = readable_text(value)[:20_000]
        return text.count("\n") + len(text) // max(width, 1) + 1 + (item.kind == "note")
    return 1 + item.has_failed


def describe_place(item: TimelineItem) -> str:
    """Say which item a note is on: its turn, and its first words."""
    turn = f"turn {item.entry.turn:,}" if item.entry.turn else "an entry before the first prompt"
    text = item.entry.text if item.note is not None else item.text
    words = f"{item.label} {describe_call(item.call.name, item.call.arguments)}" if item.call else text or item.label
    return f"On {turn}: “{one_line(words.strip(), PLACE_CELLS)}”" if words.strip() else f"On {turn}."
