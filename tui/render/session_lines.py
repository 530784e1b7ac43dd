"""This module renders the sessions of the list and the headings between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from os.path import expanduser
from typing import TYPE_CHECKING, NamedTuple

from store.model.session import Relation, Session
from store.search.list_rows import BEST_MATCHES, EMPTY_SESSIONS, Grouping, Heading, SessionListLayout, SessionRow
from store.search.sql import EXPIRING_WINDOW, LIVE_WINDOW
from store.text.sanitize import ELLIPSIS, cell_width, one_line, sanitize
from tui.render.styles import (
    ERROR,
    FAINT,
    MUTED,
    STRONG,
    WARNING,
    StyledLine,
    StyledText,
    agent_badge,
    fit_line,
    format_age,
    highlight_matches,
    parse_time,
    session_location,
    session_title,
)
from tui.render.viewport import HIT_STYLE

if TYPE_CHECKING:
    from store.model.knowledge import Hit

MIN_SNIPPET_CELLS = 24
"""The least width in which a snippet is worth showing."""

LIVE_STYLE = "$text-success"

_RELATION_BADGES: dict[Relation, tuple[str, str]] = {
    "fork": ("↱", " fork"),
    "delegate": ("↳", " sub-agent"),
    "sidechain": ("↳", " sub-agent"),
    "superseded": ("⤺", " superseded"),
}

SIGN_LEGEND = (
    ("★", "pinned"),
    ("✓", "selected: the next action applies to all selected sessions"),
    ("⟲", "turns: a prompt and everything up to the next prompt"),
    ("⚙", "tool calls"),
    ("✗", "failed tool calls"),
    ("●", "live: changed in the last two minutes"),
    ("▸ +3", "three sessions that came from this one, folded"),
    ("↱", "forked from another session"),
    ("↳", "sub-agent of another session"),
    ("⤺", "superseded: its agent rewrote it"),
    ("∑", "has a summary"),
    ("🔒", "has secrets"),
    ("⌫", "gone: its agent no longer has it"),
    ("⏳", "days until its agent deletes it"),
    ("▫", "archived"),
    ("#", "your tags"),
)
"""Explains the signs in a row."""


class TreePrefix(NamedTuple):
    """Holds what precedes the two lines of a row: the lines of the tree, and the sign that it can be folded."""

    first: str = ""
    second: str = ""
    fold_sign: str = " "


ROOT_PREFIX = TreePrefix()


def build_tree_prefix(listing: SessionListLayout, row: int, children: int) -> TreePrefix:
    """Build the tree lines of a row from `├`, `└` and `│`. A `▸` marks a row with folded children."""
    depth = listing.depth(row)
    fold = " " if not children else "▾" if listing.keys[row] in listing.options.unfolded else "▸"
    if not depth:
        return TreePrefix(fold_sign=fold)
    ancestors = "".join("│ " if listing.has_guide(row, level) else "  " for level in range(1, depth))
    has_sibling = listing.has_guide(row, depth)
    return TreePrefix(ancestors + ("├ " if has_sibling else "└ "), ancestors + ("│ " if has_sibling else "  "), fold)


def render_session(
    row: SessionRow, width: int, now: datetime, prefix: TreePrefix = ROOT_PREFIX, words: re.Pattern[str] | None = None
) -> tuple[StyledLine, StyledLine]:
    """Render the two lines of a session. Matches of the pattern are highlighted."""
    hit = row.hit if row.hit and not session_title(row.session).startswith(row.hit.snippet.rstrip(ELLIPSIS)) else None
    first, room = _render_title_line(row.session, hit, width, prefix)
    details_hit = hit if room < MIN_SNIPPET_CELLS else None
    if words is not None:
        first = list(highlight_matches(first, words, HIT_STYLE))
    return fit_line(first, width), fit_line(_render_details_line(row, width, now, prefix, details_hit), width)


def _render_title_line(session: Session, hit: Hit | None, width: int, prefix: TreePrefix) -> tuple[StyledLine, int]:
    """Return the first line, and the room that is left after the title."""
    lead: StyledLine = [("★ ", WARNING) if session.pinned else ("  ", ""), (prefix.first, FAINT)]
    title = one_line(session_title(session), width - 2 - cell_width(prefix.first))
    room = width - 2 - cell_width(prefix.first) - cell_width(title) - 2
    pieces = [*lead, (title, STRONG if not prefix.first else "")]
    if room >= MIN_SNIPPET_CELLS:
        if hit:
            pieces += [("  ", ""), *render_snippet(hit, room, FAINT)]
        elif session.first_prompt and session.first_prompt != session.title:
            pieces.append(("  " + one_line(session.first_prompt, room), FAINT))
    return pieces, room


def _render_details_line(
    row: SessionRow, width: int, now: datetime, prefix: TreePrefix, snippet: Hit | None
) -> StyledLine:
    """Render the folder, age, counts and badges. In a narrow list the snippet takes their place."""
    session = row.session
    pieces: StyledLine = [
        (f"{prefix.fold_sign} ", FAINT),
        (prefix.second, FAINT),
        agent_badge(session.source),
        (" ", ""),
    ]
    if is_live(session, now):
        pieces.append(("● ", LIVE_STYLE))
    age = format_age(session.updated_at, now)
    if snippet:
        pieces.append((f"{age} ", MUTED))
        pieces += render_snippet(snippet, width - sum(cell_width(text) for text, _ in pieces), MUTED)
        return pieces
    counts = [f"{n:,}{sign}" for n, sign in ((session.turns, "⟲"), (session.tool_calls, "⚙")) if n]
    location = one_line(session_location(session), min(width // 3, 40))
    pieces.append((" · ".join(filter(None, [location, age, " ".join(counts)])), MUTED))
    if session.errors:
        pieces.append((f" {session.errors:,}✗", ERROR))
    room = width - sum(cell_width(text) for text, _ in pieces)
    return [*pieces, *_fit_badges(list_badges(row, prefix, now), room)]


def _fit_badges(badges: Iterable[SessionBadge], room: int) -> Iterator[StyledText]:
    """Yield the badges with their words if all fit, else only the signs that fit."""
    pairs = list(badges)
    texts = [f"  {sign}{word}" for sign, word in pairs]
    if sum(map(cell_width, texts)) > room:
        texts = [f" {sign}" for sign, _ in pairs]
    for text in texts:
        if cell_width(text) <= room:
            room -= cell_width(text)
            yield text, MUTED


SessionBadge = tuple[str, str]
"""Holds a sign, and a word that is shown if there is room."""


def list_badges(row: SessionRow, prefix: TreePrefix, now: datetime) -> Iterator[SessionBadge]:
    """Yield the badges of a session, the most important first, because a narrow list cannot show all."""
    session = row.session
    if prefix.fold_sign == "▸":
        yield f"+{row.children:,}", ""
    if row.has_summary:
        yield "∑", ""
    if row.has_secrets:
        yield "🔒", ""
    if session.relation:
        yield _RELATION_BADGES[session.relation]
    if session.gone:
        yield "⌫", " gone"
    elif (left := days_left(session, now)) is not None:
        yield f"⏳{left}d", ""
    if session.archived:
        yield "▫", " archived"
    for tag in row.tags:
        yield f"#{one_line(tag, 20)}", ""


def days_left(session: Session, now: datetime) -> int | None:
    """Return the days until the agent deletes a session, or None if that is not soon."""
    expiry = parse_time(session.expires_at)
    return max((expiry - now).days, 0) if expiry is not None and expiry - now < EXPIRING_WINDOW else None


def is_live(session: Session, now: datetime) -> bool:
    """Return whether a session changed so recently that it is probably still running."""
    updated = parse_time(session.updated_at)
    return updated is not None and abs(now - updated) < LIVE_WINDOW and not session.gone


def render_snippet(hit: Hit, room: int, style: str) -> Iterator[StyledText]:
    """Yield the snippet with its matches highlighted. It is cut so that the first match is visible."""
    text, begin = hit.snippet, 0
    if hit.highlights and hit.highlights[0][0] > room // 3:
        begin = hit.highlights[0][0] - room // 4
        yield "…", style
    for start, end in hit.highlights:
        yield sanitize(text[begin:start]), style
        yield sanitize(text[max(start, begin) : end]), HIT_STYLE
        begin = max(begin, end)
    yield sanitize(text[begin:]), style


# ── headings ──────────────────────────────────────────────────────────────────────────────────────

HEADING_STYLE = "bold $text-secondary"


def render_group_heading(heading: Heading, group: Grouping, width: int, now: datetime) -> StyledLine:
    count = f"{heading.sessions:,}"
    is_empty_group = heading.value == EMPTY_SESSIONS
    pieces: StyledLine = [agent_badge(heading.value), (" ", "")] if group == "agent" and not is_empty_group else []
    room = width - len(count) - 2 - sum(cell_width(text) for text, _ in pieces)
    name = "Empty" if is_empty_group else one_line(_group_name(heading.value, group, now), room)
    return fit_line([*pieces, (name, HEADING_STYLE), ("  ", ""), (count, FAINT)], width)


def render_empty_group(count: int, width: int, *, is_unfolded: bool) -> tuple[StyledLine, StyledLine]:
    """Render the row under which the sessions without turns are folded."""
    noun = "session" if count == 1 else "sessions"
    hint = "▾ ← hides them" if is_unfolded else "▸ → shows them"
    return fit_line([(f"  {count:,} {noun} without a turn", MUTED)], width), fit_line([(hint, FAINT)], width)


def _group_name(value: str, group: Grouping, now: datetime) -> str:
    match group:
        case "day":
            return format_day(value, now)
        case "folder":
            return abbreviate_home(value) or "No folder"
        case "user":
            return value or "No user"
    return value


def format_day(day: str, now: datetime) -> str:
    if day == BEST_MATCHES:
        return "Best match"
    if not day:
        return "No date"
    that_day, today = date.fromisoformat(day), now.astimezone().date()
    if timedelta(0) <= today - that_day < timedelta(days=7):
        days_ago = (today - that_day).days
        return ("Today", "Yesterday")[days_ago] if days_ago < 2 else f"{that_day:%A}"
    return f"{that_day:%a} {that_day.day} {that_day:%b}" + (f" {that_day.year}" if that_day.year != today.year else "")


def abbreviate_home(path: str) -> str:
    home = expanduser("~").rstrip("/")
    return f"~{path.removeprefix(home)}" if home and f"{path}/".startswith(f"{home}/") else path
