"""Finding: lists of sessions, and hits."""

from __future__ import annotations

from collections.abc import Mapping

import click

from store.cli import json_output, output, query_options
from store.cli.options import POSITIVE_INT, json_option, with_store
from store.cli.output import Span, TerminalText, format_age
from store.cli.query_options import report_count
from store.cli.short_ids import shorten_ids
from store.model.entry import Json, Status, readable_text
from store.model.knowledge import Hit
from store.model.session import Session
from store.search.hits import SEARCH_AREAS, SearchArea
from store.store import Store

STATUS_SYMBOLS: dict[Status, TerminalText] = {
    "ok": TerminalText("✓", "good"),
    "error": TerminalText("✗", "bad"),
    "pending": TerminalText("…", "quiet"),
    "orphan": TerminalText("?", "quiet"),
}


_INDEX_HEADINGS: dict[SearchArea, str] = {
    "conversation": "In conversations",
    "tools": "In tool calls and their results",
}


@click.command("list")
@query_options.query_argument
@click.option("--limit", type=POSITIVE_INT, default=50, show_default=True, help="At most so many.")
@click.option("--trash", is_flag=True, help="What was deleted and can be restored.")
@query_options.explain_option
@json_option
@with_store
def list_sessions(store: Store, words: tuple[str, ...], limit: int, trash: bool, explain: bool, as_json: bool) -> None:
    """Sessions, newest first; with a QUERY those that hold the words.

    Beside words, a QUERY may hold "phrases", begin*, one OR another, -not, and filters: agent: model: cwd: tool: role:
    tag: before: after: is: (error, pinned, archived, fork, delegate, live, gone, expiring) has: (secret, summary,
    note). Before a QUERY that begins with -not, write --.
    """
    if trash and words:
        raise click.UsageError("The trash is listed whole: leave the QUERY or --trash out.")
    query = query_options.parse_query(words, explain)
    if trash:
        thrown = store.sessions.trash()
        page, total = thrown[:limit], len(thrown)
    else:
        query, (page, total) = query_options.find_with_typo_correction(
            store, query, ["conversation_fts"], lambda meant: store.sessions.matching(meant, limit), _is_empty
        )
    if as_json:
        output.emit_json(
            {
                "sessions": json_output.sessions_to_json(store, page),
                "total": total,
                **query_options.query_to_json(query),
            }
        )
        return
    names = shorten_ids(store, page)
    heads = ["id", ":age", "source", ":turns", ":calls", ":err", "title"]
    output.print_table(heads, [_session_row(session, names[session.id]) for session in page])
    report_count(len(page), total, "session")


def _session_row(session: Session, name: str) -> list[Span]:
    return [
        TerminalText(name, "name"),
        format_age(session.updated_at),
        session.source,
        str(session.turns),
        str(session.tool_calls),
        TerminalText(str(session.errors), "bad" if session.errors else "quiet"),
        TerminalText(_title_with_symbols(session), "title" if session.pinned else "plain"),
    ]


def _title_with_symbols(session: Session) -> str:
    """A star for a pin, an arrow for what was forked or delegated, where there is an eye to see them."""
    if not output.stdout_is_terminal():
        return session.title
    marks = "★ " * bool(session.pinned) + "↳ " * bool(session.parent_id)
    return marks + (session.title or "(untitled)")


def _is_empty(found: tuple[object, int]) -> bool:
    return not found[1]


@click.command()
@click.argument("words", metavar="QUERY", nargs=-1, required=True)
@click.option("--in", "place", type=click.Choice(SEARCH_AREAS), help="Only there; else in both, told apart.")
@click.option("--newest", is_flag=True, help="The newest first, not the best.")
@click.option("--limit", type=POSITIVE_INT, default=20, show_default=True, help="At most so many.")
@query_options.explain_option
@json_option
@with_store
def search(
    store: Store,
    words: tuple[str, ...],
    place: SearchArea | None,
    newest: bool,
    limit: int,
    explain: bool,
    as_json: bool,
) -> None:
    """Hits in conversations, then those in tool calls and their results; in each the best first."""
    query = query_options.parse_query(words, explain)
    if not query.fts():
        output.notify("No word to search for; `list` and `tools` take filters alone.")
    places = [place] if place else SEARCH_AREAS
    query, found = query_options.find_with_typo_correction(
        store,
        query,
        ["conversation_fts", "skims_fts", "tools_fts"],
        lambda meant: store.search.find_by_area(meant, places, limit=limit, newest_first=newest),
        lambda found: not any(one.total for one in found.values()),
    )
    hits = [hit for one in found.values() for hit in one.hits]
    total = sum(one.total for one in found.values())
    if as_json:
        totals = {name: one.total for name, one in found.items()}
        told = {"hits": [json_output.hit_to_json(hit) for hit in hits], "total": total, "totals": totals}
        output.emit_json({**told, **query_options.query_to_json(query)})
        return
    sessions = {hit.session_id: store.sessions.get(hit.session_id) for hit in hits}
    names = shorten_ids(store, sessions.values())
    for name, one in found.items():
        if one.hits and output.stdout_is_terminal():
            output.write(TerminalText(f"{_INDEX_HEADINGS[name]}, {len(one.hits):,} of {one.total:,}", "quiet"), "\n")
        for hit in one.hits:
            _write_hit(hit, sessions[hit.session_id], names[hit.session_id])
    report_count(len(hits), total, "hit")


def _write_hit(hit: Hit, session: Session, name: str) -> None:
    if not output.stdout_is_terminal():
        output.print_table([], [[hit.entry, str(hit.turn), hit.role, hit.field, hit.at, hit.snippet]])
        return
    kind = " ".join(dict.fromkeys([hit.role, *hit.field.split("_")]))
    place = f"turn {hit.turn} · {kind}" if hit.entry != hit.session_id else "not read yet"
    where = f"{place} · {format_age(hit.at)}"
    title = output.to_one_line(session.title, max(output.terminal_width() - len(name) - len(where) - 7, 20))
    output.write(TerminalText(name, "name"), "  ", title, TerminalText(f" · {where}", "quiet"))
    output.write("  ", *_highlight_snippet(hit), "\n")


def _highlight_snippet(hit: Hit) -> list[Span]:
    pieces: list[Span] = []
    end = 0
    for start, stop in hit.highlights:
        pieces += [hit.snippet[end:start], TerminalText(hit.snippet[start:stop], "hit")]
        end = stop
    return [*pieces, hit.snippet[end:]]


def format_arguments(arguments: Json) -> str:
    """Each by its name: of what was asked, unlike of what was answered, no part is just wrapping."""
    if not isinstance(arguments, Mapping):
        return readable_text(arguments)
    return "\n".join(f"{name}: {readable_text(value)}" for name, value in arguments.items())


def format_duration(duration_ms: float | None) -> str:
    return "" if duration_ms is None else f"{duration_ms / 1000:.1f} s"
