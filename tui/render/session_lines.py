"""This module renders the sessions of the list and the headings between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from os.path import expanduser
from typing import TYPE_CHECKING, NamedTuple

from store.model.session import Relation, Session
from store.model.status import SessionStatus, find_status, is_recent
from store.search.list_rows import (
    BEST_MATCHES,
    EMPTY_SESSIONS,
    OTHER_SESSIONS,
    PINNED_SESSIONS,
    TOOL_OUTPUT,
    Grouping,
    Heading,
    SessionListLayout,
    SessionRow,
)
from store.search.sql import EXPIRING_WINDOW
from store.sources import source_label
from store.text.sanitize import ELLIPSIS, cell_width, one_line, sanitize, truncate
from store.text.tags import format_tag
from tui.render import glyphs
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
    format_counts,
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

NAME_CELLS = 42
"""The width of a list from which it shows the names of agents."""

MAX_NAME_CELLS = 20

STATUS_MARKS: dict[SessionStatus, tuple[str, str, str]] = {
    "working": (glyphs.WORKING, "$text-success", "working"),
    "waiting": (glyphs.WAITING, WARNING, "waiting for you"),
    "idle": (glyphs.IDLE, FAINT, "idle"),
    "ended": (glyphs.ENDED, FAINT, "ended"),
}
"""Holds the sign of each status, its style and its words."""

_RELATION_BADGES: dict[Relation, tuple[str, str]] = {
    "fork": (glyphs.FORK, " fork"),
    "delegate": (glyphs.SUB_AGENT, " sub-agent"),
    "sidechain": (glyphs.SUB_AGENT, " sub-agent"),
    "superseded": (glyphs.SUPERSEDED, " superseded"),
}


class TreePrefix(NamedTuple):
    """Holds what precedes the two lines of a row: the lines of the tree, and the sign that it can be folded."""

    first: str = ""
    second: str = ""
    fold_sign: str = " "


ROOT_PREFIX = TreePrefix()


def build_tree_prefix(listing: SessionListLayout, row: int, children: int) -> TreePrefix:
    """Build the tree lines of a row from `├`, `└` and `│`. A `▸` marks a row with folded children."""
    depth = listing.depth(row)
    fold = " " if not children else glyphs.fold_mark(listing.keys[row] in listing.options.unfolded)
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
    lead: StyledLine = [(f"{glyphs.PINNED} ", WARNING) if session.pinned else ("  ", ""), (prefix.first, FAINT)]
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
    pieces: StyledLine = [(f"{prefix.fold_sign} ", FAINT), (prefix.second, FAINT), *_render_agent(session, width)]
    pieces += render_status_sign(session, now)
    age = format_age(session.updated_at, now)
    if snippet:
        pieces.append((f"{age} ", MUTED))
        pieces += render_snippet(snippet, width - sum(cell_width(text) for text, _ in pieces), MUTED)
        return pieces
    location = one_line(session_location(session), min(width // 3, 40))
    room = width - sum(cell_width(text) for text, _ in pieces)
    badges = list(list_badges(row, prefix, now))
    for in_words in (True, False):
        counts, failures = format_counts(session.turns, session.tool_calls, session.errors, in_words=in_words)
        text = " · ".join(filter(None, [location, age, counts]))
        left = room - cell_width(text + failures)
        if left >= sum(cell_width(f"  {sign}{word}") for sign, word in badges):
            break
    return [*pieces, (text, MUTED), (failures, ERROR), *_fit_badges(badges, left)]


def _render_agent(session: Session, width: int) -> StyledLine:
    """Return the name of the agent, or two letters in a narrow list."""
    badge = agent_badge(session.source)
    if width < NAME_CELLS or not session.source:
        return [badge, (" ", "")]
    return [(one_line(source_label(session.source), MAX_NAME_CELLS), badge.style), (" · ", FAINT)]


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
    if prefix.fold_sign == glyphs.FOLDED:
        yield f"+{row.children:,}", ""
    if row.owner or row.is_shared:
        yield glyphs.SHARED, f" {one_line(row.owner, MAX_NAME_CELLS)}" if row.owner else ""
    if row.is_disputed:
        yield glyphs.DISPUTED, " two values"
    if row.has_summary:
        yield glyphs.SUMMARY, ""
    if row.has_secrets:
        yield glyphs.SECRETS, ""
    if row.has_notes:
        yield glyphs.NOTE, ""
    if session.relation:
        yield _RELATION_BADGES[session.relation]
    if session.gone:
        yield glyphs.GONE, " gone"
    elif (left := days_left(session, now)) is not None:
        yield f"{glyphs.EXPIRES}{left}d", ""
    if session.deleted:
        yield glyphs.TRASHED, " in the trash"
    if session.archived:
        yield glyphs.ARCHIVED, " archived"
    for tag in row.tags:
        yield f"#{format_tag(one_line(tag, 20))}", ""


def days_left(session: Session, now: datetime) -> int | None:
    """Return the days until the agent deletes a session, or None if that is not soon."""
    expiry = parse_time(session.expires_at)
    return max((expiry - now).days, 0) if expiry is not None and expiry - now < EXPIRING_WINDOW else None


def render_status_sign(session: Session, now: datetime) -> StyledLine:
    """Render that an error ended a session, or that it works, waits or has ended within a day. Others have no sign."""
    if session.activity == "failed":
        return [(f"{glyphs.FAILED} ", ERROR)]
    status = find_status(session, now)
    if status == "idle" or not is_recent(session, now):
        return []
    sign, style, _ = STATUS_MARKS[status]
    return [(f"{sign} ", style)]


def render_snippet(hit: Hit, room: int, style: str) -> Iterator[StyledText]:
    """Yield the snippet with its matches highlighted. It is cut so that the first match is visible."""
    if hit.field == "note":
        yield f"{glyphs.NOTE} ", style
        room -= 2
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


_SPECIAL_HEADINGS = {
    EMPTY_SESSIONS: "Empty",
    TOOL_OUTPUT: "In tool output",
    PINNED_SESSIONS: "Pinned",
    OTHER_SESSIONS: "Others",
}


def render_group_heading(
    heading: Heading, group: Grouping, width: int, now: datetime, *, has_more: bool = False
) -> StyledLine:
    """Render a heading and its number of sessions. `has_more` says that only the newest are listed."""
    count = f"the newest {heading.sessions:,} · A shows all" if has_more else f"{heading.sessions:,}"
    special = _SPECIAL_HEADINGS.get(heading.value)
    pieces: StyledLine = [agent_badge(heading.value), (" ", "")] if group == "agent" and not special else []
    room = width - len(count) - 2 - sum(cell_width(text) for text, _ in pieces)
    name = special or one_line(_group_name(heading.value, group, now), room)
    return fit_line([*pieces, (name, HEADING_STYLE), ("  ", ""), (count, FAINT)], width)


def render_empty_group(count: int, width: int, *, is_unfolded: bool) -> tuple[StyledLine, StyledLine]:
    """Render the row under which the sessions without turns are folded."""
    noun = "session" if count == 1 else "sessions"
    hint = f"{glyphs.fold_mark(is_unfolded)} " + ("← hides them" if is_unfolded else "→ shows them")
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


def shorten_path(path: str, width: int) -> str:
    """Return a path that is at most this wide. Its first folders are left out, because its end says more."""
    path = one_line(path)
    while cell_width(path) > width and "/" in path.removeprefix("…/"):
        path = f"…/{path.removeprefix('…/').partition('/')[2]}"
    return truncate(path, width)
