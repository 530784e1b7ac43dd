"""This module converts values to what SQLite and JSON can store, and refuses other values with a reason."""

from __future__ import annotations

from collections.abc import Collection
from math import isfinite
from typing import Any

import orjson

from store.errors import BadValue
from store.text.json import MAX_JSON_DEPTH as MAX_JSON_DEPTH
from store.text.json import TOO_DEEP_MESSAGE
from store.text.json import check_depth as check_depth
from store.text.json import decode as decode
from store.text.json import encode as encode
from store.text.json import is_too_deep as is_too_deep
from store.text.json import serialize as serialize
from store.text.json import utc_timestamp as utc_timestamp

MAX_ID_LENGTH = 65_536
MAX_INTEGER = 2**63 - 1
_WRAPPER_LEVELS = 8
"""Counts the levels that our own parts, lists and objects add around a foreign value."""


def parse(data: str) -> Any:
    """Parse foreign JSON quickly. Values that are nested too deep are refused.

    Integers beyond 64 bits lose precision here; the record keeps them exactly.
    """
    if data.count("[") + data.count("{") > MAX_JSON_DEPTH - _WRAPPER_LEVELS and is_too_deep(
        data.encode("utf-8", "replace"), _WRAPPER_LEVELS
    ):
        raise BadValue(TOO_DEEP_MESSAGE)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return decode(data)


def parse_bytes(data: bytes) -> Any:
    """Parse foreign JSON in bytes that should be UTF-8. Nearly all are, and are not decoded to text first."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return parse(data.decode("utf-8", "replace"))  # it raises the error, or parses what orjson cannot
    levels = MAX_JSON_DEPTH - _WRAPPER_LEVELS
    if len(data) > 2 * levels and _is_deeper(value, levels):
        raise BadValue(TOO_DEEP_MESSAGE)
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    """Return whether a parsed value has more levels. Most bytes of a record are in its texts, so looking at the few
    objects and lists is faster than counting brackets."""
    containers = [value] if type(value) is dict or type(value) is list else []
    for _ in range(levels):
        found = []
        for container in containers:
            for item in container.values() if type(container) is dict else container:
                if type(item) is dict or type(item) is list:
                    found.append(item)
        if not found:
            return False
        containers = found
    return True


def encode_derived(value: Any) -> bytes:
    """Encode quickly what can be derived again from a record. NaN becomes null."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return encode(_replace_non_finite(value))


def _replace_non_finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _replace_non_finite(item) for name, item in value.items()}
    return [_replace_non_finite(item) for item in value] if isinstance(value, list | tuple) else value


def replace_surrogates(text: str) -> str:
    """Return text that SQLite can store. It is for derived text, whose exact form is in the record."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # In UTF-16, as in JSON, two adjacent surrogates are one character.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def validate_text(text: str, what: str) -> str:
    """Return the text, or raise BadValue if SQLite cannot store it exactly."""
    if not isinstance(text, str):
        raise BadValue(f"The {what} must be text, not {type(text).__name__}.")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadValue(f"The {what} contains half a character (a lone surrogate) and cannot be stored.") from None
    return text


def validate_id(text: str, what: str = "session id") -> str:
    validate_text(text, what)
    if not text:
        raise BadValue(f"The {what} is empty.")
    if "\0" in text:
        raise BadValue(f"The {what} contains a NUL character.")
    if len(text) > MAX_ID_LENGTH:
        raise BadValue(f"The {what} is longer than {MAX_ID_LENGTH:,} characters.")
    return text


def validate_amount(value: float, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MAX_INTEGER:
        raise BadValue(f"The {what} must be a non-negative number, not {value!r}.")
    return float(value)


def validate_integer(value: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadValue(f"The {what} must be a whole number, not {type(value).__name__}.")
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise BadValue(f"The {what} is too large for SQLite.")
    return value


def validate_integers(values: Collection[int], what: str) -> None:
    """Do the same for many values at once."""
    if not {int}.issuperset(map(type, values)) or max(map(abs, values), default=0) > MAX_INTEGER:
        for value in values:
            validate_integer(value, what)
