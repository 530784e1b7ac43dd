"""This module handles the address that opens a foreign store, and the locator under which it is stored and shown.

It touches nothing but the file system, which it asks for real paths.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote

# A password may contain any character, even one that should be quoted, so the host begins after the last @.
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][\w.-]*)(?:\+\w+)?://"
    r"(?:(?P<user>[^:/?@]*)(?::(?P<password>[^@]*(?:@[^@/?]*)*))?@)?(?P<where>[^?]*)(?:\?(?P<query>.*))?",
    re.DOTALL,
)
_SECRET_OPTION = re.compile("pass|pwd|secret|token|key", re.IGNORECASE)


class StoreLocation(NamedTuple):
    """Holds the two forms of the location of a store."""

    locator: str
    "Is the same for every spelling of the location, and has no password."
    address: str
    "Opens the store. It may contain a password, so it is neither stored nor shown."


def parse_location(text: str) -> StoreLocation:
    """Parse a path, or the URL of a database as SQLAlchemy spells it. A URL of SQLite becomes the path of its file."""
    url = _URL.fullmatch(text)
    if url is None or url["scheme"] == "file":
        path = os.path.realpath(os.path.expanduser(text.removeprefix("file://")))
        return StoreLocation(path, path)
    if url["scheme"] == "sqlite":
        path = os.path.realpath(unquote(url["where"].removeprefix("/")) or text)
        return StoreLocation(path, path)
    return StoreLocation(_redact_url(url), text)


def rebase_roots(folder: str, roots: Iterable[str]) -> Iterator[StoreLocation]:
    """Return the locations that these roots of the current home folder have in another one, e.g. in a copy."""
    home = os.path.realpath(os.path.expanduser("~"))
    for root in roots:
        path = os.path.relpath(os.path.realpath(root), home)
        if not is_url(root) and not path.startswith(os.pardir):
            yield parse_location(os.path.join(folder, path))


def is_url(locator: str) -> bool:
    return _URL.fullmatch(locator) is not None


def locator_name(locator: str) -> str:
    """Return the last component: the name of a file or of a database."""
    url = _URL.fullmatch(locator)
    return (url["where"] if url else locator).rpartition("/")[2]


def url_scheme(locator: str) -> str:
    """Return the scheme of a URL without the driver; empty for a path."""
    url = _URL.fullmatch(locator)
    return url["scheme"] if url else ""


def _redact_url(url: re.Match[str]) -> str:
    options = parse_qsl(url["query"] or "", keep_blank_values=True)
    query = "&".join(
        f"{quote(name)}={quote(value, safe='/')}" for name, value in options if not _SECRET_OPTION.search(name)
    )
    user = f"{url['user']}@" if url["user"] else ""
    return f"{url['scheme']}://{user}{url['where']}" + (f"?{query}" if query else "")
