"""This module defines the command `sync`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from store.cli.options import json_option, with_store
from store.cli.sync_runner import run_sync
from store.store import Store


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--source", metavar="NAME", help="Only stores of this kind.")
@json_option
@with_store
def sync(store: Store, paths: Sequence[str], source: str | None, as_json: bool) -> None:
    """Read what is new: of the stores found on this machine, or of any file, folder or database URL."""
    run_sync(store, paths, source, as_json=as_json)
