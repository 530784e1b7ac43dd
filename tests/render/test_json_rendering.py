"""Tests JSON as rows: what is open at first, how a row is rendered, paths, long strings, embedded JSON, finding."""

from __future__ import annotations

import json
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from store.model.entry import Json
from store.text.sanitize import cell_width
from tui.json_document.large_containers import format_json
from tui.json_document.parser import parse_embedded_json, parse_record
from tui.json_document.tree import (
    EMBEDDED,
    MAX_SYNC_CHARACTERS,
    UNLIMITED,
    JsonPath,
    JsonRow,
    JsonTree,
    find_paths,
    format_path,
    parse_path,
    row_path,
)
from tui.json_document.values import DuplicateKeyObject, TextLines, VerbatimNumber
from tui.render.json_row import describe_string, format_folded, render_json_row
from tui.render.word_wrap import wrap_text

HOSTILE = "\x1b]52;c;eA==\x07\x1b[2J\x9b1m\x00[bold]x[/]\u202e\u2066\t漢字👩\u200d👧\r\n"
FORBIDDEN = set("\x1b\x07\x9b\x00\t\r\n\u202e\u2066")


def render_rows(tree: JsonTree, width: int = 80) -> list[str]:
    return [render_json_row(row, width).plain.rstrip() for row in tree.rows]


def keys(tree: JsonTree) -> list[object]:
    return [row.key for row in tree.rows]


# ── opening and closing ───────────────────────────────────────────────────────────────────────────


def test_a_small_value_is_shown_in_full() -> None:
    value = {"message": {"role": "assistant", "content": [{"type": "text", "n": 1}], "none": {}}, "ok": True}
    assert render_rows(JsonTree(value)) == [
        "▾ message",
        '    role: "assistant"',
        "  ▾ content [1]",
        "    ▾ 0",
        '        type: "text"',
        "        n: 1",
        "    none {}",
        "  ok: true",
    ]


def test_long_lists_and_deep_values_are_folded_with_a_description() -> None:
    value = {"deep": {"a": {"b": {"c": {"d": 1}}}}, "many": list(range(1000)), "names": {"type": 1, "text": 2}}
    lines = render_rows(JsonTree(value))
    assert "  ▸ many [1,000]".strip() in [line.strip() for line in lines]
    assert "      ▸ c {d}" in lines
    assert render_rows(JsonTree(value, levels=0)) == ["▸ deep {a}", "▸ many [1,000]", "▸ names {type, text}"]


def test_the_number_of_initial_rows_is_limited() -> None:
    assert len(JsonTree({str(n): {str(m): m for m in range(10)} for n in range(20)}).rows) <= 80
    assert len(JsonTree([[n] for n in range(100_000)]).rows) == 100_000


@pytest.mark.parametrize("value", ["text", 1, None, True, {}, []])
def test_a_scalar_is_one_row(value: Json) -> None:
    tree = JsonTree(value)
    assert len(tree.rows) == 1
    assert row_path(tree.rows[0]) == ()
    assert render_rows(tree)[0].strip() == json.dumps(value)


def test_opening_and_closing() -> None:
    tree = JsonTree({"a": {"b": [1, 2]}, "c": 3}, levels=0)
    tree.open(0)
    tree.open(1)
    assert keys(tree) == ["a", "b", 0, 1, "c"]
    assert tree.parent_index(3) == 1
    assert tree.parent_index(1) == 0
    assert tree.parent_index(0) == 0
    tree.close(0)
    assert keys(tree) == ["a", "c"]


def test_everything_unfolds() -> None:
    value = {"a": [[[[[list(range(30))]]]]], "b": {"c": {"d": {"e": {"f": 1}}}}}
    tree = JsonTree(value, levels=UNLIMITED, rows=UNLIMITED)
    assert len(tree.rows) == 1 + 5 + 30 + 5
    assert all(row.is_open for row in tree.rows if isinstance(row.value, dict | list))


# ── paths ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "."),
        (("output", 3, "arguments"), ".output[3].arguments"),
        (("a b",), '.["a b"]'),
        (("a", "b c", "d"), '.a["b c"].d'),
        ((0, 1, "x"), ".[0][1].x"),
        (("1st", 'say "hi"'), '.["1st"]["say \\"hi\\""]'),
        (("arguments", EMBEDDED, "command"), ".arguments | fromjson | .command"),
        (("arguments", EMBEDDED, 2, ""), '.arguments | fromjson | .[2][""]'),
    ],
)
def test_paths_are_formatted_and_parsed(path: JsonPath, text: str) -> None:
    assert format_path(path) == text
    assert parse_path(text) == path


@given(st.lists(st.text() | st.integers(0, 999) | st.just(EMBEDDED), max_size=6))
def test_any_formatted_path_can_be_parsed(steps: list[Json]) -> None:
    assert parse_path(format_path(tuple(steps))) == tuple(steps)


def test_an_invalid_path_is_none() -> None:
    assert parse_path(".a[") is None
    assert parse_path("a b") is None


