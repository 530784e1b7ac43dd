"""This module converts between rows of google-adk and our values: native ids, JSON, and states.

Each key of a state is a fact. Its place names the table, the row and the key.
"""

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
"""The tables with a state, in the order in which google-adk locks their rows."""

_SPACE = re.compile(r"[ \t\n\r]*")
_decode = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
"""Finds where a value ends. It keeps numbers as text, so that none is too large."""


def split_native_id(native_id: str) -> list[str]:
    """Return the names that `join_native_id` joined."""
    return [unquote(name) for name in native_id.split("/")]


def format_state_place(table: str, key: tuple[str, ...], name: str) -> str:
    """Return the place of a fact: the table, the key of the row, and the name in its state."""
    return f"{table}:{join_native_id(*key)}/{quote(name, safe='', errors='surrogatepass')}"


def parse_state_place(place: str) -> tuple[str, tuple[str, ...], str]:
    """Return the table, the key of the row and the name in its state."""
    table, _, address = place.partition(":")
    native_id, _, name = address.rpartition("/")
    return table, tuple(split_native_id(native_id)), unquote(name, errors="surrogatepass")


def parse_json_as(text: object, expected: type | UnionType) -> Any:
    if not isinstance(text, str):
        raise BadValue("It is not text.")
    value = parse(text)
    if not isinstance(value, expected):
        raise BadValue("It is JSON of another type.")
    return value


def rewrite_state(state: str, values: Mapping[str, str | None]) -> str:
    """Return the state with these values, given as JSON. None removes a value.

    All other values keep their spelling, because parsing them would change numbers that Python cannot represent.
    """
    members = (
        before + (values.get(name) or value)
        for name, before, value in _split_members(state)
        if values.get(name, value) is not None
    )
    return "{" + ",".join(members) + "}"


def _split_members(state: str) -> Iterator[tuple[str, str, str]]:
    """Yield each member of an object: the name, the text before the value, and the text of the value.

    The object must have been parsed before, so that it is known to be valid.
    """
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
