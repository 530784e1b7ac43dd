"""Tests that a parsed value is refused exactly when its bytes are nested too deep."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import BadValue
from store.text.json import MAX_JSON_DEPTH, is_too_deep
from store.text.validate import parse_bytes

OWN_LEVELS = 8
"""The levels that are reserved for what is put around a foreign value."""


def nest(depth: int, inner: object) -> bytes:
    value: object = inner
    for level in range(depth):
        value = [value] if level % 2 else {"text [{[{": value, "more": "]}" * 150 + "[{" * 150}
    return json.dumps(value).encode()


@given(st.integers(MAX_JSON_DEPTH - OWN_LEVELS - 3, MAX_JSON_DEPTH - OWN_LEVELS + 3), st.sampled_from(["", 1, None]))
def test_the_limit_is_the_same_for_values_and_for_bytes(depth: int, inner: object) -> None:
    data = nest(depth, inner)
    if is_too_deep(data, OWN_LEVELS):
        with pytest.raises(BadValue, match="nested deeper"):
            parse_bytes(data)
    else:
        assert parse_bytes(data) == json.loads(data)


def test_a_value_that_the_fast_parser_refuses_is_refused() -> None:
    with pytest.raises(BadValue, match="nested deeper"):
        parse_bytes(b"[" * 5_000 + b"]" * 5_000)


def test_brackets_in_texts_are_no_levels() -> None:
    assert parse_bytes(json.dumps({"text": "[" * 10_000}).encode()) == {"text": "[" * 10_000}
