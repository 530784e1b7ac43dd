"""This module defines figures about conversations: tokens, cost and counts, in total and by day, model and so on.

Money is in whole micro-dollars. It is what the tokens cost at the vendor's API ("API value").

They are named tuples, because a start that lists sessions loads them, and a dataclass takes longer to define.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from store.model.usage import price_tokens

Dimension = Literal["day", "week", "month", "hour", "weekday_hour", "model", "agent", "folder", "tool", "session"]
DIMENSIONS: tuple[Dimension, ...] = (
    "day",
    "week",
    "month",
    "hour",
    "weekday_hour",
    "model",
    "agent",
    "folder",
    "tool",
    "session",
)
TIME_DIMENSIONS = frozenset(["day", "week", "month", "hour", "weekday_hour"])
"""Are sorted by their keys. The others are sorted by cost, then by tokens, then by calls."""


class TokenCounts(NamedTuple):
    """Counts tokens by kind."""

    input: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    output: int = 0
    reasoning: int = 0
    "Is a part of `output`."

    @property
    def total(self) -> int:
        return self.context + self.output

    @property
    def context(self) -> int:
        """Return all tokens that were sent to the model."""
        return self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h


NO_TOKENS = TokenCounts()


class Figures(NamedTuple):
    """Holds the figures of one row of statistics, or of all rows together."""

    sessions: int = 0
    turns: int = 0
    tool_calls: int = 0
    errors: int = 0
    "Counts the tool calls that failed."
    active_seconds: int = 0
    "Is the time from each prompt to the end of its turn, at most an hour for each turn."
    responses: int = 0
    tokens: TokenCounts = NO_TOKENS
    cost: int | None = None
    "Is the API value of the responses that have a price, in micro-dollars. None means that none of them has one."
    unpriced_tokens: int = 0
    "Counts the tokens of responses without a price. They are not part of the cost."
    reported_cost: int | None = None
    "Is what the agents themselves said, in micro-dollars, for the responses of which they said it."
    is_estimated: bool = False
    "Is true if some number of tokens was concluded from others."


NO_FIGURES = Figures()


class StatisticsRow(NamedTuple):
    """Holds the figures of one row: of a day, a model, an agent and so on."""

    key: str
    "Is e.g. `2026-11-18`, `2026-W47`, `2026-11`, `09` (hour), `2 09` (weekday from Monday = 1, and hour), or a name."
    figures: Figures
    split: str = ""
    "Is the model or agent when each row is split by it."


SHORT_DIGEST = 8
"""Counts the characters of a digest that are shown where there is little room."""


class TableInfo(NamedTuple):
    """Says which rate table a cost was computed with."""

    name: str
    version: str
    date: str
    digest: str

    @property
    def short(self) -> str:
        """Return what fits beside an amount of money, e.g. `0.2.3, 2026-11-18, 3f0c12ab`."""
        return f"{self.version}, {self.date}, {self.digest[:SHORT_DIGEST]}"


class Statistics(NamedTuple):
    """Holds the figures of all rows, and their totals."""

    by: Dimension
    rows: tuple[StatisticsRow, ...]
    totals: Figures
    prices: TableInfo


# ── the sum behind a figure ───────────────────────────────────────────────────────────────────────


class CostItem(NamedTuple):
    """Holds the tokens of one kind, and their rate if they have a price."""

    kind: str
    tokens: int
    rate: int | None

    @property
    def amount(self) -> int | None:
        """What the tokens cost, rounded to a micro-dollar."""
        return None if self.rate is None else price_tokens(self.tokens, self.rate)


class CostLine(NamedTuple):
    """Explains a part of a cost: the responses of one model that have the same rates."""

    model: str
    provider: str
    responses: int
    tokens: TokenCounts
    rates: TokenCounts | None
    "Holds micro-dollars per million tokens of each kind, or None if the model has no price."
    cost: int | None
    priced_as: str = ""
    "Names the provider and model in the rate table, or the pattern in the config file."
    valid_from: str = ""
    over: int = 0
    "Is the input above which these rates apply, or 0."
    is_own_rate: bool = False
    estimated: tuple[str, ...] = ()
    "Names the kinds of tokens that were concluded from other numbers."
    absent: tuple[str, ...] = ()
    "Names the kinds of tokens that none of the responses reported."
    reported_cost: int | None = None

    def itemize(self) -> list[CostItem]:
        """Return the kinds of tokens that there are, with what each costs. Reasoning is taken out of the output."""
        reasoning = min(self.tokens.reasoning, self.tokens.output)
        counts = self.tokens._replace(output=self.tokens.output - reasoning, reasoning=reasoning)._asdict()
        rates: dict[str, int] = self.rates._asdict() if self.rates else {}
        return [CostItem(kind, count, rates.get(kind)) for kind, count in counts.items() if count]

    @property
    def rounding(self) -> int:
        """Return what the cost differs from the sum of its items, because the cost of each response is rounded."""
        return 0 if self.cost is None else self.cost - sum(item.amount or 0 for item in self.itemize())


class SubagentCost(NamedTuple):
    """Holds what a sub-agent cost."""

    session_id: str
    title: str
    figures: Figures


class CostExplanation(NamedTuple):
    """Explains the cost of a session or of one turn."""

    session_id: str
    turn: int | None
    lines: tuple[CostLine, ...]
    own: Figures
    with_subagents: Figures
    subagents: tuple[SubagentCost, ...]
    session_cost: float | None
    "Is what the agent reports for the whole session, in dollars."
    not_counted: int
    "Counts the responses that another session counts, because both have them."
    counted_in: tuple[str, ...]
    "Names the sessions that count them."
    prices: TableInfo


class SessionCost(NamedTuple):
    """Holds the figures of a session for a list."""

    own: Figures
    with_subagents: Figures
    prices: TableInfo


# ── turns ─────────────────────────────────────────────────────────────────────────────────────────


class TurnCost(NamedTuple):
    """Holds what a turn cost. `own` and `carried` add up to `cost`."""

    turn: int
    responses: int
    tokens: TokenCounts
    cost: int | None
    own: int | None
    "Is the cost of the output and of input that was not sent before."
    carried: int | None
    "Is the cost of sending again what was in the context when the turn began. It is an estimate."
    unpriced_tokens: int
    share: float
    "Is the part of the session's cost, or of its tokens if nothing has a price: 0 to 1."
    resent_tokens: int
    "Estimates how many tokens of later requests are what this turn added to the context."
    resent_times: int
    "Counts the later requests that had it in their context, up to the next compaction."


class ResentResult(NamedTuple):
    """Says how often later requests had the result of a tool call in their context. All of it is an estimate."""

    entry: str
    "Is the public id of the entry with the result."
    tool: str
    turn: int
    tokens: int
    "Is about how many tokens the result has."
    times: int
    "Counts the requests after the first one that had it, up to the next compaction."
    later_turns: tuple[int, ...]
    "Are the turns of these requests."
    cost: int | None
    "Is what it cost to read it from the cache each time, or None without a price."

    @property
    def total(self) -> int:
        return self.tokens * self.times


class ContextPoint(NamedTuple):
    """Says how full the context window was at one response."""

    entry: int
    seq: int
    turn: int
    at: str
    model: str
    context: int
    window: int | None
    "Is the size of the window, if the rate table knows the model."
    is_compacted: bool
    "Is true for the first response after a compaction."

    @property
    def fullness(self) -> float | None:
        """How full the window was, from 0 to 1, or None if its size is not known."""
        return self.context / self.window if self.window else None


# ── waste ─────────────────────────────────────────────────────────────────────────────────────────

WasteKind = Literal["file read again", "command failed again", "large output resent", "cache missed after a pause"]


class Waste(NamedTuple):
    """Names something that could have been saved, with the turns that show it."""

    kind: WasteKind
    session_id: str
    turns: tuple[int, ...]
    subject: str
    "Is the path, the command, the name of the tool, or the length of the pause."
    times: int
    "Counts the reads, the failures, the requests that had the output, or 1."
    tokens: int
    "Is how many tokens it took, or about how many."
    cost: int | None
    is_estimated: bool = True
