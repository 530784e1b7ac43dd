"""This module answers `GET /pub/{id}` with a published file, and everything else with an error that reveals nothing.

An id is only ever looked up in the store. No part of a request becomes a path.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import BinaryIO
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from store.errors import BadValue, NotFound, Refused, StoreError
from store.store import Store
from store.text.sanitize import one_line
from store.web.content_type import HEAD_SIZE, find_content_type

_ALLOWED_HOSTS = ("127.0.0.1", "localhost")
_CHUNK_SIZE = 65_536
_MAX_NAME_LENGTH = 200
_HEADERS = {
    "x-content-type-options": "nosniff",
    # What is shown can neither run nor load anything, even if a browser takes it for a page.
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    # A copy in a cache would outlive the public id.
    "cache-control": "no-store",
}


def create_app(store: Store) -> ASGIApp:
    """Create the app that serves the published files of a store."""

    def send_published(request: Request) -> Response:
        return _respond(store, request.path_params["public_id"], head_only=request.method == "HEAD")

    app = Starlette(
        routes=[Route("/pub/{public_id}", send_published, methods=["GET"])],
        # A web page could let its own name point to this machine, and read the answers as if they were its own.
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=_ALLOWED_HOSTS, www_redirect=False)],
    )
    app.router.redirect_slashes = False
    return _SafeHeaders(app)


def _respond(store: Store, public_id: str, *, head_only: bool) -> Response:
    try:
        filename = store.published.get(public_id).filename
        file = store.published.open_file(public_id)
    except (NotFound, Refused, BadValue):
        raise HTTPException(404) from None
    except StoreError:
        raise HTTPException(503) from None
    try:
        return _describe(file, filename, head_only=head_only)
    except BaseException:
        file.close()
        raise


def _describe(file: BinaryIO, filename: str, *, head_only: bool) -> Response:
    status = os.fstat(file.fileno())
    content_type = find_content_type(file.read(HEAD_SIZE), filename, executable=bool(status.st_mode & 0o111))
    file.seek(0)
    headers = {
        "content-type": content_type.media_type,
        "content-length": str(status.st_size),
        "content-disposition": _format_disposition(filename, is_shown=content_type.is_shown),
    }
    if head_only:
        file.close()
        return Response(headers=headers)
    return _OpenFileResponse(file, status.st_size, headers)


def _format_disposition(filename: str, *, is_shown: bool) -> str:
    """Format the header with the name under which a browser saves the file. The end of a long name is kept."""
    name = one_line(filename).replace("/", "_").replace("\\", "_")[-_MAX_NAME_LENGTH:]
    return f"{'inline' if is_shown else 'attachment'}; filename*=UTF-8''{quote(name or 'file', safe='')}"


class _OpenFileResponse(StreamingResponse):
    """Sends an open file and closes it, also when the client leaves before the end."""

    def __init__(self, file: BinaryIO, size: int, headers: dict[str, str]) -> None:
        self._file = file
        super().__init__(self._read_chunks(size), headers=headers)

    async def _read_chunks(self, size: int) -> AsyncIterator[bytes]:
        """Read as many bytes as were announced, even if the file has grown since."""
        while size > 0 and (chunk := await run_in_threadpool(self._file.read, min(_CHUNK_SIZE, size))):
            size -= len(chunk)
            yield chunk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await super().__call__(scope, receive, send)


class _SafeHeaders:
    """Adds the headers that keep a browser from running what it gets, to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)
