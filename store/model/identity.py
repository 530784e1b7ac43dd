"""The public ids of sessions."""

from __future__ import annotations

import hashlib
from urllib.parse import quote


def foreign_session_id(source: str, native_id: str, store_identity: str = "") -> str:
    """The public id of a foreign session; `store_identity` where native ids are unique only within their database."""
    if not store_identity:
        return f"{source}:{native_id}"
    digest = hashlib.blake2b(store_identity.encode("utf-8", "surrogatepass"), digest_size=4)
    return f"{source}:{native_id}@{digest.hexdigest()}"


def join_native_id(*names: str) -> str:
    """Quoted, so that no slash inside a name can make two sessions one."""
    return "/".join(quote(name, safe="") for name in names)
