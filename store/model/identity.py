"""This module builds the ids of sessions that come from foreign stores."""

from __future__ import annotations

import hashlib
from urllib.parse import quote


def foreign_session_id(source: str, native_id: str, store_identity: str = "") -> str:
    """Return the public id of a foreign session.

    `store_identity` is needed when native ids are unique only within their database.
    """
    if not store_identity:
        return f"{source}:{native_id}"
    digest = hashlib.blake2b(store_identity.encode("utf-8", "surrogatepass"), digest_size=4)
    return f"{source}:{native_id}@{digest.hexdigest()}"


def join_native_id(*names: str) -> str:
    """Join the names with slashes. The names are quoted, so that a slash inside one cannot lead to equal ids."""
    return "/".join(quote(name, safe="") for name in names)
