"""This module identifies a value without keeping it."""

from __future__ import annotations

import hmac

FINGERPRINT_CHARS = 16


def compute_fingerprint(key: bytes, value: str) -> str:
    """Return an HMAC of the value, shortened. A guess of the value cannot be tested without the key."""
    return hmac.digest(key, value.encode("utf-8", "surrogatepass"), "sha256").hex()[:FINGERPRINT_CHARS]
