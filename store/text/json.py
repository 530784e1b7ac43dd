"""Encodes and decodes JSON, and tells the time.

It needs only the standard library, so that the first screen does not wait for what `store.text.validate` loads.
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
"""Far above what anybody writes, and far below where readers, screens and other encoders run out of stack."""

TOO_DEEP_MESSAGE = f"It is nested deeper than {MAX_JSON_DEPTH} levels and cannot be kept as JSON."


def utc_timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def encode(value: Any) -> bytes:
    """JSON to keep, which `decode` turns into the same value again wherever it is called."""
    return check_depth(serialize(value))


def serialize(value: Any) -> bytes:
    """JSON to print: big integers and lone surrogates kept, NaN refused.

    The standard encoder, since orjson writes NaN as null without a word and refuses the other two.
    """
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:
        return _encode_ascii(value).encode()
    except RecursionError:
        raise BadValue(TOO_DEEP_MESSAGE) from None
    except (ValueError, TypeError) as reason:
        raise BadValue(f"It cannot be kept as JSON: {reason}.") from None


def check_depth(data: bytes) -> bytes:
    """JSON that can be read again wherever we stand, or a refusal."""
    if is_too_deep(data):
        raise BadValue(TOO_DEEP_MESSAGE)
    return data


def is_too_deep(data: bytes, outer_levels: int = 0) -> bool:
    """Whether JSON that will stand within so many levels is nested deeper than we keep. Mostly two counts can tell."""
    levels = MAX_JSON_DEPTH - outer_levels
    if data.count(b"[") + data.count(b"{") <= levels:
        return False
    brackets = _STRING.sub(b"", data).translate(_BRACES_TO_BRACKETS, _NOT_BRACKETS)
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
