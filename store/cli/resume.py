"""Going back to the agent."""

from __future__ import annotations

from pathlib import Path

import click

from store.cli import output
from store.cli.options import at_keyboard, console
from store.errors import Refused
from store.model.session import Session
from store.resume.checks import preflight
from store.resume.command import Resumption, resumption


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
@click.option("--fork", is_flag=True, help="Go on in a copy that the agent makes, and leave this one as it is.")
@click.option(
    "--skip-permissions/--ask-permissions",
    "freely",
    help="Let the agent act without asking, this once; what the browser remembers does not count here.",
)
def resume(session_id: str | None, only_print: bool, folder: Path | None, fork: bool, freely: bool) -> None:
    """Continue a session in its agent; without ID, choose it from a list."""
    if session_id is None:
        if only_print or folder or fork or freely:
            raise click.UsageError("Name the session; without one, only the list is opened.")
        if not at_keyboard() or not output.on_terminal():
            raise Refused("There is no terminal to choose in; name the session.")
        console().open_browser(follow=True, pick=True)
        return
    wanted = _wanted(console().store.sessions.find(session_id), folder, fork, freely)
    if not wanted.command:
        raise Refused(wanted.hint)
    if wanted.is_clear or only_print:
        for line in preflight(console().store, wanted, shown=False).notable():
            output.say(line)
    if not only_print:
        console().close()
        wanted.go()
    output.write(wanted.command)
    for obstacle in wanted.obstacles:
        output.say(obstacle)


def _wanted(session: Session, folder: Path | None, fork: bool, freely: bool) -> Resumption:
    found = resumption(session, folder, fork=fork)
    if freely and found.command and not found.skipping:
        raise Refused(f"{found.program} has no option to act without asking.")
    return resumption(session, folder, fork=fork, flags=found.skipping) if freely else found
