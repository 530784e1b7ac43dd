"""This module runs the web server. It listens on the loopback interface, which only programs on this machine reach."""

from __future__ import annotations

import errno
import socket

import uvicorn

from store.errors import Refused
from store.store import Store
from store.web.published import create_app

LOOPBACK = "127.0.0.1"
_MAX_CONNECTIONS = 100
_SECONDS_TO_FINISH = 1


def listen(port: int) -> socket.socket:
    """Return a socket that listens on a port of the loopback interface. Port 0 means any free port."""
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        reason = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise Refused(f"Port {port} {reason}. Choose another one with `--port`.") from None


def serve(store: Store, server_socket: socket.socket) -> None:
    """Answer requests until a signal ends the program. Ctrl+C raises KeyboardInterrupt."""
    config = uvicorn.Config(
        create_app(store),
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        # Requests contain public ids, which are not written anywhere.
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
    )
    uvicorn.Server(config).run(sockets=[server_socket])
