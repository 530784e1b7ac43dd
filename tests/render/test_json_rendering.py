"""JSON as rows: what is open at first, what a row says, paths, long strings, JSON in strings, finding."""

from __future__ import annotations

import json
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from store.model.entry import Json
from store.text.sanitize import cells
from tui.json_document.large_containers import spelled
from tui.json_document.parser import json_in, parse
from tui.json_document.tree import EVERYTHING, INSIDE, SHORT, Path, Row, Tree, find, path_from, path_of, spell
from tui.json_document.values import Lines, Number, Repeated
from tui.render.json_row import about, folded, row_line
from tui.render.word_wrap import wrapped

HOSTILE = "\x1b]52;c;eA==\x07\x1b[2J\x9b1m\x00[bold]x[/]\u202e\u2066\t漢字👩\u200d👧\r\n"
FORBIDDEN = set("\x1b\x07\x9b\x00\t\r\n\u202e\u2066")


def shown(tree: Tree, width: int = 80) -> list[str]:
    return [row_line(row, width).plain.rstrip() for row in tree.rows]


def keys(tree: Tree) -> list[object]:
    return [row.key for row in tree.rows]


# ── what is open ──────────────────────────────────────────────────────────────────────────────────


def test_a_small_value_is_seen_whole() -> None:
    value = {"message": {"role": "assistant", "content": [{"type": "text", "n": 1}], "none": {}}, "ok": True}
    assert shown(Tree(value)) == [
        "▾ message",
        '    role: "assistant"',
        "  ▾ content [1]",
        "    ▾ 0",
        '        type: "text"',
        "        n: 1",
        "    none {}",
        "  ok: true",
    ]


def test_long_lists_and_deep_things_are_folded_and_say_what_is_in_them() -> None:
    value = {"deep": {"a": {"b": {"c": {"d": 1}}}}, "many": list(range(1000)), "names": {"type": 1, "text": 2}}
    lines = shown(Tree(value))
    assert "  ▸ many [1,000]".strip() in [line.strip() for line in lines]
    assert "      ▸ c {d}" in lines
    assert shown(Tree(value, levels=0)) == ["▸ deep {a}", "▸ many [1,000]", "▸ names {type, text}"]


def test_only_so_many_rows_at_first() -> None:
    assert len(Tree({str(n): {str(m): m for m in range(10)} for n in range(20)}).rows) <= 80
    assert len(Tree([[n] for n in range(100_000)]).rows) == 100_000


@pytest.mark.parametrize("value", ["text", 1, None, True, {}, []])
def test_a_value_that_is_no_container_is_one_row(value: Json) -> None:
    tree = Tree(value)
    assert len(tree.rows) == 1
    assert path_of(tree.rows[0]) == ()
    assert shown(tree)[0].strip() == json.dumps(value)


def test_opening_and_closing() -> None:
    tree = Tree({"a": {"b": [1, 2]}, "c": 3}, levels=0)
    tree.open(0)
    tree.open(1)
    assert keys(tree) == ["a", "b", 0, 1, "c"]
    assert tree.parent(3) == 1
    assert tree.parent(1) == 0
    assert tree.parent(0) == 0
    tree.close(0)
    assert keys(tree) == ["a", "c"]


def test_everything_unfolds() -> None:
    value = {"a": [[[[[list(range(30))]]]]], "b": {"c": {"d": {"e": {"f": 1}}}}}
    tree = Tree(value, levels=EVERYTHING, rows=EVERYTHING)
    assert len(tree.rows) == 1 + 5 + 30 + 5
    assert all(row.open for row in tree.rows if isinstance(row.value, dict | list))


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
        (("arguments", INSIDE, "command"), ".arguments | fromjson | .command"),
        (("arguments", INSIDE, 2, ""), '.arguments | fromjson | .[2][""]'),
    ],
)
def test_paths_are_spelled_and_read(path: Path, text: str) -> None:
    assert spell(path) == text
    assert path_from(text) == path


@given(st.lists(st.text() | st.integers(0, 999) | st.just(INSIDE), max_size=6))
def test_any_path_can_be_read_again(steps: list[Json]) -> None:
    assert path_from(spell(tuple(steps))) == tuple(steps)


def test_what_is_no_path() -> None:
    assert path_from(".a[") is None
    assert path_from("a b") is None


