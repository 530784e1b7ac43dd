"""Checks that bad memory files are named in a sentence, and never stop the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from store.memory.files import read_memory_file
from store.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    folder.mkdir()
    return folder


def problem(path: Path, root: Path) -> str:
    file = read_memory_file(path, root)
    assert file is not None
    return file.problem.replace(str(root.parent), "")


def test_a_link_inside_the_folder_is_followed_and_one_out_of_it_is_not(folder: Path) -> None:
    (folder.parent / "key").write_text("- private\n")
    (folder / "CLAUDE.md").symlink_to("../key")
    (folder / "AGENTS.md").write_text("- fact\n")
    (folder / "GEMINI.md").symlink_to("AGENTS.md")
    refused = read_memory_file(folder / "CLAUDE.md", folder)
    assert refused is not None
    assert (refused.text, refused.lines, refused.is_readable) == ("", (), False)
    assert refused.problem.endswith(f"is a link out of its folder, to {folder.parent / 'key'}. It was not read.")
    followed = read_memory_file(folder / "GEMINI.md", folder)
    assert followed is not None
    assert [line.text for line in followed.lines] == ["fact"]


def test_a_file_that_is_no_text_or_too_large_or_no_file_is_named(folder: Path) -> None:
    (folder / "a").write_bytes(b"- a\0b")
    (folder / "b").write_bytes(b"- x\n" * 1_250_000)
    os.mkfifo(folder / "c")
    (folder / "d").symlink_to("nothing")
    (folder / "e").symlink_to("e")
    (folder / "f").mkdir()
    assert problem(folder / "a", folder) == "/app/a is a binary file. It was not read."
    assert problem(folder / "b", folder) == "/app/b is too large (5.0 MB). It was not read."
    assert problem(folder / "c", folder) == "/app/c cannot be read (it is not a regular file)."
    assert problem(folder / "d", folder) == "/app/d is a link to nothing."
    assert "cannot be read" in problem(folder / "e", folder)
    assert problem(folder / "f", folder) == "/app/f cannot be read (it is not a regular file)."
    assert read_memory_file(folder / "missing", folder) is None
    assert read_memory_file(folder / "a/b", folder) is None


def test_a_read_only_file_is_read_and_named(folder: Path) -> None:
    (folder / "a").write_text("- fact\n")
    (folder / "a").chmod(0o444)
    file = read_memory_file(folder / "a", folder)
    assert file is not None
    assert file.problem == f"{folder / 'a'} is read-only."
    assert [line.text for line in file.lines] == ["fact"]


def test_text_that_is_not_utf_8_is_shown_as_far_as_it_is(folder: Path) -> None:
    (folder / "a").write_bytes(b"\xef\xbb\xbf- caf\xe9\r\n- two\r\n")
    file = read_memory_file(folder / "a", folder)
    assert file is not None
    assert [line.text for line in file.lines] == ["caf�", "two"]
    assert file.problem.endswith("is not UTF-8. Some characters are shown as �.")


def test_one_bad_file_does_not_hide_the_others(store: Store, home: Path) -> None:
    (home / ".claude").mkdir()
    (home / ".claude/CLAUDE.md").write_bytes(b"\0")
    (home / ".gemini").mkdir()
    (home / ".gemini/GEMINI.md").write_text("- fact\n")
    budget = store.memory_files.budget(home)
    assert budget.problems == (f"{home / '.claude/CLAUDE.md'} is a binary file. It was not read.",)
    assert {agent.agent: agent.tokens for agent in budget.agents} == {
        "claude": 0,
        "gemini": 2,
        "copilot": 0,
        "opencode": 0,
    }
