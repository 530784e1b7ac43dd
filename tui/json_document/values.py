"""JSON as it was written.

Where a parser would be content with the value, a person wants what was written: numbers keep their spelling, a key that
was given twice is told, and what is not JSON at all is lines of text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from store.model.entry import Json


class VerbatimNumber(str):
    """A number whose spelling a float would not give back."""

    __slots__ = ()


class DuplicateKeyObject(dict[str, Json]):
    """An object in which keys were given more than once; the last one counts, as it does nearly everywhere."""

    def __init__(self, pairs: Iterable[tuple[str, Json]]) -> None:
        pairs = list(pairs)
        super().__init__(pairs)
        self.times = {key: n for key, n in Counter(key for key, _ in pairs).items() if n > 1}


class TextLines(list[str]):
    """What is not JSON, to be read line by line."""

    def __init__(self, text: str, note: str = "") -> None:
        super().__init__(text.removesuffix("\n").split("\n"))
        self.note = note
        "Why, where it is not plain to see."


class NotJson(ValueError):
    """What a parser cannot read."""


class TooDeep(NotJson):
    """Lists within lists, so many that a parser would run out of stack."""


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def decode_json(text: str) -> Json:
    """The value, as Python has it."""
    try:
        try:
            return _DECODER.decode(text)
        except json.JSONDecodeError:
            raise
        except ValueError:  # more digits than Python makes an integer of
            return _DECODER_OF_HUGE_INTEGERS.decode(text)
    except json.JSONDecodeError as reason:
        raise NotJson(reason.msg) from None
    except RecursionError:
        raise TooDeep("It is nested too deep.") from None


def _build_object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    return value if len(value) == len(pairs) else DuplicateKeyObject(pairs)


def _parse_float(spelled: str) -> float | VerbatimNumber:
    number = float(spelled)
    return number if repr(number) == spelled else VerbatimNumber(spelled)


_DECODER = json.JSONDecoder(object_pairs_hook=_build_object, parse_float=_parse_float, parse_constant=VerbatimNumber)
_DECODER_OF_HUGE_INTEGERS = json.JSONDecoder(
    object_pairs_hook=_build_object, parse_float=_parse_float, parse_constant=VerbatimNumber, parse_int=VerbatimNumber
)


# ── spelling ──────────────────────────────────────────────────────────────────────────────────────


def encode_string(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a character, which only an escape can spell
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False)


def encode_scalar(value: Json) -> str:
    """What is neither text nor a container with something in it."""
    return str(value) if isinstance(value, VerbatimNumber) else json.dumps(value)