def test_a_path_is_revealed_and_found_again() -> None:
    value = {"a": {"b": [{"c": 1}, {"c": {"d": 2}}]}}
    tree = JsonTree(value, levels=0)
    path = ("a", "b", 1, "c", "d")
    index = tree.reveal(path)
    assert index is not None
    assert row_path(tree.rows[index]) == path
    assert tree.reveal(("a", "nowhere")) is None
    folded_tree = JsonTree(value, levels=0)
    assert folded_tree.find_nearest(path) == 0


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    )
)
def test_any_value_parses_unfolds_and_can_be_copied(value: Json) -> None:
    parsed = parse_record(json.dumps(value).encode())
    assert json.loads(format_json(parsed)) == value
    tree = JsonTree(parsed, levels=UNLIMITED, rows=UNLIMITED)
    for index, row in enumerate(tree.rows):
        assert tree.reveal(row_path(row)) == index
        line = render_json_row(row, 40, words="a")
        assert line.cell_length <= 40
        assert not set(line.plain) & FORBIDDEN


# ── parsing ───────────────────────────────────────────────────────────────────────────────────────


def test_numbers_keep_their_spelling() -> None:
    huge = "9" * 5000
    for text in ("1.0", "1e5", "0.10", "-0.0", "1E400", "12345678901234567890.5", huge, "NaN"):
        value = parse_record(f'{{"n": {text}}}'.encode())
        assert format_json(value) == f'{{\n  "n": {text}\n}}'
    assert isinstance(parse_record(b"1e5"), VerbatimNumber)
    assert type(parse_record(b"0.5")) is float


def test_a_duplicate_key_is_reported() -> None:
    value = parse_record(b'{"id": 1, "x": 0, "id": 2}')
    assert isinstance(value, DuplicateKeyObject)
    assert render_rows(JsonTree(value)) == ["  id: 2  ! duplicate key, last of 2", "  x: 0"]


@pytest.mark.parametrize("record", [b"not json\nat all", b'{"a": 1', b"\xff\xfe", b"[" * 100_000, b""])
def test_text_that_is_not_json_becomes_lines(record: bytes) -> None:
    value = parse_record(record)
    assert isinstance(value, TextLines)
    assert len(JsonTree(value).rows) == max(record.count(b"\n") + 1, 1)


def test_lines_are_shown_unchanged() -> None:
    assert render_rows(JsonTree(parse_record(b'plain "text"\n  [b]indented[/b]'))) == [
        '  plain "text"',
        "    [b]indented[/b]",
    ]


# ── strings ───────────────────────────────────────────────────────────────────────────────────────


def test_a_long_string_is_shortened_until_it_is_opened() -> None:
    text = "word " * 100
    tree = JsonTree({"text": text, "next": 1})
    (line, _) = render_rows(tree)
    assert line.startswith('▸ text: "word word')
    assert line.endswith("…  500 characters")
    assert cell_width(line) <= 80
    tree.open(0)
    assert render_rows(tree)[0] == "▾ text: 500 characters"
    pieces = render_rows(tree)[1:-1]
    assert " ".join(piece.strip() for piece in pieces) == text.strip()
    assert all(cell_width(piece) <= 80 for piece in pieces)
    assert {row_path(row) for row in tree.rows[:-1]} == {("text",)}
    assert tree.rows[3].value_row is tree.rows[0]
    tree.close(0)
    assert keys(tree) == ["text", "next"]


def test_open_strings_follow_the_width() -> None:
    tree = JsonTree({"text": "word " * 100, "next": 1})
    tree.open(0)
    before = len(tree.rows)
    tree.rewrap(40)
    assert len(tree.rows) > before
    assert all(cell_width(line) <= 40 for line in render_rows(tree, 40))
    assert keys(tree)[-1] == "next"


def test_strings_too_long_to_wrap_are_closed_when_the_width_changes() -> None:
    tree = JsonTree({"text": "word " * MAX_SYNC_CHARACTERS, "short": "x\ny"})
    tree.open(1)
    tree.open(0)
    (too_long,) = tree.rewrap(40)
    assert keys(tree) == ["text", "short", None, None]
    tree.open(0, list(tree.children(too_long)))
    assert all(cell_width(line) <= 40 for line in render_rows(tree, 40))


def test_a_string_is_described_by_its_type_and_size() -> None:
    assert describe_string("iVBORw0KGgo" + "A" * 40_000) == "image/png, base64, 30.0 kB"
    assert describe_string("data:image/webp;base64," + "A" * 4_000) == "image/webp, base64, 3.0 kB"
    assert describe_string("x\n" * 11) == "12 lines"
    assert describe_string("two words " * 100) == "1,000 characters"


def test_a_string_with_newlines_can_be_opened() -> None:
    tree = JsonTree({"s": 'a\n"b"'})
    assert render_rows(tree) == ['▸ s: "a\\n\\"b\\""  2 lines']
    tree.open(0)
    assert render_rows(tree)[1:] == ["    a", '    "b"']


