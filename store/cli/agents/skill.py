"""This module defines the command group `skill`."""

from __future__ import annotations

import click

from store.agent_api.past.skill import (
    SKILL_TEXT,
    find_skill_file,
    plan_installation,
    plan_removal,
    write_skill,
)
from store.cli import output
from store.cli.lazy_group import ListGroup
from store.cli.memory.commands import print_push_plan, shorten_path
from store.cli.options import json_option, with_store
from store.memory.rules import AGENTS
from store.memory.targets import list_installed_agents
from store.model.memory import PushPlan
from store.store import Store

agents_argument = click.argument("agents", metavar="[AGENT]...", nargs=-1)
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would change.")


@click.group(cls=ListGroup, default="show", default_if_no_args=True)
def skill() -> None:
    """Teach agents to search past conversations, with a skill.

    It costs an agent about 35 tokens until it is used. Without a command, show it.
    """


@skill.command()
@json_option
def show(as_json: bool) -> None:
    """Show the text of the skill, and where it is installed."""
    installed = [agent for agent in list_installed_agents() if find_skill_file(agent).exists()]
    if as_json:
        output.emit_json({"text": SKILL_TEXT, "installed": installed, "agents": list(AGENTS)})
        return
    output.write(SKILL_TEXT.rstrip("\n"))
    for agent in installed:
        output.notify(f"Installed for {agent} in {shorten_path(str(find_skill_file(agent)))}.")
    if not installed:
        output.notify("Not installed. Run `backscroll skill install`.")


@skill.command()
@agents_argument
@dry_run_option
@with_store
def install(store: Store, agents: tuple[str, ...], dry_run: bool) -> None:
    """Install the skill for AGENTs, or for all that have a folder in your home.

    A backup is taken first, and `backscroll undo` reverses it.
    """
    _run(store, plan_installation(agents), dry_run, remove=False)


@skill.command()
@agents_argument
@dry_run_option
@with_store
def remove(store: Store, agents: tuple[str, ...], dry_run: bool) -> None:
    """Remove the skill.

    A file that was edited by hand stays.
    """
    _run(store, plan_removal(agents), dry_run, remove=True)


def _run(store: Store, plan: PushPlan, dry_run: bool, *, remove: bool) -> None:
    backup = None if dry_run else write_skill(store, plan, remove=remove)
    print_push_plan(plan, backup)
    if not plan.changed and not plan.problems:
        output.notify("Nothing to do.")
    if plan.problems:
        raise click.exceptions.Exit(1)
