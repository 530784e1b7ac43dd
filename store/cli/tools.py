"""This module defines the command `tools`, which lists the tool calls of all sessions."""

from __future__ import annotations

import click

from store.cli import json_output, output, query_options
from store.cli.json_output import JsonObject
from store.cli.options import POSITIVE_INT, json_option, with_store
from store.cli.output import Span, TerminalText, format_age
from store.cli.query_options import report_count
from store.cli.search import STATUS_SYMBOLS, format_arguments, format_duration
from store.cli.short_ids import shorten_ids
from store.model.entry import PairedCall
from store.model.tool_stats import CALL_ORDERS, TOOL_ORDERS, CallOrder, ToolOrder, ToolStats
from store.search import all_tool_calls
from store.search.query import Query
from store.store import Store

_ORDER_CHOICE = click.Choice(list(dict.fromkeys([*CALL_ORDERS, *TOOL_ORDERS])))


@click.command()
@query_options.query_argument
@click.option("--failed", is_flag=True, help="List only failed calls.")
@click.option(
    "--by",
    type=_ORDER_CHOICE,
    default="newest",
    show_default=True,
    help="Sort by this. 'used' and 'failing' list the tools instead of their calls.",
)
@click.option("--summary", is_flag=True, help="List the tools: number of calls, failures, durations.")
@click.option("--limit", type=POSITIVE_INT, metavar="N", default=50, show_default=True, help="Show at most N calls.")
@query_options.explain_option
@json_option
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
    """List tool calls of all sessions, newest first.

    With a QUERY, list only the calls that match, for example `tools tool:bash is:error after:yesterday`. Use
    `--by failing` or `--by used` to rank the tools themselves. `backscroll list -h` explains queries.
    """
    query = query_options.parse_query(store, (*words, "is:error") if failed else words, explain)
    order: CallOrder = "slowest" if by == "slowest" else "newest"
    query, calls = query_options.find_with_typo_correction(
        store,
        query,
        ["tools_fts"],
        lambda corrected: all_tool_calls.find_calls(store, corrected, order=order, limit=limit),
        lambda calls: not calls,
    )
    tool_order: ToolOrder | None = by if by in ("failing", "used") else None
    if summary or tool_order:
        all_stats = all_tool_calls.compute_tool_stats(
            store, query, order=tool_order or ("slowest" if by == "slowest" else "used")
        )
    if as_json:
        document: JsonObject = {
            "tools": [json_output.call_with_session_to_json(call) for call in calls],
            "total": all_tool_calls.count_calls(store, query),
        }
        if summary or tool_order:
            document["names"] = [json_output.tool_stats_to_json(stats) for stats in all_stats]
        output.emit_json({**document, **query_options.query_to_json(query)})
    elif summary or tool_order:
        _write_tool_stats(all_stats)
    else:
        _write_calls(store, calls, query, limit)


def _write_calls(store: Store, calls: list[PairedCall], query: Query, limit: int) -> None:
    sessions = [store.sessions.get(session_id) for session_id in {call.session_id for call in calls}]
    short_ids = shorten_ids(store, sessions)
    headings = ["session", ":turn", ":age", "", ":took", "tool", "arguments"]
    output.print_table(headings, [_call_row(call, short_ids[call.session_id]) for call in calls])
    total = len(calls) if len(calls) < limit else all_tool_calls.count_calls(store, query)
    report_count(len(calls), total, "tool call")


def _call_row(call: PairedCall, short_id: str) -> list[Span]:
    return [
        TerminalText(short_id, "name"),
        str(call.turn),
        format_age(call.at),
        STATUS_SYMBOLS[call.status] if output.stdout_is_terminal() else call.status,
        format_duration(call.duration_ms),
        TerminalText(call.name, "title"),
        format_arguments(call.arguments),
    ]


def _write_tool_stats(all_stats: list[ToolStats]) -> None:
    headings = [":calls", ":failed", ":failure rate", ":median", ":slowest", ":last", "tool"]
    output.print_table(headings, [_tool_stats_row(stats) for stats in all_stats])
    if not all_stats:
        output.notify("No tool calls found.")


def _tool_stats_row(stats: ToolStats) -> list[Span]:
    return [
        str(stats.calls),
        TerminalText(str(stats.failed), "bad" if stats.failed else "quiet"),
        f"{stats.failure_rate:.1%}",
        format_duration(stats.median_ms),
        format_duration(stats.slowest_ms),
        format_age(stats.last_at),
        TerminalText(stats.name, "title"),
    ]
