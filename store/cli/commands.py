"""This module lists all commands by name. Each is loaded when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from store.cli import PROGRAM
from store.cli.context import CliContext
from store.cli.lazy_group import LazyGroup
from store.cli.options import cli_context
from store.database.connection import APPLICATION_ID
from store.sources.kit.locator import hide_password

COMMANDS = {
    "sync": "store.cli.sync:sync",
    "sources": "store.cli.sources:sources",
    "list": "store.cli.search:list_sessions",
    "show": "store.cli.show:show",
    "search": "store.cli.search:search",
    "tools": "store.cli.tools:tools",
    "stats": "store.cli.usage.stats:stats",
    "cost": "store.cli.usage.cost:cost",
    "prices": "store.cli.usage.prices:prices",
    "changes": "store.cli.diffs:changes",
    "diff": "store.cli.diffs:diff",
    "searches": "store.cli.search:searches",
    "rebuild": "store.cli.rebuild:rebuild",
    "export": "store.cli.sharing.export:export",
    "verify": "store.cli.sharing.export:verify",
    "resume": "store.cli.resume:resume",
    "fork": "store.cli.fork:fork",
    "compactions": "store.cli.compactions:compactions",
    "write-back": "store.cli.write_back:write_back",
    "title": "store.cli.session_edits:title",
    "tag": "store.cli.session_edits:tag",
    "untag": "store.cli.session_edits:untag",
    "note": "store.cli.session_edits:note",
    "unnote": "store.cli.session_edits:unnote",
    "pin": "store.cli.session_edits:pin",
    "unpin": "store.cli.session_edits:unpin",
    "archive": "store.cli.session_edits:archive",
    "unarchive": "store.cli.session_edits:unarchive",
    "summary": "store.cli.summary:summary",
    "facts": "store.cli.facts:facts",
    "memory": "store.cli.memory.commands:memory",
    "mcp": "store.cli.agents.mcp:mcp",
    "skill": "store.cli.agents.skill:skill",
    "secrets": "store.cli.secrets:secrets",
    "leaks": "store.cli.leaks:leaks",
    "team": "store.cli.team.commands:team",
    "publish": "store.cli.sharing.published:publish",
    "published": "store.cli.sharing.published:published",
    "resolve": "store.cli.sharing.published:resolve",
    "unpublish": "store.cli.sharing.published:unpublish",
    "web": "store.cli.sharing.web:web",
    "delete": "store.cli.session_edits:delete",
    "restore": "store.cli.session_edits:restore",
    "purge": "store.cli.maintenance:purge",
    "log": "store.cli.journal:log",
    "undo": "store.cli.journal:undo",
    "completion": "store.cli.completion.command:completion",
    "doctor": "store.cli.maintenance:doctor",
    "pack": "store.cli.maintenance:pack",
    "demo": "store.cli.maintenance:demo",
}


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    default="browse",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--store", "path", metavar="PATH", type=click.Path(path_type=Path), help="Use the store at PATH.")
@click.version_option(package_name=PROGRAM, message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context, path: Path | None) -> None:
    """Browse, search, edit and resume the conversations of your AI agents.

    Without a command, open the browser. An ID is the id of a session or the beginning of it.
    """
    ctx.ensure_object(CliContext).store_option = path
    if ctx.invoked_subcommand is None:
        ctx.invoke(browse)


@main.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1)
def browse(paths: Sequence[str] = ()) -> None:
    """Open the browser.

    With PATHs, open it on just those files, folders or databases, in a temporary store that takes no edits. If the
    PATH is a store of Backscroll, open that store.
    """
    if len(paths) == 1 and _is_store(paths[0]):
        cli_context().open_browser(Path(paths[0]))
    elif paths:
        _browse_in_temporary_store(paths)
    else:
        cli_context().open_browser(follow=True)


def _is_store(path: str) -> bool:
    """Return whether a file has the application id of our SQLite databases in its header."""
    try:
        with Path(path).open("rb") as file:
            return file.read(72)[68:] == APPLICATION_ID.to_bytes(4, "big")
    except OSError:
        return False


def _browse_in_temporary_store(paths: Sequence[str]) -> None:
    import shlex

    from store.cli.sync_runner import raise_if_unreadable, sync_with_progress_bar
    from store.store import Store
    from store.sync.targets import find_targets

    targets = find_targets(paths)
    with Store.memory() as store:
        raise_if_unreadable(paths, sync_with_progress_bar(store, targets))
        store.sessions.archive(store.sessions.archived(), on=False)  # a person who names a file wants to see it
        command = shlex.join(["backscroll", "sync", *map(hide_password, paths)])
        refusal = f"These sessions are temporary and read-only. Run `{command}` to keep and edit them."
        cli_context().open_browser(store.path, refusal=refusal)
