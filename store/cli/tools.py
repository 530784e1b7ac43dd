"""Tool calls across sessions, and how each tool fares."""

from __future__ import annotations

import click

from store.cli import json_output, output, query_options
from store.cli.options import COUNT, as_json, with_store
from store.cli.output import Ink, Piece, age
from store.cli.query_options import tell_how_many
from store.cli.search import MARKS, argument_lines, took
from store.cli.short_ids import short_names
from store.model.entry import PairedCall
from store.model.tool_stats import CALL_ORDERS, TOOL_ORDERS, CallOrder, Tally, ToolOrder
from store.search import all_tool_calls
from store.search.query import Query
from store.store import Store

_ORDERS = click.Choice(list(dict.fromkeys([*CALL_ORDERS, *TOOL_ORDERS])))


@click.command()
@query_options.words
@click.option("--failed", is_flag=True, help="Only those that ended in an error.")
@click.option("--by", type=_ORDERS, default="newest", show_default=True, help="Failing, used: the tools, by name.")
@click.option("--summary", is_flag=True, help="The tools by name: how often called, how often failed, how slow.")
@click.option("--limit", type=COUNT, default=50, show_default=True, help="At most so many calls.")
@query_options.explain
@as_json
@with_store
def tools(
    store: Store,
    words: tuple[str, ...],
    failed: bool,
    by: CallOrder | ToolOrder,
    summary: bool,
    limit: int,
    explain: bool,
    as_json: bool,
) -> None:
    """Tool calls across sessions, newest first; with a QUERY those that hold the words.

    For instance `tools tool:bash is:error after:yesterday`, `tools --by slowest`, or, for the tools themselves,
    `tools --by failing` and `tools --by used`.
    """
    query = query_options.parsed((*words, "is:error") if failed else words, explain)
    order: CallOrder = "slowest" if by == "slowest" else "newest"
    query, calls = query_options.found(
        store,
        query,
        ["tools_fts"],
        lambda meant: all_tool_calls.matching(store, meant, by=order, limit=limit),
        lambda found: not found,
    )
    by_name: ToolOrder | None = by if by in ("failing", "used") else None
    if summary or by_name:
        tallies = all_tool_calls.tallies(store, query, by=by_name or ("slowest" if by == "slowest" else "used"))
    if as_json:
        named = {"names": [json_output.tally(one) for one in tallies]} if summary or by_name else {}
        told = {
            "tools": [json_output.call_of_any_session(call) for call in calls],
            "total": all_tool_calls.count(store, query),
        }
        output.emit_json({**told, **named, **query_options.told(query)})
    elif summary or by_name:
        _write_tallies(tallies)
    else:
        _write_calls(store, calls, query, limit)


def _write_calls(store: Store, calls: list[PairedCall], query: Query, limit: int) -> None:
    names = short_names(store, [store.sessions.get(name) for name in {call.session_id for call in calls}])
    heads = ["session", ":turn", ":age", "", ":took", "tool", "arguments"]
    output.table(heads, [_call_row(call, names[call.session_id]) for call in calls])
    total = len(calls) if len(calls) < limit else all_tool_calls.count(store, query)
    tell_how_many(len(calls), total, "tool call")


def _call_row(call: PairedCall, name: str) -> list[Piece]:
    return [
        Ink(name, "name"),
        str(call.turn),
        age(call.at),
        MARKS[call.status] if output.on_terminal() else call.status,
        took(call.duration_ms),
        Ink(call.name, "title"),
        argument_lines(call.arguments),
    ]


def _write_tallies(tallies: list[Tally]) -> None:
    heads = [":calls", ":failed", ":share", ":median", ":slowest", ":last", "tool"]
    output.table(heads, [_tally_row(one) for one in tallies])
    if not tallies:
        output.say("No tool calls found.")


def _tally_row(one: Tally) -> list[Piece]:
    return [
        str(one.calls),
        Ink(str(one.failed), "bad" if one.failed else "quiet"),
        f"{one.share:.1%}",
        took(one.median_ms),
        took(one.slowest_ms),
        age(one.last_at),
        Ink(one.name, "title"),
    ]
