"""Tests how the file edits of tool calls are rendered, in every format that agents use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from store.formats.changed_files import CallChange, ChangedFile
from store.formats.comparison import Block, Section
from store.formats.file_changes import MAX_COMPARED_LINES, ChangedLine, FileChange, Hunk, compare_texts
from store.model.entry import Json
from store.text.word_diff import compare_words
from tui.render.diffs import comparison
from tui.render.diffs.changed_files import render_file_changes
from tui.render.diffs.comparison import render_sections
from tui.render.line_diff import (
    ADDED,
    ADDED_BACKGROUND,
    ADDED_WORDS,
    MAX_LINES,
    REMOVED,
    REMOVED_BACKGROUND,
    REMOVED_WORDS,
    DiffLine,
    count_changed_lines,
    find_language,
    list_diff_lines,
    render_diff_lines,
    render_edit_diff,
    render_text_diff,
)
from tui.render.viewport import Viewport

OLD = "def f():\n    return 1\n"
NEW = "def f():\n    return 2\n"

PATCH = """*** Begin Patch
*** Update File: src/app.py
@@ def f():
 def f():
-    return 1
+    return 2
*** Add File: notes.md
+hello
*** End Patch"""

DIFF = """diff --git a/app.py b/app.py
index 1a2b3c..4d5e6f 100644
--- a/app.py
+++ b/app.py
@@ -1,2 +1,2 @@
 def f():
