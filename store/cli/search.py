"""Finding: lists of sessions, and hits."""

from __future__ import annotations

from collections.abc import Mapping

import click

from store.cli import json_output, output, query_options
from store.cli.options import COUNT, as_json, with_store
from store.cli.output import Ink, Piece, age
from store.cli.query_options import tell_how_many
from store.cli.short_ids import short_names
from store.model.entry import Json, Status, readable
from store.model.knowledge import Hit
from store.model.session import Session
from store.search.hits import PLACES, Place
from store.store import Store

MARKS: dict[Status, Ink] = {
    "ok": Ink("✓", "good"),
    "error": Ink("✗", "bad"),
    "pending": Ink("…", "quiet"),
    "orphan": Ink("?", "quiet"),
}


_PLACES: dict[Place, str] = {"conversation": "In conversations", "tools": "In tool calls and their results"}


@click.command("list")
@query_options.words
@click.option("--limit", type=COUNT, default=50, show_default=True, help="At most so many.")
@click.option("--trash", is_flag=True, help="What was deleted and can be restored.")
@query_options.explain
@as_json
@with_store
def list_sessions(store: Store, words: tuple[str, ...], limit: int, trash: bool, explain: bool, as_json: bool) -> None:
    """Sessions, newest first; with a QUERY those that hold the words.

    Beside words, a QUERY may hold "phrases", begin*, one OR another, -not, and filters: agent: model: cwd: tool: role:
    tag: before: after: is: (error, pinned, archived, fork, delegate, live, gone, expiring) has: (secret, summary,
    note). Before a QUERY that begins with -not, write --.
    """
    if trash and words:
        raise click.UsageError("The trash is listed whole: leave the QUERY or --trash out.")
    query = query_options.parsed(words, explain)
    if trash:
        thrown = store.sessions.trash()
        page, total = thrown[:limit], len(thrown)
    else:
        query, (page, total) = query_options.found(
            store, query, ["conversation_fts"], lambda meant: store.sessions.matching(meant, limit), _is_nothing
        )
    if as_json:
        output.emit_json({"sessions": json_output.sessions(store, page), "total": total, **query_options.told(query)})
        return
    names = short_names(store, page)
    heads = ["id", ":age", "source", ":turns", ":calls", ":err", "title"]
    output.table(heads, [_session_row(session, names[session.id]) for session in page])
    tell_how_many(len(page), total, "session")


def _session_row(session: Session, name: str) -> list[Piece]:
    return [
        Ink(name, "name"),
        age(session.updated_at),
        session.source,
        str(session.turns),
        str(session.tool_calls),
        Ink(str(session.errors), "bad" if session.errors else "quiet"),
        Ink(_marked_title(session), "title" if session.pinned else "plain"),
    ]


def _marked_title(session: Session) -> str:
    """A star for a pin, an arrow for what was forked or delegated, where there is an eye to see them."""
    if not output.on_terminal():
        return session.title
    marks = "★ " * bool(session.pinned) + "↳ " * bool(session.parent_id)
    return marks + (session.title or "(untitled)")


def _is_nothing(found: tuple[object, int]) -> bool:
    return not found[1]


@click.command()
@click.argument("words", metavar="QUERY", nargs=-1, required=True)
@click.option("--in", "place", type=click.Choice(PLACES), help="Only there; else in both, told apart.")
@click.option("--newest", is_flag=True, help="The newest first, not the best.")
@click.option("--limit", type=COUNT, default=20, show_default=True, help="At most so many.")
@query_options.explain
@as_json
@with_store
def search(
    store: Store,
    words: tuple[str, ...],
    place: Place | None,
    newest: bool,
    limit: int,
    explain: bool,
    as_json: bool,
) -> None:
    """Hits in conversations, then those in tool calls and their results; in each the best first."""
    query = query_options.parsed(words, explain)
    if not query.fts():
        output.say("No word to search for; `list` and `tools` take filters alone.")
    places = [place] if place else PLACES
    query, found = query_options.found(
        store,
        query,
        ["conversation_fts", "skims_fts", "tools_fts"],
        lambda meant: store.search.apart(meant, places, limit=limit, newest=newest),
        lambda found: not any(one.total for one in found.values()),
    )
    hits = [hit for one in found.values() for hit in one.hits]
    total = sum(one.total for one in found.values())
    if as_json:
        totals = {name: one.total for name, one in found.items()}
        told = {"hits": [json_output.hit(hit) for hit in hits], "total": total, "totals": totals}
        output.emit_json({**told, **query_options.told(query)})
        return
    sessions = {hit.session_id: store.sessions.get(hit.session_id) for hit in hits}
    names = short_names(store, sessions.values())
    for name, one in found.items():
        if one.hits and output.on_terminal():
            output.write(Ink(f"{_PLACES[name]}, {len(one.hits):,} of {one.total:,}", "quiet"), "\n")
        for hit in one.hits:
            _write_hit(hit, sessions[hit.session_id], names[hit.session_id])
    tell_how_many(len(hits), total, "hit")


def _write_hit(hit: Hit, session: Session, name: str) -> None:
    if not output.on_terminal():
        output.table([], [[hit.entry, str(hit.turn), hit.role, hit.field, hit.at, hit.snippet]])
        return
    kind = " ".join(dict.fromkeys([hit.role, *hit.field.split("_")]))
    place = f"turn {hit.turn} · {kind}" if hit.entry != hit.session_id else "not read yet"
    where = f"{place} · {age(hit.at)}"
    title = output.flat(session.title, max(output.width() - len(name) - len(where) - 7, 20))
    output.write(Ink(name, "name"), "  ", title, Ink(f" · {where}", "quiet"))
    output.write("  ", *_marked(hit), "\n")


def _marked(hit: Hit) -> list[Piece]:
    pieces: list[Piece] = []
    end = 0
    for start, stop in hit.marks:
        pieces += [hit.snippet[end:start], Ink(hit.snippet[start:stop], "hit")]
        end = stop
    return [*pieces, hit.snippet[end:]]


def argument_lines(arguments: Json) -> str:
    """Each by its name: of what was asked, unlike of what was answered, no part is just wrapping."""
    if not isinstance(arguments, Mapping):
        return readable(arguments)
    return "\n".join(f"{name}: {readable(value)}" for name, value in arguments.items())


def took(duration_ms: float | None) -> str:
    return "" if duration_ms is None else f"{duration_ms / 1000:.1f} s"
