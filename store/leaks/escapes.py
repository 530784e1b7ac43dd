"""This module decodes what JSON hides from a scanner: `\\u0041` for a letter, and `\\/` for a slash."""

from __future__ import annotations

import re

_UNICODE_ESCAPE = re.compile(rb"\\+u00([2-7][0-9a-fA-F])")
_ESCAPED_SLASH = re.compile(rb"\\+/")
_ESCAPE_BYTES = 16
"""Is more than an escape has, also one inside of a JSON string that is inside of another."""


def decode_escapes(data: bytes) -> bytes:
    """Replace escapes of printable ASCII by their characters. The result need not be JSON any more; it is only scanned.

    Line breaks stay as they are, so lines keep their numbers.
    """
    if b"u00" in data:
        data = _UNICODE_ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), data)
    if b"\\/" in data:
        data = _ESCAPED_SLASH.sub(b"/", data)
    return data


def split_before_escape(data: bytes) -> tuple[bytes, bytes]:
    """Split off an escape that may be incomplete at the end."""
    cut = data.find(b"\\", max(len(data) - _ESCAPE_BYTES, 0))
    return (data, b"") if cut < 0 else (data[:cut], data[cut:])
