"""This module explains the cost of a session or of one of its turns, as lines for a dialog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from store.model.session import Session
from tui.render.statistics.explanation import (
    ResponseLine,
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


def explain_session(store: Store, session: Session, turn: int | None, width: int) -> list[Content]:
    """Return how the cost of the session, or of one turn, came about."""
    usage = store.usage.of_session(session)
    explained = usage.explain(turn)
    lines: list[Content] = []
    if turn is not None:
        cost = next((cost for cost in usage.turn_costs() if cost.turn == turn), None)
        lines += render_turn_cost(cost, width) if cost else []
        responses = [response for response in usage.list_responses() if response.turn == turn]
        times = [parse_time(response.at) for response in responses]
        lines += render_responses(
            [
                ResponseLine(f"{at:%H:%M:%S}" if at else "", response.tokens, response.cost)
                for at, response in zip(times, responses, strict=True)
            ]
        )
    lines += render_resent_results(usage.resent_results(turn), width)
    lines += render_subagents(explained.subagents, explained.with_subagents, width)
    lines += render_other_notes(explained, width)
    return [*lines, *render_explanation(explained.lines, explained.own, explained.prices, width)]
