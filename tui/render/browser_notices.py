"""What the browser says around its panes: where one is, what was found, how far it is, why nothing is there."""

from __future__ import annotations

from collections.abc import Mapping

from textual.content import Content

from store.model.session import Session
from store.search.list_rows import SessionListOptions
from store.search.query import Query
from store.text.sanitize import one_line, sanitize
from tui.render.session_lines import abbreviate_home
from tui.render.styles import FAINT, MUTED, STRONG, StyledText, build_content, format_count, session_title

PANE_NAMES = ("conversation", "record")


def render_breadcrumb(session: Session, turn: int | None, pane: int) -> Content:
    """`sessions › Fix the flaky upload test › turn 12`, where only one pane has room."""
    pieces: list[StyledText] = [("sessions", MUTED)]
    if pane:
        pieces += [(" › ", FAINT), (one_line(session_title(session), 50), STRONG)]
        if turn:
            pieces += [(" › ", FAINT), (f"turn {turn}", MUTED)]
    if pane > 1:
        pieces += [(" › ", FAINT), ("record", MUTED)]
    return build_content(pieces)


def render_first_run(found: Mapping[str, int], is_done: bool) -> Content:
    """What was found on this machine, by the names of the agents; said once, above the list that fills."""
    told = [f"{name} {sessions:,}" for name, sessions in sorted(found.items(), key=lambda one: -one[1]) if sessions]
    total = sum(found.values())
    begin = "Found" if is_done else "Reading"
    pieces: list[StyledText] = [(f"{begin} {format_count(total, 'conversation')} on this machine", STRONG)]
    pieces += [("   Esc hides this\n", FAINT), (" · ".join(map(sanitize, told)), MUTED)]
    return build_content(pieces)


def render_welcome(store_path: str, busy: bool) -> Content:
    """What a person sees whose store is empty."""
    demo = [("Making a demo…", MUTED)] if busy else [("Press ", ""), ("d", "bold $text-accent"), (_DEMO_TEXT, "")]
    return build_content(
        [
            ("Backscroll", "bold $text-primary"),
            ("\nevery conversation your AI agents have had, in one file that you own\n\n", MUTED),
            ("There are no conversations here yet.\n", STRONG),
            ("They appear by themselves, as soon as an agent on this machine has one,\nand are kept in ", ""),
            (sanitize(store_path), "$text-accent"),
            ("\n\n", ""),
            *demo,
        ]
    )


_DEMO_TEXT = " to look around in a demo first.\nIt is kept in a file of its own; your store stays empty."


def render_empty_list(wanted: SessionListOptions, *, can_search_calls: bool = False) -> Content:
    """Why the list is empty, and the way back; further: Enter looks for the words elsewhere."""
    if not wanted.query.strip():
        told = [("Nothing happened here yet, in\n", ""), (one_line(abbreviate_home(wanted.folder), 60), STRONG)]
        return build_content([*told, ("\n\nEsc shows everywhere", MUTED)])
    has_words = bool(Query.parse(wanted.query).terms)
    why = "No title and no conversation has\n" if has_words else "No session is\n"
    pieces = [(why, ""), (one_line(wanted.query, 60), STRONG)]
    if wanted.folder:
        pieces += [("\nin ", ""), (one_line(abbreviate_home(wanted.folder), 60), "")]
    ways = "\n⏎ looks among the tool calls" if has_words and can_search_calls else ""
    return build_content([*pieces, (f"\n{ways}\nEsc shows all again", MUTED)])


PROGRESS_CELLS = 6


def format_progress(done: int, total: int) -> str:
    """`reading 312/2,000 ▓▓▓░░░`, while there is something left to read."""
    if done >= total:
        return ""
    full = PROGRESS_CELLS * done // total
    return f"reading {done:,}/{total:,} {'▓' * full}{'░' * (PROGRESS_CELLS - full)}"
