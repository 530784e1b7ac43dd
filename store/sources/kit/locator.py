"""Where a foreign store is: the address that opens it, and the locator under which it may be kept and shown. Pure but
for the file system's own opinion of what a path means."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote

# A password may hold anything, even what ought to be quoted; host, port and database are what follows its last @.
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][\w.-]*)(?:\+\w+)?://"
    r"(?:(?P<user>[^:/?@]*)(?::(?P<password>[^@]*(?:@[^@/?]*)*))?@)?(?P<where>[^?]*)(?:\?(?P<query>.*))?",
    re.DOTALL,
)
_SECRET_OPTION = re.compile("pass|pwd|secret|token|key", re.IGNORECASE)


class StoreLocation(NamedTuple):
    locator: str
    "The same however the store was named, and without a password."
    address: str
    "What opens it. It may hold a password, so it is neither kept nor shown."


def parse_location(given: str) -> StoreLocation:
    """A path, or a database's URL in SQLAlchemy's spelling; SQLite's URL is but the path of its file."""
    found = _URL.fullmatch(given)
    if found is None or found["scheme"] == "file":
        path = os.path.realpath(os.path.expanduser(given.removeprefix("file://")))
        return StoreLocation(path, path)
    if found["scheme"] == "sqlite":
        path = os.path.realpath(unquote(found["where"].removeprefix("/")) or given)
        return StoreLocation(path, path)
    return StoreLocation(_redact_url(found), given)


def rebase_roots(folder: str, roots: Iterable[str]) -> Iterator[StoreLocation]:
    """Where these places of one's own home are in another: one that was copied, or mounted, or is one's own."""
    home = os.path.realpath(os.path.expanduser("~"))
    for root in roots:
        path = os.path.relpath(os.path.realpath(root), home)
        if not is_url(root) and not path.startswith(os.pardir):
            yield parse_location(os.path.join(folder, path))


def is_url(locator: str) -> bool:
    return _URL.fullmatch(locator) is not None


def locator_name(locator: str) -> str:
    """The last of its names: a file's, or a database's."""
    found = _URL.fullmatch(locator)
    return (found["where"] if found else locator).rpartition("/")[2]


def url_scheme(locator: str) -> str:
    """Without the driver; empty for a path."""
    found = _URL.fullmatch(locator)
    return found["scheme"] if found else ""


def _redact_url(found: re.Match[str]) -> str:
    asked = parse_qsl(found["query"] or "", keep_blank_values=True)
    kept = "&".join(
        f"{quote(name)}={quote(value, safe='/')}" for name, value in asked if not _SECRET_OPTION.search(name)
    )
    user = f"{found['user']}@" if found["user"] else ""
    return f"{found['scheme']}://{user}{found['where']}" + (f"?{kept}" if kept else "")
