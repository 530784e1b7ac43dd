"""This module renders a summary: the turns it covers, its older versions, and conflicts between two of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from textual.content import Content

from store.model.knowledge import Summary
from store.model.session import Session
from store.model.timeline import TurnOutline
from store.text.sanitize import expand_tabs, one_line, sanitize
from tui.render import glyphs
from tui.render.line_diff import ADDED, REMOVED, render_text_diff
from tui.render.styles import (
    FAINT,
    MUTED,
    STRONG,
    WARNING,
    StyledText,
    build_content,
    format_age,
    format_count,
    session_title,
)
from tui.render.viewport import RenderedLine

BAR_CELLS = 24
AUTHOR_LABELS = {"source": "its agent", "person": "a person", "library": "the library"}
COVERED_STYLE = "$text-accent"


def render_summary_heading(session: Session, width: int) -> Content:
    return build_content([("Summary ", STRONG), (f" {one_line(session_title(session), width)}", MUTED)]).truncate(
        width, ellipsis=True
    )


def render_coverage(
    saved: int | None, planned: int | None, last: int, unsaved: bool, *, has_summary: bool = True
) -> Content:
    """Render `covers ███████░░░ 9 of 14 · 5 turns since`."""
    pieces: list[StyledText] = []
    if planned is None and not has_summary:
        pieces.append(("no summary yet", MUTED))
    elif planned is None:
        pieces.append(("unknown coverage", MUTED))
    elif last:
        filled_cells = min(round(BAR_CELLS * planned / last), BAR_CELLS) or int(planned > 0)
        pieces += [("covers ", MUTED), ("█" * filled_cells, COVERED_STYLE), ("░" * (BAR_CELLS - filled_cells), FAINT)]
        pieces.append((f" {planned:,} of {last:,}", ""))
        since = format_count(max(last - planned, 0), "turn")
        pieces.append((f" · {since} since" if since else " · all turns", MUTED))
    if planned != saved and saved is not None:
        pieces.append((f" · was {saved:,}", MUTED))
    if unsaved:
        pieces.append(("   unsaved", WARNING))
    return build_content(pieces)


def render_covered_turn(turn: TurnOutline, saved: int | None, planned: int | None, digits: int, width: int) -> Content:
    """Render a turn with a bar if it is covered. Colours show what saving would change."""
    before, after = turn.n <= (saved or 0), turn.n <= (planned or 0)
    bar = {
        (True, True): ("┃", COVERED_STYLE),
        (False, True): ("┃", ADDED),
        (True, False): ("┊", REMOVED),
        (False, False): ("┊", FAINT),
    }[before, after]
    verb = "ends" if turn.n == planned else "ended" if turn.n == saved else ""
    end = f"{glyphs.COVERED_END} {verb} here" if verb else ""
    room = max(width - digits - 3 - (len(end) + 1 if end else 0), 1)
    prompt = one_line(turn.prompt, room) or "…"
    line = build_content([bar, (f" {turn.n:>{digits}} ", FAINT), (prompt, "" if after else MUTED)])
    if not end:
        return line
    return line + Content(" " * max(width - line.cell_length - len(end), 1)) + build_content([(end, COVERED_STYLE)])


def render_version_row(version: Summary, now: datetime, width: int) -> Content:
    turns = "" if version.up_to_turn is None else f"to turn {version.up_to_turn:,}"
    author = AUTHOR_LABELS.get(version.origin, one_line(version.origin, 12))
    pieces: list[StyledText] = [
        (f"{glyphs.CHOSEN} " if version.current else "  ", COVERED_STYLE),
        (f"{format_age(version.created_at, now):>8}", MUTED),
        (f"  by {author:<11}", MUTED),
        (f" {turns:<14} ", FAINT),
    ]
    start = build_content(pieces)
    return (start + Content(one_line(version.text, max(width - start.cell_length, 1)))).truncate(width, ellipsis=True)


def render_version_diff(version: Summary, current: Summary | None) -> list[RenderedLine]:
    """Render how the summary would change if this version was restored."""
    if current is not None and version.key == current.key:
        return [build_content([("This is the current version.", MUTED)])]
    head = [build_content([("Restoring this version would change:", MUTED)]), Content("")]
    changes = render_text_diff(current.text if current else "", version.text)
    nothing = [build_content([("Nothing in the text.", MUTED)])]
    return [*head, *(changes or nothing), *_render_coverage_change(current, version)]


def _render_coverage_change(current: Summary | None, version: Summary) -> Iterator[Content]:
    ends = [None if summary is None else summary.up_to_turn for summary in (current, version)]
    if ends[0] != ends[1]:
        labels = [f"to turn {end:,}" if end is not None else "unknown" for end in ends]
        yield Content("")
        yield build_content([("covers  ", MUTED), (labels[0], REMOVED), (" → ", MUTED), (labels[1], ADDED)])


def render_conflict(theirs: Summary | None, text: str, end: int | None) -> list[Content]:
    """Render two conflicting summaries in full, one below the other."""
    lines = [
        *_render_full_text(
            "Other version, saved while you were editing",
            theirs.text if theirs else "",
            theirs.up_to_turn if theirs else None,
        )
    ]
    return [*lines, Content(""), *_render_full_text("Your version, not saved", text, end)]


def _render_full_text(title: str, text: str, end: int | None) -> Sequence[Content]:
    covers = "" if end is None else f" · to turn {end:,}"
    lines = expand_tabs(sanitize(text[:20_000])).split("\n") if text.strip() else ["(no summary)"]
    return [build_content([(title, STRONG), (covers, MUTED)]), *(Content("  " + line) for line in lines)]
