"""A session in the list, the headings between them, and the list that has none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from os.path import expanduser
from typing import TYPE_CHECKING, NamedTuple

from store.model.session import Relation, Session
from store.search.list_rows import BEST_MATCHES, Grouping, Heading, SessionListLayout, SessionRow
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
"""Fewer cells than this say nothing."""

LIVE_STYLE = "$text-success"

_RELATION_BADGES: dict[Relation, tuple[str, str]] = {
    "fork": ("↱", " fork"),
    "delegate": ("↳", " delegate"),
    "sidechain": ("↳", " side chain"),
    "superseded": ("⤺", " superseded"),
}

SIGN_LEGEND = (
    ("★", "pinned"),
    ("✓", "marked: what is done next is done to all that are"),
    ("⟲", "turns: a prompt and all that was done about it"),
    ("⚙", "tool calls"),
    ("✗", "tool calls that failed"),
    ("●", "live: its agent wrote to it in the last two minutes"),
    ("▸ +3", "three sessions came from it and are folded away"),
    ("↱", "forked off another session"),
    ("↳", "worked for another session"),
    ("∑", "has a summary"),
    ("🔒", "has secrets"),
    ("⌫", "gone: its agent does not have it any more"),
    ("⏳", "its agent will delete it in so many days"),
    ("▫", "archived"),
    ("#", "your own tags"),
)
"""What a row says without words."""


class TreePrefix(NamedTuple):
    """What stands before the two lines of a row: the lines that join it to its parent, and whether it can be folded."""

    first: str = ""
    second: str = ""
    fold_sign: str = " "


ROOT_PREFIX = TreePrefix()


def build_tree_prefix(listing: SessionListLayout, row: int, children: int) -> TreePrefix:
    """`├`, `└` and `│`; and `▸` before what more there is to see."""
    depth = listing.depth(row)
    fold = " " if not children else "▾" if listing.keys[row] in listing.options.unfolded else "▸"
    if not depth:
        return TreePrefix(fold_sign=fold)
    above = "".join("│ " if listing.has_guide(row, level) else "  " for level in range(1, depth))
    goes_on = listing.has_guide(row, depth)
    return TreePrefix(above + ("├ " if goes_on else "└ "), above + ("│ " if goes_on else "  "), fold)


def render_session(
    row: SessionRow, width: int, now: datetime, branch: TreePrefix = ROOT_PREFIX, words: re.Pattern[str] | None = None
) -> tuple[StyledLine, StyledLine]:
    """The two lines of a session. Words that were looked for are set off."""
    hit = row.hit if row.hit and not session_title(row.session).startswith(row.hit.snippet.rstrip(ELLIPSIS)) else None
    first, room = _render_title_line(row.session, hit, width, branch)
    narrow = hit if room < MIN_SNIPPET_CELLS else None
    if words is not None:
        first = list(highlight_matches(first, words, HIT_STYLE))
    return fit_line(first, width), fit_line(_render_details_line(row, width, now, branch, narrow), width)


def _render_title_line(session: Session, hit: Hit | None, width: int, branch: TreePrefix) -> tuple[StyledLine, int]:
    """And how much room there was behind the title."""
    lead: StyledLine = [("★ ", WARNING) if session.pinned else ("  ", ""), (branch.first, FAINT)]
    title = one_line(session_title(session), width - 2 - cell_width(branch.first))
    room = width - 2 - cell_width(branch.first) - cell_width(title) - 2
    pieces = [*lead, (title, STRONG if not branch.first else "")]
    if room >= MIN_SNIPPET_CELLS:
        if hit:
            pieces += [("  ", ""), *render_snippet(hit, room, FAINT)]
        elif session.first_prompt and session.first_prompt != session.title:
            pieces.append(("  " + one_line(session.first_prompt, room), FAINT))
    return pieces, room


def _render_details_line(
    row: SessionRow, width: int, now: datetime, branch: TreePrefix, snippet: Hit | None
) -> StyledLine:
    """Where, when, how much, and what else is so; in a narrow list, rather what was found."""
    session = row.session
    pieces: StyledLine = [
        (f"{branch.fold_sign} ", FAINT),
        (branch.second, FAINT),
        agent_badge(session.source),
        (" ", ""),
    ]
    if is_live(session, now):
        pieces.append(("● ", LIVE_STYLE))
    told = format_age(session.updated_at, now)
    if snippet:
        pieces.append((f"{told} ", MUTED))
        pieces += render_snippet(snippet, width - sum(cell_width(text) for text, _ in pieces), MUTED)
        return pieces
    counts = [f"{n:,}{sign}" for n, sign in ((session.turns, "⟲"), (session.tool_calls, "⚙")) if n]
    place = one_line(session_location(session), min(width // 3, 40))
    pieces.append((" · ".join(filter(None, [place, told, " ".join(counts)])), MUTED))
    if session.errors:
        pieces.append((f" {session.errors:,}✗", ERROR))
    room = width - sum(cell_width(text) for text, _ in pieces)
    return [*pieces, *_fit_badges(list_badges(row, branch, now), room)]


def _fit_badges(given: Iterable[SessionBadge], room: int) -> Iterator[StyledText]:
    """With their words if all have room, else by their signs alone, and only those that fit."""
    every = list(given)
    shown = [f"  {sign}{word}" for sign, word in every]
    if sum(map(cell_width, shown)) > room:
        shown = [f" {sign}" for sign, _ in every]
    for badge in shown:
        if cell_width(badge) <= room:
            room -= cell_width(badge)
            yield badge, MUTED


SessionBadge = tuple[str, str]
"""A sign, and what it says in words where there is room for them."""


def list_badges(row: SessionRow, branch: TreePrefix, now: datetime) -> Iterator[SessionBadge]:
    """What matters most first, since in a narrow list not all have room."""
    session = row.session
    if branch.fold_sign == "▸":
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
    """Until its agent deletes it, where that is soon."""
    then = parse_time(session.expires_at)
    return max((then - now).days, 0) if then is not None and then - now < EXPIRING_WINDOW else None


def is_live(session: Session, now: datetime) -> bool:
    """Its source changed so lately that it is taken to be going on."""
    then = parse_time(session.updated_at)
    return then is not None and now - then < LIVE_WINDOW and not session.gone


def render_snippet(hit: Hit, room: int, style: str) -> Iterator[StyledText]:
    """What was said, with the words set off; so cut that the first of them is seen."""
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
    told = f"{heading.sessions:,}"
    pieces: StyledLine = [agent_badge(heading.value), (" ", "")] if group == "agent" else []
    room = width - len(told) - 2 - sum(cell_width(text) for text, _ in pieces)
    name = one_line(_group_name(heading.value, group, now), room)
    return fit_line([*pieces, (name, HEADING_STYLE), ("  ", ""), (told, FAINT)], width)


def _group_name(value: str, group: Grouping, now: datetime) -> str:
    match group:
        case "day":
            return format_day(value, now)
        case "folder":
            return abbreviate_home(value) or "no folder"
    return value


def format_day(day: str, now: datetime) -> str:
    if day == BEST_MATCHES:
        return "Best match"
    if not day:
        return "no date"
    then, today = date.fromisoformat(day), now.astimezone().date()
    if timedelta(0) <= today - then < timedelta(days=7):
        ago = (today - then).days
        return ("Today", "Yesterday")[ago] if ago < 2 else f"{then:%A}"
    return f"{then:%a} {then.day} {then:%b}" + (f" {then.year}" if then.year != today.year else "")


def abbreviate_home(path: str) -> str:
    home = expanduser("~").rstrip("/")
    return f"~{path.removeprefix(home)}" if home and f"{path}/".startswith(f"{home}/") else path
