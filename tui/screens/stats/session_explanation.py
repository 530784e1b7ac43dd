"""This module explains the cost of a session or of one of its turns, as lines for a dialog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from store.model.session import Session
from tui.render.statistics.explanation import (
    ResponseLine,
    render_context,
    render_explanation,
    render_other_notes,
    render_resent_results,
    render_responses,
    render_subagents,
    render_turn_cost,
)
from tui.render.styles import parse_time

if TYPE_CHECKING:
    from store.store import Store
    from store.usage.session_cost import SessionUsage


def explain_session(store: Store, session: Session, turn: int | None, width: int) -> list[Content]:
    """Return how the cost of the session, or of one turn, came about."""
    with store.snapshot():
        usage = store.usage.of_session(session)
        explained = usage.explain(turn)
        lines = _render_session(usage, width) if turn is None else _render_turn(usage, turn, width)
        lines += render_resent_results(usage.resent_results(turn), width)
    lines += render_subagents(explained.subagents, explained.with_subagents, width)
    lines += render_other_notes(explained, width)
    return [*lines, *render_explanation(explained.lines, explained.own, explained.prices, width)]


def _render_session(usage: SessionUsage, width: int) -> list[Content]:
    return list(render_context(usage.context(), width))


def _render_turn(usage: SessionUsage, turn: int, width: int) -> list[Content]:
    cost = next((cost for cost in usage.turn_costs() if cost.turn == turn), None)
    responses = [
        ResponseLine(_format_time(response.at), response.tokens, response.cost, point)
        for response, point in zip(usage.list_responses(), usage.context(), strict=True)
        if response.turn == turn
    ]
    return [*(render_turn_cost(cost, width) if cost else ()), *render_responses(responses)]


def _format_time(at: str) -> str:
    time = parse_time(at)
    return f"{time:%H:%M:%S}" if time else ""
