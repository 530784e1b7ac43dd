"""Tool calls across sessions, and how each tool fares."""

from __future__ import annotations

import click

from store.cli import json_output, output, query_options
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
@click.option("--failed", is_flag=True, help="Only those that ended in an error.")
@click.option(
    "--by", type=_ORDER_CHOICE, default="newest", show_default=True, help="Failing, used: the tools, by name."
)
@click.option("--summary", is_flag=True, help="The tools by name: how often called, how often failed, how slow.")
@click.option("--limit", type=POSITIVE_INT, default=50, show_default=True, help="At most so many calls.")
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
    """Tool calls across sessions, newest first; with a QUERY those that hold the words.

    For instance `tools tool:bash is:error after:yesterday`, `tools --by slowest`, or, for the tools themselves,
    `tools --by failing` and `tools --by used`.
    """
    query = query_options.parse_query((*words, "is:error") if failed else words, explain)
    order: CallOrder = "slowest" if by == "slowest" else "newest"
    query, calls = query_options.find_with_typo_correction(
        store,
        query,
        ["tools_fts"],
        lambda meant: all_tool_calls.find_calls(store, meant, order=order, limit=limit),
        lambda found: not found,
    )
    by_name: ToolOrder | None = by if by in ("failing", "used") else None
    if summary or by_name:
        tallies = all_tool_calls.compute_tool_stats(
            store, query, order=by_name or ("slowest" if by == "slowest" else "used")
        )
    if as_json:
        named = {"names": [json_output.tool_stats_to_json(one) for one in tallies]} if summary or by_name else {}
        told = {
            "tools": [json_output.call_with_session_to_json(call) for call in calls],
            "total": all_tool_calls.count_calls(store, query),
        }
        output.emit_json({**told, **named, **query_options.query_to_json(query)})
    elif summary or by_name:
        _write_tool_stats(tallies)
    else:
        _write_calls(store, calls, query, limit)


def _write_calls(store: Store, calls: list[PairedCall], query: Query, limit: int) -> None:
    names = shorten_ids(store, [store.sessions.get(name) for name in {call.session_id for call in calls}])
    heads = ["session", ":turn", ":age", "", ":took", "tool", "arguments"]
    output.print_table(heads, [_call_row(call, names[call.session_id]) for call in calls])
    total = len(calls) if len(calls) < limit else all_tool_calls.count_calls(store, query)
    report_count(len(calls), total, "tool call")


def _call_row(call: PairedCall, name: str) -> list[Span]:
    return [
        TerminalText(name, "name"),
        str(call.turn),
        format_age(call.at),
        STATUS_SYMBOLS[call.status] if output.stdout_is_terminal() else call.status,
        format_duration(call.duration_ms),
        TerminalText(call.name, "title"),
        format_arguments(call.arguments),
    ]


def _write_tool_stats(tallies: list[ToolStats]) -> None:
    heads = [":calls", ":failed", ":share", ":median", ":slowest", ":last", "tool"]
    output.print_table(heads, [_tool_stats_row(one) for one in tallies])
    if not tallies:
        output.notify("No tool calls found.")


def _tool_stats_row(one: ToolStats) -> list[Span]:
    return [
        str(one.calls),
        TerminalText(str(one.failed), "bad" if one.failed else "quiet"),
        f"{one.failure_rate:.1%}",
        format_duration(one.median_ms),
        format_duration(one.slowest_ms),
        format_age(one.last_at),
        TerminalText(one.name, "title"),
    ]
