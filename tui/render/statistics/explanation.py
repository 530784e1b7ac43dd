"""This module renders the sum behind a figure: tokens by kind, rates, what is estimated and what the agent reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from textual.content import Content

from store.model.statistics import (
    ContextPoint,
    CostExplanation,
    CostItem,
    CostLine,
    Figures,
    ResentResult,
    SubagentCost,
    TableInfo,
    TokenCounts,
    TurnCost,
)
from store.text.sanitize import cell_width, one_line
from tui.render.charts.inline import draw_sparkline
from tui.render.charts.measures import COST, TOKENS, UNPRICED, format_exact_money, format_money, format_rate
from tui.render.statistics.figures import read_amount, write_amount
from tui.render.styles import FAINT, MUTED, STRONG, WARNING, StyledText, build_content, format_count
from tui.render.word_wrap import wrap_text

KIND_LABELS = {
    "input": "input",
    "cache_read": "cache read",
    "cache_write_5m": "cache write 5 min",
    "cache_write_1h": "cache write 1 h",
    "output": "output",
    "reasoning": "reasoning",
}
_LABEL_CELLS, _COUNT_CELLS, _RATE_CELLS, _COST_CELLS = 22, 14, 18, 14

MAX_RESPONSES = 50

RESEND_RULE = (
    "Estimate: what the turn added to the context, times the later requests that still had it in theirs, up to the next"
    " compaction."
)
RESENT_RESULT_RULE = (
    "Estimate: a token is four bytes of the result. The first request that had it does not count, and none after the"
    " next compaction."
)
CARRIED_RULE = (
    "Estimate: what was in the context when the turn began counts as carried, in every request of the turn: first what"
    " was read from the cache, then what was written to it, then other input."
)


def render_explanation(lines: Sequence[CostLine], total: Figures, prices: TableInfo, width: int) -> list[Content]:
    """Render a block for each model and rate, then the total and where the prices come from."""
    shown: list[Content] = []
    for line in lines:
        shown += [*_render_line(line), Content("")]
    if not lines:
        shown += [build_content([("No response with tokens is behind this figure.", MUTED)]), Content("")]
    shown += _render_total(total)
    shown += [Content(""), *_render_price_source(prices, width)]
    return shown


def _render_line(line: CostLine) -> Iterator[Content]:
    provider = f" · {one_line(line.provider, 30)}" if line.provider else ""
    responses = format_count(line.responses, "response")
    yield build_content([(one_line(line.model, 60) or "unknown model", STRONG), (f"{provider} · {responses}", MUTED)])
    yield build_content([(_describe_rate(line), MUTED if line.rates else WARNING)])
    for item in line.itemize():
        yield _render_item(line, item)
    if line.rounding:
        responses = format_count(line.responses, "response")
        yield _render_columns("rounding", "", f"of {responses}", _format_signed(line.rounding), FAINT)
    cost = _write_exact(line.cost, is_estimate=bool(line.estimated))
    yield _render_columns("", f"{line.tokens.total:,}", "", cost, STRONG)
    if line.reported_cost is not None:
        yield _render_columns("the agent reported", "", "", format_exact_money(line.reported_cost), MUTED)
        if line.cost is not None:
            difference = line.cost - line.reported_cost
            yield _render_columns("difference", "", "", _format_signed(difference), MUTED)
    if line.absent:
        absent = ", ".join(KIND_LABELS[kind] for kind in line.absent)
        yield build_content([(f"  not reported: {absent}", FAINT)])


def _describe_rate(line: CostLine) -> str:
    if line.rates is None:
        return "no price is known for this model, so its tokens are unpriced"
    source = "your config file" if line.is_own_rate else one_line(line.priced_as, 60)
    since = f", valid from {line.valid_from}" if line.valid_from else ""
    over = f", for requests of more than {line.over:,} tokens" if line.over else ""
    return f"rates of {source}{since}{over}"


def _render_item(line: CostLine, item: CostItem) -> Content:
    mark = "~" if item.kind in line.estimated else ""
    rate = "" if item.rate is None else f"× {format_rate(item.rate)} /M"
    cost = UNPRICED if item.amount is None else format_exact_money(item.amount)
    return _render_columns(KIND_LABELS[item.kind], f"{mark}{item.tokens:,}", rate, cost, "")


def _render_columns(label: str, count: str, rate: str, cost: str, style: str) -> Content:
    return build_content(
        [
            (f"  {label}".ljust(_LABEL_CELLS), MUTED),
            (count.rjust(_COUNT_CELLS), style),
            (rate.rjust(_RATE_CELLS), FAINT),
            (cost.rjust(_COST_CELLS), style),
        ]
    )


def _render_total(total: Figures) -> Iterator[Content]:
    cost = _write_exact(read_amount(total, COST), is_estimate=total.is_estimated)
    yield _render_columns(COST.label, f"{total.tokens.total:,}", "", cost, "bold $text-accent")
    if total.unpriced_tokens and total.cost is not None:
        yield _render_columns("unpriced", f"{total.unpriced_tokens:,}", "", UNPRICED, WARNING)
    if total.reported_cost is not None:
        yield _render_columns("agents reported", "", "", format_exact_money(total.reported_cost), MUTED)


def _render_price_source(prices: TableInfo, width: int) -> Iterator[Content]:
    text = (
        f"{COST.label} is what these tokens cost at the vendors' APIs. "
        "It is not a bill: with a subscription you pay something else. "
        f"Prices: {prices.name} {prices.version} of {prices.date}, digest {prices.digest}."
    )
    for line in wrap_text(text, width):
        yield build_content([(line, FAINT)])


def _write_exact(cost: int | None, *, is_estimate: bool) -> str:
    return UNPRICED if cost is None else f"{'~' if is_estimate else ''}{format_exact_money(cost)}"


def _format_signed(micro_dollars: int) -> str:
    return f"{'+' if micro_dollars > 0 else ''}{format_exact_money(micro_dollars)}"


# ── sessions and turns ────────────────────────────────────────────────────────────────────────────


def render_subagents(subagents: Sequence[SubagentCost], total: Figures, width: int) -> Iterator[Content]:
    """Render what the sub-agents of a session or a turn add to it."""
    if not subagents:
        return
    yield build_content([("Sub-agents", STRONG)])
    for subagent in subagents:
        title = one_line(subagent.title or subagent.session_id, max(width - 40, 12))
        pieces: list[StyledText] = [(f"  {title}", ""), (" " * max(width - 36 - cell_width(title), 1), "")]
        tokens, cost = TOKENS.format(subagent.figures.tokens.total), write_amount(subagent.figures, COST)
        yield build_content([*pieces, (tokens.rjust(12), MUTED), (cost.rjust(14), "")])
    yield build_content([(f"  with sub-agents: {write_amount(total, COST)}", "bold $text-accent")])
    yield Content("")


def render_context(points: Sequence[ContextPoint], width: int) -> Iterator[Content]:
    """Render how full the context window was at each response, as a row of small bars, and where it was largest."""
    if not points:
        return
    largest = max(points, key=lambda point: point.context)
    compactions = [str(point.turn) for point in points if point.is_compacted]
    amounts = [point.context for point in points]
    bars = draw_sparkline(amounts, min(len(points), max(width - 4, 1)), max, largest.window)
    yield build_content([("Context window", STRONG), (f" at each of {format_count(len(points), 'response')}", MUTED)])
    yield build_content([(f"  {bars}", "$text-secondary")])
    text = f"Largest in turn {largest.turn:,}: {describe_context(largest)}"
    text += f". Compacted in turn {', '.join(compactions)}." if compactions else "."
    for line in wrap_text(text, width - 2):
        yield build_content([(f"  {line}", MUTED)])
    yield Content("")


def describe_context(point: ContextPoint) -> str:
    """Say how large a request was, and how full the window, if its size is known."""
    tokens = f"{TOKENS.format(point.context)} tokens"
    if point.fullness is None or point.window is None:
        return tokens
    return f"{tokens}, {point.fullness:.0%} of {TOKENS.format(point.window)}"


class ResponseLine(NamedTuple):
    """Describes one response of a turn."""

    time: str
    tokens: TokenCounts
    cost: int | None
    context: ContextPoint


def render_responses(responses: Sequence[ResponseLine]) -> Iterator[Content]:
    """Render the responses of a turn: when, what was sent and received, and what each cost."""
    if not responses:
        return
    yield build_content([(format_count(len(responses), "response"), STRONG)])
    for response in responses[:MAX_RESPONSES]:
        sent, received = TOKENS.format(response.tokens.context), TOKENS.format(response.tokens.output)
        amounts = f"{sent} sent, {received} received"
        fullness = response.context.fullness
        window = "" if fullness is None else f"context {fullness:.0%}"
        if response.context.is_compacted:
            yield build_content([("  the context was compacted", MUTED)])
        yield build_content(
            [
                (f"  {response.time:<9}{window}".ljust(_LABEL_CELLS), MUTED),
                (amounts.rjust(_COUNT_CELLS + _RATE_CELLS), ""),
                (_write_exact(response.cost, is_estimate=False).rjust(_COST_CELLS), ""),
            ]
        )
    if len(responses) > MAX_RESPONSES:
        yield build_content([(f"  and {len(responses) - MAX_RESPONSES:,} more", FAINT)])
    yield Content("")


def render_other_notes(explained: CostExplanation, width: int) -> Iterator[Content]:
    """Render what the agent says of the whole session, and which responses are counted elsewhere."""
    notes = []
    if explained.session_cost is not None:
        notes.append(f"The agent reports ${explained.session_cost:,.6f} for the whole session.")
    if explained.not_counted:
        count = format_count(explained.not_counted, "response")
        sessions = " and ".join(one_line(session, 60) for session in explained.counted_in) or "another session"
        notes.append(f"{count} counted in {sessions} and not here: both have the same.")
    for line in wrap_text(" ".join(notes), width) if notes else ():
        yield build_content([(line, MUTED)])
    if notes:
        yield Content("")


def render_turn_cost(turn: TurnCost, width: int) -> Iterator[Content]:
    """Render what a turn cost by itself, what it carried from before, and what it caused later."""
    if turn.cost is not None:
        yield _render_columns("own", "", "", f"~{format_money(turn.own or 0)}", "")
        yield _render_columns("carried context", "", "", f"~{format_money(turn.carried or 0)}", "")
        yield _render_columns("", "", "", format_money(turn.cost), STRONG)
        for line in wrap_text(CARRIED_RULE, width):
            yield build_content([(line, FAINT)])
        yield Content("")
    if turn.resent_times:
        for line in wrap_text(f"{describe_resending(turn)}.", width):
            yield build_content([(line, WARNING)])
        for line in wrap_text(RESEND_RULE, width):
            yield build_content([(line, FAINT)])
        yield Content("")


def render_resent_results(results: Sequence[ResentResult], width: int) -> Iterator[Content]:
    """Render which tool results were sent again most."""
    if not results:
        return
    yield build_content([("Re-sent tool results", STRONG)])
    for result in results:
        for line in wrap_text(f"{describe_resent_result(result)}.", width - 2):
            yield build_content([(f"  {line}", WARNING)])
    for line in wrap_text(RESENT_RESULT_RULE, width):
        yield build_content([(line, FAINT)])
    yield Content("")


def describe_resent_result(result: ResentResult) -> str:
    """Say how often a result was sent again, and how many tokens that were."""
    size, total = TOKENS.format(result.tokens), TOKENS.format(result.total)
    name = one_line(result.tool, 40) or "an unnamed tool"
    times = format_count(result.times, "time")
    cost = "" if result.cost is None else f", ~{format_money(result.cost)} as cache reads"
    return f"Turn {result.turn:,}: the ~{size} tokens of {name}'s result were re-sent about {times}: ~{total}{cost}"


def describe_turn_cost(turn: TurnCost, place: str) -> str:
    """Return a sentence about the cost of a turn, and how it came about."""
    parts = f"~{format_money(turn.own or 0)} of its own, ~{format_money(turn.carried or 0)} for carried context"
    return f"Turn {turn.turn:,}: {COST.write(turn.cost)} ({turn.share:.0%}), {parts}; {place}."


def describe_resending(turn: TurnCost) -> str:
    """Say what a turn caused in later requests."""
    size = TOKENS.format(turn.resent_tokens // max(turn.resent_times, 1))
    times = format_count(turn.resent_times, "time")
    total = TOKENS.format(turn.resent_tokens)
    return f"The ~{size} tokens that this turn added were re-sent about {times}: ~{total} tokens"
