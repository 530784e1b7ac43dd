"""This module estimates how often the results of tool calls were sent to the model again.

An agent sends the whole conversation with every request. So a result is in the first request after it, and again in
every later one up to the next compaction. A token is taken for four bytes of the result's text.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from store.model.entry import PairedCall, readable_text
from store.model.statistics import ResentResult
from store.model.usage import price_tokens
from store.usage.session_cost import Response

BYTES_PER_TOKEN = 4
"""Is about how many bytes a token has, in English and in code."""


def find_resent_results(
    calls: Iterable[PairedCall], responses: Sequence[Response], compactions: Sequence[int], *, min_bytes: int
) -> Iterator[ResentResult]:
    """Yield the results of more than this many bytes that were sent again."""
    seqs = [response.seq for response in responses]
    for call in calls:
        if call.result_entry is None or (size := count_result_bytes(call)) <= min_bytes:
            continue
        seq = find_result_seq(call.result_entry)
        position = bisect_right(compactions, seq)
        end = bisect_left(seqs, compactions[position]) if position < len(compactions) else len(seqs)
        later = responses[bisect_right(seqs, seq) + 1 : end]
        # An output that was cut when it was sent cannot be larger than the context.
        tokens = min(size // BYTES_PER_TOKEN, max((response.tokens.context for response in later), default=0))
        if tokens:
            costs = [price_tokens(tokens, response.rates.cache_read) for response in later if response.rates]
            turns = tuple(dict.fromkeys(response.turn for response in later))
            cost = sum(costs) if costs else None
            yield ResentResult(call.result_entry, call.name, call.turn, tokens, len(later), turns, cost)


def find_result_seq(entry: str) -> int:
    """Return the seq in the public id of an entry."""
    return int(entry.rpartition("#")[2])


def count_result_bytes(call: PairedCall) -> int:
    return len(readable_text(call.result).encode("utf-8", "replace"))
