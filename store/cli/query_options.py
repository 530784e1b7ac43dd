"""What `list`, `search` and `tools` share: a QUERY, what was understood of it, and what else was looked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import click

from store.cli import output
from store.cli.json_output import Shape
from store.cli.output import count
from store.search.explain import instead, understood
from store.search.query import Query
from store.search.typos import Index, found_or_forgiven
from store.store import Store

Found = TypeVar("Found")

words = click.argument("words", metavar="[QUERY]", nargs=-1)
explain = click.option("--explain", is_flag=True, help="Say on stderr how the QUERY was understood.")


def parsed(words: Sequence[str], explain: bool) -> Query:
    query = Query.parse(" ".join(words))
    if query.puzzled:
        output.say(query.puzzled)
    if explain:
        output.say(f"Understood: {understood(query, datetime.now(UTC)) or 'everything'}.")
    return query


def found(
    store: Store,
    query: Query,
    indexes: Sequence[Index],
    find: Callable[[Query], Found],
    is_empty: Callable[[Found], bool],
) -> tuple[Query, Found]:
    """Typing errors are forgiven where nothing else is found, and it is said."""
    meant, what = found_or_forgiven(store, query, indexes, find, is_empty)
    if meant.instead:
        output.say(instead(meant))
    return meant, what


def told(query: Query) -> Shape:
    """For other programs."""
    return {
        "understood": understood(query, datetime.now(UTC)),
        "puzzles": list(query.puzzles),
        "instead": [{"typed": typed, "shown": shown} for typed, shown in query.instead],
    }


def tell_how_many(shown: int, total: int, noun: str) -> None:
    if not total:
        output.say(f"No {noun}s found.")
    elif shown < total:
        output.say(f"{shown:,} of {count(total, noun)}; --limit shows more.")
