"""This module defines the command `resume`."""

from __future__ import annotations

from pathlib import Path

import click

from store.cli import output
from store.cli.options import (
    cli_context,
    is_interactive,
    optional_session_argument,
)
from store.errors import Refused
from store.model.session import Session
from store.resume.checks import check_resume
from store.resume.command import ResumePlan, plan_resume


@click.command()
@optional_session_argument
@click.option("--print", "only_print", is_flag=True, help="Print the command instead of running it.")
@click.option(
    "--cwd",
    "folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="Resume in this folder instead of the session's own.",
)
@click.option("--fork", is_flag=True, help="Let the agent fork the session and continue in the fork.")
@click.option(
    "--skip-permissions/--ask-permissions",
    "skip_permissions",
    help="Let the agent act without asking for permission, this time only. This overrides the browser's setting.",
)
def resume(session_id: str | None, only_print: bool, folder: Path | None, fork: bool, skip_permissions: bool) -> None:
    """Resume a session in its agent.

    Without an ID, choose a session from a list.
    """
    if session_id is None:
        if only_print or folder or fork or skip_permissions:
            raise click.UsageError("These options need an ID.")
        if not is_interactive() or not output.stdout_is_terminal():
            raise Refused("A list of sessions needs a terminal. Name an ID.")
        cli_context().open_browser(follow=True, pick=True)
        return
    plan = _plan_resume(cli_context().store.sessions.find(session_id), folder, fork, skip_permissions)
    if not plan.command:
        raise Refused(plan.hint)
    if plan.can_run or only_print:
        for line in check_resume(cli_context().store, plan, is_shown=False).list_warnings():
            output.notify(line)
    if not only_print and plan.obstacles:
        for obstacle in plan.obstacles:
            output.notify(obstacle)
        raise Refused(f"The session was not resumed. Its command: {plan.command}")
    if not only_print:
        cli_context().close()
        plan.execute()
    output.write(plan.command)
    for obstacle in plan.obstacles:
        output.notify(obstacle)


def _plan_resume(session: Session, folder: Path | None, fork: bool, skip_permissions: bool) -> ResumePlan:
    owner = cli_context().store.team.find_owner(session.id)
    plan = plan_resume(session, folder, fork=fork, owner=owner)
    if not skip_permissions:
        return plan
    if plan.command and not plan.skip_permission_flags:
        raise Refused(f"{plan.agent_label} has no option to act without asking for permission.")
    return plan_resume(session, folder, fork=fork, flags=plan.skip_permission_flags)
