"""This module renders the notices of the browser: breadcrumbs, the first run, progress and empty lists."""

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
    """Render `sessions › Fix the flaky upload test › turn 12` for a screen that shows one pane at a time."""
    pieces: list[StyledText] = [("sessions", MUTED)]
    if pane:
        pieces += [(" › ", FAINT), (one_line(session_title(session), 50), STRONG)]
        if turn:
            pieces += [(" › ", FAINT), (f"turn {turn}", MUTED)]
    if pane > 1:
        pieces += [(" › ", FAINT), ("record", MUTED)]
    return build_content(pieces)


def render_first_run(found: Mapping[str, int], is_done: bool) -> Content:
    """Render how many sessions of each agent were found on this machine. Is shown above the list on the first run."""
    agents = [f"{name} {count:,}" for name, count in sorted(found.items(), key=lambda item: -item[1]) if count]
    total = sum(found.values())
    verb = "Found" if is_done else "Reading"
    pieces: list[StyledText] = [(f"{verb} {format_count(total, 'session')} on this machine", STRONG)]
    pieces += [("   Esc to hide\n", FAINT), (" · ".join(map(sanitize, agents)), MUTED)]
    return build_content(pieces)


def render_welcome(store_path: str, busy: bool) -> Content:
    """Render the screen of an empty store."""
    demo = [("Creating the demo…", MUTED)] if busy else [("Press ", ""), ("d", "bold $text-accent"), (_DEMO_TEXT, "")]
    return build_content(
        [
            ("Backscroll", "bold $text-primary"),
            ("\nevery conversation your AI agents have had, in one file that you own\n\n", MUTED),
            ("No sessions yet.\n", STRONG),
            ("Sessions of the agents on this machine appear here automatically.\nThey are kept in ", ""),
            (sanitize(store_path), "$text-accent"),
            ("\n\n", ""),
            *demo,
        ]
    )


_DEMO_TEXT = " to try the demo first.\nIt has its own file. Your store stays empty."


def render_empty_list(options: SessionListOptions, *, can_search_calls: bool = False) -> Content:
    """Render why the list is empty, and the keys that help. The query can also be searched for in tool calls."""
    if not options.query.strip():
        pieces = [("No sessions in\n", ""), (one_line(abbreviate_home(options.folder), 60), STRONG)]
        return build_content([*pieces, ("\n\nEsc to show all folders", MUTED)])
    has_words = bool(Query.parse(options.query).terms)
    pieces = [("No sessions match\n", ""), (one_line(options.query, 60), STRONG)]
    if options.folder:
        pieces += [("\nin ", ""), (one_line(abbreviate_home(options.folder), 60), "")]
    hint = "\n⏎ to search tool calls" if has_words and can_search_calls else ""
    return build_content([*pieces, (f"\n{hint}\nEsc to show all", MUTED)])


PROGRESS_CELLS = 6


def format_progress(done: int, total: int) -> str:
    """Return `reading 312/2,000 ▓▓▓░░░`, or nothing when everything is read."""
    if done >= total:
        return ""
    filled_cells = PROGRESS_CELLS * done // total
    return f"reading {done:,}/{total:,} {'▓' * filled_cells}{'░' * (PROGRESS_CELLS - filled_cells)}"
