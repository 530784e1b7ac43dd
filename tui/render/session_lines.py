"""A session in the list, the headings between them, and the list that has none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from os.path import expanduser
from typing import TYPE_CHECKING, NamedTuple

from store.model.session import Relation, Session
from store.search.list_rows import BEST, Grouping, Heading, Listing, Row
from store.search.sql import EXPIRING, LIVE
from store.text.sanitize import ELLIPSIS, cells, clean, one_line
from tui.render.styles import (
    ERROR,
    FAINT,
    MUTED,
    STAR,
    STRONG,
    Line,
    Piece,
    age,
    fitted,
    mark_of,
    marked,
    moment,
    place_of,
    title_of,
)
from tui.render.viewport import HIT

if TYPE_CHECKING:
    from store.model.knowledge import Hit

SNIPPET_AT_LEAST = 24
"""Fewer cells than this say nothing."""

LIVE_STYLE = "$text-success"

_RELATIONS: dict[Relation, tuple[str, str]] = {
    "fork": ("↱", " fork"),
    "delegate": ("↳", " delegate"),
    "sidechain": ("↳", " side chain"),
    "superseded": ("⤺", " superseded"),
}

SIGNS = (
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


class Branch(NamedTuple):
    """What stands before the two lines of a row: the lines that join it to its parent, and whether it can be folded."""

    first: str = ""
    second: str = ""
    fold: str = " "


ON_TOP = Branch()


def branch_of(listing: Listing, row: int, children: int) -> Branch:
    """`├`, `└` and `│`; and `▸` before what more there is to see."""
    depth = listing.depth(row)
    fold = " " if not children else "▾" if listing.keys[row] in listing.wanted.unfolded else "▸"
    if not depth:
        return Branch(fold=fold)
    above = "".join("│ " if listing.continues(row, level) else "  " for level in range(1, depth))
    goes_on = listing.continues(row, depth)
    return Branch(above + ("├ " if goes_on else "└ "), above + ("│ " if goes_on else "  "), fold)


def session_lines(
    row: Row, width: int, now: datetime, branch: Branch = ON_TOP, words: re.Pattern[str] | None = None
) -> tuple[Line, Line]:
    """The two lines of a session. Words that were looked for are set off."""
    hit = row.hit if row.hit and not title_of(row.session).startswith(row.hit.snippet.rstrip(ELLIPSIS)) else None
    first, room = _title_line(row.session, hit, width, branch)
    narrow = hit if room < SNIPPET_AT_LEAST else None
    if words is not None:
        first = list(marked(first, words, HIT))
    return fitted(first, width), fitted(_facts_line(row, width, now, branch, narrow), width)


def _title_line(session: Session, hit: Hit | None, width: int, branch: Branch) -> tuple[Line, int]:
    """And how much room there was behind the title."""
    lead: Line = [("★ ", STAR) if session.pinned else ("  ", ""), (branch.first, FAINT)]
    title = one_line(title_of(session), width - 2 - cells(branch.first))
    room = width - 2 - cells(branch.first) - cells(title) - 2
    pieces = [*lead, (title, STRONG if not branch.first else "")]
    if room >= SNIPPET_AT_LEAST:
        if hit:
            pieces += [("  ", ""), *hit_pieces(hit, room, FAINT)]
        elif session.first_prompt and session.first_prompt != session.title:
            pieces.append(("  " + one_line(session.first_prompt, room), FAINT))
    return pieces, room


def _facts_line(row: Row, width: int, now: datetime, branch: Branch, snippet: Hit | None) -> Line:
    """Where, when, how much, and what else is so; in a narrow list, rather what was found."""
    session = row.session
    pieces: Line = [(f"{branch.fold} ", FAINT), (branch.second, FAINT), mark_of(session.source), (" ", "")]
    if is_live(session, now):
        pieces.append(("● ", LIVE_STYLE))
    told = age(session.updated_at, now)
    if snippet:
        pieces.append((f"{told} ", MUTED))
        pieces += hit_pieces(snippet, width - sum(cells(text) for text, _ in pieces), MUTED)
        return pieces
    counts = [f"{n:,}{sign}" for n, sign in ((session.turns, "⟲"), (session.tool_calls, "⚙")) if n]
    place = one_line(place_of(session), min(width // 3, 40))
    pieces.append((" · ".join(filter(None, [place, told, " ".join(counts)])), MUTED))
    if session.errors:
        pieces.append((f" {session.errors:,}✗", ERROR))
    room = width - sum(cells(text) for text, _ in pieces)
    return [*pieces, *_fitting(badges(row, branch, now), room)]


def _fitting(given: Iterable[Badge], room: int) -> Iterator[Piece]:
    """With their words if all have room, else by their signs alone, and only those that fit."""
    every = list(given)
    shown = [f"  {sign}{word}" for sign, word in every]
    if sum(map(cells, shown)) > room:
        shown = [f" {sign}" for sign, _ in every]
    for badge in shown:
        if cells(badge) <= room:
            room -= cells(badge)
            yield badge, MUTED


Badge = tuple[str, str]
"""A sign, and what it says in words where there is room for them."""


def badges(row: Row, branch: Branch, now: datetime) -> Iterator[Badge]:
    """What matters most first, since in a narrow list not all have room."""
    session = row.session
    if branch.fold == "▸":
        yield f"+{row.children:,}", ""
    if row.has_summary:
        yield "∑", ""
    if row.has_secrets:
        yield "🔒", ""
    if session.relation:
        yield _RELATIONS[session.relation]
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
    then = moment(session.expires_at)
    return max((then - now).days, 0) if then is not None and then - now < EXPIRING else None


def is_live(session: Session, now: datetime) -> bool:
    """Its source changed so lately that it is taken to be going on."""
    then = moment(session.updated_at)
    return then is not None and now - then < LIVE and not session.gone


def hit_pieces(hit: Hit, room: int, style: str) -> Iterator[Piece]:
    """What was said, with the words set off; so cut that the first of them is seen."""
    text, begin = hit.snippet, 0
    if hit.marks and hit.marks[0][0] > room // 3:
        begin = hit.marks[0][0] - room // 4
        yield "…", style
    for start, end in hit.marks:
        yield clean(text[begin:start]), style
        yield clean(text[max(start, begin) : end]), HIT
        begin = max(begin, end)
    yield clean(text[begin:]), style


# ── headings ──────────────────────────────────────────────────────────────────────────────────────

HEADING = "bold $text-secondary"


def heading_line(heading: Heading, group: Grouping, width: int, now: datetime) -> Line:
    told = f"{heading.sessions:,}"
    pieces: Line = [mark_of(heading.value), (" ", "")] if group == "agent" else []
    room = width - len(told) - 2 - sum(cells(text) for text, _ in pieces)
    name = one_line(_name(heading.value, group, now), room)
    return fitted([*pieces, (name, HEADING), ("  ", ""), (told, FAINT)], width)


def _name(value: str, group: Grouping, now: datetime) -> str:
    match group:
        case "day":
            return day_name(value, now)
        case "folder":
            return with_tilde(value) or "no folder"
    return value


def day_name(day: str, now: datetime) -> str:
    if day == BEST:
        return "Best match"
    if not day:
        return "no date"
    then, today = date.fromisoformat(day), now.astimezone().date()
    if timedelta(0) <= today - then < timedelta(days=7):
        ago = (today - then).days
        return ("Today", "Yesterday")[ago] if ago < 2 else f"{then:%A}"
    return f"{then:%a} {then.day} {then:%b}" + (f" {then.year}" if then.year != today.year else "")


def with_tilde(path: str) -> str:
    home = expanduser("~").rstrip("/")
    return f"~{path.removeprefix(home)}" if home and f"{path}/".startswith(f"{home}/") else path
