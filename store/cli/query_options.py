"""This module holds what `list`, `search` and `tools` share: the QUERY argument and the messages about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import click

from store.cli import output
from store.cli.json_output import JsonObject
from store.cli.options import complete_query
from store.cli.output import format_count
from store.search.explain import explain_corrections, explain_query
from store.search.query import Query
from store.search.saved_searches import expand_saved_searches, find_unknown_names
from store.search.typos import FtsTable, find_or_correct
from store.store import Store

ResultT = TypeVar("ResultT")
_TAG_WITH_BLANK = re.compile(r'(-?tag:)([^"]*\s[^"]*)', re.IGNORECASE)

query_argument = click.argument("words", metavar="[QUERY]", nargs=-1, shell_complete=complete_query)
for_agents_option = click.option(
    "--for-agents", is_flag=True, help="Print what an agent may know, as JSON, and what was covered."
)
next_option = click.option("--next", "cursor", default="", metavar="NEXT", help="With --for-agents: continue there.")
explain_option = click.option("--explain", is_flag=True, help="Print on stderr how the QUERY was understood.")


def parse_query(store: Store, words: Sequence[str], explain: bool) -> Query:
    """Parse the QUERY argument, and print its warnings and, if wanted, its meaning on stderr.

    A filter with an unknown value is an error. Without it, the query would find what was not asked for.
    """
    text = " ".join(_quote_known_tag(store, word) for word in words)
    searches = store.saved_searches.list_searches() if "@" in text else []
    query = Query.parse(expand_saved_searches(text, searches))
    hints = [f"No saved search is named {name!r}, so @{name} is a word." for name in find_unknown_names(text, searches)]
    query = query._replace(warnings=(*query.warnings, *hints))
    if query.unknown_values:
        raise click.UsageError(" ".join(query.unknown_values))
    if query.warning_text:
        output.notify(query.warning_text)
    if explain:
        output.notify(f"Understood: {explain_query(query, datetime.now(UTC)) or 'everything'}")
    return query


def _quote_known_tag(store: Store, word: str) -> str:
    """Put the value of `tag:two words` in quotes if there is such a tag. The shell has removed those of the person."""
    match = _TAG_WITH_BLANK.fullmatch(word)
    if match and any(match[2].lower() == name.lower() for name, _ in store.notes.all_tags()):
        return f'{match[1]}"{match[2]}"'
    return word


def find_with_typo_correction(
    store: Store,
    query: Query,
    indexes: Sequence[FtsTable],
    find: Callable[[Query], ResultT],
    is_empty: Callable[[ResultT], bool],
) -> tuple[Query, ResultT]:
    """Run `find`. If it finds nothing, retry with typos corrected, and print the correction on stderr."""
    corrected, result = find_or_correct(store, query, indexes, find, is_empty)
    if corrected.corrections:
        output.notify(explain_corrections(corrected))
    return corrected, result


def query_to_json(query: Query) -> JsonObject:
    """Describe how a query was understood, as JSON fields."""
    return {
        "understood": explain_query(query, datetime.now(UTC)),
        "puzzles": list(query.warnings),
        "instead": [{"typed": typed, "shown": shown} for typed, shown in query.corrections],
    }


def report_count(shown: int, total: int, noun: str) -> None:
    """Print on stderr that nothing was found, or that --limit left something out."""
    if not total:
        output.notify(f"No {noun}s found.")
    elif shown < total:
        output.notify(f"Showing {shown:,} of {format_count(total, noun)}. Use --limit to see more.")
