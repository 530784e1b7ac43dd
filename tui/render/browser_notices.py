"""This module renders the notices of the browser: breadcrumbs, the first run, progress, empty lists and
proposed titles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from store.model.session import Session
from store.search.list_rows import SessionListLayout
from store.text.sanitize import one_line, sanitize
from tui.render.session_lines import abbreviate_home
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, StyledText, build_content, format_count, session_title

if TYPE_CHECKING:
    from store.edits.title_hook import TitleProposal


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
    # A name and its number stay on one line.
    pieces += [
        ("   Esc to hide\n", FAINT),
        (" · ".join(sanitize(agent).replace(" ", "\N{NO-BREAK SPACE}") for agent in agents), MUTED),
    ]
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


_SHOW_ALL = "\n\nEsc to show all sessions"
_DEMO_TEXT = " to try the demo first.\nIt has its own file. Your store stays empty."


def render_empty_list(shown: SessionListLayout) -> Content:
    """Render why the list is empty, and the key that helps."""
    options = shown.options
    if shown.query.shows_trash and len(shown.query.groups) == 1:
        return build_content([("The trash is empty.", ""), (_SHOW_ALL, MUTED)])
    if options.query.strip() == "is:archived" and not options.folder:
        return build_content([("No archived sessions.", ""), (_SHOW_ALL, MUTED)])
    if shown.archived:
        count = f"{format_count(shown.archived, 'session')} here {'is' if shown.archived == 1 else 'are'} archived."
        return build_content([(count, ""), ("\n\nSearch for is:archived to see them", MUTED)])
    if shown.trashed:
        count = f"{format_count(shown.trashed, 'session')} here {'is' if shown.trashed == 1 else 'are'} in the trash."
        return build_content([(count, ""), ("\n\nSearch for is:trashed to see them", MUTED)])
    if not options.query.strip():
        pieces = [("No sessions in\n", ""), (one_line(abbreviate_home(options.folder), 60), STRONG)]
        return build_content([*pieces, ("\n\nEsc to show all folders", MUTED)])
    pieces = [("No session matches '", ""), (one_line(options.query.strip(), 60), STRONG), ("'", "")]
    if options.folder:
        pieces += [("\nin ", ""), (one_line(abbreviate_home(options.folder), 60), "")]
    return build_content([*pieces, (".\n", ""), ("\nEsc to clear the search", MUTED)])


def explain_hidden_session(session: Session, shown: SessionListLayout) -> str:
    """Say why a list does not show a session that is opened from elsewhere."""
    if session.deleted:
        return "The list hides this session: it is in the trash."
    if session.archived and shown.query.hides_archived:
        return "The list hides this session: it is archived."
    if shown.options.query.strip():
        return "The search hides this session in the list. Press Esc there to show all."
    if shown.options.folder:
        return "The scope hides this session in the list. Press s there to change it."
    return "The list does not show this session."


MAX_NAMED_SESSIONS = 5


def describe_purge(sessions: Sequence[Session], contents: Mapping[str, int]) -> str:
    """Say what is lost when sessions are deleted for good. `contents` maps each kind of content to its number."""
    names = [f"“{one_line(session_title(session), 70)}”" for session in sessions[:MAX_NAMED_SESSIONS]]
    if len(sessions) > len(names):
        names.append(f"and {len(sessions) - len(names):,} more")
    amounts = [_format_amount(count, name) for name, count in contents.items()]
    lost = " and ".join(filter(None, [", ".join(amounts[:-1]), *amounts[-1:]])) or "an empty session"
    pronoun = "it" if len(sessions) == 1 else "them"
    return (
        "\n".join(names)
        + f"\n\nThis deletes {lost}, and what the journal says about {pronoun}."
        + f"\nThe agent's own files stay, but Backscroll will not read {pronoun} again."
        + "\nThis cannot be undone."
    )


def _format_amount(count: int, name: str) -> str:
    return f"{count:,} summaries" if name == "summary" and count > 1 else format_count(count, name)


PROGRESS_CELLS = 6


def format_progress(done: int, total: int) -> str:
    """Return `reading 312/2,000 ▓▓▓░░░`, or nothing when everything is read."""
    if done >= total:
        return ""
    filled_cells = PROGRESS_CELLS * done // total
    return f"reading {done:,}/{total:,} {'▓' * filled_cells}{'░' * (PROGRESS_CELLS - filled_cells)}"


# ── proposed titles ───────────────────────────────────────────────────────────────────────────────

MAX_TITLE_CELLS = 200


def render_title_proposals(proposals: Sequence[TitleProposal]) -> list[Content]:
    """Render two lines for each session: its title, and below it the proposed one or the problem."""
    return [line for proposal in proposals for line in _render_proposal(proposal)]


def _render_proposal(proposal: TitleProposal) -> Iterator[Content]:
    yield build_content([(one_line(session_title(proposal.session), MAX_TITLE_CELLS), MUTED)])
    if proposal.problem:
        yield build_content([("  ", ""), (one_line(proposal.problem, 2 * MAX_TITLE_CELLS), ERROR)])
    elif proposal.is_change:
        yield build_content([("→ ", FAINT), (one_line(proposal.title, MAX_TITLE_CELLS), STRONG)])
    else:
        yield build_content([("  the same title", FAINT)])
