"""This module encodes and decodes JSON, and formats the current time.

It needs only the standard library, so that the first screen does not wait for the imports of `store.text.validate`.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from store.errors import BadValue

_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_BRACES_TO_BRACKETS = bytes.maketrans(b"{}", b"[]")

MAX_JSON_DEPTH = 200
"""Is far above what agents write, and far below the depth at which other code runs out of stack."""

TOO_DEEP_MESSAGE = f"The value is nested deeper than {MAX_JSON_DEPTH} levels and cannot be stored."


def utc_timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def encode(value: Any) -> bytes:
    """Encode a value to be stored. `decode` returns the same value."""
    return check_depth(serialize(value))


def serialize(value: Any) -> bytes:
    """Encode a value to be printed. Big integers and lone surrogates are kept, and NaN is refused.

    This is the standard encoder, because orjson silently writes NaN as null and refuses the other two.
    """
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:
        return _encode_ascii(value).encode()
    except RecursionError:
        raise BadValue(TOO_DEEP_MESSAGE) from None
    except (ValueError, TypeError) as error:
        raise BadValue(f"The value cannot be stored as JSON: {error}.") from None


def check_depth(data: bytes) -> bytes:
    """Return the JSON, or raise BadValue if it is nested too deep to be read back."""
    if is_too_deep(data):
        raise BadValue(TOO_DEEP_MESSAGE)
    return data


def is_too_deep(data: bytes, outer_levels: int = 0) -> bool:
    """Return whether the JSON, inside `outer_levels` further levels, is nested deeper than can be stored."""
    # In most cases two counts are enough to answer.
    levels = MAX_JSON_DEPTH - outer_levels
    if data.count(b"[") + data.count(b"{") <= levels:
        return False
    brackets = _STRING.sub(b"", data).translate(_BRACES_TO_BRACKETS, _NOT_BRACKETS)
    for _ in range(levels):
        if not brackets:
            break
        if brackets.find(b"]") > levels:  # only opening brackets come before it
            return True
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def decode(data: bytes | str) -> Any:
    """Decode JSON. BadValue is raised for anything else, so that a damaged record is one problem and not a crash."""
    try:
        return json.loads(data)
    except RecursionError:
        raise BadValue("The JSON is nested too deep to be read.") from None
    except ValueError as error:
        raise BadValue(f"Not JSON: {error}.") from None
