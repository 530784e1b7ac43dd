"""This module has the options of commands that refuse to let leaks leave the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from store.cli import output
from store.errors import LeaksFound
from store.leaks.gate import LeakPolicy

redact_option = click.option("--redact", is_flag=True, help="Mask leaks in the exported copy.")
allow_leaks_option = click.option("--allow-leaks", is_flag=True, help="Export although there are leaks.")


def choose_policy(redact: bool, allow_leaks: bool) -> LeakPolicy:
    if redact and allow_leaks:
        raise click.UsageError("Choose one of --redact and --allow-leaks.")
    return "redact" if redact else "allow" if allow_leaks else "refuse"


@contextmanager
def list_leaks(advice: str = "Mask them with --redact, or keep them with --allow-leaks.") -> Iterator[None]:
    """List the leaks on stderr, and say what can be done, if the `with` block is refused because of them."""
    try:
        yield
    except LeaksFound as error:
        for leak in error.leaks:
            output.notify(f"  {output.to_one_line(leak)}")
        raise LeaksFound(error.leaks, advice) from None