def test_a_path_is_revealed_and_found_again() -> None:
    value = {"a": {"b": [{"c": 1}, {"c": {"d": 2}}]}}
    tree = Tree(value, levels=0)
    path = ("a", "b", 1, "c", "d")
    at = tree.reveal(path)
    assert at is not None
    assert path_of(tree.rows[at]) == path
    assert tree.reveal(("a", "nowhere")) is None
    folded_tree = Tree(value, levels=0)
    assert folded_tree.nearest(path) == 0


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    )
)
def test_any_value_parses_unfolds_and_can_be_copied(value: Json) -> None:
    parsed = parse(json.dumps(value).encode())
    assert json.loads(spelled(parsed)) == value
    tree = Tree(parsed, levels=EVERYTHING, rows=EVERYTHING)
    for index, row in enumerate(tree.rows):
        assert tree.reveal(path_of(row)) == index
        line = row_line(row, 40, words="a")
        assert line.cell_length <= 40
        assert not set(line.plain) & FORBIDDEN


# ── what was written ──────────────────────────────────────────────────────────────────────────────


def test_numbers_keep_their_spelling() -> None:
    huge = "9" * 5000
    for text in ("1.0", "1e5", "0.10", "-0.0", "1E400", "12345678901234567890.5", huge, "NaN"):
        value = parse(f'{{"n": {text}}}'.encode())
        assert spelled(value) == f'{{\n  "n": {text}\n}}'
    assert isinstance(parse(b"1e5"), Number)
    assert type(parse(b"0.5")) is float


def test_a_key_given_twice_is_told() -> None:
    value = parse(b'{"id": 1, "x": 0, "id": 2}')
    assert isinstance(value, Repeated)
    assert shown(Tree(value)) == ["  id: 2  ! given 2 times, this is the last", "  x: 0"]


@pytest.mark.parametrize("record", [b"not json\nat all", b'{"a": 1', b"\xff\xfe", b"[" * 100_000, b""])
def test_what_is_no_json_is_lines(record: bytes) -> None:
    value = parse(record)
    assert isinstance(value, Lines)
    assert len(Tree(value).rows) == max(record.count(b"\n") + 1, 1)


def test_lines_stand_as_they_are() -> None:
    assert shown(Tree(parse(b'plain "text"\n  [b]indented[/b]'))) == ['  plain "text"', "    [b]indented[/b]"]


# ── strings ───────────────────────────────────────────────────────────────────────────────────────


def test_a_long_string_is_shortened_until_it_is_opened() -> None:
    text = "word " * 100
    tree = Tree({"text": text, "next": 1})
    (line, _) = shown(tree)
    assert line.startswith('▸ text: "word word')
    assert line.endswith("…  500 characters")
    assert cells(line) <= 80
    tree.open(0)
    assert shown(tree)[0] == "▾ text: 500 characters"
    pieces = shown(tree)[1:-1]
    assert " ".join(piece.strip() for piece in pieces) == text.strip()
    assert all(cells(piece) <= 80 for piece in pieces)
    assert {path_of(row) for row in tree.rows[:-1]} == {("text",)}
    assert tree.rows[3].whole is tree.rows[0]
    tree.close(0)
    assert keys(tree) == ["text", "next"]


def test_open_strings_follow_the_width() -> None:
    tree = Tree({"text": "word " * 100, "next": 1})
    tree.open(0)
    before = len(tree.rows)
    tree.wrap(40)
    assert len(tree.rows) > before
    assert all(cells(line) <= 40 for line in shown(tree, 40))
    assert keys(tree)[-1] == "next"


def test_strings_too_long_to_wait_for_are_folded_when_the_width_changes() -> None:
    tree = Tree({"text": "word " * SHORT, "short": "x\ny"})
    tree.open(1)
    tree.open(0)
    (left,) = tree.wrap(40)
    assert keys(tree) == ["text", "short", None, None]
    tree.open(0, list(tree.children(left)))
    assert all(cells(line) <= 40 for line in shown(tree, 40))


def test_what_a_string_seems_to_be() -> None:
    assert about("iVBORw0KGgo" + "A" * 40_000) == "image/png, base64, 30 KB"
    assert about("data:image/webp;base64," + "A" * 4_000) == "image/webp, base64, 3 KB"
    assert about("x\n" * 11) == "12 lines"
    assert about("two words " * 100) == "1,000 characters"


def test_newlines_in_strings_are_spelled_and_make_them_open() -> None:
    tree = Tree({"s": 'a\n"b"'})
    assert shown(tree) == ['▸ s: "a\\n\\"b\\""  2 lines']
    tree.open(0)
    assert shown(tree)[1:] == ["    a", '    "b"']


