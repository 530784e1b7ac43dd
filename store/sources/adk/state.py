"""How google-adk's rows spell what they hold: names, JSON, and a state, each key of which is a fact with a place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any
from urllib.parse import quote, unquote

from store.errors import BadValue
from store.model.identity import join_native_id
from store.text.validate import parse

SESSION_KEY = ("app_name", "user_id", "id")
STATE_KEYS: Mapping[str, tuple[str, ...]] = {
    "sessions": SESSION_KEY,
    "app_states": ("app_name",),
    "user_states": ("app_name", "user_id"),
}
"""Every table with a state, in the order in which google-adk locks their rows."""

_SPACE = re.compile(r"[ \t\n\r]*")
_decode = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
"""Only to find where a value ends, so that no number is too large."""


def split_native_id(native_id: str) -> list[str]:
    """What `joined_id` joined."""
    return [unquote(place) for place in native_id.split("/")]


def format_state_place(table: str, places: tuple[str, ...], name: str) -> str:
    return f"{table}:{join_native_id(*places)}/{quote(name, safe='', errors='surrogatepass')}"


def parse_state_place(place: str) -> tuple[str, tuple[str, ...], str]:
    """The table, the row's key and the name in its state."""
    table, _, joined = place.partition(":")
    row, _, name = joined.rpartition("/")
    return table, tuple(split_native_id(row)), unquote(name, errors="surrogatepass")


def parse_json_as(text: object, wanted: type | UnionType) -> Any:
    if not isinstance(text, str):
        raise BadValue("It is not text.")
    value = parse(text)
    if not isinstance(value, wanted):
        raise BadValue("It is JSON of another kind.")
    return value


def rewrite_state(state: str, values: Mapping[str, str | None]) -> str:
    """With these values, spelled as JSON; without those that are None. All others stay as they are spelled, since to
    read and spell them anew would change numbers that Python cannot hold."""
    members = (
        before + (values.get(name) or value)
        for name, before, value in _split_members(state)
        if values.get(name, value) is not None
    )
    return "{" + ",".join(members) + "}"


def _split_members(state: str) -> Iterator[tuple[str, str, str]]:
    """Of an object that was parsed before: each name, and the spelling up to its value and of its value."""
    at = _skip_space(state, 0)
    while state[at] in "{,":
        begin = at + 1
        if state[at := _skip_space(state, begin)] == "}":
            return
        name, at = _decode(state, at)
        start = _skip_space(state, _skip_space(state, at) + 1)
        _, end = _decode(state, start)
        yield name, state[begin:start], state[start:end]
        at = _skip_space(state, end)


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
