"""This module defines the command `completion`."""

from __future__ import annotations

from importlib.resources import files

import click

from store.cli import PROGRAM, output


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands, options, sessions and filters in a shell.

    The first lines of the script say where to put it.
    """
    output.write(files("store.cli.completion").joinpath(f"{PROGRAM}.{shell}").read_text("utf-8").rstrip())
