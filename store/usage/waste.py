"""This module finds waste in a session: what was read, run, sent or cached again without need. It counts, and never
guesses whether something was useful; docs/cost.md has the rules.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from store.formats.file_changes import find_command, find_paths, is_shell_tool
from store.model.entry import PairedCall, readable_text
from store.model.session import Session
from store.model.statistics import Waste
from store.model.usage import price_tokens
from store.text.validate import encode_derived
from store.usage.resent import BYTES_PER_TOKEN, count_result_bytes, find_resent_results, find_result_seq
from store.usage.session_cost import Response, SessionUsage

if TYPE_CHECKING:
    from store.store import Store

MIN_READS = 3
"""Is how often the same part of a file is read until it is a finding."""

MIN_FAILURES = 3
"""Is how often the same command fails until it is a finding."""

LARGE_OUTPUT_BYTES = 50_000
CACHE_LIFETIME_SECONDS = 300
"""Is how long the vendors keep a cache by default."""

_READING_WORDS = ("read", "view", "open_file", "cat_file")


def find_waste(store: Store, session: Session) -> list[Waste]:
    """Return what a session wasted, the largest number of tokens first."""
    usage = SessionUsage(store, session)
    with store.snapshot():
        calls = store.chains.tool_calls(session.key)
        responses = usage.list_responses()
        compactions = usage.list_compactions()
    found = [
        *_find_repeated_reads(session, calls, compactions),
        *_find_repeated_failures(session, calls),
        *_find_large_outputs(session, calls, responses, compactions),
        *_find_cache_misses(session, responses),
    ]
    return sorted(found, key=lambda waste: (-waste.tokens, waste.turns))


def _find_repeated_reads(session: Session, calls: Iterable[PairedCall], compactions: Sequence[int]) -> Iterator[Waste]:
    """Find parts of files that were read again with the same result, although the context still had it."""
    reads: dict[tuple[str, bytes, str, int], list[PairedCall]] = {}
    for call in calls:
        if call.status == "ok" and call.result_entry is not None and _is_reading_tool(call.name):
            result = (encode_derived(call.arguments), readable_text(call.result))
            context = bisect_right(compactions, find_result_seq(call.result_entry))
            for path in find_paths(call.name, call.arguments):
                reads.setdefault((path, *result, context), []).append(call)
    for (path, *_), own in reads.items():
        if len(own) >= MIN_READS:
            tokens = sum(map(count_result_bytes, own[1:])) // BYTES_PER_TOKEN
            turns = tuple(dict.fromkeys(call.turn for call in own))
            yield Waste("file read again", session.id, turns, path, len(own), tokens, None)


def _is_reading_tool(name: str) -> bool:
    return not is_shell_tool(name) and any(word in name.lower() for word in _READING_WORDS)


def _find_repeated_failures(session: Session, calls: Iterable[PairedCall]) -> Iterator[Waste]:
    failures: dict[str, list[PairedCall]] = {}
    for call in calls:
        if call.status == "error" and (command := find_command(call.name, call.arguments)):
            failures.setdefault(command.strip(), []).append(call)
    for command, own in failures.items():
        if len(own) >= MIN_FAILURES:
            turns = tuple(dict.fromkeys(call.turn for call in own))
            tokens = sum(map(count_result_bytes, own[1:])) // BYTES_PER_TOKEN
            yield Waste("command failed again", session.id, turns, command, len(own), tokens, None)


def _find_large_outputs(
    session: Session, calls: Iterable[PairedCall], responses: Sequence[Response], compactions: Sequence[int]
) -> Iterator[Waste]:
    for resent in find_resent_results(calls, responses, compactions, min_bytes=LARGE_OUTPUT_BYTES):
        turns = tuple(dict.fromkeys([resent.turn, *resent.later_turns]))
        figures = (resent.times, resent.total, resent.cost)
        yield Waste("large output resent", session.id, turns, resent.tool, *figures)


def _find_cache_misses(session: Session, responses: Sequence[Response]) -> Iterator[Waste]:
    """Find requests that sent again what the one before had in the cache, after a pause that was too long for it."""
    for before, after in pairwise(responses):
        pause = _seconds_between(before.at, after.at)
        if pause <= CACHE_LIFETIME_SECONDS or before.model != after.model:  # each model has a cache of its own
            continue
        cached = before.tokens.cache_read + before.tokens.cache_write_5m + before.tokens.cache_write_1h
        missed = cached - after.tokens.cache_read
        sent_again = min(missed, after.tokens.cache_write_5m + after.tokens.cache_write_1h + after.tokens.input)
        if not cached or sent_again * 2 < cached:
            continue
        cost = None
        if after.rates:
            rates = after.rates
            full = rates.cache_write_5m if after.tokens.cache_write_5m else rates.cache_write_1h
            full = full if after.tokens.cache_write_5m + after.tokens.cache_write_1h else rates.input
            cost = price_tokens(sent_again, max(full - rates.cache_read, 0))
        subject = f"{_describe_pause(pause)} pause"
        figures = (1, sent_again, cost)
        yield Waste("cache missed after a pause", session.id, (after.turn,), subject, *figures, is_estimated=False)


def _describe_pause(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{round(minutes / 60)} h" if minutes < 48 * 60 else f"{round(minutes / 60 / 24):,} days"


def _seconds_between(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
