"""This module defines the commands `list`, `search` and `searches`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import click

from store.agent_api.past.past import Past
from store.cli import json_output, output, query_options
from store.cli.lazy_group import ListGroup
from store.cli.options import POSITIVE_INT, complete_query, json_option, with_store
from store.cli.output import Span, TerminalText, format_age, format_count
from store.cli.query_options import report_count
from store.cli.short_ids import shorten_ids
from store.cli.team.team_json import team_hit_to_json
from store.model.entry import Json, Status, readable_text
from store.model.knowledge import Hit
from store.model.session import Session
from store.model.team import TeamHit
from store.search.hits import MAX_TOOL_HITS, SEARCH_AREAS, SearchArea
from store.search.list_rows import ORDERS, Order
from store.search.query import Query
from store.search.saved_searches import RecentSearches, SavedSearch
from store.sources import source_label
from store.store import Store

STATUS_SYMBOLS: dict[Status, TerminalText] = {
    "ok": TerminalText("✓", "good"),
    "error": TerminalText("✗", "bad"),
    "pending": TerminalText("…", "quiet"),
    "orphan": TerminalText("?", "quiet"),
}


_ORDERS = [order for order in ORDERS if order != "best"]

_AREA_HEADINGS: dict[SearchArea, str] = {
    "conversation": "In conversations",
    "tools": "In tool calls and their results",
}


@click.command("list")
@query_options.query_argument
@click.option("--limit", type=POSITIVE_INT, metavar="N", default=50, show_default=True, help="Show at most N sessions.")
@click.option(
    "--sort",
    type=click.Choice(_ORDERS),
    default="newest",
    show_default=True,
    help="Put these first: by the API value of a session (cost), by its tokens, turns or errors.",
)
@click.option("--trash", is_flag=True, help="List the sessions in the trash.")
@query_options.explain_option
@query_options.for_agents_option
@query_options.next_option
@json_option
@with_store
def list_sessions(
    store: Store,
    words: tuple[str, ...],
    limit: int,
    sort: Order,
    trash: bool,
    explain: bool,
    for_agents: bool,
    cursor: str,
    as_json: bool,
) -> None:
    """List sessions, newest first.

    With a QUERY, list only the sessions that match. Those with the words only in tool calls or their results come last,
    on a terminal and in JSON. A QUERY may contain words, "phrases", prefix*, OR, -not, and
    filters: agent: model: cwd: user: channel: tool: role: tag: before: after: is: (error, pinned, archived, trashed,
    fork, delegate, live, working, waiting, idle, ended, gone, expiring) has: (secret, summary, note). Write -- before a
    QUERY that starts with -. Archived sessions are listed only if the QUERY has words or is:archived, and the trash
    only with is:trashed.
    """
    if for_agents:
        return output.emit_json(Past(store).list_sessions(" ".join(words), limit=limit, cursor=cursor))
    if trash and words:
        raise click.UsageError("--trash takes no QUERY.")
    typed = query = query_options.parse_query(store, words, explain)
    tool_hits: Sequence[Hit] = ()
    if trash:
        page, total = (found := store.sessions.trash())[:limit], len(found)
    else:
        query, (page, total) = query_options.find_with_typo_correction(
            store,
            query,
            ["conversation_fts"],
            lambda fixed: store.sessions.matching(fixed, limit, order=sort),
            _is_empty,
        )
        tool_hits = _find_tool_hits(store, typed, limit) or _find_tool_hits(store, query, limit)
    archived = 0 if trash else store.sessions.count_archived(query)
    if as_json:
        totals = {"total": total, "archived": archived, "prices": json_output.current_prices_to_json()}
        in_tools = {"in_tool_output": [json_output.hit_to_json(hit) for hit in tool_hits]} if query.fts() else {}
        sessions = {"sessions": json_output.sessions_to_json(store, page)}
        return output.emit_json({**sessions, **totals, **query_options.query_to_json(query), **in_tools})
    _print_sessions(store, page)
    if total or not tool_hits:
        report_count(len(page), total, "session")
    _report_tool_hits(store, tool_hits)
    if archived:
        output.notify(f"Not listed: {format_count(archived, 'archived session')}. Add is:archived to the QUERY.")


def _print_sessions(store: Store, page: Sequence[Session]) -> None:
    short_ids = shorten_ids(store, page)
    headings = ["id", ":age", "source", ":turns", ":calls", ":err", "title"]
    output.print_table(headings, [_session_row(session, short_ids[session.id]) for session in page])


def _find_tool_hits(store: Store, query: Query, limit: int) -> list[Hit]:
    """Return the newest hit of each session that has the words in tool calls only."""
    found = store.search.find_tool_hits(query, limit=min(limit, MAX_TOOL_HITS), now=datetime.now(UTC))
    return list(found.hits.values())


def _report_tool_hits(store: Store, hits: Sequence[Hit]) -> None:
    """Show the hits below the list. Another program that reads the list gets a message on stderr instead."""
    if not hits:
        return
    count = output.format_count(len(hits), "session")
    if not output.stdout_is_terminal():
        output.notify(f"{count} with the words in tool output only. Use --json or `backscroll search` to see them.")
        return
    output.write(TerminalText(f"In tool output, {count}", "quiet"), "\n")
    _write_hits(store, hits)


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
@click.argument("words", metavar="QUERY", nargs=-1, required=True, shell_complete=complete_query)
@click.option("--in", "area", type=click.Choice(SEARCH_AREAS), help="Search only here instead of in both.")
@click.option("--newest", is_flag=True, help="Sort by time instead of relevance.")
@click.option("--limit", type=POSITIVE_INT, metavar="N", default=20, show_default=True, help="Show at most N hits.")
@click.option("--team", "asks_team", is_flag=True, help="Ask the server of a plain team for what is not here.")
@query_options.explain_option
@query_options.for_agents_option
@query_options.next_option
@json_option
@with_store
def search(
    store: Store,
    words: tuple[str, ...],
    area: SearchArea | None,
    newest: bool,
    limit: int,
    asks_team: bool,
    explain: bool,
    for_agents: bool,
    cursor: str,
    as_json: bool,
) -> None:
    """Search conversations and tool calls.

    Print the hits in conversations, then those in tool calls and their results, each sorted by relevance.
    `backscroll list -h` explains queries.
    """
    if for_agents:
        return output.emit_json(Past(store).search(" ".join(words), limit=limit, cursor=cursor))
    query = query_options.parse_query(store, words, explain)
    if asks_team:
        if area or newest:
            raise click.UsageError("--team cannot be used with --in or --newest.")
        return _search_team(store, query, limit, as_json)
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
    for name, found in hits_by_area.items():
        if found.hits and output.stdout_is_terminal():
            heading = f"{_AREA_HEADINGS[name]}, {len(found.hits):,} of {found.total:,}"
            output.write(TerminalText(heading, "quiet"), "\n")
        _write_hits(store, found.hits)
    report_count(len(hits), total, "hit")


def _search_team(store: Store, query: Query, limit: int, as_json: bool) -> None:
    hits, total = store.team.search(query, limit)
    if as_json:
        document = {"hits": [team_hit_to_json(hit) for hit in hits], "total": total}
        return output.emit_json({**document, **query_options.query_to_json(query)})
    for hit in hits:
        if not output.stdout_is_terminal():
            output.print_table([], [[hit.session_id, hit.owner, hit.role, hit.at, hit.title, hit.snippet]])
            continue
        where = f" · {hit.owner} · {format_age(hit.at)}"
        output.write(TerminalText(hit.session_id, "name"), f"  {hit.title}", TerminalText(where, "quiet"))
        output.write("  ", *_highlight_snippet(hit), "\n")
    report_count(len(hits), total, "session")


def _write_hits(store: Store, hits: Sequence[Hit]) -> None:
    sessions = {hit.session_id: store.sessions.get(hit.session_id) for hit in hits}
    short_ids = shorten_ids(store, sessions.values())
    for hit in hits:
        _write_hit(hit, sessions[hit.session_id], short_ids[hit.session_id])


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


def _highlight_snippet(hit: Hit | TeamHit) -> list[Span]:
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


# ── saved searches ────────────────────────────────────────────────────────────────────────────────

search_name_argument = click.argument("name", metavar="NAME")


@click.group(cls=ListGroup, default="list", default_if_no_args=True)
def searches() -> None:
    """List and edit saved searches.

    `@NAME` in a QUERY means the search with that name: `backscroll list @NAME`. Without a command, list them.
    """


@searches.command("list")
@json_option
@with_store
def list_searches(store: Store, as_json: bool) -> None:
    """List saved searches by name."""
    saved = store.saved_searches.list_searches()
    if as_json:
        output.emit_json({"searches": [search._asdict() for search in saved]})
        return
    output.print_table(["name", "", "query"], [_search_row(search) for search in saved])
    if not saved:
        output.notify("No saved searches yet. Run `backscroll searches save NAME QUERY` to save one.")


def _search_row(search: SavedSearch) -> list[Span]:
    return [TerminalText(f"@{search.name}", "name"), "pinned" if search.pinned else "", search.query]


@searches.command()
@search_name_argument
@click.argument("words", metavar="QUERY...", nargs=-1, required=True)
@with_store
def save(store: Store, name: str, words: tuple[str, ...]) -> None:
    """Save a QUERY under a NAME.

    A search that has the NAME already gets the new QUERY. `backscroll list -h` explains queries.
    """
    query_options.parse_query(store, words, explain=False)
    saved = store.saved_searches.save(name, " ".join(words))
    output.notify(f"Saved @{saved.name}. Run `backscroll list @{saved.name}` to use it.")


@searches.command()
@search_name_argument
@click.argument("new_name", metavar="NEW_NAME")
@with_store
def rename(store: Store, name: str, new_name: str) -> None:
    """Rename a saved search."""
    store.saved_searches.rename(name, new_name)


@searches.command()
@search_name_argument
@with_store
def pin(store: Store, name: str) -> None:
    """Show a saved search in the top bar of the browser."""
    store.saved_searches.pin(name)


@searches.command()
@search_name_argument
@with_store
def unpin(store: Store, name: str) -> None:
    """Remove a saved search from the top bar of the browser."""
    store.saved_searches.pin(name, False)


@searches.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@with_store
def delete(store: Store, names: tuple[str, ...]) -> None:
    """Delete saved searches.

    `backscroll undo` restores them.
    """
    store.saved_searches.delete(names)


@searches.command()
@click.option("--clear", is_flag=True, help="Forget all recent searches.")
@json_option
def recent(clear: bool, as_json: bool) -> None:
    """List the last searches of the browser, newest first."""
    if clear:
        RecentSearches().clear()
    queries = RecentSearches().list_queries()
    if as_json:
        output.emit_json({"recent": queries})
        return
    for query in queries:
        output.write(query)
    if not queries:
        output.notify("No recent searches.")
