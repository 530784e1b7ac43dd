"""Finding: lists of sessions, hits and tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import click

from store.cli import printing, shapes
from store.cli.console import COUNT, as_json, with_store
from store.cli.naming import short_names
from store.cli.printing import Ink, Piece, age, count
from store.conditions import on_calls
from store.model import Hit, Json, PairedCall, Session, Status, readable
from store.query import Query
from store.store import Store

words = click.argument("words", metavar="[QUERY]", nargs=-1)

MARKS: dict[Status, Ink] = {
    "ok": Ink("✓", "good"),
    "error": Ink("✗", "bad"),
    "pending": Ink("…", "quiet"),
    "orphan": Ink("?", "quiet"),
}


@click.command("list")
@words
@click.option("--limit", type=COUNT, default=50, show_default=True, help="At most so many.")
@click.option("--trash", is_flag=True, help="What was deleted and can be restored.")
@as_json
@with_store
def list_sessions(store: Store, words: tuple[str, ...], limit: int, trash: bool, as_json: bool) -> None:
    """Sessions, newest first; with a QUERY those that hold the words.

    Beside words, a QUERY may hold "phrases", begin*, one OR another, -not, and filters: agent: model: cwd: tool: role:
    tag: before: after: is: (error, pinned, archived, fork, delegate, live, gone) has: (secret, summary, note). Before
    a QUERY that begins with -not, write --.
    """
    if trash and words:
        raise click.UsageError("The trash is listed whole: leave the QUERY or --trash out.")
    if trash:
        found = store.sessions.trash()
        page, total = found[:limit], len(found)
    else:
        page, total = store.sessions.matching(_understood(words), limit)
    if as_json:
        printing.emit_json({"sessions": shapes.sessions(store, page), "total": total})
        return
    names = short_names(store, page)
    heads = ["id", ":age", "source", ":turns", ":calls", ":err", "title"]
    printing.table(heads, [_session_row(session, names[session.id]) for session in page])
    _tell_how_many(len(page), total, "session")


def _understood(words: tuple[str, ...]) -> Query:
    query = Query.parse(" ".join(words))
    if query.puzzled:
        printing.say(query.puzzled)
    return query


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
    if not printing.on_terminal():
        return session.title
    marks = "★ " * bool(session.pinned) + "↳ " * bool(session.parent_id)
    return marks + (session.title or "(untitled)")


def _tell_how_many(shown: int, total: int, noun: str) -> None:
    if not total:
        printing.say(f"No {noun}s found.")
    elif shown < total:
        printing.say(f"{shown:,} of {count(total, noun)}; --limit shows more.")


@click.command()
@click.argument("words", metavar="QUERY", nargs=-1, required=True)
@click.option("--limit", type=COUNT, default=20, show_default=True, help="At most so many.")
@as_json
@with_store
def search(store: Store, words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Hits in conversations and tool calls, the best first."""
    query = _understood(words)
    if not query.fts():
        printing.say("No word to search for; `list` and `tools` take filters alone.")
    hits, total = store.search.find(query, limit=limit)
    if as_json:
        printing.emit_json({"hits": [shapes.hit(hit) for hit in hits], "total": total})
        return
    sessions = {hit.session_id: store.sessions.get(hit.session_id) for hit in hits}
    names = short_names(store, sessions.values())
    for hit in hits:
        _write_hit(hit, sessions[hit.session_id], names[hit.session_id])
    _tell_how_many(len(hits), total, "hit")


def _write_hit(hit: Hit, session: Session, name: str) -> None:
    if not printing.on_terminal():
        printing.table([], [[hit.entry, str(hit.turn), hit.role, hit.field, hit.at, hit.snippet]])
        return
    kind = " ".join(dict.fromkeys([hit.role, *hit.field.split("_")]))
    where = f"turn {hit.turn} · {kind} · {age(hit.at)}"
    title = printing.flat(session.title, max(printing.width() - len(name) - len(where) - 7, 20))
    printing.write(Ink(name, "name"), "  ", title, Ink(f" · {where}", "quiet"))
    printing.write("  ", *_marked(hit), "\n")


def _marked(hit: Hit) -> list[Piece]:
    pieces: list[Piece] = []
    end = 0
    for start, stop in hit.marks:
        pieces += [hit.snippet[end:start], Ink(hit.snippet[start:stop], "hit")]
        end = stop
    return [*pieces, hit.snippet[end:]]


@click.command()
@words
@click.option("--failed", is_flag=True, help="Only those that ended in an error.")
@click.option("--limit", type=COUNT, default=50, show_default=True, help="At most so many.")
@as_json
@with_store
def tools(store: Store, words: tuple[str, ...], failed: bool, limit: int, as_json: bool) -> None:
    """Tool calls across sessions, newest first; with a QUERY those that hold the words."""
    query = _understood((*words, "is:error") if failed else words)
    condition = on_calls(query, datetime.now(UTC))
    calls = _with_words_of_their_own(store.chains.all_tool_calls(condition.sql, condition.values, limit), query)
    if as_json:
        printing.emit_json({"tools": [shapes.call_of_any_session(call) for call in calls]})
        return
    names = short_names(store, [store.sessions.get(name) for name in {call.session_id for call in calls}])
    heads = ["session", ":turn", ":age", "", ":took", "tool", "arguments"]
    printing.table(heads, [_call_row(call, names[call.session_id]) for call in calls])
    if not calls:
        printing.say("No tool calls found.")


def _with_words_of_their_own(calls: list[PairedCall], query: Query) -> list[PairedCall]:
    """The index knows messages, not calls: of several in one message, those that hold the words themselves."""
    patterns = [pattern for group in query.words if (pattern := Query((group,)).pattern())]
    holding = {call.key: call.entry for call in calls if all(word.search(_words_of(call)) for word in patterns)}
    told_apart = set(holding.values())
    return [call for call in calls if call.key in holding or call.entry not in told_apart]


def _words_of(call: PairedCall) -> str:
    return "\n".join([call.name, argument_lines(call.arguments), readable(call.result)])


def _call_row(call: PairedCall, name: str) -> list[Piece]:
    return [
        Ink(name, "name"),
        str(call.turn),
        age(call.at),
        MARKS[call.status] if printing.on_terminal() else call.status,
        took(call.duration_ms),
        Ink(call.name, "title"),
        argument_lines(call.arguments),
    ]


def argument_lines(arguments: Json) -> str:
    """Each by its name: of what was asked, unlike of what was answered, no part is just wrapping."""
    if not isinstance(arguments, Mapping):
        return readable(arguments)
    return "\n".join(f"{name}: {readable(value)}" for name, value in arguments.items())


def took(duration_ms: float | None) -> str:
    return "" if duration_ms is None else f"{duration_ms / 1000:.1f} s"
