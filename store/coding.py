"""Python values into what SQLite and JSON can hold, and back; what they cannot hold is refused with a reason."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from math import isfinite
from typing import Any

import orjson

from store.errors import BadValue

_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SQUARE = bytes.maketrans(b"{}", b"[]")

LONGEST_ID = 65_536
LARGEST_INTEGER = 2**63 - 1
DEEPEST = 200
"""Far above what anybody writes, and far below where readers, screens and other encoders run out of stack."""

_WRAPPING = 8
"""Levels that parts, lists and objects of our own put around a foreign value."""

_TOO_DEEP = f"It is nested deeper than {DEEPEST} levels and cannot be kept as JSON."


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def encode(value: Any) -> bytes:
    """JSON to keep, which `decode` turns into the same value again wherever it is called."""
    return shallow(spell(value))


def spell(value: Any) -> bytes:
    """JSON to print: big integers and lone surrogates kept, NaN refused.

    The standard encoder, since orjson writes NaN as null without a word and refuses the other two.
    """
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:
        return _encode_ascii(value).encode()
    except RecursionError:
        raise BadValue(_TOO_DEEP) from None
    except (ValueError, TypeError) as reason:
        raise BadValue(f"It cannot be kept as JSON: {reason}.") from None


def shallow(data: bytes) -> bytes:
    """JSON that can be read again wherever we stand, or a refusal."""
    if too_deep(data):
        raise BadValue(_TOO_DEEP)
    return data


def too_deep(data: bytes, within: int = 0) -> bool:
    """Whether JSON that will stand within so many levels is nested deeper than we keep. Mostly two counts can tell."""
    levels = DEEPEST - within
    if data.count(b"[") + data.count(b"{") <= levels:
        return False
    brackets = _STRING.sub(b"", data).translate(_SQUARE, _NOT_BRACKETS)
    for _ in range(levels):
        if not brackets:
            break
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def decode(data: bytes | str) -> Any:
    """Raises BadValue for what is not JSON, so that a damaged record is one problem and not a crash."""
    try:
        return json.loads(data)
    except RecursionError:
        raise BadValue("The JSON is nested too deep to be read.") from None
    except ValueError as reason:
        raise BadValue(f"Not JSON: {reason}.") from None


def parse(data: str) -> Any:
    """Foreign JSON, fast. What is nested too deep is refused; integers beyond 64 bits are exact only in the record."""
    if data.count("[") + data.count("{") > DEEPEST - _WRAPPING and too_deep(data.encode("utf-8", "replace"), _WRAPPING):
        raise BadValue(_TOO_DEEP)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return decode(data)


def parse_bytes(data: bytes) -> Any:
    """The same of bytes that should be UTF-8: nearly all are, and need not become text first."""
    if data.count(b"[") + data.count(b"{") <= DEEPEST - _WRAPPING:
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            pass  # what is wrong with it, the slow way tells
    return parse(data.decode("utf-8", "replace"))


def encode_derived(value: Any) -> bytes:
    """JSON of what can be derived again from a record, fast: a NaN in it may become null."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return encode(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def column_text(text: str) -> str:
    """Text that SQLite can bind; for derived text, whose exact form is in the record."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # By way of UTF-16, where two halves side by side are one character, as they are in JSON.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def exact_text(text: str, what: str) -> str:
    """Text that must come back as it was given, or not go in."""
    if not isinstance(text, str):
        raise BadValue(f"The {what} must be text, not {type(text).__name__}.")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadValue(f"The {what} holds half a character (a lone surrogate) and cannot be kept.") from None
    return text


def exact_id(text: str, what: str = "session id") -> str:
    exact_text(text, what)
    if not text:
        raise BadValue(f"The {what} is empty.")
    if "\0" in text:
        raise BadValue(f"The {what} holds a NUL character.")
    if len(text) > LONGEST_ID:
        raise BadValue(f"The {what} is longer than {LONGEST_ID:,} characters.")
    return text


def exact_amount(value: float, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LARGEST_INTEGER:
        raise BadValue(f"The {what} must be an amount, not {value!r}.")
    return float(value)


def exact_integer(value: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadValue(f"The {what} must be a whole number, not {type(value).__name__}.")
    if not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
        raise BadValue(f"The {what} is larger than SQLite can hold.")
    return value