def test_json_inside_a_string_opens_in_its_place() -> None:
    tree = Tree({"arguments": json.dumps({"command": "ls", "more": json.dumps([1])}), "no": "{x}"})
    assert shown(tree)[0].endswith("JSON")
    assert tree.open_inside(0)
    assert shown(tree)[:2] == ["▾ arguments  from a string", '    command: "ls"']
    assert spell(path_of(tree.rows[1])) == ".arguments | fromjson | .command"
    assert tree.open_inside(2)
    inner = path_of(tree.rows[3])
    assert spell(inner) == ".arguments | fromjson | .more | fromjson | .[0]"
    assert tree.reveal(inner) == 3
    tree.close_inside(0)
    assert keys(tree) == ["arguments", "no"]
    assert not tree.open_inside(1)
    assert tree.reveal(inner) == 3, "a path leads into strings, too"


def test_json_inside_a_string_that_is_the_whole_value() -> None:
    tree = Tree(json.dumps([{"a": 1}]))
    assert tree.open_inside(0)
    assert spell(path_of(tree.rows[1])) == ". | fromjson | .[0]"
    assert Tree(json.dumps([{"a": 1}])).reveal((INSIDE, 0, "a")) == 2
    assert tree.nearest((INSIDE, 0)) == 1


def test_what_is_no_json_inside() -> None:
    for text in ("", "{", "12", "plain", "[1,", 7, None, "{'a': 1}"):
        assert json_in(text) is None


@given(st.text(), st.integers(20, 60))
def test_wrapped_text_loses_nothing_but_blanks(text: str, width: int) -> None:
    pieces = list(wrapped(text, width))
    assert all(cells(piece) <= width for piece in pieces if len(piece) > 1)
    assert not any(set(piece) & FORBIDDEN for piece in pieces)
    if text.isascii() and text.isprintable():
        assert "".join(pieces).replace(" ", "") == text.replace(" ", "")


def test_a_line_of_megabytes_breaks_as_a_short_one_does() -> None:
    assert {len(piece) for piece in list(wrapped("word " * 20_000, 30))[:-1]} == {29}
    assert list(wrapped("one\r\ntwo\r\n", 30)) == ["one", "two", ""]


def test_a_folded_object_with_many_names_says_how_many() -> None:
    assert folded({"type": 1, "text": 2}) == "{type, text}"
    assert folded({str(n): n for n in range(40)}) == "{40}"
    assert folded({"x" * 30: 1, "y" * 30: 2}, 40) == "{2}"
    assert folded(list(range(12))) == "[12]"


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


def found(value: Json, words: str, insides: dict[Path, Json] | None = None) -> list[str]:
    return [spell(path) for path in find(value, words, insides or {}, lambda: False)]


def test_keys_and_values_are_found_from_the_top_whatever_their_case() -> None:
    value = {"Error": 1, "list": [{"x": "an ERROR here"}, "no"], "n": 404, "ok": True, "none": None}
    assert found(value, "error") == [".Error", ".list[0].x"]
    assert found(value, "40") == [".n"]
    assert found(value, "true") == [".ok"]
    assert found(value, "null") == [".none"]
    assert found(value, "zebra") == []
    assert found("a text", "TEXT") == ["."]


def test_finding_goes_into_strings_whose_json_is_open() -> None:
    text = json.dumps({"command": "pytest"})
    value = {"arguments": text}
    assert found(value, "pytest") == [".arguments"]
    inside: dict[Path, Json] = {("arguments",): json.loads(text)}
    assert found(value, "pytest", inside) == [".arguments", ".arguments | fromjson | .command"]


def test_finding_stops_when_nobody_wants_to_know() -> None:
    assert list(islice(find(list(range(100_000)), "99999", {}, lambda: True), 1)) == []


def test_what_is_found_in_a_long_string_is_shown() -> None:
    row = Row(0, "text", "x" * 5_000 + "needle" + "y" * 5_000, None)
    line = row_line(row, 60, "NEEDLE")
    assert "needle" in line.plain
    assert any("on $warning" in str(span.style) for span in line.spans)


# ── hostile ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("opened", [False, True])
def test_nothing_hostile_survives(opened: bool) -> None:
    evil = HOSTILE * 3
    value = {evil: evil, "list": [evil, {evil: 1}], "long": evil * 1000, "json": json.dumps([evil])}
    tree = Tree(value, levels=EVERYTHING, rows=EVERYTHING)
    if opened:
        for at in reversed(range(len(tree.rows))):
            if not tree.open_inside(at):
                tree.open(at)
    for width in (20, 60):
        for line in shown(tree, width):
            assert not set(line) & FORBIDDEN
            assert Content(line).cell_length <= width
    assert "[bold]x[/]" in "".join(shown(tree, 120))


def test_hostile_lines_of_text() -> None:
    for line in shown(Tree(parse(HOSTILE.encode() * 50), width=40), 40):
        assert not set(line) & FORBIDDEN
