"""The command line. A command parses, calls the store, prints; names and JSON fields are a promise.

`run` is the only way in. It never raises and never prints a traceback: every error is one sentence on stderr
and an exit status.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from store.cli import printing
from store.cli.console import Console, console
from store.cli.groups import LazyGroup
from store.connecting import APPLICATION_ID
from store.errors import Unreadable

PROGRAM = "backscroll"

COMMANDS = {
    "list": "store.cli.reading:list_sessions",
    "show": "store.cli.showing:show",
    "search": "store.cli.reading:search",
    "tools": "store.cli.reading:tools",
    "fork": "store.cli.editing:fork",
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
@click.argument("path", required=False, type=click.Path(path_type=Path))
def browse(path: Path | None = None) -> None:
    """Open the browser, on another store if a PATH is given."""
    if path is not None:
        _refuse_foreign(path)
    console().open_browser(path)


def _refuse_foreign(path: Path) -> None:
    """Before it is opened as a store, which would turn an empty file into one."""
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except OSError as reason:
        raise Unreadable(f"{path} cannot be read: {reason.strerror}.") from None
    if head[68:72] != APPLICATION_ID.to_bytes(4, "big"):
        raise Unreadable(f"{path} is not a store of Backscroll's.")


def run(browse: Callable[[Path], None] | None = None, argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 done; 1 not found, refused or nothing to undo; 2 wrong usage; 3 unreadable."""
    printing.prepare()
    opened = Console(browse)
    try:
        status = main.main(argv, PROGRAM, standalone_mode=False, obj=opened)
    except (Exception, click.Abort) as error:
        return printing.complain(error)
    finally:
        opened.close()
    return status if isinstance(status, int) else 0
