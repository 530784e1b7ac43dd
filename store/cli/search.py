"""This module defines the commands `list` and `search`."""

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
from store.sources import source_label
from store.store import Store

STATUS_SYMBOLS: dict[Status, TerminalText] = {
    "ok": TerminalText("✓", "good"),
    "error": TerminalText("✗", "bad"),
    "pending": TerminalText("…", "quiet"),
    "orphan": TerminalText("?", "quiet"),
}


_AREA_HEADINGS: dict[SearchArea, str] = {
    "conversation": "In conversations",
    "tools": "In tool calls and their results",
}


@click.command("list")
@query_options.query_argument
@click.option("--limit", type=POSITIVE_INT, metavar="N", default=50, show_default=True, help="Show at most N sessions.")
@click.option("--trash", is_flag=True, help="List the sessions in the trash.")
@query_options.explain_option
@json_option
@with_store
def list_sessions(store: Store, words: tuple[str, ...], limit: int, trash: bool, explain: bool, as_json: bool) -> None:
    """List sessions, newest first.

    With a QUERY, list only the sessions that match. A QUERY may contain words, "phrases", prefix*, OR, -not, and
    filters: agent: model: cwd: user: channel: tool: role: tag: before: after: is: (error, pinned, archived, fork,
    delegate, live, gone, expiring) has: (secret, summary, note). Write -- before a QUERY that starts with -.
    """
    if trash and words:
        raise click.UsageError("--trash takes no QUERY.")
    query = query_options.parse_query(words, explain)
    if trash:
        trash_sessions = store.sessions.trash()
        page, total = trash_sessions[:limit], len(trash_sessions)
    else:
        query, (page, total) = query_options.find_with_typo_correction(
            store, query, ["conversation_fts"], lambda corrected: store.sessions.matching(corrected, limit), _is_empty
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
    short_ids = shorten_ids(store, page)
    headings = ["id", ":age", "source", ":turns", ":calls", ":err", "title"]
    output.print_table(headings, [_session_row(session, short_ids[session.id]) for session in page])
    report_count(len(page), total, "session")


def _session_row(session: Session, short_id: str) -> list[Span]:
    return [
        TerminalText(short_id, "name"),
        format_age(session.updated_at),
        session.source,
        str(session.turns),
        str(session.tool_calls),
        TerminalText(str(session.errors), "bad" if session.errors else "quiet"),
        TerminalText(_title_with_symbols(session), "title" if session.pinned else "plain"),
    ]


def _title_with_symbols(session: Session) -> str:
    """On a terminal, put a star before a pinned session, and an arrow before a fork or a sub-agent."""
    title = session.describe(source_label(session.source))
    if not output.stdout_is_terminal():
        return title
    symbols = "★ " * bool(session.pinned) + "↳ " * bool(session.parent_id)
    return symbols + (title or "(untitled)")


def _is_empty(found: tuple[object, int]) -> bool:
    return not found[1]


@click.command()
@click.argument("words", metavar="QUERY", nargs=-1, required=True)
@click.option("--in", "area", type=click.Choice(SEARCH_AREAS), help="Search only here instead of in both.")
@click.option("--newest", is_flag=True, help="Sort by time instead of relevance.")
@click.option(
    "--limit", type=POSITIVE_INT, metavar="N", default=20, show_default=True, help="Show at most N hits of each kind."
)
@query_options.explain_option
@json_option
@with_store
def search(
    store: Store,
    words: tuple[str, ...],
    area: SearchArea | None,
    newest: bool,
    limit: int,
    explain: bool,
    as_json: bool,
) -> None:
    """Search conversations and tool calls.

    Print the hits in conversations, then those in tool calls and their results, each sorted by relevance.
    `backscroll list -h` explains queries.
    """
    query = query_options.parse_query(words, explain)
    if not query.fts():
        output.notify("The query has only filters. Add a word, or use `backscroll list` or `backscroll tools`.")
    areas = [area] if area else SEARCH_AREAS
    query, hits_by_area = query_options.find_with_typo_correction(
        store,
        query,
        ["conversation_fts", "skims_fts", "tools_fts"],
        lambda corrected: store.search.find_by_area(corrected, areas, limit=limit, newest_first=newest),
        lambda hits_by_area: not any(found.total for found in hits_by_area.values()),
    )
    hits = [hit for found in hits_by_area.values() for hit in found.hits]
    total = sum(found.total for found in hits_by_area.values())
    if as_json:
        totals = {name: found.total for name, found in hits_by_area.items()}
        document = {"hits": [json_output.hit_to_json(hit) for hit in hits], "total": total, "totals": totals}
        output.emit_json({**document, **query_options.query_to_json(query)})
        return
    sessions = {hit.session_id: store.sessions.get(hit.session_id) for hit in hits}
    short_ids = shorten_ids(store, sessions.values())
    for name, found in hits_by_area.items():
        if found.hits and output.stdout_is_terminal():
            heading = f"{_AREA_HEADINGS[name]}, {len(found.hits):,} of {found.total:,}"
            output.write(TerminalText(heading, "quiet"), "\n")
        for hit in found.hits:
            _write_hit(hit, sessions[hit.session_id], short_ids[hit.session_id])
    report_count(len(hits), total, "hit")


def _write_hit(hit: Hit, session: Session, short_id: str) -> None:
    if not output.stdout_is_terminal():
        output.print_table([], [[hit.entry, str(hit.turn), hit.role, hit.field, hit.at, hit.snippet]])
        return
    kind = " ".join(dict.fromkeys([hit.role, *hit.field.split("_")]))
    position = f"turn {hit.turn} · {kind}" if hit.entry != hit.session_id else "not read yet"
    where = f"{position} · {format_age(hit.at)}"
    title = output.to_one_line(session.title, max(output.terminal_width() - len(short_id) - len(where) - 7, 20))
    output.write(TerminalText(short_id, "name"), "  ", title, TerminalText(f" · {where}", "quiet"))
    output.write("  ", *_highlight_snippet(hit), "\n")


def _highlight_snippet(hit: Hit) -> list[Span]:
    pieces: list[Span] = []
    end = 0
    for start, stop in hit.highlights:
        pieces += [hit.snippet[end:start], TerminalText(hit.snippet[start:stop], "hit")]
        end = stop
    return [*pieces, hit.snippet[end:]]


def format_arguments(arguments: Json) -> str:
    """Format the arguments of a tool call, each with its name."""
    if not isinstance(arguments, Mapping):
        return readable_text(arguments)
    return "\n".join(f"{name}: {readable_text(value)}" for name, value in arguments.items())


def format_duration(duration_ms: float | None) -> str:
    return "" if duration_ms is None else f"{duration_ms / 1000:.1f} s"
