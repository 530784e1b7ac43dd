"""This module defines the command `stats`, which sums up tokens, API value and counts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import click

from store.cli import json_output, output, query_options
from store.cli.options import json_option, with_store
from store.cli.output import Span, TerminalText
from store.cli.usage.money import describe_prices, format_cost, format_tokens, warn_of_missing_usage
from store.model.statistics import DIMENSIONS, Dimension, Figures, Statistics
from store.search.query import parse_date
from store.sources import source_label
from store.store import Store
from store.usage.period import Period

_YEAR_OR_MONTH = re.compile(r"(\d{4})(?:-(\d\d?))?")
_MOMENT = re.compile(r"\d+[a-z]+|.*[t ]\d.*")

WIDE_TERMINAL = 120
"""Is the width that a terminal needs for all columns."""

_Column = tuple[str, Callable[[Figures], Span]]
"""Holds a heading, and what writes a cell below it."""

since_option = click.option("--since", metavar="D", help="Only from this day on, e.g. 2026-11-01, 2026-11, 7d, monday.")
until_option = click.option("--until", metavar="D", help="Only up to this day or month, which is included.")


@click.command()
@query_options.query_argument
@click.option(
    "--by", type=click.Choice(DIMENSIONS), default="month", show_default=True, help="What the rows are grouped by."
)
@since_option
@until_option
@query_options.explain_option
@json_option
@with_store
def stats(
    store: Store,
    words: tuple[str, ...],
    by: Dimension,
    since: str | None,
    until: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Sum up tokens, API value, turns and tool calls.

    The API value is what the tokens cost at the vendor's API. It is not a bill: with a subscription you pay something
    else. Tokens of models without a price are counted as unpriced. A response that several sessions have, such as a
    session and its fork, is counted once. With a QUERY, sum up only the sessions that match, also in tool calls and
    their results; `backscroll list -h` explains queries.
    """
    query = query_options.parse_query(store, words, explain)
    warn_of_missing_usage(store)
    period = parse_period(since, until)
    query, found = query_options.find_with_typo_correction(
        store,
        query,
        ["conversation_fts", "skims_fts", "tools_fts"],
        lambda corrected: store.usage.collect(by, query=corrected, period=period),
        lambda found: not found.totals.sessions,
    )
    if as_json:
        output.emit_json(_to_json(found) | query_options.query_to_json(query))
        return
    rows = [(_name(by, row.key), row.figures) for row in found.rows]
    if len(rows) > 1:
        rows.append(("total", found.totals))
    columns = _choose_columns()
    headings = [by.replace("_", " × "), *(heading for heading, _ in columns)]
    cells = [[TerminalText(name, "name"), *(write(figures) for _, write in columns)] for name, figures in rows]
    output.print_table(headings, cells)
    if not rows:
        output.notify("Nothing found.")
    elif found.totals.cost is not None:
        output.notify(describe_prices(found.prices, is_estimated=found.totals.is_estimated))


def _name(by: Dimension, key: str) -> str:
    if not key:
        return "(unknown)"
    return source_label(key) if by == "agent" and output.stdout_is_terminal() else key


def _choose_columns() -> list[_Column]:
    """Return the columns besides the name. A narrow terminal has no room for errors and for the kinds of tokens."""
    sessions = (":sessions", lambda figures: str(figures.sessions))
    turns = (":turns", lambda figures: str(figures.turns))
    calls = (":calls", lambda figures: str(figures.tool_calls))
    value = (":API value", lambda figures: TerminalText(_format_value(figures), "title"))
    unpriced = ("unpriced", lambda figures: format_tokens(figures.unpriced_tokens) if figures.unpriced_tokens else "")
    if output.stdout_is_terminal() and output.terminal_width() < WIDE_TERMINAL:
        tokens = (":tokens", lambda figures: format_tokens(figures.tokens.total))
        return [sessions, turns, calls, tokens, value, unpriced]
    kinds = [
        (":input", lambda figures: format_tokens(figures.tokens.input)),
        (":cache read", lambda figures: format_tokens(figures.tokens.cache_read)),
        (":cache write", lambda figures: format_tokens(figures.tokens.cache_write_5m + figures.tokens.cache_write_1h)),
        (":output", lambda figures: format_tokens(figures.tokens.output)),
    ]
    errors = (":errors", lambda figures: TerminalText(str(figures.errors), "bad" if figures.errors else "quiet"))
    return [sessions, turns, calls, errors, *kinds, value, unpriced]


def _format_value(figures: Figures) -> str:
    """Format the API value. Without tokens there is none, which is not the same as tokens without a price."""
    has_value = figures.cost is not None or figures.unpriced_tokens > 0
    return format_cost(figures.cost, is_estimated=figures.is_estimated) if has_value else ""


def _to_json(found: Statistics) -> json_output.JsonObject:
    return {
        "by": found.by,
        "rows": [{"key": row.key, **json_output.figures_to_json(row.figures)} for row in found.rows],
        "totals": json_output.figures_to_json(found.totals),
        "prices": json_output.prices_to_json(found.prices),
    }


# ── periods ───────────────────────────────────────────────────────────────────────────────────────


def parse_period(since: str | None, until: str | None) -> Period:
    """Return the period between two dates. The last day, month or year is included."""
    return Period(_parse_date(since, "--since"), _find_end(until))


def _parse_date(value: str | None, option: str) -> datetime | None:
    if not value:
        return None
    moment = parse_date(value, datetime.now(UTC))
    if moment is None:
        raise click.UsageError(f"{option} {value!r} is no date. Write 2026-11-01, 2026-11, 7d, yesterday or monday.")
    return moment


def _find_end(value: str | None) -> datetime | None:
    start = _parse_date(value, "--until")
    if start is None or value is None or _MOMENT.fullmatch(value.lower()):
        return start
    local = start.astimezone().replace(tzinfo=None)
    try:
        if year_or_month := _YEAR_OR_MONTH.fullmatch(value):
            months = local.month if year_or_month[2] else 12
            end = local.replace(year=local.year + months // 12, month=months % 12 + 1)
        else:
            end = local + timedelta(days=1)
        return end.astimezone(UTC)
    except (ValueError, OverflowError):
        return None  # the end of time
