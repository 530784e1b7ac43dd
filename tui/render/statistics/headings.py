"""This module renders the lines around the charts: the periods, the totals, the tabs and the price table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from textual.content import Content

from store.model.statistics import Figures, TableInfo
from store.text.sanitize import one_line
from tui.render.charts.calendar import Streaks
from tui.render.charts.measures import COST, MEASURES, TOKENS, Measure
from tui.render.statistics.figures import write_amount
from tui.render.statistics.period import PERIODS, StatsPeriod
from tui.render.styles import FAINT, MUTED, STRONG, WARNING, StyledText, build_content, format_count

CHOSEN = "bold $foreground on $primary-muted"


def render_periods(period: StatsPeriod, today: date, width: int) -> Content:
    """Render `1 today  2 7 days …` with the current one highlighted, and its days at the right."""
    pieces: list[StyledText] = []
    for number, name in enumerate(PERIODS, start=1):
        style = CHOSEN if name == period.name else MUTED
        pieces += [(f"{number}", FAINT), (f" {name} ", style), (" ", "")]
    line = build_content(pieces)
    days = build_content([("‹ ", FAINT), (period.describe(today), STRONG), (" ›", FAINT)])
    room = width - line.cell_length - days.cell_length
    return (line + Content(" " * max(room, 1)) + days).truncate(width, ellipsis=True)


def render_totals(totals: Figures | None, measure: Measure, width: int) -> Content:
    """Render the totals of all measures, with the current one highlighted. None is not known yet."""
    for gap, padding in (("   ", " "), (" ", " "), (" ", "")):
        line = _render_totals(totals, measure, gap, padding)
        if line.cell_length - len(gap) <= width:
            return line[:width]
    return line.truncate(width, ellipsis=True)


def _render_totals(totals: Figures | None, measure: Measure, gap: str, padding: str) -> Content:
    """Render the totals with a gap between them. The padding is before each amount that is not highlighted."""
    pieces: list[StyledText] = []
    for shown in MEASURES:
        amount = write_amount(totals, shown) if totals else "…"
        is_current = shown == measure
        label = "active" if shown.key == "active" else shown.label
        label = label.removesuffix("s") if amount == "1" else label
        pieces += [
            (f" {amount} " if is_current else f"{padding}{amount} ", CHOSEN if is_current else ""),
            (f"{label}{gap}", "$text-accent" if is_current else MUTED),
        ]
    return build_content(pieces)


def render_tabs(tabs: Sequence[str], current: str, width: int) -> Content:
    pieces: list[StyledText] = [("by ", FAINT)]
    for name in tabs:
        pieces += [(f" {name} ", CHOSEN if name == current else MUTED), (" ", "")]
    return build_content(pieces).truncate(width, ellipsis=True)


def render_streaks(streaks: Streaks, width: int) -> Content:
    """Render how many days in a row something happened."""
    pieces: list[StyledText] = [
        (f"{streaks.active_days:,}", STRONG),
        (" active days   ", MUTED) if streaks.active_days != 1 else (" active day   ", MUTED),
        ("current streak ", MUTED),
        (format_count(streaks.current, "day") or "none", STRONG),
        ("   longest ", MUTED),
        (format_count(streaks.longest, "day") or "none", STRONG),
    ]
    return build_content(pieces).truncate(width, ellipsis=True)


def render_prices(prices: TableInfo | None, totals: Figures | None, width: int, unread_sessions: int = 0) -> Content:
    """Render which prices the amounts of money come from, and how many tokens have none. A narrow line is shorter."""
    if prices is None or totals is None:
        return Content("")
    pieces: list[StyledText] = []
    if unread_sessions:
        pieces.append((f"tokens of {format_count(unread_sessions, 'session')} still to be read · ", WARNING))
    if totals.unpriced_tokens:
        pieces.append((f"{TOKENS.format(totals.unpriced_tokens)} tokens unpriced · ", WARNING))
    if totals.is_estimated:
        pieces.append(("~ estimates · ", MUTED))
    table = f"{prices.name} {prices.short}"
    for text in (f"{COST.label} at list prices, not a bill · prices {table}", f"prices {table}", table):
        line = build_content([*pieces, (one_line(text), FAINT)])
        if line.cell_length <= width:
            break
    return line.truncate(width, ellipsis=True)
