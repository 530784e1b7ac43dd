"""This module defines the command `mcp`, which agents start."""

from __future__ import annotations

import click

from store.cli.options import with_store
from store.errors import Refused
from store.store import Store


@click.command()
@click.option(
    "--session", "current", default="", metavar="ID", help="The session that asks. It is left out of answers."
)
@with_store
def mcp(store: Store, current: str) -> None:
    """Serve past conversations to an agent, over stdin and stdout.

    The agent starts it: `claude mcp add backscroll -- backscroll mcp`. It has the tools search, open, list and
    propose_fact. None of them changes or reveals anything that is excluded, sealed or in the trash.
    """
    try:
        from store.agent_api.past.mcp_server import create_server
    except ImportError as error:
        raise Refused(str(error)) from None
    create_server(store, current).run()
