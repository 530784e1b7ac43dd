"""This module decodes JSON without losing what was written.

Numbers keep their spelling, duplicate keys are reported, and text that is not JSON becomes lines.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from store.model.entry import Json


class VerbatimNumber(str):
    """Is a number whose spelling a float would change."""

    __slots__ = ()


class DuplicateKeyObject(dict[str, Json]):
    """Is an object with duplicate keys. The last value of a key counts, as in most parsers."""

    def __init__(self, pairs: Iterable[tuple[str, Json]]) -> None:
        pairs = list(pairs)
        super().__init__(pairs)
        self.times = {key: n for key, n in Counter(key for key, _ in pairs).items() if n > 1}


class TextLines(list[str]):
    """Holds the lines of a text that is not JSON."""

    def __init__(self, text: str, note: str = "") -> None:
        super().__init__(text.removesuffix("\n").split("\n"))
        self.note = note
        "Explains why the text is not parsed, if that is not obvious."


class NotJson(ValueError):
    """Is raised for text that is not valid JSON."""


class TooDeep(NotJson):
    """Is raised for JSON that is nested too deeply for the parser's stack."""


# ── decoding ──────────────────────────────────────────────────────────────────────────────────────


def decode_json(text: str) -> Json:
    """Return the value of a JSON text, or raise NotJson."""
    try:
        try:
            return _DECODER.decode(text)
        except json.JSONDecodeError:
            raise
        except ValueError:  # more digits than Python accepts for an integer
            return _HUGE_INTEGER_DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise NotJson(error.msg) from None
    except RecursionError:
        raise TooDeep("The JSON is nested too deeply.") from None


def _build_object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    return value if len(value) == len(pairs) else DuplicateKeyObject(pairs)


def _parse_float(text: str) -> float | VerbatimNumber:
    number = float(text)
    return number if repr(number) == text else VerbatimNumber(text)


_DECODER = json.JSONDecoder(object_pairs_hook=_build_object, parse_float=_parse_float, parse_constant=VerbatimNumber)
_HUGE_INTEGER_DECODER = json.JSONDecoder(
    object_pairs_hook=_build_object, parse_float=_parse_float, parse_constant=VerbatimNumber, parse_int=VerbatimNumber
)


# ── encoding ──────────────────────────────────────────────────────────────────────────────────────


def encode_string(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can represent
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False)


def encode_scalar(value: Json) -> str:
    """Return the JSON of a number, a literal or an empty container."""
    return str(value) if isinstance(value, VerbatimNumber) else json.dumps(value)
