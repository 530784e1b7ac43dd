"""This module defines the command `sync`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from store.cli import output, sync_runner
from store.cli.options import json_option, with_store
from store.cli.sync_runner import run_sync
from store.sources.kit.locator import has_password
from store.store import Store


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--source", metavar="NAME", help="Read only stores of this source.")
@click.option("--follow", is_flag=True, help="Keep reading what agents write, until Ctrl+C.")
@json_option
@with_store
def sync(store: Store, paths: Sequence[str], source: str | None, follow: bool, as_json: bool) -> None:
    """Read new sessions from the agents' stores.

    With PATHs, read those files, folders or database URLs instead.
    """
    if any(map(has_password, paths)):
        output.notify(
            "The password is in the process list until this ends. Give it in PGPASSWORD or ~/.pgpass instead."
        )
    if not follow:
        run_sync(store, paths, source, as_json=as_json)
    elif as_json:
        raise click.UsageError("--follow cannot be used with --json.")
    elif paths:
        raise click.UsageError("--follow cannot be used with PATH.")
    else:
        sync_runner.follow(store, source)