def test_json_inside_a_string_opens_in_its_place() -> None:
    tree = JsonTree({"arguments": json.dumps({"command": "ls", "more": json.dumps([1])}), "no": "{x}"})
    assert render_rows(tree)[0].endswith("JSON")
    assert tree.open_embedded(0)
    assert render_rows(tree)[:2] == ["▾ arguments  from a string", '    command: "ls"']
    assert format_path(row_path(tree.rows[1])) == ".arguments | fromjson | .command"
    assert tree.open_embedded(2)
    inner = row_path(tree.rows[3])
    assert format_path(inner) == ".arguments | fromjson | .more | fromjson | .[0]"
    assert tree.reveal(inner) == 3
    tree.close_embedded(0)
    assert keys(tree) == ["arguments", "no"]
    assert not tree.open_embedded(1)
    assert tree.reveal(inner) == 3, "a path also leads into strings"


def test_json_inside_a_string_that_is_the_whole_value() -> None:
    tree = JsonTree(json.dumps([{"a": 1}]))
    assert tree.open_embedded(0)
    assert format_path(row_path(tree.rows[1])) == ". | fromjson | .[0]"
    assert JsonTree(json.dumps([{"a": 1}])).reveal((EMBEDDED, 0, "a")) == 2
    assert tree.find_nearest((EMBEDDED, 0)) == 1


def test_other_strings_contain_no_json() -> None:
    for text in ("", "{", "12", "plain", "[1,", 7, None, "{'a': 1}"):
        assert parse_embedded_json(text) is None


@given(st.text(), st.integers(20, 60))
def test_wrapped_text_loses_only_spaces(text: str, width: int) -> None:
    pieces = list(wrap_text(text, width))
    assert all(cell_width(piece) <= width for piece in pieces if len(piece) > 1)
    assert not any(set(piece) & FORBIDDEN for piece in pieces)
    if text.isascii() and text.isprintable():
        assert "".join(pieces).replace(" ", "") == text.replace(" ", "")


def test_a_very_long_line_is_wrapped_like_a_short_one() -> None:
    assert {len(piece) for piece in list(wrap_text("word " * 20_000, 30))[:-1]} == {29}
    assert list(wrap_text("one\r\ntwo\r\n", 30)) == ["one", "two", ""]


def test_a_folded_object_with_many_keys_shows_their_number() -> None:
    assert format_folded({"type": 1, "text": 2}) == "{type, text}"
    assert format_folded({str(n): n for n in range(40)}) == "{40}"
    assert format_folded({"x" * 30: 1, "y" * 30: 2}, 40) == "{2}"
    assert format_folded(list(range(12))) == "[12]"


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


def find_all(value: Json, words: str, embedded: dict[JsonPath, Json] | None = None) -> list[str]:
    return [format_path(path) for path in find_paths(value, words, embedded or {}, lambda: False)]


def test_keys_and_values_are_found_from_the_top_ignoring_case() -> None:
    value = {"Error": 1, "list": [{"x": "an ERROR here"}, "no"], "n": 404, "ok": True, "none": None}
    assert find_all(value, "error") == [".Error", ".list[0].x"]
    assert find_all(value, "40") == [".n"]
    assert find_all(value, "true") == [".ok"]
    assert find_all(value, "null") == [".none"]
    assert find_all(value, "zebra") == []
    assert find_all("a text", "TEXT") == ["."]


def test_finding_includes_open_embedded_json() -> None:
    text = json.dumps({"command": "pytest"})
    value = {"arguments": text}
    assert find_all(value, "pytest") == [".arguments"]
    embedded: dict[JsonPath, Json] = {("arguments",): json.loads(text)}
    assert find_all(value, "pytest", embedded) == [".arguments", ".arguments | fromjson | .command"]


def test_a_cancelled_search_stops() -> None:
    assert list(islice(find_paths(list(range(100_000)), "99999", {}, lambda: True), 1)) == []


def test_a_hit_in_a_long_string_is_visible() -> None:
    row = JsonRow(0, "text", "x" * 5_000 + "needle" + "y" * 5_000, None)
    line = render_json_row(row, 60, "NEEDLE")
    assert "needle" in line.plain
    assert any("on $warning" in str(span.style) for span in line.spans)


# ── hostile text ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("opened", [False, True])
def test_nothing_hostile_survives(opened: bool) -> None:
    evil = HOSTILE * 3
    value = {evil: evil, "list": [evil, {evil: 1}], "long": evil * 1000, "json": json.dumps([evil])}
    tree = JsonTree(value, levels=UNLIMITED, rows=UNLIMITED)
    if opened:
        for index in reversed(range(len(tree.rows))):
            if not tree.open_embedded(index):
                tree.open(index)
    for width in (20, 60):
        for line in render_rows(tree, width):
            assert not set(line) & FORBIDDEN
            assert Content(line).cell_length <= width
    assert "[bold]x[/]" in "".join(render_rows(tree, 120))


def test_hostile_lines_of_text() -> None:
    for line in render_rows(JsonTree(parse_record(HOSTILE.encode() * 50), width=40), 40):
        assert not set(line) & FORBIDDEN
