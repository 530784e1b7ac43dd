"""Checks the scan of files and folders: every place is named, and what was not looked into too."""

from __future__ import annotations

import gzip
import sqlite3
import zipfile
from pathlib import Path

import pytest
from command_line import CommandLine

from store.leaks.file_scan import CHUNK_BYTES, FileScan
from store.leaks.rule_table import RULES_BY_ID
from store.leaks.scanner import load_scanner
from store.model.leak import Leak, NotScanned

AWS_KEY = RULES_BY_ID["aws-access-key"].example
GROQ_KEY = RULES_BY_ID["groq-key"].example
SCANNER = load_scanner()


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "no store" / "store.db")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


def scan(path: Path) -> FileScan:
    result = FileScan(SCANNER)
    result.scan(path)
    return result


def places(leak: Leak) -> list[tuple[str, int | None]]:
    return [(Path(place.path or "").name, place.line) for place in leak.places]


def test_one_value_is_one_leak_with_all_its_places(folder: Path) -> None:
    (folder / "a.txt").write_text(f"first\nkey {AWS_KEY}\n\n{AWS_KEY} {AWS_KEY}\n")
    (folder / "b.txt").write_text(f"{GROQ_KEY}\n{AWS_KEY}")
    found = {leak.rule: leak for leak in scan(folder).leaks}
    assert places(found["aws-access-key"]) == [("a.txt", 2), ("a.txt", 4), ("b.txt", 2)]
    assert places(found["groq-key"]) == [("b.txt", 1)]
    assert len({leak.fingerprint for leak in found.values()}) == 2


def test_escapes_of_json_are_decoded(folder: Path) -> None:
    escaped = "".join(f"\\u{ord(character):04x}" for character in AWS_KEY)
    nested = "".join(f"\\\\\\\\u{ord(character):04X}" for character in GROQ_KEY)
    address = r"postgresql:\/\/reporting:tR7w-kq93ZbLx@db.internal\/sales"
    (folder / "a.jsonl").write_text(
        f'{{"a":1}}\n{{"text":"{escaped}"}}\n{{"text":"{nested}"}}\n{{"url":"{address}"}}\n'
    )
    assert {leak.rule: places(leak) for leak in scan(folder).leaks} == {
        "aws-access-key": [("a.jsonl", 2)],
        "groq-key": [("a.jsonl", 3)],
        "url-password": [("a.jsonl", 4)],
    }


