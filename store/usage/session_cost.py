"""This module explains the cost of a session: the sum behind a figure, the cost of each turn, and how full the
context window was.

Agents send the whole conversation with every request. So a turn pays again for what earlier turns put into the context.
How much is an estimate, by this rule: what was in the context when the turn began is in every request of the turn, and
is the part that was read from the cache first, then what was written to it, then the other input.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from store.model.session import Session
from store.model.statistics import (
    ContextPoint,
    CostExplanation,
    Figures,
    ResentResult,
    SubagentCost,
    TokenCounts,
    TurnCost,
)
from store.model.usage import RATE_TOKENS, TOKEN_KINDS
from store.text.validate import decode, encode
from store.usage.cost import COST, JOIN_RATES, RATES, list_models, rates_parameter
from store.usage.cost_lines import LINE_COLUMNS, RATE_NAMES, build_cost_line, read_line_figures
from store.usage.figures import RESPONSE_SUMS, add_figures, response_figures
from store.usage.prices import PriceTable, load_table
from store.usage.session_tree import SESSION_TREE

if TYPE_CHECKING:
    from store.store import Store

_SELECT_LINES = f"""
    with {RATES} select {LINE_COLUMNS} from usage {JOIN_RATES} join entries on entries.key = usage.entry
    where usage.session = ? and usage.counted = 1 and (? is null or entries.turn = ?)
    group by usage.model, rates.since, rates.over order by sum({COST}) desc
"""
_SELECT_TREE = f"""
    with recursive {RATES}, {SESSION_TREE}
    select tree.session, {RESPONSE_SUMS} from tree cross join usage on usage.session = tree.session {JOIN_RATES}
    join sessions on sessions.key = tree.session
    where usage.counted = 1 and tree.session != tree.asked
        and (?3 is null or tree.session in (
            select key from sessions where parent_id = ?4 and forked_at in (
                select seq from entries where session = ?5 and turn = ?3)))
    group by 1 order by 1
"""
# The session, and those from which it inherits entries, each with the last seq that it inherits. An inherited entry has
# the same seq in all of them, and a row of usage only in the one that it comes from.
_LINEAGE = f"""
    lineage (session, last_seq) as (
        select ?1, {2**62}
        union
        select parents.key, min(children.forked_at, last_seq)
        from lineage join sessions as children on children.key = lineage.session
        join sessions as parents on parents.id = children.parent_id
        where (select inherited from entries where session = children.key and seq = 0) = 1
    )
"""
_FROM_LINEAGE = """
    lineage cross join usage on usage.session = lineage.session
    join entries as theirs on theirs.key = usage.entry and theirs.seq <= last_seq
    join entries on entries.session = ?1 and entries.seq = theirs.seq
"""
_COUNT_OTHERS = f"""
    with recursive {_LINEAGE} select count(*), json_group_array(distinct owners.id) from {_FROM_LINEAGE}
    left join usage as twins on usage.counted = 0 and twins.call = usage.call and twins.call < 0 and twins.counted = 1
    join sessions as owners on owners.key = coalesce(twins.session, lineage.session)
    where (lineage.session != ?1 or usage.counted = 0) and (?2 is null or entries.turn = ?2)
"""
_SELECT_RESPONSES = f"""
    with recursive {_LINEAGE}, {RATES.replace("?", "?2")}
    select entries.key, entries.seq, entries.turn, entries.created_at, usage.model,
        {", ".join(f"usage.{kind}" for kind in TOKEN_KINDS)}, {COST}, {RATE_NAMES}
    from {_FROM_LINEAGE} {JOIN_RATES} order by entries.seq
