"""JSON that is read page by page: the same as if it were parsed whole, whatever a page's length and however hostile."""

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

PAGES = st.sampled_from([1, 7, 16, 40, 100])
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=6),
    max_leaves=30,
)
TABLES = st.lists(st.fixed_dictionaries({"id": st.integers(0, 99), "tags": st.lists(st.text(), max_size=3)}))
"""Alike, so that it can be guessed where the next one begins."""

SPELLINGS: dict[str, Callable[[Json], str]] = {
    "close": lambda value: orjson.dumps(value).decode(),
    "wide": json.dumps,
    "as it is": lambda value: json.dumps(value, ensure_ascii=False),
    "indented": lambda value: json.dumps(value, indent=3),
    "spaced": lambda value: json.dumps(value, separators=(" \t,\r\n ", "\n: ")) + "\n" * 30,
}
ANY_SPELLING = st.sampled_from(sorted(SPELLINGS))


def number(value: Json) -> Json:
    return float(value) if isinstance(value, VerbatimNumber) else value


def whole(value: Json) -> Json:
    """All of it, with no page left."""
    if isinstance(value, OBJECT_TYPES):
        return {key: whole(item) for key, item in iter_items(value)}
    return [whole(item) for _, item in iter_items(value)] if isinstance(value, LIST_TYPES) else number(value)


def unfolded(tree: JsonTree) -> Json:
    """From the rows alone."""
    below: dict[JsonRow | None, list[JsonRow]] = {}
    for row in tree.rows:
        below.setdefault(row.parent, []).append(row)

    def value_of(row: JsonRow) -> Json:
        if isinstance(row.value, OBJECT_TYPES):
            return {child.key: value_of(child) for child in below.get(row, [])}
        return (
            [value_of(child) for child in below.get(row, [])]
            if isinstance(row.value, LIST_TYPES)
            else number(row.value)
        )

    return value_of(tree.root)


def found(value: Json, words: str) -> list[str]:
    return [format_path(path) for path in find_paths(value, words, {}, lambda: False)]


# ── the same as if it were parsed whole ───────────────────────────────────────────────────────────


@given(VALUES | TABLES, ANY_SPELLING, PAGES)
def test_unfolding_everything_gives_what_was_written(value: Json, spelling: str, page: int) -> None:
    record = SPELLINGS[spelling](value).encode()
    tree = JsonTree(parse_record(record, page), levels=UNLIMITED, rows=UNLIMITED)
    assert json.dumps(unfolded(tree)) == json.dumps(orjson.loads(record))
    for at, row in enumerate(tree.rows):
        assert tree.reveal(row_path(row)) == at


@given(VALUES | TABLES, ANY_SPELLING, PAGES)
def test_json_in_a_string_is_read_alike(value: Json, spelling: str, page: int) -> None:
    text = SPELLINGS[spelling]([value])
    assert whole(parse_embedded_json(text, page)) == [value]
    assert parse_embedded_json(text[:-1].rstrip("] \n"), page) is None


def test_json_in_a_long_string_with_half_of_a_character() -> None:
    assert parse_embedded_json('["' + "x" * PAGE_BYTES + '\ud800"]') == ["x" * PAGE_BYTES + "\ud800"]


@given(VALUES | TABLES, ANY_SPELLING, PAGES, st.text(min_size=1, max_size=2) | st.sampled_from('aAß"\\0'))
def test_the_same_is_found(value: Json, spelling: str, page: int, words: str) -> None:
    record = SPELLINGS[spelling](value).encode()
    assert found(parse_record(record, page), words) == found(parse_record(record), words)


