"""This module identifies a value without keeping it."""

from __future__ import annotations

import hmac
import json

FINGERPRINT_CHARS = 16

_MAX_LEVELS = 3
"""Is how deep JSON is nested in JSON where a value is still recognized."""

_DECODER = json.JSONDecoder(strict=False)


def compute_fingerprint(key: bytes, value: str) -> str:
    """Return an HMAC of the value, shortened. A guess of the value cannot be tested without the key.

    A value has the same fingerprint wherever it is: a private key on several lines, and in JSON on one.
    """
    plain = "".join(unescape_value(value)[-1].split())
    return hmac.digest(key, plain.encode("utf-8", "surrogatepass"), "sha256").hex()[:FINGERPRINT_CHARS]


def unescape_value(value: str) -> list[str]:
    """Return a value as it was found, then as it is inside of each JSON string around it."""
    forms = [value]
    while "\\" in forms[-1] and len(forms) <= _MAX_LEVELS:
        try:
            inner = _DECODER.decode(f'"{forms[-1]}"')
        except ValueError:
            break
        forms.append(inner)
    return forms
