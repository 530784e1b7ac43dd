"""Tests that JSON parsed page by page equals JSON parsed as a whole, for any page size and for hostile input."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.model.entry import Json
from tui.json_document.large_containers import (
    LIST_TYPES,
    OBJECT_TYPES,
    TOO_DEEP,
    JsonPage,
    LargeList,
    LargeObject,
    format_json,
    iter_items,
)
from tui.json_document.parser import PAGE_BYTES, parse_embedded_json, parse_record
from tui.json_document.tree import UNLIMITED, JsonRow, JsonTree, find_paths, format_path, row_path
from tui.json_document.values import TextLines, VerbatimNumber
from tui.render.json_row import render_json_row

PAGE_SIZES = st.sampled_from([1, 7, 16, 40, 100])
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=6),
    max_leaves=30,
)
TABLES = st.lists(st.fixed_dictionaries({"id": st.integers(0, 99), "tags": st.lists(st.text(), max_size=3)}))
"""Generates similar items, so that the scanner can guess where the next one begins."""

ENCODERS: dict[str, Callable[[Json], str]] = {
    "compact": lambda value: orjson.dumps(value).decode(),
    "default": json.dumps,
    "unicode": lambda value: json.dumps(value, ensure_ascii=False),
    "indented": lambda value: json.dumps(value, indent=3),
    "spaced": lambda value: json.dumps(value, separators=(" \t,\r\n ", "\n: ")) + "\n" * 30,
}
ENCODER_NAMES = st.sampled_from(sorted(ENCODERS))


def convert_number(value: Json) -> Json:
    return float(value) if isinstance(value, VerbatimNumber) else value


def load_all(value: Json) -> Json:
    """Return a value with all its pages loaded."""
    if isinstance(value, OBJECT_TYPES):
        return {key: load_all(item) for key, item in iter_items(value)}
    return [load_all(item) for _, item in iter_items(value)] if isinstance(value, LIST_TYPES) else convert_number(value)


def value_from_rows(tree: JsonTree) -> Json:
    """Rebuild the value from the rows of a tree."""
    children: dict[JsonRow | None, list[JsonRow]] = {}
    for row in tree.rows:
        children.setdefault(row.parent, []).append(row)

    def value_of(row: JsonRow) -> Json:
        if isinstance(row.value, OBJECT_TYPES):
            return {child.key: value_of(child) for child in children.get(row, [])}
        return (
            [value_of(child) for child in children.get(row, [])]
            if isinstance(row.value, LIST_TYPES)
            else convert_number(row.value)
        )

    return value_of(tree.root)


def find_all(value: Json, words: str) -> list[str]:
    return [format_path(path) for path in find_paths(value, words, {}, lambda: False)]


# ── pages and whole records are equal ─────────────────────────────────────────────────────────────


@given(VALUES | TABLES, ENCODER_NAMES, PAGE_SIZES)
def test_unfolding_everything_gives_the_original_value(value: Json, encoder: str, page: int) -> None:
    record = ENCODERS[encoder](value).encode()
    tree = JsonTree(parse_record(record, page), levels=UNLIMITED, rows=UNLIMITED)
    assert json.dumps(value_from_rows(tree)) == json.dumps(orjson.loads(record))
    for index, row in enumerate(tree.rows):
        assert tree.reveal(row_path(row)) == index


@given(VALUES | TABLES, ENCODER_NAMES, PAGE_SIZES)
def test_embedded_json_is_parsed_alike(value: Json, encoder: str, page: int) -> None:
    text = ENCODERS[encoder]([value])
    assert load_all(parse_embedded_json(text, page)) == [value]
    assert parse_embedded_json(text[:-1].rstrip("] \n"), page) is None


def test_embedded_json_with_a_lone_surrogate() -> None:
    assert parse_embedded_json('["' + "x" * PAGE_BYTES + '\ud800"]') == ["x" * PAGE_BYTES + "\ud800"]


@given(VALUES | TABLES, ENCODER_NAMES, PAGE_SIZES, st.text(min_size=1, max_size=2) | st.sampled_from('aAß"\\0'))
def test_finding_gives_the_same_paths(value: Json, encoder: str, page: int, words: str) -> None:
    record = ENCODERS[encoder](value).encode()
    assert find_all(parse_record(record, page), words) == find_all(parse_record(record), words)


@given(
    VALUES | TABLES,
    ENCODER_NAMES,
    PAGE_SIZES,
    st.integers(0),
    st.sampled_from(['"', "]", "}", "{", ",", ":", "\\", "", "x", "\n"]),
)
def test_damaged_json_is_detected(value: Json, encoder: str, page: int, offset: int, replacement: str) -> None:
    text = ENCODERS[encoder](value)
    position = offset % len(text)
    record = (text[:position] + replacement + text[position + 1 :]).encode()
    by_page, parsed_whole = parse_record(record, page), parse_record(record)
    assert isinstance(by_page, TextLines) == isinstance(parsed_whole, TextLines)
    assert format_json(by_page) == format_json(parsed_whole)


@pytest.mark.parametrize("page", [1, 16, 64])
@pytest.mark.parametrize(
    "value",
    [
        "[NaN, Infinity, -Infinity]",
        '{"n": 1.50, "e": 1E400, "z": -0.0, "big": 12345678901234567890123}',
        f'{{"digits": {"9" * 5_000}, "after": 1}}',
        '["\\ud800", "\\udc00x", "\\ud83d\\ude00", "\\u0000"]',
        '{"long": "' + "x" * 500 + '", "' + "k" * 500 + '": [{}, [], ""]}',
        '["' + "漢😀" * 50 + '", {"漢": ["😀"]}, "é"]',
        "[" + " " * 300 + "]",
        "{" + " " * 300 + "}",
        "[[" + " " * 300 + "], {" + "\n" * 300 + "}]",
        "[1" + " " * 300 + ", 2" + " " * 300 + "]",
        '"' + "a string alone " * 50 + '"',
        "7" * 300,
        "[" * 90 + "1" + "]" * 90,
        '{"a": ' * 90 + "1" + "}" * 90,
    ],
)
def test_the_original_text_is_kept(value: str, page: int) -> None:
    by_page, parsed_whole = parse_record(value.encode(), page), parse_record(value.encode())
    assert not isinstance(parsed_whole, TextLines)
    assert format_json(by_page) == format_json(parsed_whole)
    rows = [JsonTree(parsed, levels=UNLIMITED, rows=UNLIMITED).rows for parsed in (by_page, parsed_whole)]
    first, second = ([render_json_row(row, 60).plain for row in tree_rows] for tree_rows in rows)
    assert first == second


def test_a_duplicate_key_on_another_page_is_reported() -> None:
    record = b'{"id": 1, "x": "%b", "id": 2, "y": [%b], "y": 3}' % (b"x" * 50, b"1, " * 50 + b"1")
    tree = JsonTree(parse_record(record, 20))
    assert [render_json_row(row, 80).plain.rstrip() for row in (tree.rows[0], tree.rows[2])] == [
        "  id: 2  ! duplicate key, last of 2",
        "  y: 3  ! duplicate key, last of 2",
    ]
    assert format_json(parse_record(record, 20)) == format_json(parse_record(record))


# ── memory ────────────────────────────────────────────────────────────────────────────────────────


def test_a_large_record_takes_only_the_memory_of_a_few_pages() -> None:
    items = [{"id": number, "name": "a name " * 10, "place": {"line": 7}} for number in range(40_000)]
    record = orjson.dumps({"first": 1, "items": items, "last": 2})
    assert len(record) > 4_000_000
    tracemalloc.start()
    try:
        tree = JsonTree(parse_record(record))
        lines = [render_json_row(row, 80).plain.rstrip() for row in tree.rows]
        paths = find_all(tree.root.value, "39999")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lines == ["  first: 1", "▸ items [40,000]", "  last: 2"]
    assert paths == [".items[39999].id"]
    assert peak < 20 * PAGE_BYTES


def test_a_long_list_is_not_parsed_for_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    value = parse_record(orjson.dumps([[number] for number in range(100_000)]))
    monkeypatch.setattr(LargeList, "_parse_page", None)
    assert len(JsonTree(value).rows) == 100_000


# ── hostile ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b"[1,[", b"]]")])
@pytest.mark.parametrize("inner", [b"1", b'"%b"' % (b"x" * PAGE_BYTES * 3)])
def test_json_nested_too_deeply_becomes_lines_with_a_note(opening: bytes, closing: bytes, inner: bytes) -> None:
    value = parse_record(opening * 100_000 + inner + closing * 100_000)
    assert isinstance(value, TextLines)
    assert "too deep" in value.note


def test_other_text_has_no_note() -> None:
    value = parse_record(b"plain text")
    assert isinstance(value, TextLines)
    assert value.note == ""


def test_a_page_that_needs_too_much_stack_is_reported() -> None:
    deep = b"[" * 50_000 + b"]" * 50_000
    assert LargeList(deep, [JsonPage(0, len(deep))], [1])[0] is TOO_DEEP
    named = b'"a":' + deep
    value = LargeObject(named, [JsonPage(0, len(named))], {"a": 0}, {})
    assert [render_json_row(row, 60).plain.strip() for row in JsonTree(value).rows] == ["a: nested too deeply to show"]


def test_invalid_utf8_is_shown_as_text() -> None:
    for record in (b'["' + b"x" * PAGE_BYTES + b'\xff"]', b'["' + b"\xf0\x9f" * PAGE_BYTES + b'"]'):
        assert isinstance(parse_record(record), TextLines)
