"""These tests read JSON lines and folders in any condition: too long, too deep, incomplete, looped or forbidden."""

from __future__ import annotations

import json
import os
import resource
import tempfile
from io import BufferedReader
from pathlib import Path

import pytest
import zstandard
from unprivileged import without_rights

from store.sources.contract import Problem
from store.sources.kit import jsonl
from store.sources.kit.jsonl import (
    LineCache,
    UnreadableText,
    read_json_file,
    read_json_lines,
    read_lines,
    split_records,
    tree_stamp,
    walk_files,
)
from store.sources.kit.stamps import _ReadyFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.jsonl"


def values(path: Path, problems: list[Problem]) -> list[object]:
    return [line.value for line in read_json_lines(path, problems)]


def test_lines_have_their_bytes_and_offsets(path: Path) -> None:
    path.write_bytes(b'{"a": 1}\n\n{"b":"\xc3\xa9"}\r\n')
    problems: list[Problem] = []
    assert [tuple(line) for line in read_json_lines(path, problems)] == [
        (0, b'{"a": 1}', {"a": 1}),
        (10, b'{"b":"\xc3\xa9"}', {"b": "é"}),
    ]
    assert problems == []


def test_a_bad_line_is_one_problem_and_the_others_are_read(path: Path) -> None:
    path.write_bytes(b'1\n\x00\xff\xfe\n{"cut": \n' + b"[" * 100_000 + b"\n2\n")
    problems: list[Problem] = []
    assert values(path, problems) == [1, 2]
    assert [problem.where for problem in problems] == [f"{path}:{offset}" for offset in (2, 6, 15)]


def test_a_bad_line_is_kept_as_text(path: Path) -> None:
    path.write_bytes(b'1\n  {"cut": \xff\r\n2\n')
    problems: list[Problem] = []
    assert list(read_lines(path, problems))[1] == (2, b'  {"cut": \xff', '  {"cut": \ufffd')
    assert [problem.where for problem in problems] == [f"{path}:2"]


@pytest.mark.parametrize(
    ("line", "expected", "rest"),
    [
        (b'{"a": 1}{"b": 2}', [(0, {"a": 1}), (8, {"b": 2})], None),
        (b' {"a": "}{"} \t{"b": [{}]}{}', [(1, {"a": "}{"}), (14, {"b": [{}]}), (25, {})], None),
        (b'{"a": "\\"}{"}{"b": 2}', [(0, {"a": '"}{'}), (13, {"b": 2})], None),
        (b'{"a": 1}, {"b": 2}', [(0, {"a": 1})], (8, b', {"b": 2}')),
        (b'{"a": 1} {"b": ', [(0, {"a": 1})], (9, b'{"b": ')),
        (b'{"a": 1}}{"b": 2}', [(0, {"a": 1})], (8, b'}{"b": 2}')),
        (b'{"a": tru}{"b": 2}', [], (0, b'{"a": tru}{"b": 2}')),
        (b'[1]{"b": 2}', [], (0, b'[1]{"b": 2}')),
        (b'{"a": "half{"b": 2}', [], (0, b'{"a": "half{"b": 2}')),
    ],
)
def test_two_records_on_one_line_are_both_read(
    path: Path, line: bytes, expected: list[tuple[int, object]], rest: tuple[int, bytes] | None
) -> None:
    path.write_bytes(line + b"\n7\n")
    problems: list[Problem] = []
    lines = list(read_lines(path, problems))
    readable = [(line.offset, line.value) for line in lines if not isinstance(line.value, UnreadableText)]
    assert readable == [*expected, (len(line) + 1, 7)]
    assert [(line.offset, line.data) for line in lines if isinstance(line.value, UnreadableText)] == [rest] * bool(rest)
    assert len(problems) == bool(rest)
    for record in lines:
        assert path.read_bytes()[record.offset :].startswith(record.data)


def test_a_last_line_of_two_records_is_read_when_both_are_complete(path: Path) -> None:
    path.write_bytes(b'{"a": 1}{"b": 2}')
    assert values(path, []) == [{"a": 1}, {"b": 2}]
    path.write_bytes(b'{"a": 1}{"b": ')
    problems: list[Problem] = []
    assert (values(path, problems), problems) == ([], [])


@pytest.mark.parametrize("line", [b"{}" * 500_000, b'\\"' * 500_000, b"{" * 500_000, b'{"' * 500_000])
def test_a_hostile_line_is_split_in_linear_time(line: bytes) -> None:
    records, rest = split_records(line)
    assert len(records) <= jsonl.MAX_RECORDS_PER_LINE
    assert rest is not None
    assert b"".join(record.data for record in records) + rest.data == line


def test_an_invalid_byte_is_replaced_by_one_character(path: Path) -> None:
    path.write_bytes(b'{"a": "x\xffy"}\n')
    (line,) = read_json_lines(path, [])
    assert (line.value, line.data) == ({"a": "x\ufffdy"}, b'{"a": "x\xffy"}')


