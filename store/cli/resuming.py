"""Going back to the agent."""

from __future__ import annotations

from pathlib import Path

import click

from store.cli import printing
from store.cli.console import at_keyboard, console
from store.errors import Refused
from store.resuming import resumption


@click.command()
@click.argument("session_id", metavar="[ID]", required=False)
@click.option("--print", "only_print", is_flag=True, help="Print the command instead of running it.")
@click.option(
    "--cwd",
    "folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="Another folder to continue in.",
)
def resume(session_id: str | None, only_print: bool, folder: Path | None) -> None:
    """Continue a session in its agent; without ID, choose it from a list."""
    if session_id is None:
        if only_print:
            raise click.UsageError("Name the session whose command is to be printed.")
        if not at_keyboard() or not printing.on_terminal():
            raise Refused("There is no terminal to choose in; name the session.")
        console().open_browser(follow=True, pick=True)
        return
    wanted = resumption(console().store.sessions.find(session_id), folder)
    if not only_print:
        console().close()
        wanted.go()
    if not wanted.command:
        raise Refused(wanted.hint)
    printing.write(wanted.command)
    for obstacle in wanted.obstacles:
        printing.say(obstacle)
