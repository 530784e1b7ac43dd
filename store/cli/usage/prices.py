"""This module defines the command group `prices`: the rate table."""

from __future__ import annotations

from pathlib import Path

import click

from store.cli import json_output, output
from store.cli.json_output import JsonObject, dollars
from store.cli.lazy_group import WordGroup
from store.cli.options import json_option
from store.cli.output import Span, TerminalText
from store.cli.usage.money import describe_prices, format_rate
from store.errors import NotFound
from store.model.usage import TOKEN_KINDS
from store.usage.prices import ModelPrices, Rate, load_table, update_table


@click.group(cls=WordGroup, default="list", default_if_no_args=True)
def prices() -> None:
    """Show the rates of models, or take a newer table.

    Without a command, list them. Nothing is fetched; `[prices."MODEL"]` in the config file overrides or adds a model.
    """


@prices.command("list")
@click.argument("model", metavar="[MODEL]", required=False, default="")
@json_option
def list_prices(model: str, as_json: bool) -> None:
    """List the rates of all models, or of those whose name contains MODEL, in dollars per million tokens."""
    table = load_table()
    found = [entry for entry in table.all_models() if model.lower() in entry.model.lower()]
    best = table.find("", model) if model else None
    if best is not None and best not in found:
        found.insert(0, best)
    if model and not found:
        raise NotFound(f"No price for {model!r}. Add it to the config file, or take a newer table.")
    if as_json:
        document: JsonObject = {"models": [_model_to_json(entry) for entry in found]}
        output.emit_json(document | {"prices": json_output.prices_to_json(table.info)})
        return
    headings = ["provider", "from", ":input over", *(f":{kind.replace('_', ' ')}" for kind in TOKEN_KINDS[:5]), "model"]
    output.print_table(headings, [_row(entry, rate) for entry in found for rate in entry.rates])
    output.notify(f"{describe_prices(table.info)} Dollars per million tokens.")


def _row(entry: ModelPrices, rate: Rate) -> list[Span]:
    return [
        "config file" if entry.is_own else entry.provider,
        rate.valid_from,
        f"{rate.over:,}" if rate.over else "",
        *(format_rate(amount) for amount in rate.amounts[:5]),
        TerminalText(entry.model, "name"),
    ]


def _model_to_json(entry: ModelPrices) -> JsonObject:
    return {
        "provider": entry.provider,
        "model": entry.model,
        "context_window": entry.window,
        "own": entry.is_own,
        "rates": [
            {
                "from": rate.valid_from or None,
                "over": rate.over,
                **{kind: dollars(amount) for kind, amount in zip(TOKEN_KINDS, rate.amounts, strict=True)},
            }
            for rate in entry.rates
        ],
    }


@prices.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
def update(file: Path) -> None:
    """Take a newer rate table from FILE. `make prices` in the source tree writes such a file."""
    info = update_table(file)
    used = load_table()
    output.notify(f"Took the rates of {info.name} {info.version}, {info.date}.")
    if used.info.digest != info.digest:
        output.notify(f"The table of the program is newer ({used.info.date}), and stays in use.")