--- a comment of SQL
+    return 2
--- /dev/null
+++ b/new.py
@@ -0,0 +1 @@
+x
"""


def render_diff(name: str, arguments: Json) -> list[str]:
    lines = render_edit_diff(name, arguments)
    assert lines is not None
    return [line.plain for line in lines]


@pytest.mark.parametrize(
    "arguments",
    [
        {"file_path": "app.py", "old_string": OLD, "new_string": NEW},
        {"filePath": "app.py", "oldString": OLD, "newString": NEW},
        {"command": "str_replace", "path": "app.py", "old_str": OLD, "new_str": NEW},
        {"path": "app.py", "oldText": OLD, "newText": NEW},
        {"path": "app.py", "edits": [{"old_string": OLD, "new_string": NEW}]},
    ],
)
def test_replaced_text_is_compared(arguments: Json) -> None:
    assert render_diff("Edit", arguments) == ["app.py", "  def f():", "−     return 1", "+     return 2"]
    assert count_changed_lines("Edit", arguments) == (1, 1)


def test_several_edits_are_separated() -> None:
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": ""}]
    assert render_diff("MultiEdit", {"file_path": "x", "edits": edits}) == ["x", "− a", "+ b", "⋯", "− c"]


def test_unchanged_lines_between_changes_are_left_out() -> None:
    same = [str(n) for n in range(20)]
    old, new = ["a", *same, "b"], ["A", *same, "B"]
    lines = render_diff("edit", {"old_string": "\n".join(old), "new_string": "\n".join(new)})
    assert lines == ["− a", "+ A", "  0", "  1", "  2", "⋯", "  17", "  18", "  19", "− b", "+ B"]


@pytest.mark.parametrize(
    "arguments",
    [
        PATCH,
        {"input": PATCH},
        {"patchText": PATCH},
        {"command": ["apply_patch", PATCH]},
        {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF\n"]},
    ],
)
def test_a_patch_is_found_in_any_argument(arguments: Json) -> None:
    assert render_diff("apply_patch", arguments) == [
        "src/app.py",
        "@@ def f():",
        "    def f():",
        "  −     return 1",
        "  +     return 2",
        "notes.md · add file",
        "1 + hello",
    ]


def test_a_diff_with_lines_that_look_like_its_headings() -> None:
    assert render_diff("patch", {"diff": DIFF}) == [
        "app.py",
        "1 1   def f():",
        "2   − -- a comment of SQL",
        "  2 +     return 2",
        "new.py · add file",
        "  1 + x",
    ]


def test_a_whole_file() -> None:
    assert render_diff("Write", {"file_path": "a.py", "content": "x\ny"}) == ["a.py · whole file", "1 + x", "2 + y"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Bash", {"command": "pytest -q"}),
        ("Bash", {"command": "echo '--- a'", "input": "plain"}),
        ("say", {"content": "x"}),
        ("Edit", {"old_string": 1, "new_string": "x"}),
        ("Edit", None),
        ("Edit", [1, 2]),
        ("Edit", {"edits": ["x", None, {}]}),
    ],
)
def test_other_calls_are_not_edits(name: str, arguments: Json) -> None:
    assert render_edit_diff(name, arguments) is None
    assert count_changed_lines(name, arguments) is None


def test_lines_differ_by_sign_and_by_colour() -> None:
    lines = render_edit_diff("Edit", {"old_string": "a", "new_string": "b"})
    assert lines is not None
    assert [(line.plain[0], {str(span.style) for span in line.text.spans}, line.fill) for line in lines] == [
        ("−", {REMOVED}, REMOVED_BACKGROUND),
        ("+", {ADDED}, ADDED_BACKGROUND),
    ]


def test_texts_too_long_to_compare_are_shown_old_then_new() -> None:
    old = "\n".join(map(str, range(MAX_COMPARED_LINES)))
    lines = render_diff("Edit", {"old_string": old, "new_string": old + "\nlast"})
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == "… 2,001 more lines"
    assert count_changed_lines("Edit", {"old_string": old, "new_string": old + "\nlast"}) == (
        MAX_COMPARED_LINES + 1,
        MAX_COMPARED_LINES,
    )


def test_nothing_hostile_survives() -> None:
    evil = "\x1b[2J\x9b1m\u202e\x07[bold]x[/]\t|" + "y" * 100_000
    for arguments in ({"path": evil, "old_string": evil, "new_string": ""}, {"input": PATCH.replace("hello", evil)}):
        text = "".join(render_diff("edit", arguments))
        assert not set(text) & set("\x1b\x9b\u202e\x07\t\n")
        assert "[bold]x[/]" in text
        assert len(text) < 10_000


def test_code_has_the_colours_of_its_language_on_both_sides() -> None:
    arguments = {"file_path": "src/app.py", "old_string": "import os\nx = 1", "new_string": "import sys\nx = 1"}
    lines = render_edit_diff("Edit", arguments)
    assert lines is not None
    styles = [{str(span.style) for span in line.text.spans} for line in lines]
    assert all("$text-accent" in styles[row] for row in (1, 2))
    assert styles[3] == {"$text-warning"}


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("/w/src/app.py", "python"),
        ("C:\\w\\index.HTML", "html"),
        ("Makefile", "make"),
        ("a.sql", "sql"),
        ("a.ts", "typescript"),
        ("notes", ""),
        ("", ""),
    ],
)
def test_the_language_of_a_file(path: str, language: str) -> None:
    assert find_language(path) == language


def test_words_that_differ_are_emphasised() -> None:
    lines = render_text_diff("the quick brown fox", "the slow brown fox")
    emphasised = [
        (span.style, line.text.plain[span.start : span.end])
        for line in lines
        for span in line.text.spans
        if span.style in (ADDED_WORDS, REMOVED_WORDS)
    ]
    assert emphasised == [(REMOVED_WORDS, "quick"), (ADDED_WORDS, "slow")]
    assert compare_words("completely other", "nothing of it") is None


def test_a_wrapped_line_hangs_under_its_text() -> None:
    lines = render_edit_diff("Write", {"file_path": "a.py", "content": "x = 'one two three four'"})
    assert lines is not None
    assert [line.plain for line in Viewport(16).hard_wrap(lines[1])] == [
        "1 + x = 'one two",
        "     three four'",
    ]
    assert [line.plain.rstrip() for line in lines[1].wrap(14)] == ["1 + x = 'one", "    two three", "    four'"]
    assert {line.cell_length for line in lines[1].wrap(14)} == {14}


def test_a_result_tells_the_line_numbers() -> None:
    result = "Updated:\n    41→def f():\n    42→    return 2\n    43→"
    lines = render_edit_diff("Edit", {"file_path": "a.txt", "old_string": OLD, "new_string": NEW}, result)
    assert lines is not None
    assert [line.plain for line in lines] == [
        "a.txt",
        "41 41   def f():",
        "42    −     return 1",
        "   42 +     return 2",
    ]


def test_a_result_that_shows_the_lines_twice_tells_no_numbers() -> None:
    result = "1\tx\n2\tx"
    assert render_edit_diff("Edit", {"old_string": "y", "new_string": "x"}, result) == render_edit_diff(
        "Edit", {"old_string": "y", "new_string": "x"}
    )


def test_whole_texts_are_numbered() -> None:
    change = FileChange("", tuple(compare_texts("a\nb\nc", "a\nB\nc\nd", is_whole=True)))
    assert [line.plain for line in render_diff_lines(list_diff_lines([change]))] == [
        "1 1   a",
        "2   − b",
        "  2 + B",
        "3 3   c",
        "  4 + d",
    ]


def test_only_the_lines_of_a_change_that_are_shown_are_listed() -> None:
    """Counting them all would block the screen for half a second if there are a million."""
    listed = 0

    class CountedLines(tuple[ChangedLine, ...]):
        def __iter__(self) -> Iterator[ChangedLine]:
            nonlocal listed
            for line in tuple.__iter__(self):
                listed += 1
                yield line

    change = FileChange("a.py", (Hunk(CountedLines([ChangedLine("+", "x")] * 10_000), 0, 1),), "add")
    call = CallChange(change, "s", "", 1, "s#1", "Write", "2026-11-03T12:00:00Z")
    [section] = render_file_changes(ChangedFile("a.py", (call,), 10_000, 0))
    assert section[-1].plain == "… 8,000 more lines"
    assert len(section) == MAX_LINES + 2
    assert listed <= MAX_LINES + 1


@pytest.mark.parametrize("is_side_by_side", [False, True])
def test_only_the_lines_of_a_difference_that_are_shown_are_listed(
    monkeypatch: pytest.MonkeyPatch, is_side_by_side: bool
) -> None:
    """The objects for a million others would delay a key by seconds when garbage is collected."""
    listed = 0

    def count_lines(changes: Iterable[FileChange]) -> Iterator[DiffLine]:
        nonlocal listed
        for line in list_diff_lines(changes):
            listed += 1
            yield line

    monkeypatch.setattr(comparison, "list_diff_lines", count_lines)
    section = Section("right", None, Block("summary", "x\n" * 10_000))
    [lines] = render_sections([section], is_side_by_side=is_side_by_side)
    texts = [line.plain for row in lines[-3:] for line in row.wrap(80)]
    assert "… 8,000 more lines" in " ".join(texts)
    assert listed == MAX_LINES
