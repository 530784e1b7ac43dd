"""This module identifies a value without keeping it."""

from __future__ import annotations

import hmac

FINGERPRINT_CHARS = 16


def compute_fingerprint(key: bytes, value: str) -> str:
    """Return an HMAC of the value, shortened. Without the key, nobody can test whether a guess is right."""
    return hmac.digest(key, value.encode("utf-8", "surrogatepass"), "sha256").hex()[:FINGERPRINT_CHARS]