def test_the_last_line_is_used_when_it_is_complete(path: Path) -> None:
    problems: list[Problem] = []
    path.write_bytes(b'{"a": 1}\n{"b": 2}')
    assert values(path, problems) == [{"a": 1}, {"b": 2}]
    path.write_bytes(b'{"a": 1}\n{"b": ')
    assert values(path, problems) == [{"a": 1}]
    assert problems == []


def write_long_line(path: Path, megabytes: int, ending: bytes) -> None:
    with path.open("wb") as file:
        file.write(b'{"before": 1}\n"')
        for _ in range(megabytes):
            file.write(b"x" * (1 << 20))
        file.write(b'"' + ending)


@pytest.mark.parametrize(
    ("megabytes", "kept_megabytes", "reason"),
    [
        (40, 40, "The line has 41,943,043 bytes and is too long to be read. It is kept in pieces."),
        (400, 256, "The line has 419,430,403 bytes and is too long to be read. Its first 256 MB are kept in pieces."),
    ],
)
def test_a_line_that_is_too_long_is_kept_in_pieces(
    path: Path, megabytes: int, kept_megabytes: int, reason: str
) -> None:
    write_long_line(path, megabytes, b'\n{"after": 1}\n')
    memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    problems: list[Problem] = []
    sizes: list[int] = []
    with path.open("rb") as file:
        for line in read_lines(path, problems):
            file.seek(line.offset)
            assert file.read(len(line.data)) == line.data
            sizes.append(len(line.data) if isinstance(line.value, UnreadableText) else 0)
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before
    assert (sizes[0], sizes[-1]) == (0, 0)
    # The line also has two quotes.
    assert (sum(sizes) >> 20, max(sizes)) == (kept_megabytes, jsonl.PIECE_BYTES)
    assert problems == [Problem(f"{path}:14", reason)]
    assert growth < 4 * jsonl.MAX_LINE_BYTES // 1024


def test_a_long_last_line_waits_for_its_end(path: Path) -> None:
    write_long_line(path, 40, b"")
    problems: list[Problem] = []
    assert values(path, problems) == [{"before": 1}]
    assert problems == [Problem(f"{path}:14", "The last line is longer than 32 MB and has no end yet.")]


