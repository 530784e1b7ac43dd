"""This module makes transcripts with errors, and checks what every reader must guarantee for any file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from hypothesis import strategies as st

from store.conversations.derive import derive_rows
from store.search.quick_index import QuickIndexRow
from store.sources.contract import Source
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
    """Return a valid JSON value in which some inner values are replaced."""
    value = json.loads(data)
    for _ in range(draw(st.integers(1, 3))):
        value = replace_at_path(value, draw(st.sampled_from(list(json_paths(value)))), draw(ANY_JSON))
    separators = draw(st.sampled_from([None, (",", ":")]))
    return json.dumps(value, ensure_ascii=draw(st.booleans()), separators=separators).encode("utf-8", "replace")


@st.composite
def corrupted_export(draw: st.DrawFn, data: bytes) -> bytes:
    """Return an export with the first two of its conversations, of which the first one is corrupted."""
    first, second, *_ = (json.dumps(conversation).encode() for conversation in json.loads(data))
    return b"[" + draw(corrupted_json(first)) + b"," + second + b"]"


@st.composite
def corrupted_lines(draw: st.DrawFn, data: bytes) -> bytes:
    """Return lines of JSON of which some are corrupted, lost, repeated, moved or garbage, or the last one is cut."""
    lines = data.splitlines()
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["value", "value", "value", "lost", "twice", "rubbish", "moved"])):
            case "value":
                # Start from the original line: an earlier round may have left no valid JSON.
                lines[at] = draw(corrupted_json(data.splitlines()[at % len(data.splitlines())]))
            case "lost" if len(lines) > 1:
                del lines[at]
            case "twice":
                lines.insert(at, lines[at])
            case "moved":
                lines.append(lines.pop(at))
            case _:
                lines[at] = draw(st.sampled_from(INVALID_LINES) | st.binary(max_size=40))
    corrupted = b"\n".join(lines) + b"\n"
    return corrupted[: draw(st.integers(0, len(corrupted)))] if draw(st.integers(0, 4)) == 0 else corrupted


def read_all_sessions(source: Source, locator: Path) -> set[str]:
    """Read everything that a sync would read, and return the native ids of the sessions that could be read."""
    source.detect(str(locator))
    source.stamp(str(locator))
    if source.has_quick_read:
        for session in source.quick_read(str(locator), set()):
            QuickIndexRow(session).text.encode()  # fails for surrogates; a damaged session may have no words
    native_ids = set()
    with source.open(str(locator)) as reader:
        for ref in list(reader.scan()):
            batches = list(reader.read(ref))
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
                native_ids.add(ref.native_id)
        list(reader.facts())
        list(reader.secrets())
        list(reader.published())
    return native_ids
