"""Tests the commands `export` and `verify`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import CommandLine
from documents.export_sample import add_export_session

from store.store import Store


@pytest.fixture
def cli(store: Store) -> CommandLine:
    add_export_session(store)
    return CommandLine(store.path)


def test_one_session_is_printed(cli: CommandLine) -> None:
    ran = cli("export", "shop-1", "--as", "markdown", "--turns", "2", "--no-tools")
    assert ran.status == 0
    assert ran.out.startswith("# Fix the total\n")
    assert "Turn 1" not in ran.out
    assert "Task" not in ran.out


def test_a_file_is_written_and_verified(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    ran = cli("export", "shop-1", "--as", "html", "-o", str(path))
    assert (ran.status, ran.out, ran.err) == (0, "", f"Wrote 1 session to {path}.\n")
    ran = cli("verify", str(path))
    assert (ran.status, ran.out) == (0, f"{path}  Unchanged. It is a true excerpt of the session in the store.\n")
    path.write_text(path.read_text().replace("tax", "vat"))
    ran = cli("verify", str(path))
    assert (ran.status, ran.out) == (
        1,
        f"{path}  Changed after the export. Its text differs from the session in the store.\n",
    )
    assert "already exists" in cli("export", "shop-1", "--as", "html", "-o", str(path)).err
    assert cli("export", "shop-1", "--as", "html", "-o", str(path), "--force").status == 0


def test_a_folder_gets_a_file_with_the_title_as_its_name(cli: CommandLine, tmp_path: Path) -> None:
    value = cli("export", "shop-1", "--as", "raw", "-o", str(tmp_path), "--json").json
    (export,) = value["exports"]
    assert export["path"] == str(tmp_path / "fix-the-total.jsonl")
    assert export["session"] == "shop-1"
    assert json.loads((tmp_path / "fix-the-total.jsonl.receipt.json").read_text()) == export["receipt"]
    (checked,) = cli("verify", export["path"], "--json").json["files"]
    assert (checked["ok"], checked["unchanged"], checked["comparison"]) == (True, True, "same")


def test_several_sessions_need_a_folder(cli: CommandLine, tmp_path: Path) -> None:
    assert cli("export", "shop-1", "shop-1/docs", "--as", "html").status == 2
    ran = cli("export", "shop-1", "shop-1/docs", "--as", "html", "-o", str(tmp_path / "out"))
    assert ran.status == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"index.html", "shop-1.html", "shop-1-docs.html"}


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["export", "shop-1", "--as", "html", "--turns", "x"], 2),
        (["export", "shop-1", "--as", "html", "--turns", "9"], 1),
        (["export", "shop-1", "--as", "word"], 2),
        (["export", "nobody", "--as", "html"], 1),
        (["verify", "missing.html"], 3),
    ],
)
def test_mistakes_have_their_status(cli: CommandLine, arguments: list[str], status: int) -> None:
    assert cli(*arguments).status == status
