"""Going back to the agent."""

from __future__ import annotations

from pathlib import Path

import click

from store.cli import output
from store.cli.options import cli_context, is_interactive
from store.errors import Refused
from store.model.session import Session
from store.resume.checks import check_resume
from store.resume.command import ResumePlan, plan_resume


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
        if not is_interactive() or not output.stdout_is_terminal():
            raise Refused("There is no terminal to choose in; name the session.")
        cli_context().open_browser(follow=True, pick=True)
        return
    wanted = _plan_resume(cli_context().store.sessions.find(session_id), folder, fork, freely)
    if not wanted.command:
        raise Refused(wanted.hint)
    if wanted.can_run or only_print:
        for line in check_resume(cli_context().store, wanted, is_shown=False).list_warnings():
            output.notify(line)
    if not only_print:
        cli_context().close()
        wanted.execute()
    output.write(wanted.command)
    for obstacle in wanted.obstacles:
        output.notify(obstacle)


def _plan_resume(session: Session, folder: Path | None, fork: bool, freely: bool) -> ResumePlan:
    found = plan_resume(session, folder, fork=fork)
    if freely and found.command and not found.skip_permission_flags:
        raise Refused(f"{found.agent_label} has no option to act without asking.")
    return plan_resume(session, folder, fork=fork, flags=found.skip_permission_flags) if freely else found
