"""Transcripts with something wrong in them, and what any reader must make of whatever stands in a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from hypothesis import strategies as st

from store.conversations.derive import derive_rows
from store.search.quick_index import QuickIndexRow
from store.sources.contract import Source, SupportsQuickRead
from store.text.validate import validate_amount, validate_integer, validate_text

STRANGE_VALUES = [
    "\ud800",
    "\0",
    "9" * 400,
    10**30,
    2**63,
    -1,
    float("nan"),
    {"\ud800": {"": []}},
    [[[[]]]],
    "-",
    "../x",
]
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(STRANGE_VALUES),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
INVALID_LINES = [
    b"\xff\xfe\x00\x80",
    b"{",
    b'{"type":',
    b"null",
    b"[]",
    b"\x1f\x8b\x08\x00" * 40,
    b"[" * 5000,
    b"\xc3(",
]


def json_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from json_paths(inner, (*path, name))


def replace_at_path(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    copy = value.copy()
    copy[path[0]] = replace_at_path(value[path[0]], path[1:], other)
    return copy


@st.composite
def corrupted_json(draw: st.DrawFn, data: bytes) -> bytes:
    """One JSON value as it should be, but for a value somewhere in it."""
    value = json.loads(data)
    for _ in range(draw(st.integers(1, 3))):
        value = replace_at_path(value, draw(st.sampled_from(list(json_paths(value)))), draw(ANY_JSON))
    spaced = draw(st.sampled_from([None, (",", ":")]))
    return json.dumps(value, ensure_ascii=draw(st.booleans()), separators=spaced).encode("utf-8", "replace")


@st.composite
def corrupted_lines(draw: st.DrawFn, data: bytes) -> bytes:
    """Lines of JSON, of which one is spoiled, lost, told twice or rubbish, or the last one cut."""
    told = data.splitlines()
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(told) - 1))
        match draw(st.sampled_from(["value", "value", "value", "lost", "twice", "rubbish", "moved"])):
            case "value":
                # What an earlier round made of it need not be JSON any more.
                told[at] = draw(corrupted_json(data.splitlines()[at % len(data.splitlines())]))
            case "lost" if len(told) > 1:
                del told[at]
            case "twice":
                told.insert(at, told[at])
            case "moved":
                told.append(told.pop(at))
            case _:
                told[at] = draw(st.sampled_from(INVALID_LINES) | st.binary(max_size=40))
    whole = b"\n".join(told) + b"\n"
    return whole[: draw(st.integers(0, len(whole)))] if draw(st.integers(0, 4)) == 0 else whole


def read_all_sessions(source: Source, locator: Path) -> set[str]:
    """Everything a sync would ask of a source. Gives the native ids of the sessions that could be read."""
    source.detect(str(locator))
    source.stamp(str(locator))
    if isinstance(source, SupportsQuickRead):
        for skim in source.quick_read(str(locator), set()):
            assert QuickIndexRow(skim).text.encode()
    read = set()
    with source.open(str(locator)) as opened:
        for ref in list(opened.scan()):
            batches = list(opened.read(ref))
            for batch in batches:
                for name, value in (batch.fields or {}).items():
                    if isinstance(value, str):
                        validate_text(value, name)
                    elif name == "cost":
                        validate_amount(cast("float", value), name)
                    else:
                        validate_integer(cast("int", value), name)
                derive_rows(([batch.header] if batch.header else []) + batch.entries)
            if batches:
                read.add(ref.native_id)
        list(opened.facts())
        list(opened.secrets())
        list(opened.published())
    return read
