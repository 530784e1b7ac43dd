"""JSON as it was written.

Where a parser would be content with the value, a person wants what was written: numbers keep their spelling, a key that
was given twice is told, and what is not JSON at all is lines of text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator

from store.model import Json


class Number(str):
    """A number whose spelling a float would not give back."""

    __slots__ = ()


class Repeated(dict[str, Json]):
    """An object in which keys were given more than once; the last one counts, as it does nearly everywhere."""

    def __init__(self, pairs: Iterable[tuple[str, Json]]) -> None:
        pairs = list(pairs)
        super().__init__(pairs)
        self.times = {key: n for key, n in Counter(key for key, _ in pairs).items() if n > 1}


class Lines(list[str]):
    """What is not JSON, to be read line by line."""


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def parse(record: bytes) -> Json:
    """The value, or the Lines of what is no JSON. Python is called back for every object and so lets other threads
    have their turn, which the bare parser would not."""
    try:
        text = record.decode()
    except UnicodeDecodeError:
        return Lines(record.decode("utf-8", "replace").split("\n"))
    value = _parsed(text)
    return Lines(text.removesuffix("\n").split("\n")) if isinstance(value, _NotJson) else value


def json_in(text: Json) -> Json:
    """The object or list that a string spells, else None."""
    if not looks_like_json(text):
        return None
    value = _parsed(text)
    return None if isinstance(value, _NotJson) else value


def looks_like_json(text: Json) -> bool:
    if type(text) is not str:
        return False
    ends = text[:100].lstrip()[:1] + text[-100:].rstrip()[-1:]
    return len(text) > 1 and ends in ("{}", "[]")


class _NotJson:
    """What a parser answers to what it cannot read."""


def _parsed(text: str) -> Json:
    for decoder in (_DECODER, _DECODER_OF_HUGE_INTEGERS):
        try:
            return decoder.decode(text)
        except (json.JSONDecodeError, RecursionError):
            break
        except ValueError:  # more digits than Python makes an integer of
            continue
    return _NotJson()


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    return value if len(value) == len(pairs) else Repeated(pairs)


def _float(spelled: str) -> float | Number:
    number = float(spelled)
    return number if repr(number) == spelled else Number(spelled)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=Number)
_DECODER_OF_HUGE_INTEGERS = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_float, parse_constant=Number, parse_int=Number
)


# ── spelling ──────────────────────────────────────────────────────────────────────────────────────


def quoted(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a character, which only an escape can spell
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False)


def spelled(value: Json) -> str:
    """A value of few characters as JSON has it; a container with two spaces a level."""
    return "".join(_spelled(value, "\n"))


def _spelled(value: Json, newline: str) -> Iterator[str]:
    inner = newline + "  "
    if isinstance(value, dict) and value:
        for number, (key, item) in enumerate(value.items()):
            yield f"{',' if number else '{'}{inner}{quoted(key)}: "
            yield from _spelled(item, inner)
        yield newline + "}"
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield ("," if number else "[") + inner
            yield from _spelled(item, inner)
        yield newline + "]"
    else:
        yield quoted(value) if type(value) is str else plain(value)


def plain(value: Json) -> str:
    """What is neither text nor a container with something in it."""
    return str(value) if isinstance(value, Number) else json.dumps(value)
