"""All commands by name, each loaded when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from store.cli import PROGRAM, Console
from store.cli.console import console
from store.cli.groups import LazyGroup
from store.connecting import APPLICATION_ID

COMMANDS = {
    "sync": "store.cli.syncing:sync",
    "sources": "store.cli.syncing:sources",
    "list": "store.cli.reading:list_sessions",
    "show": "store.cli.showing:show",
    "search": "store.cli.reading:search",
    "tools": "store.cli.calling:tools",
    "rebuild": "store.cli.rebuilding:rebuild",
    "resume": "store.cli.resuming:resume",
    "fork": "store.cli.forking:fork",
    "write-back": "store.cli.writing_back:write_back",
    "title": "store.cli.editing:title",
    "tag": "store.cli.editing:tag",
    "untag": "store.cli.editing:untag",
    "note": "store.cli.editing:note",
    "unnote": "store.cli.editing:unnote",
    "pin": "store.cli.editing:pin",
    "unpin": "store.cli.editing:unpin",
    "archive": "store.cli.editing:archive",
    "unarchive": "store.cli.editing:unarchive",
    "summary": "store.cli.knowing:summary",
    "facts": "store.cli.knowing:facts",
    "secrets": "store.cli.sealing:secrets",
    "publish": "store.cli.publishing:publish",
    "published": "store.cli.publishing:published",
    "unpublish": "store.cli.publishing:unpublish",
    "delete": "store.cli.editing:delete",
    "restore": "store.cli.editing:restore",
    "purge": "store.cli.upkeep:purge",
    "log": "store.cli.history:log",
    "undo": "store.cli.history:undo",
    "doctor": "store.cli.upkeep:doctor",
    "demo": "store.cli.upkeep:demo",
}


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    default="browse",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--store", "path", metavar="PATH", type=click.Path(path_type=Path), help="The store to use.")
@click.version_option(package_name=PROGRAM, message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context, path: Path | None) -> None:
    """Browse, search, correct and resume every conversation your AI agents have had.

    Without a command, the browser opens.
    """
    ctx.ensure_object(Console).named = path
    if ctx.invoked_subcommand is None:
        ctx.invoke(browse)


@main.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1)
def browse(paths: Sequence[str] = ()) -> None:
    """Open the browser; with PATHs, on just those files, folders or databases, in a temporary store."""
    if len(paths) == 1 and _is_store(paths[0]):
        console().open_browser(Path(paths[0]))
    elif paths:
        _browse_foreign(paths)
    else:
        console().open_browser(follow=True)


def _is_store(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(72)[68:] == APPLICATION_ID.to_bytes(4, "big")
    except OSError:
        return False


def _browse_foreign(paths: Sequence[str]) -> None:
    from store.cli.refreshing import read, refuse_unread
    from store.refreshing import targets
    from store.store import Store

    chosen = targets(paths)
    with Store.memory() as store:
        refuse_unread(paths, read(store, chosen))
        console().open_browser(store.path)
