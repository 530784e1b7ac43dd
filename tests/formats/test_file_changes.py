"""Tests what tool calls say about commands, paths and changed files, and that the patches made of them apply."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from store.formats.file_changes import find_changes, find_command, find_paths, find_recorded_diff, format_patch
from store.model.entry import Json

BEGIN_PATCH = """*** Begin Patch
*** Update File: src/app.py
@@ def f():
 def f():
-    return 1
+    return 2
 # end
*** Add File: notes.md
+hello
+
+world
*** Delete File: old.py
*** Update File: a.py
*** Move to: b.py
@@
 x
-y
+z
 w
*** End Patch"""

LINES = [f"line {n}" for n in range(1, 21)]


@pytest.mark.parametrize(
    ("name", "arguments", "command"),
    [
        ("Bash", {"command": "ls -la\npwd", "description": "List"}, "ls -la\npwd"),
        ("shell", {"command": ["bash", "-lc", "ls | wc"]}, "ls | wc"),
        ("shell", {"command": ["/bin/zsh", "-c", "true"], "workdir": "/x"}, "true"),
        ("shell", {"command": ["git", "commit", "-m", "two words"]}, "git commit -m 'two words'"),
        ("exec_command", {"cmd": "make test", "yield_time_ms": 100}, "make test"),
        ("local_shell", {"type": "exec", "command": ["bash", "-lc", "pwd"]}, "pwd"),
        ("run_shell_command", {"command": "ls", "directory": "src"}, "ls"),
        ("developer__shell", {"command": "uname"}, "uname"),
        ("developer.shell", {"command": "uname", "path": "/x"}, "uname"),
        ("str_replace_editor", {"command": "view", "path": "/a.py"}, None),
        ("Read", {"file_path": "a.py"}, None),
        ("Bash", {"command": 3}, None),
        ("Bash", {"command": ""}, None),
        ("Bash", None, None),
    ],
)
def test_the_command_of_a_call(name: str, arguments: Json, command: str | None) -> None:
    assert find_command(name, arguments) == command


@pytest.mark.parametrize(
    ("name", "arguments", "paths"),
    [
        ("Read", {"file_path": "/w/a.py", "offset": 3}, ("/w/a.py",)),
        ("read_file", {"absolute_path": "/w/a.py"}, ("/w/a.py",)),
        ("read_many_files", {"paths": ["a", "b", "a"]}, ("a", "b")),
        ("NotebookEdit", {"notebook_path": "n.ipynb", "new_source": "x"}, ("n.ipynb",)),
        ("apply_patch", {"input": BEGIN_PATCH}, ("src/app.py", "notes.md", "old.py", "b.py")),
        ("Bash", {"command": "cat a.py"}, ()),
        ("Read", {"file_path": 5, "paths": [1]}, ()),
        ("Read", ["a"], ()),
    ],
)
def test_the_paths_of_a_call(name: str, arguments: Json, paths: tuple[str, ...]) -> None:
    assert find_paths(name, arguments) == paths


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Edit", {"file_path": "f.txt", "old_string": "line 5\nline 6\nline 7", "new_string": "line 5\nsix\nline 7"}),
        ("edit", {"filePath": "f.txt", "oldString": "line 6\n", "newString": "six\n"}),
        ("edit", {"path": "f.txt", "oldText": "line 5\nline 6", "newText": "line 5\nsix"}),
        ("edit", {"path": "f.txt", "edits": [{"oldText": "line 6", "newText": "six"}]}),
        ("text_editor", {"command": "str_replace", "path": "f.txt", "old_str": "line 6", "new_str": "six"}),
        ("apply_patch", "*** Begin Patch\n*** Update File: f.txt\n@@ line 4\n line 5\n-line 6\n+six\n*** End Patch"),
        ("patch", {"diff": "--- a/f.txt\n+++ b/f.txt\n@@ -5,3 +5,3 @@\n line 5\n-line 6\n+six\n line 7\n"}),
    ],
)
def test_a_patch_changes_the_file_as_the_call_did(name: str, arguments: Json, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("\n".join(LINES) + "\n")
    apply_patch(tmp_path, format_patch(find_changes(name, arguments)))
    assert (tmp_path / "f.txt").read_text().splitlines() == [*LINES[:5], "six", *LINES[6:]]


def test_several_edits_of_a_file_apply_in_any_order_of_lines(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("\n".join(LINES) + "\n")
    edits = [{"old_string": "line 12", "new_string": "twelve"}, {"old_string": "line 3", "new_string": "three"}]
    changes = find_changes("MultiEdit", {"file_path": "f.txt", "edits": edits})
    assert [(change.path, change.added, change.removed) for change in changes] == [("f.txt", 1, 1)] * 2
    apply_patch(tmp_path, format_patch(changes))
    assert (tmp_path / "f.txt").read_text().splitlines() == [*LINES[:2], "three", *LINES[3:11], "twelve", *LINES[12:]]


@pytest.mark.parametrize("text", ["one\n\ntwo\n", "no line break at the end", "x\r\ny\r\n"])
def test_a_written_file_is_a_new_file_in_the_patch(text: str, tmp_path: Path) -> None:
    changes = find_changes("Write", {"file_path": "/project/src/new.txt", "content": text})
    patch = format_patch(changes, "/project")
    assert patch.startswith("--- /dev/null\n+++ b/src/new.txt\n@@ -0,0 +1")
    apply_patch(tmp_path, patch)
    assert (tmp_path / "src/new.txt").read_bytes() == text.encode()


def test_a_patch_of_codex_applies(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/app.py").write_text("import os\n\n\ndef f():\n    return 1\n# end\n")
    (tmp_path / "a.py").write_text("v\nx\ny\nw\n")
    (tmp_path / "old.py").write_text("")
    changes = find_changes("apply_patch", {"input": BEGIN_PATCH})
    assert [(change.path, change.kind, change.moved_to) for change in changes] == [
        ("src/app.py", "update", ""),
        ("notes.md", "add", ""),
        ("old.py", "delete", ""),
        ("a.py", "update", "b.py"),
    ]
    run_in(tmp_path, "git", "init", "-q")
    (tmp_path / "p.patch").write_text(format_patch(changes))
    run_in(tmp_path, "git", "apply", "p.patch")
    assert (tmp_path / "src/app.py").read_text() == "import os\n\n\ndef f():\n    return 2\n# end\n"
    assert (tmp_path / "notes.md").read_text() == "hello\n\nworld\n"
    assert (tmp_path / "b.py").read_text() == "v\nx\nz\nw\n"
    assert not (tmp_path / "old.py").exists()
    assert not (tmp_path / "a.py").exists()


RECORDED_LINES = [" line 5", "-line 6", "+line six", " line 7"]
RECORDED_HUNK = "\n".join(["@@ -5,3 +5,3 @@", *RECORDED_LINES, ""])
STRUCTURED_HUNK = {"oldStart": 5, "oldLines": 3, "newStart": 5, "newLines": 3, "lines": RECORDED_LINES}


@pytest.mark.parametrize(
    "record",
    [
        {"toolUseResult": {"filePath": "/w/f.txt", "structuredPatch": [STRUCTURED_HUNK]}},
        {"state": {"metadata": {"diff": f"Index: /w/f.txt\n===\n--- /w/f.txt\n+++ /w/f.txt\n{RECORDED_HUNK}"}}},
        {"toolCallResult": {"resultDisplay": {"fileDiff": f"--- f.txt\tOld\n+++ f.txt\tNew\n{RECORDED_HUNK}"}}},
    ],
)
def test_a_recorded_diff_makes_part_of_a_line_a_whole_line(record: Json, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("\n".join(LINES) + "\n")
    arguments = {"file_path": "/w/f.txt", "old_string": " 6", "new_string": " six"}
    changes = find_changes("Edit", arguments, record)
    assert [(hunk.old_start, hunk.new_start) for hunk in changes[0].hunks] == [(5, 5)]
    apply_patch(tmp_path, format_patch(changes, "/w"))
    assert (tmp_path / "f.txt").read_text().splitlines() == [*LINES[:5], "line six", *LINES[6:]]


def test_a_recorded_diff_of_another_call_is_not_taken() -> None:
    record = {"toolUseResult": {"structuredPatch": [STRUCTURED_HUNK]}}
    for name, arguments in (
        ("Edit", {"file_path": "g.txt", "old_string": "x", "new_string": "y"}),
        ("Edit", {"file_path": "g.txt", "old_string": "x", "new_string": ""}),
        ("Write", {"file_path": "g.txt", "content": "something else"}),
    ):
        assert find_changes(name, arguments, record) == find_changes(name, arguments)


def test_of_a_record_only_the_diff_is_kept() -> None:
    record = {"toolUseResult": {"structuredPatch": [STRUCTURED_HUNK], "originalFile": "x" * 1000}}
    assert find_recorded_diff(record) == {"structuredPatch": [STRUCTURED_HUNK]}
    assert find_recorded_diff({"content": "done"}) is None


def test_a_diff_in_the_output_of_a_command_is_no_change() -> None:
    record = {"toolUseResult": {"diff": "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"}}
    assert find_changes("Bash", {"command": "git diff"}, record) == ()


@pytest.mark.parametrize("arguments", [{"command": ["ls", "-l"]}, {"content": "x"}, {"edits": 3}, {"path": []}, 3])
def test_other_calls_change_nothing(arguments: Json) -> None:
    assert find_changes("shell", arguments) == ()


def test_an_insertion_knows_its_line() -> None:
    arguments = {"command": "insert", "path": "f.txt", "insert_line": 2, "new_str": "between"}
    assert format_patch(find_changes("text_editor", arguments)) == (
        "--- a/f.txt\n+++ b/f.txt\n@@ -2,0 +3 @@\n+between\n"
    )


def apply_patch(folder: Path, patch: str) -> None:
    """Apply a patch with GNU patch if it is installed, else with git."""
    (folder / "p.patch").write_bytes(patch.encode())
    if shutil.which("patch"):
        run_in(folder, "patch", "-p1", "--binary", "-i", "p.patch")
    else:
        run_in(folder, "git", "init", "-q")
        run_in(folder, "git", "apply", "--unidiff-zero", "p.patch")


def run_in(folder: Path, *command: str) -> None:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