"""
_SELECT_COMPACTIONS = "select seq from entries where session = ? and kind = 'compaction' order by seq"
MIN_RESENT_BYTES = 4_000
MIN_RESENT_TOKENS = 10_000
MAX_RESENT_RESULTS = 5
"""Say which tool results are worth showing: of those that were sent again with this many tokens together, the largest
ones."""

_CARRIED_FIRST = ("cache_read", "cache_write_5m", "cache_write_1h", "input")


class Response(NamedTuple):
    """Holds one response of a session, in the order of the conversation."""

    entry: int
    seq: int
    turn: int
    at: str
    model: int
    tokens: TokenCounts
    cost: int | None
    rates: TokenCounts | None


class SessionUsage:
    """Answers questions about the usage of one session."""

    def __init__(self, store: Store, session: Session) -> None:
        self._store = store
        self._session = session
        self._table: PriceTable = load_table()
        self._models = {model.key: model for model in list_models(store, self._table)}
        self._rates = rates_parameter(list(self._models.values()))

    # ── the sum behind a figure ───────────────────────────────────────────────────────────────────

    def explain(self, turn: int | None = None) -> CostExplanation:
        """Return the sum behind the cost of the session or of one turn."""
        key = self._session.key
        with self._store.snapshot():
            rows = self._store.rows(_SELECT_LINES, self._rates, key, turn, turn)
            lines = tuple(build_cost_line(self._models, row) for row in rows)
            subagents = tuple(self._find_subagents(turn))
            not_counted, owners = self._store.row(_COUNT_OTHERS, key, turn)
        own = add_figures(map(read_line_figures, rows))
        return CostExplanation(
            self._session.id,
            turn,
            lines,
            own,
            add_figures([own, *(subagent.figures for subagent in subagents)]),
            subagents,
            self._session.cost,
            not_counted,
            tuple(sorted(owner for owner in decode(owners) if owner != self._session.id)),
            self._table.info,
        )

    def _find_subagents(self, turn: int | None) -> Iterator[SubagentCost]:
        """Yield what sub-agents cost; with a turn, only those that it started."""
        key = self._session.key
        rows = self._store.rows(_SELECT_TREE, self._rates, encode([key]).decode(), turn, self._session.id, key)
        sessions = {session.key: session for session in self._store.sessions.by_keys([row[0] for row in rows])}
        for session, *numbers in rows:
            if session in sessions:
                yield SubagentCost(sessions[session].id, sessions[session].title, response_figures(numbers))

    # ── turns ─────────────────────────────────────────────────────────────────────────────────────

    def list_responses(self) -> list[Response]:
        """Return all responses that the session shows, also those that another session counts."""
        rows = self._store.rows(_SELECT_RESPONSES, self._session.key, self._rates)
        size = len(TOKEN_KINDS)
        return [
            Response._make(
                (
                    *row[:5],
                    TokenCounts._make(row[5 : 5 + size]),
                    row[5 + size],
                    TokenCounts._make(row[6 + size :]) if row[6 + size] is not None else None,
                )
            )
            for row in rows
        ]

    def list_compactions(self) -> list[int]:
        """Return the seqs of the compactions."""
        return [seq for (seq,) in self._store.rows(_SELECT_COMPACTIONS, self._session.key)]

    def turn_costs(self) -> list[TurnCost]:
        """Return what each turn cost that has a response, in their order."""
        with self._store.snapshot():
            responses = self.list_responses()
            compactions = self.list_compactions()
        total = _sum_responses(responses)
        turns: list[TurnCost] = []
        end, base = 0, 0
        for _, group in groupby(responses, lambda response: response.turn):
            turn = list(group)
            end += len(turn)
            later = _count_until_compaction(responses[end:], turn[-1].seq, compactions)
            turns.append(_build_turn_cost(turn, base, later, total))
            base = turn[-1].tokens.total
        return turns

    def resent_results(self, turn: int | None = None) -> list[ResentResult]:
        """Return the tool results of the session or of one turn that were sent again most, as an estimate."""
        from store.usage.resent import find_resent_results

        with self._store.snapshot():
            calls = self._store.chains.tool_calls(self._session.key, turn)
            responses, compactions = self.list_responses(), self.list_compactions()
        found = find_resent_results(calls, responses, compactions, min_bytes=MIN_RESENT_BYTES)
        large = (result for result in found if result.total >= MIN_RESENT_TOKENS)
        return sorted(large, key=lambda result: -result.total)[:MAX_RESENT_RESULTS]

    def context(self) -> list[ContextPoint]:
        """Return how full the context window was at each response."""
        with self._store.snapshot():
            responses = self.list_responses()
            compactions = self.list_compactions()
        points: list[ContextPoint] = []
        before = -1
        for response in responses:
            model = self._models[response.model]
            is_compacted = bisect_right(compactions, response.seq) > bisect_right(compactions, before)
            window = model.prices.window if model.prices else None
            where = (response.entry, response.seq, response.turn, response.at, model.name)
            points.append(ContextPoint(*where, response.tokens.context, window, is_compacted))
            before = response.seq
        return points


def _sum_responses(responses: Sequence[Response]) -> Figures:
    return add_figures(
        Figures(
            responses=1,
            tokens=response.tokens,
            cost=response.cost,
            unpriced_tokens=response.tokens.total if response.cost is None else 0,
        )
        for response in responses
    )


def _build_turn_cost(turn: Sequence[Response], base: int, later: int, session: Figures) -> TurnCost:
    """Return what the responses of a turn cost.

    `base` is how many tokens were in the context when it began, and `later` how many requests had what it added.
    """
    figures = _sum_responses(turn)
    carried = sum(_carried_cost(response, base) for response in turn)
    kept = base if _is_same_context(base, turn[0]) else 0
    part, whole = (figures.cost, session.cost) if session.cost else (figures.tokens.total, session.tokens.total)
    return TurnCost(
        turn[0].turn,
        len(turn),
        figures.tokens,
        figures.cost,
        None if figures.cost is None else max(figures.cost - carried, 0),
        None if figures.cost is None else min(carried, figures.cost),
        figures.unpriced_tokens,
        (part or 0) / whole if whole else 0.0,
        max(turn[-1].tokens.total - kept, 0) * later,
        later,
    )


def _is_same_context(base: int, response: Response) -> bool:
    """Return whether a request still has what was in the context before. After a compaction it is much smaller."""
    return response.tokens.context * 2 >= base


def _carried_cost(response: Response, base: int) -> int:
    """Return what the part of a request cost that was in the context when its turn began, in micro-dollars."""
    if response.rates is None or not _is_same_context(base, response):
        return 0
    remaining, amount = base, 0
    for kind in _CARRIED_FIRST:
        count = min(getattr(response.tokens, kind), remaining)
        amount += count * getattr(response.rates, kind)
        remaining -= count
    return amount // RATE_TOKENS


def _count_until_compaction(responses: Sequence[Response], seq: int, compactions: Sequence[int]) -> int:
    position = bisect_right(compactions, seq)
    end = compactions[position] if position < len(compactions) else None
    return sum(1 for response in responses if end is None or response.seq < end)