def test_a_long_line_of_a_packed_file_is_kept_in_pieces(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 2000)
    monkeypatch.setattr(jsonl, "PIECE_BYTES", 1500)
    packed = path.with_name("a.jsonl.zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(b'{"a": 1}\n"' + b"x" * 5000 + b'"\n{"b": 2}\n'))
    problems: list[Problem] = []
    lines = list(read_lines(packed, problems))
    assert [line.data for line in (lines[0], lines[-1])] == [b'{"a": 1}', b'{"b": 2}']
    assert b"".join(line.data for line in lines[1:-1]) == b'"' + b"x" * 5000 + b'"'
    assert [problem.where for problem in problems] == [f"{packed}:9"]


def test_packed_lines_are_read(path: Path) -> None:
    path.write_bytes(b"".join(json.dumps({"n": n, "x": "y" * n}).encode() + b"\n" for n in range(500)))
    packed = path.with_name("a.jsonl.zst")
    # A packer that appends writes several frames.
    half = path.read_bytes().index(b"\n", 30_000) + 1
    pieces = path.read_bytes()[:half], path.read_bytes()[half:]
    packed.write_bytes(b"".join(zstandard.ZstdCompressor().compress(piece) for piece in pieces))
    assert list(read_json_lines(packed, [])) == list(read_json_lines(path, []))


def test_broken_zstd_and_zstd_that_unpacks_to_too_much_are_problems(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = path.with_name("a.jsonl.zst")
    packed.write_bytes(b"not packed at all\n")
    problems: list[Problem] = []
    assert values(packed, problems) == []
    monkeypatch.setattr(jsonl, "MAX_LINES_FILE_BYTES", 1 << 20)
    packed.write_bytes(zstandard.ZstdCompressor().compress(b"1\n" * (1 << 20)))
    assert len(values(packed, problems)) == 1 << 19
    assert [problem.where for problem in problems] == [str(packed)] * 2


def test_a_path_that_cannot_be_opened_is_a_problem(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "not there", "a\0b"):
        problems: list[Problem] = []
        assert list(read_json_lines(tmp_path / name, problems)) == []
        assert read_json_file(tmp_path / name, problems) is None
        assert len(problems) == 2


def test_a_file_with_one_json_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": [1]}')
    problems: list[Problem] = []
    assert read_json_file(path, problems) == {"a": [1]}
    path.write_text("[" * 5000 + "]" * 5000)
    assert read_json_file(path, problems) is None
    monkeypatch.setattr(jsonl, "MAX_JSON_FILE_BYTES", 100)
    path.write_text(json.dumps("x" * 200))
    assert read_json_file(path, problems) is None
    assert [problem.where for problem in problems] == [str(path)] * 2


# ── folders ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b/2.jsonl", "b/1.jsonl", "a/deep/er/3.jsonl", "a/other.txt", "0.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    return tmp_path


def names(tree: Path, problems: list[Problem] | None = None, depth: int = 12) -> list[str]:
    paths = walk_files(tree, [] if problems is None else problems, depth=depth)
    return [path.relative_to(tree).as_posix() for path in paths]


def test_a_walk_is_sorted_and_limited_in_depth(tree: Path) -> None:
    assert names(tree) == ["0.jsonl", "a/deep/er/3.jsonl", "b/1.jsonl", "b/2.jsonl"]
    assert names(tree, depth=1) == ["0.jsonl", "b/1.jsonl", "b/2.jsonl"]


def test_links_are_followed_but_loops_are_not(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "4.jsonl").write_text("{}\n")
    (tree / "c").symlink_to(elsewhere)
    (tree / "b/loop").symlink_to(tree)
    (tree / "b/self.jsonl").symlink_to(tree / "b/self.jsonl")
    (tree / "b/gone.jsonl").symlink_to(tree / "nowhere")
    os.mkfifo(tree / "b/pipe.jsonl")
    problems: list[Problem] = []
    assert names(tree, problems) == ["0.jsonl", "a/deep/er/3.jsonl", "b/1.jsonl", "b/2.jsonl", "c/4.jsonl"]
    assert [problem.where for problem in problems] == [str(tree / "b/pipe.jsonl")]


def test_a_folder_without_permission_is_a_problem() -> None:
    problems: list[Problem] = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in ("a", "b"):
            (tree / name).mkdir()
            (tree / name / "1.jsonl").write_text("{}\n")
        (tree / "b/1.jsonl").chmod(0)
        (tree / "a").chmod(0)
        tree.chmod(0o755)
        with without_rights():
            found = names(tree, problems)
            refused = list(read_json_lines(tree / "b/1.jsonl", problems))
        (tree / "a").chmod(0o700)
    assert (found, refused) == (["b/1.jsonl"], [])
    assert [problem.where for problem in problems] == [str(tree / "a"), str(tree / "b/1.jsonl")]


def test_a_folder_that_is_not_there_is_a_problem(tree: Path) -> None:
    problems: list[Problem] = []
    assert names(tree / "nowhere", problems) == []
    assert len(problems) == 1
    assert tree_stamp(tree / "nowhere") == ""


def test_a_stamp_differs_when_a_file_below_differs(tree: Path) -> None:
    stamps = [tree_stamp(tree)]
    assert tree_stamp(tree) == stamps[0]
    (tree / "a/other.txt").write_text("not asked for")
    assert tree_stamp(tree) == stamps[0]
    with (tree / "0.jsonl").open("a") as file:
        file.write("{}\n")
    stamps.append(tree_stamp(tree))
    (tree / "b/5.jsonl").write_text("{}\n")
    stamps.append(tree_stamp(tree))
    (tree / "b/1.jsonl").unlink()
    stamps.append(tree_stamp(tree))
    (tree / "b/2.jsonl").rename(tree / "b/1.jsonl")
    stamps.append(tree_stamp(tree))
    os.utime(tree / "b/1.jsonl", (-5, -5))  # before 1970
    stamps.append(tree_stamp(tree))
    assert len(set(stamps)) == 6


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        b'{"a": 1}\n[2]\n',
        b'{"a": 1}\r\n\r\n[2]\r\n3',
        b'{"a": 1}\n{"broken": \n[2]\n',
        b'{"a": 1}\n{"is still writ',
        b'{"a": 1}{"b": 2}\n{"a": 1}rubbish\n{"c": 3} {"d": 4}',
        b'{"a": "\xff\xfe"}\n"\\ud800"\n',
        b"[" * 300 + b"]" * 300 + b"\n1\n",
        b'"' + b"x" * 3000 + b'"\n2\n',
    ],
)
def test_cached_lines_equal_lines_that_are_read_one_by_one(
    tmp_path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 2000)
    (path := tmp_path / "a.jsonl").write_bytes(data)
    expected_problems: list[Problem] = []
    expected = list(read_lines(path, expected_problems))
    cache = LineCache(lambda line: line)
    for _ in range(2):
        problems: list[Problem] = []
        assert list(cache.read(path, problems)) == expected
        assert problems == expected_problems
    monkeypatch.setattr(jsonl, "MAX_CACHED_FILE_BYTES", 0)
    assert list(cache.read(path, [])) == expected


def test_a_file_that_would_wait_for_data_is_an_error() -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with BufferedReader(_ReadyFile(reader)) as file:
        os.write(writer, b"some")
        assert file.read1(10) == b"some"
        with pytest.raises(OSError, match="nothing to read"):
            file.read(10)
        os.close(writer)
        assert file.read(10) == b""
