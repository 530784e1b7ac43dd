"""A session in the list, and the list that has none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from textual.content import Content

from store.clean import cells, clean, one_line
from store.model import Relation, Session
from tui.painting.pieces import ERROR, FAINT, MUTED, STAR, STRONG, Piece, age, content, mark_of, place_of, title_of

SNIPPET_AT_LEAST = 24
"""Fewer cells than this say nothing."""

_RELATIONS: dict[Relation, str] = {
    "fork": "↱ fork",
    "delegate": "↳ delegate",
    "sidechain": "↳ side chain",
    "superseded": "superseded",
}


@dataclass(frozen=True, slots=True)
class Row:
    """What the list shows of a session."""

    session: Session
    has_summary: bool = False
    has_secrets: bool = False


SIGNS = (
    ("★", "pinned"),
    ("⟲", "turns: a prompt and all that was done about it"),
    ("⚙", "tool calls"),
    ("✗", "tool calls that failed"),
    ("∑", "has a summary"),
    ("🔒", "has secrets"),
    ("↱", "forked off another session"),
    ("↳", "worked for another session"),
)
"""What a row says without words."""


def session_lines(row: Row, width: int, now: datetime) -> tuple[Content, Content]:
    """The two lines of a session."""
    return _title_line(row.session, width), _facts_line(row, width, now)


def _title_line(session: Session, width: int) -> Content:
    title = one_line(title_of(session), width - 2)
    pieces = [("★ ", STAR) if session.pinned else ("  ", ""), (title, STRONG)]
    room = width - 2 - cells(title) - 2
    if room >= SNIPPET_AT_LEAST and session.first_prompt and session.first_prompt != session.title:
        pieces.append(("  " + one_line(session.first_prompt, room), FAINT))
    return content(pieces)


def _facts_line(row: Row, width: int, now: datetime) -> Content:
    session = row.session
    mark = mark_of(session.source)
    pieces: list[Piece] = [("  ", ""), mark, (" ", "")]
    said = [one_line(place_of(session), 40), age(session.updated_at, now)]
    counts = [f"{n:,}{sign}" for n, sign in ((session.turns, "⟲"), (session.tool_calls, "⚙")) if n]
    pieces.append((" · ".join(filter(None, [*said, " ".join(counts)])), MUTED))
    if session.errors:
        pieces.append((f" {session.errors:,}✗", ERROR))
    pieces += [(f"  {badge}", MUTED) for badge in badges(row)]
    return content(pieces).truncate(width, ellipsis=True)


def badges(row: Row) -> Iterator[str]:
    session = row.session
    if row.has_summary:
        yield "∑"
    if row.has_secrets:
        yield "🔒"
    if session.relation:
        yield _RELATIONS[session.relation]
    if session.gone:
        yield "⌫ gone"
    if session.archived:
        yield "archived"


# ── no session in the list ────────────────────────────────────────────────────────────────────────


def welcome(store_path: str, busy: bool) -> Content:
    """What a person sees whose store is empty."""
    demo = [("Making a demo…", MUTED)] if busy else [("Press ", ""), ("d", "bold $text-accent"), (_DEMO, "")]
    return content(
        [
            ("Backscroll", "bold $text-primary"),
            ("\nevery conversation your AI agents have had, in one file that you own\n\n", MUTED),
            ("There are no conversations here yet.\n", STRONG),
            ("They appear by themselves, as soon as an agent writes to\n", ""),
            (clean(store_path), "$text-accent"),
            ("\n\n", ""),
            *demo,
        ]
    )


_DEMO = " to look around in a demo first.\nIt is kept in a file of its own; your store stays empty."


def nothing_found(query: str) -> Content:
    return content(
        [("No title and no conversation has\n", ""), (one_line(query, 60), STRONG), ("\n\nEsc shows all again", MUTED)]
    )


PROGRESS_CELLS = 6


def reading_progress(done: int, total: int) -> str:
    """`reading 312/2,000 ▓▓▓░░░`, while there is something left to read."""
    if done >= total:
        return ""
    full = PROGRESS_CELLS * done // total
    return f"reading {done:,}/{total:,} {'▓' * full}{'░' * (PROGRESS_CELLS - full)}"
