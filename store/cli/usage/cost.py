"""This module defines the command `cost`, which shows the sum behind the API value of a session or of a turn."""

from __future__ import annotations

import click

from store.cli import json_output, output
from store.cli.json_output import JsonObject, dollars
from store.cli.options import NON_NEGATIVE_INT, json_option, session_id_argument, with_store
from store.cli.output import Span, TerminalText, format_count, write
from store.cli.usage.money import (
    UNPRICED,
    describe_prices,
    format_cost,
    format_rate,
    format_tokens,
    warn_of_missing_usage,
)
from store.errors import NotFound
from store.model.statistics import (
    ContextPoint,
    CostExplanation,
    CostItem,
    CostLine,
    Figures,
    ResentResult,
    TurnCost,
    Waste,
)
from store.model.usage import MICRO_DOLLARS
from store.store import Store


@click.command()
@session_id_argument
@click.option("--turn", type=NON_NEGATIVE_INT, metavar="N", help="Explain only this turn.")
@json_option
@with_store
def cost(store: Store, session_id: str, turn: int | None, as_json: bool) -> None:
    """Explain the API value of a session: tokens by kind, rates, sub-agents, and the cost and the context of each turn.

    A turn's cost is its own plus that of the context that it carried on from earlier turns, which is an estimate. So is
    how often a tool's result was re-sent: with each request after the first that had it, up to the next compaction.
    """
    session = store.sessions.find(session_id)
    last = store.chains.last_turn(session.key)
    if turn is not None and turn > last:
        raise NotFound(f"No such turn: {turn}. The last turn is {last}.")
    warn_of_missing_usage(store)
    usage = store.usage.of_session(session)
    explanation = usage.explain(turn)
    turns = [row for row in usage.turn_costs() if turn in (None, row.turn)]
    context = [point for point in usage.context() if turn in (None, point.turn)]
    waste = [found for found in store.usage.find_waste([session]) if turn is None or turn in found.turns]
    resent = usage.resent_results(turn)
    if as_json:
        document = _to_json(explanation, turns)
        document["resent_results"] = list(map(_resent_to_json, resent))
        document["waste"] = list(map(_waste_to_json, waste))
        document["context"] = [_context_to_json(session.id, point) for point in context]
        output.emit_json(document)
        return
    if not explanation.lines and not explanation.subagents:
        has_copies = explanation.not_counted > 0
        output.notify(_describe_not_counted(explanation) if has_copies else "Its agent recorded no usage.")
        return
    _write_lines(explanation)
    _write_turns(turns, context)
    _write_resent(resent)
    _write_waste(waste)
    _write_sums(explanation)
    _write_context(context)
    output.notify(describe_prices(explanation.prices))


def _write_lines(explanation: CostExplanation) -> None:
    """Write one row for each kind of tokens of each model: tokens × rate = API value.

    On a terminal, the model and its rates stand above their rows, because there is no room beside them.
    """
    for position, line in enumerate(explanation.lines):
        name: Span = TerminalText(line.model or "(unknown model)", "name")
        cells = [_item_cells(line, item) for item in line.itemize()]
        notes = [_describe_rate(line) if item.rate is not None else "" for item in line.itemize()]
        if line.rounding:
            cells.append(["rounding", "", "", f"{line.rounding / MICRO_DOLLARS:+.6f}"])
            notes.append("each response")
        if output.stdout_is_terminal():
            if position:
                write("")
            write(name, f": {format_count(line.responses, 'response')}, {_describe_rate(line) or UNPRICED}")
            output.print_table(["kind", ":tokens", ":$ per million", ":API value", ""], [[*row, ""] for row in cells])
        else:
            starts: list[list[Span]] = [[name, str(line.responses)]] + [["", ""]] * (len(cells) - 1)
            rows = zip(starts, cells, notes, strict=True)
            output.print_table([], [[*start, *row, note] for start, row, note in rows])


def _item_cells(line: CostLine, item: CostItem) -> list[Span]:
    label = f"{item.kind.replace('_', ' ')}{' (estimated)' if item.kind in line.estimated else ''}"
    rate = "" if item.rate is None else format_rate(item.rate)
    return [label, format_tokens(item.tokens), rate, format_cost(item.amount)]


def _describe_rate(line: CostLine) -> str:
    origin = f"{line.priced_as} in the config file" if line.is_own_rate else line.priced_as
    since = f", from {line.valid_from}" if line.valid_from else ""
    return f"{origin}{since}{f', input over {line.over:,}' if line.over else ''}"


def _write_turns(turns: list[TurnCost], context: list[ContextPoint]) -> None:
    if len(turns) < 2:
        return
    write("")
    largest: dict[int, ContextPoint] = {}
    for point in sorted(context, key=lambda point: point.context):
        largest[point.turn] = point
    headings = [":turn", ":responses", ":tokens", ":API value", ":own", ":carried", ":share", "context"]
    output.print_table(
        headings,
        [
            [
                TerminalText(str(turn.turn), "name"),
                str(turn.responses),
                format_tokens(turn.tokens.total),
                format_cost(turn.cost),
                format_cost(turn.own, is_estimated=True),
                format_cost(turn.carried, is_estimated=True),
                f"{turn.share:.1%}",
                _describe_context(largest[turn.turn]),
            ]
            for turn in turns
        ],
    )


def _describe_context(point: ContextPoint) -> str:
    fullness = "" if point.fullness is None else f" {point.fullness:.0%}"
    return f"{format_tokens(point.context)}{fullness}"


def _write_context(context: list[ContextPoint]) -> None:
    largest = max(context, key=lambda point: point.context)
    window = f" of {format_tokens(largest.window)}" if largest.window else ""
    turns = ", ".join(str(point.turn) for point in context if point.is_compacted)
    compacted = f"; compacted before responses of turn {turns}" if turns else ""
    write(f"largest context: {_describe_context(largest)}{window}, turn {largest.turn}{compacted}")