def test_a_secret_on_the_border_of_chunks_is_found_once_with_its_line(folder: Path) -> None:
    for shift in (-10, 0, 10):
        lines = b"x" * 99 + b"\n"
        before = lines * (CHUNK_BYTES // 100) + b"y" * (CHUNK_BYTES % 100 - 10 + shift) + b" "
        text = before + AWS_KEY.encode() + b"\n" + lines * (CHUNK_BYTES // 100) + GROQ_KEY.encode()
        (folder / "large.txt").write_bytes(text)
        assert {leak.rule: places(leak) for leak in scan(folder).leaks} == {
            "aws-access-key": [("large.txt", text[: text.index(AWS_KEY.encode())].count(b"\n") + 1)],
            "groq-key": [("large.txt", text.count(b"\n") + 1)],
        }


def test_an_escape_on_the_border_of_chunks_is_decoded(folder: Path) -> None:
    escaped = "".join(f"\\u{ord(character):04x}" for character in AWS_KEY).encode()
    for shift in range(6):
        (folder / "large.txt").write_bytes(b"x" * (CHUNK_BYTES - 60 - shift) + b" " + escaped + b" ")
        assert [leak.rule for leak in scan(folder).leaks] == ["aws-access-key"]


def test_databases_are_read_row_by_row(folder: Path) -> None:
    with sqlite3.connect(folder / "agent.db") as connection:
        connection.execute('create table "odd ""name" (id integer primary key, body text, data blob)')
        connection.execute('insert into "odd ""name" (body, data) values (?, ?)', (f"say {AWS_KEY}", b"\0\1"))
        connection.execute('insert into "odd ""name" (body, data) values (1, ?)', (f"say {GROQ_KEY}".encode(),))
    connection.close()
    result = scan(folder)
    assert {(leak.rule, leak.places[0].field) for leak in result.leaks} == {
        ("aws-access-key", 'odd "name.body'),
        ("groq-key", 'odd "name.data'),
    }
    assert [item.reason for item in result.not_scanned] == ["values that are not text"]


def test_what_cannot_be_looked_into_is_named(folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("key.txt", AWS_KEY)
    (folder / "b.gz").write_bytes(gzip.compress(AWS_KEY.encode()))
    (folder / "c.bin").write_bytes(b"\0\1\2" + AWS_KEY.encode())
    (folder / "d.txt").write_text("data:image/png;base64,iVBORw0KGgo")
    result = scan(folder)
    assert result.leaks == []
    assert {Path(item.path).name: item.reason for item in result.not_scanned} == {
        "a.zip": "a zip archive",
        "b.gz": "compressed with gzip",
        "c.bin": "not text",
        "d.txt": "base64 content",
    }


def test_a_database_whose_end_is_missing_is_named(folder: Path) -> None:
    connection = sqlite3.connect(folder / "whole.db")
    connection.execute("create table t (a)")
    connection.execute("insert into t values (?)", (AWS_KEY,))
    connection.commit()
    connection.close()
    whole = (folder / "whole.db").read_bytes()
    (folder / "cut.db").write_bytes(whole[:5000])
    found = scan(folder)
    assert [places(leak) for leak in found.leaks] == [[("whole.db", None)]]
    assert found.not_scanned == [NotScanned(str(folder / "cut.db"), "a database whose end is missing")]


def test_a_file_that_is_mostly_a_hole_is_named(folder: Path) -> None:
    with (folder / "sparse.txt").open("wb") as file:
        file.write(b"some words " * 1000)
        file.truncate(3 << 30)
    found = scan(folder)
    assert found.not_scanned == [NotScanned(str(folder / "sparse.txt"), "mostly a hole")]


def test_the_command_prints_places_and_never_values(cli: CommandLine, folder: Path) -> None:
    (folder / "a.txt").write_text(f"x\n{AWS_KEY}\n")
    result = cli("leaks", "scan", str(folder))
    assert result.status == 1
    ((_, tier, rule, masked, _, _, place),) = result.rows
    assert (tier, rule, masked, place) == ("certain", "aws-access-key", "AKIA••••••••", f"{folder}/a.txt:2")
    assert AWS_KEY not in result.out + result.err
    assert not cli.path.exists()


def test_the_json_of_the_command(cli: CommandLine, folder: Path) -> None:
    (folder / "a.txt").write_text(AWS_KEY)
    (folder / "b.bin").write_bytes(b"\0")
    result = cli("leaks", "scan", "--json", str(folder))
    assert AWS_KEY not in result.out
    (leak,) = result.json["leaks"]
    assert leak.keys() == {
        *("fingerprint", "rule", "tier", "masked", "places", "first_at", "last_at", "ignored", "rotated")
    }
    path = str(folder / "a.txt")
    assert leak["places"] == [{"session": None, "entry": None, "field": None, "path": path, "line": 1}]
    assert result.json["scanned"] == {"texts": 0, "bytes": 20, "files": 1}
    assert result.json["not_scanned"] == [{"path": str(folder / "b.bin"), "reason": "not text"}]


def test_the_status_is_0_unless_something_is_certain(cli: CommandLine, folder: Path) -> None:
    (folder / "a.txt").write_text("Authorization: Bearer 7fQz2LkWm9Xc4VbN8pRt3HsY")
    result = cli("leaks", "scan", str(folder))
    assert (result.status, result.rows[0][1:3]) == (0, ["likely", "bearer-header"])


def test_the_status_is_3_if_a_path_is_unreadable_and_the_others_are_scanned(cli: CommandLine, folder: Path) -> None:
    (folder / "a.txt").write_text(AWS_KEY)
    result = cli("leaks", "scan", str(folder / "missing"), str(folder))
    assert result.status == 3
    assert "aws-access-key" in result.out
    assert f"Cannot read {folder}/missing: No such file or directory." in result.err


def test_values_of_the_environment_are_found_when_asked(
    cli: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "violet-otter-42")
    (folder / "a.txt").write_text("use violet-otter-42")
    assert cli("leaks", "scan", str(folder)).rows == []
    assert cli("leaks", "scan", "--environment", str(folder)).rows[0][2] == "environment-variable"
