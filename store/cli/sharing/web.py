"""This module defines the command `web`."""

from __future__ import annotations

import click

from store.cli import output
from store.cli.options import Number, with_store
from store.errors import Refused
from store.store import Store

DEFAULT_PORT = 8420
PORT = Number(0, 65_535)


@click.command()
@click.option("--pub-only", is_flag=True, help="Serve published files and nothing else.")
@click.option("--port", type=PORT, default=DEFAULT_PORT, show_default=True, help="Listen on this port.")
@with_store
def web(store: Store, pub_only: bool, port: int) -> None:
    """Serve published files to programs on this machine.

    The file with the public id ID is at /pub/ID. Port 0 means any free port.
    """
    if not pub_only:
        raise click.UsageError("There is no full site yet. Use --pub-only to serve published files.")
    try:
        from store.web.server import listen, serve
    except ImportError as error:
        raise Refused(str(error)) from None
    # Ctrl+C is how a person ends the server, so it is no interruption.
    with listen(port) as server_socket:
        try:
            host, actual_port = server_socket.getsockname()
            output.write(f"http://{host}:{actual_port}/pub/")
            output.flush()
            serve(store, server_socket)
        except KeyboardInterrupt:
            pass
