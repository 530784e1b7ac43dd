"""This module handles the address that opens a foreign store, and the locator under which it is stored and shown.

It touches nothing but the file system, which it asks for real paths.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote

from store.probes import resolve_path

# The patterns are compiled when they are first needed: most people have no store with a URL, and every sync loads this.

# A password may contain any character, even one that should be quoted, so the host begins after the last @.
_URL = (
    r"(?s)(?P<scheme>[A-Za-z][\w.-]*)(?:\+\w+)?://"
    r"(?:(?P<user>[^:/?@]*)(?::(?P<password>[^@]*(?:@[^@/?]*)*))?@)?(?P<where>[^?]*)(?:\?(?P<query>.*))?"
)
_PRIVATE_OPTION = "(?i)pass|pwd|secret|token|key"
_PRIVATE_SETTING = r"(?i)(?:pass\w*|pwd|secret|token)\s*="
_HOST = r"(?:\[[^\]]*\]|[^:\[\]]*)(?::\d*)?"
_TYPED_ADDRESS = (
    r"(?is)(?P<before>\b(?:pass\w*|pwd)\s*=\s*)(?:'[^']*'|[^\s&;]+)"
    r"|(?P<address>(?:postgres[\w+]*:|:/)/{0,2}[^:/@\s]*:).*(?=@)"
)


class StoreLocation(NamedTuple):
    """Holds the two forms of the location of a store."""

    locator: str
    "Is the same for every spelling of the location, and has no password."
    address: str
    "Opens the store. It may contain a password, so it is neither stored nor shown."


def parse_location(text: str) -> StoreLocation:
    """Parse a path, or the URL of a database as SQLAlchemy spells it. A URL of SQLite becomes the path of its file."""
    url = _match_url(text)
    if url is None or url["scheme"] == "file":
        path = resolve_path(os.path.expanduser(text.removeprefix("file://")))
        return StoreLocation(path, path)
    if url["scheme"] == "sqlite":
        path = resolve_path(unquote(url["where"].removeprefix("/")) or text)
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
    return _match_url(locator) is not None


def locator_name(locator: str) -> str:
    """Return the last component: the name of a file or of a database."""
    url = _match_url(locator)
    return (url["where"] if url else locator).rpartition("/")[2]


def url_scheme(locator: str) -> str:
    """Return the scheme of a URL without the driver; empty for a path."""
    url = _match_url(locator)
    return url["scheme"] if url else ""


def hide_password(text: str) -> str:
    """Return what a person typed as an address, for a message: without a password, even if it cannot be parsed."""
    url = _match_url(text)
    if url:
        return _redact_url(url)
    return re.sub(_TYPED_ADDRESS, lambda match: (match["before"] or match["address"]) + "…", text)


def has_password(text: str) -> bool:
    """Return whether an address contains a password."""
    url = _match_url(text)
    options = parse_qsl(url["query"] or "") if url else []
    return bool(url and url["password"]) or any("pass" in name for name, _ in options)


def _match_url(text: str) -> re.Match[str] | None:
    return re.fullmatch(_URL, text) if "://" in text else None


def _redact_url(url: re.Match[str]) -> str:
    options = parse_qsl(url["query"] or "", keep_blank_values=True)
    query = "&".join(
        f"{quote(name)}={quote(value, safe='/')}"
        for name, value in options
        if not re.search(_PRIVATE_OPTION, name) and not re.search(_PRIVATE_SETTING, value)
    )
    user = f"{url['user']}@" if url["user"] else ""
    return f"{url['scheme']}://{user}{_redact_place(url)}" + (f"?{query}" if query else "")


def _redact_place(url: re.Match[str]) -> str:
    """Return the host and the name of the database, without what may be a part of a password.

    That is everything before another @. It is also everything after a colon that no port follows, because the host may
    have been left out.
    """
    place = url["where"].rpartition("@")[2] if url["password"] else url["where"]
    for host in place.partition("/")[0].split(","):
        if not re.fullmatch(_HOST, host):
            return host.partition(":")[0]
    return place