def _write_resent(results: list[ResentResult]) -> None:
    if not results:
        return
    write("")
    headings = ["result of", ":turn", ":tokens (estimate)", ":re-sent", ":together"]
    rows: list[list[Span]] = [
        [
            TerminalText(result.tool, "name"),
            str(result.turn),
            f"~{format_tokens(result.tokens)}",
            format_count(result.times, "time"),
            f"~{format_tokens(result.total)}",
        ]
        for result in results
    ]
    output.print_table(headings, rows)


def _write_waste(waste: list[Waste]) -> None:
    if not waste:
        return
    write("")
    rows: list[list[Span]] = [
        [
            TerminalText(found.kind, "bad"),
            str(found.times),
            f"{'~' if found.is_estimated else ''}{format_tokens(found.tokens)}",
            ", ".join(map(str, found.turns)),
            found.subject,
        ]
        for found in waste
    ]
    output.print_table(["waste", ":times", ":tokens", "turns", "what"], rows)


def _write_sums(explanation: CostExplanation) -> None:
    if explanation.lines:
        write("")
    for subagent in explanation.subagents:
        write(_sum_line(f"sub-agent {subagent.session_id}", subagent.figures))
    if explanation.lines:
        write(_sum_line("own" if explanation.subagents else "total", explanation.own))
    if explanation.subagents:
        write(_sum_line("total with sub-agents", explanation.with_subagents))
    if explanation.session_cost is not None and explanation.turn is None:
        write(f"{explanation.session_cost:.6f} reported by the agent for the session")
    elif explanation.own.reported_cost is not None:
        write(f"{dollars(explanation.own.reported_cost):.6f} reported by the agent")
    if explanation.not_counted:
        write(_describe_not_counted(explanation))


def _sum_line(name: str, figures: Figures) -> str:
    unpriced = f", {format_tokens(figures.unpriced_tokens)} tokens unpriced" if figures.unpriced_tokens else ""
    value = format_cost(figures.cost, is_estimated=figures.is_estimated)
    return f"{value}  {name}: {format_tokens(figures.tokens.total)} tokens{unpriced}"


def _describe_not_counted(explanation: CostExplanation) -> str:
    sessions = " and ".join(explanation.counted_in) or "another session"
    return (
        f"{format_count(explanation.not_counted, 'response')} counted in {sessions} and not here: both have the same."
    )


def _to_json(explanation: CostExplanation, turns: list[TurnCost]) -> JsonObject:
    return {
        "session": explanation.session_id,
        "turn": explanation.turn,
        "lines": [_line_to_json(line) for line in explanation.lines],
        "own": _figures_to_json(explanation.own),
        "total": _figures_to_json(explanation.with_subagents),
        "subagents": [
            {"session": subagent.session_id, "title": subagent.title, **_figures_to_json(subagent.figures)}
            for subagent in explanation.subagents
        ],
        "turns": [_turn_to_json(turn) for turn in turns],
        "reported_cost_usd": explanation.session_cost,
        "not_counted": explanation.not_counted,
        "counted_in": list(explanation.counted_in),
        "prices": json_output.prices_to_json(explanation.prices),
    }


def _figures_to_json(figures: Figures) -> JsonObject:
    """Convert the figures of responses. The others are unknown here."""
    left_out = ("sessions", "turns", "tool_calls", "errors", "active_seconds")
    return {name: value for name, value in json_output.figures_to_json(figures).items() if name not in left_out}


def _line_to_json(line: CostLine) -> JsonObject:
    return {
        "model": line.model,
        "provider": line.provider,
        "responses": line.responses,
        "tokens": {**line.tokens._asdict(), "total": line.tokens.total},
        "rates": {kind: dollars(rate) for kind, rate in line.rates._asdict().items()} if line.rates else None,
        "cost_usd": dollars(line.cost),
        "priced_as": line.priced_as or None,
        "valid_from": line.valid_from or None,
        "over": line.over or None,
        "own_rate": line.is_own_rate,
        "estimated": list(line.estimated),
        "absent": list(line.absent),
        "reported_cost_usd": dollars(line.reported_cost),
    }


def _context_to_json(session_id: str, point: ContextPoint) -> JsonObject:
    return {
        "entry": f"{session_id}#{point.seq}",
        "turn": point.turn,
        "at": point.at,
        "model": point.model,
        "tokens": point.context,
        "window": point.window,
        "compacted": point.is_compacted,
    }


def _resent_to_json(result: ResentResult) -> JsonObject:
    return {
        "entry": result.entry,
        "tool": result.tool,
        "turn": result.turn,
        "tokens": result.tokens,
        "times": result.times,
        "total_tokens": result.total,
        "cost_usd": dollars(result.cost),
        "estimated": True,
    }


def _waste_to_json(waste: Waste) -> JsonObject:
    return {
        "kind": waste.kind,
        "turns": list(waste.turns),
        "subject": waste.subject,
        "count": waste.times,
        "tokens": waste.tokens,
        "cost_usd": dollars(waste.cost),
        "estimated": waste.is_estimated,
    }


def _turn_to_json(turn: TurnCost) -> JsonObject:
    return {
        "n": turn.turn,
        "responses": turn.responses,
        "tokens": {**turn.tokens._asdict(), "total": turn.tokens.total},
        "cost_usd": dollars(turn.cost),
        "own_usd": dollars(turn.own),
        "carried_usd": dollars(turn.carried),
        "unpriced_tokens": turn.unpriced_tokens,
        "share": round(turn.share, 6),
        "resent_tokens": turn.resent_tokens,
        "resent_times": turn.resent_times,
    }
