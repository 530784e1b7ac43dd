"""What `list`, `search` and `tools` share: a QUERY, what was understood of it, and what else was looked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import click

from store.cli import output
from store.cli.json_output import JsonObject
from store.cli.output import format_count
from store.search.explain import explain_corrections, explain_query
from store.search.query import Query
from store.search.typos import FtsTable, find_or_correct
from store.store import Store

FoundT = TypeVar("FoundT")

query_argument = click.argument("words", metavar="[QUERY]", nargs=-1)
explain_option = click.option("--explain", is_flag=True, help="Say on stderr how the QUERY was understood.")


def parse_query(words: Sequence[str], explain: bool) -> Query:
    query = Query.parse(" ".join(words))
    if query.warning_text:
        output.notify(query.warning_text)
    if explain:
        output.notify(f"Understood: {explain_query(query, datetime.now(UTC)) or 'everything'}.")
    return query


def find_with_typo_correction(
    store: Store,
    query: Query,
    indexes: Sequence[FtsTable],
    find: Callable[[Query], FoundT],
    is_empty: Callable[[FoundT], bool],
) -> tuple[Query, FoundT]:
    """Typing errors are forgiven where nothing else is found, and it is said."""
    meant, what = find_or_correct(store, query, indexes, find, is_empty)
    if meant.corrections:
        output.notify(explain_corrections(meant))
    return meant, what


def query_to_json(query: Query) -> JsonObject:
    """For other programs."""
    return {
        "understood": explain_query(query, datetime.now(UTC)),
        "puzzles": list(query.warnings),
        "instead": [{"typed": typed, "shown": shown} for typed, shown in query.corrections],
    }


def report_count(shown: int, total: int, noun: str) -> None:
    if not total:
        output.notify(f"No {noun}s found.")
    elif shown < total:
        output.notify(f"{shown:,} of {format_count(total, noun)}; --limit shows more.")
