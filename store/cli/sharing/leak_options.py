"""This module has the options of commands that refuse to let leaks leave the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click

from store.cli import output
from store.cli.secrets import passphrase_stdin_option, run_with_unlock
from store.errors import LeaksFound
from store.leaks.gate import LeakPolicy
from store.store import Store

__all__ = ["allow_leaks_option", "choose_policy", "passphrase_stdin_option", "redact_option", "run_gated"]

R = TypeVar("R")
ADVICE = "Mask them with --redact, or keep them with --allow-leaks."

redact_option = click.option("--redact", is_flag=True, help="Mask leaks in the exported copy.")
allow_leaks_option = click.option("--allow-leaks", is_flag=True, help="Export although there are leaks.")


def choose_policy(redact: bool, allow_leaks: bool) -> LeakPolicy:
    if redact and allow_leaks:
        raise click.UsageError("Choose one of --redact and --allow-leaks.")
    return "redact" if redact else "allow" if allow_leaks else "refuse"


def run_gated(store: Store, action: Callable[[], R], passphrase_stdin: bool, advice: str = ADVICE) -> R:
    """Run an action that goes through the gate for leaks. List the leaks if it is refused because of them.

    The gate looks for the values of secrets, too. Ask for the passphrase if it needs one.
    """
    with _list_leaks(advice):
        return run_with_unlock(store, action, passphrase_stdin)


@contextmanager
def _list_leaks(advice: str) -> Iterator[None]:
    """List the leaks on stderr, and say what can be done, if the `with` block is refused because of them."""
    try:
        yield
    except LeaksFound as error:
        for leak in error.leaks:
            output.notify(f"  {output.to_one_line(leak)}")
        raise LeaksFound(error.leaks, advice) from None