@given(
    VALUES | TABLES,
    ANY_SPELLING,
    PAGES,
    st.integers(0),
    st.sampled_from(['"', "]", "}", "{", ",", ":", "\\", "", "x", "\n"]),
)
def test_what_is_no_json_is_seen_to_be_none(value: Json, spelling: str, page: int, place: int, other: str) -> None:
    text = SPELLINGS[spelling](value)
    at = place % len(text)
    record = (text[:at] + other + text[at + 1 :]).encode()
    read, all_at_once = parse_record(record, page), parse_record(record)
    assert isinstance(read, TextLines) == isinstance(all_at_once, TextLines)
    assert format_json(read) == format_json(all_at_once)


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
def test_it_stands_as_it_was_written(value: str, page: int) -> None:
    read, all_at_once = parse_record(value.encode(), page), parse_record(value.encode())
    assert not isinstance(all_at_once, TextLines)
    assert format_json(read) == format_json(all_at_once)
    rows = [JsonTree(one, levels=UNLIMITED, rows=UNLIMITED).rows for one in (read, all_at_once)]
    first, second = ([render_json_row(row, 60).plain for row in some] for some in rows)
    assert first == second


def test_a_key_given_again_on_another_page_is_told() -> None:
    record = b'{"id": 1, "x": "%b", "id": 2, "y": [%b], "y": 3}' % (b"x" * 50, b"1, " * 50 + b"1")
    tree = JsonTree(parse_record(record, 20))
    assert [render_json_row(row, 80).plain.rstrip() for row in (tree.rows[0], tree.rows[2])] == [
        "  id: 2  ! duplicate key, last of 2",
        "  y: 3  ! duplicate key, last of 2",
    ]
    assert format_json(parse_record(record, 20)) == format_json(parse_record(record))


# ── little is kept ────────────────────────────────────────────────────────────────────────────────


def test_a_large_record_takes_no_more_room_than_a_few_pages() -> None:
    tables = [{"id": number, "name": "a name " * 10, "place": {"line": 7}} for number in range(40_000)]
    record = orjson.dumps({"first": 1, "items": tables, "last": 2})
    assert len(record) > 4_000_000
    tracemalloc.start()
    try:
        tree = JsonTree(parse_record(record))
        lines = [render_json_row(row, 80).plain.rstrip() for row in tree.rows]
        found_last = found(tree.root.value, "39999")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lines == ["  first: 1", "▸ items [40,000]", "  last: 2"]
    assert found_last == [".items[39999].id"]
    assert most < 20 * PAGE_BYTES


def test_a_long_list_at_the_top_is_not_parsed_to_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    value = parse_record(orjson.dumps([[number] for number in range(100_000)]))
    monkeypatch.setattr(LargeList, "_parse_page", None)
    assert len(JsonTree(value).rows) == 100_000


# ── hostile ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b"[1,[", b"]]")])
@pytest.mark.parametrize("inner", [b"1", b'"%b"' % (b"x" * PAGE_BYTES * 3)])
def test_what_is_nested_too_deep_is_shown_as_lines_and_said(opening: bytes, closing: bytes, inner: bytes) -> None:
    value = parse_record(opening * 100_000 + inner + closing * 100_000)
    assert isinstance(value, TextLines)
    assert "too deep" in value.note


def test_what_is_no_json_for_another_reason_says_nothing() -> None:
    value = parse_record(b"plain text")
    assert isinstance(value, TextLines)
    assert value.note == ""


def test_a_page_that_cannot_be_parsed_where_little_stack_is_left_says_so() -> None:
    deep = b"[" * 50_000 + b"]" * 50_000
    assert LargeList(deep, [JsonPage(0, len(deep))], [1])[0] is TOO_DEEP
    named = b'"a":' + deep
    value = LargeObject(named, [JsonPage(0, len(named))], {"a": 0}, {})
    assert [render_json_row(row, 60).plain.strip() for row in JsonTree(value).rows] == [
        "a: nested too deeply to show"
    ]


def test_broken_letters_are_shown_as_text() -> None:
    for record in (b'["' + b"x" * PAGE_BYTES + b'\xff"]', b'["' + b"\xf0\x9f" * PAGE_BYTES + b'"]'):
        assert isinstance(parse_record(record), TextLines)
