"""Tests how two things are compared: blocks of text, and turns that must be aligned first."""

from __future__ import annotations

from store.formats.comparison import (
    Block,
    Comparison,
    Section,
    TurnKey,
    align_turns,
    compare_blocks,
    describe_arguments,
    format_unified,
    list_prompt_words,
)


def keys(*turns: str) -> list[TurnKey]:
    """Make turns from texts like `prompt/answer`."""
    return [TurnKey(n, turn.partition("/")[0], turn) for n, turn in enumerate(turns, 1)]


def align(left: list[TurnKey], right: list[TurnKey]) -> list[tuple[str, list[int], list[int]]]:
    return [(kind, list(lefts), list(rights)) for kind, lefts, rights in align_turns(left, right)]


def test_a_fork_shares_its_beginning() -> None:
    left, right = keys("a", "b", "c", "d"), keys("a", "b", "x")
    assert align(left, right) == [("shared", [0, 1], [0, 1]), ("left", [2], []), ("left", [3], []), ("right", [], [2])]


def test_the_same_prompt_with_another_answer_is_a_pair() -> None:
    left, right = keys("a/1", "b/1", "c/1"), keys("a/1", "b/2", "c/1", "d/1")
    assert align(left, right) == [
        ("shared", [0], [0]),
        ("changed", [1], [1]),
        ("shared", [2], [2]),
        ("right", [], [3]),
    ]


def test_similar_prompts_are_a_pair() -> None:
    left, right = (
        [TurnKey(n, prompt, prompt, list_prompt_words(prompt)) for n, prompt in enumerate(prompts, 1)]
        for prompts in (
            ["List with codex", '"Now make it fail"', "Something else"],
            ["Hello", "List with pi", "Now make it fail"],
        )
    )
    assert align(left, right) == [
        ("right", [], [0]),
        ("changed", [0], [1]),
        ("changed", [1], [2]),
        ("left", [2], []),
    ]


def test_turns_that_moved_are_only_on_one_side_each() -> None:
    assert align(keys("a", "b", "c"), keys("b", "c", "a")) == [
        ("left", [0], []),
        ("shared", [1, 2], [0, 1]),
        ("right", [], [2]),
    ]


def test_repeated_turns_are_aligned_around_those_that_occur_once() -> None:
    left, right = keys("go", "go", "x", "go", "go"), keys("go", "x", "go", "go", "go")
    aligned = align(left, right)
    assert ("shared", [2, 3, 4], [1, 2, 3]) in aligned
    assert sum(len(lefts) for _, lefts, _ in aligned) == sum(len(rights) for _, _, rights in aligned) == 5


def test_ten_thousand_turns_in_another_order() -> None:
    left, right = (keys(*(str(n) for n in numbers)) for numbers in (range(10_000), range(9_999, -1, -1)))
    kinds = [kind for kind, _, _ in align_turns(left, right)]
    assert (kinds.count("left"), kinds.count("right"), kinds.count("shared")) == (9_999, 9_999, 1)


def test_nothing_is_equal_to_nothing() -> None:
    assert align([], []) == []
    assert align([], keys("a")) == [("right", [], [0])]


def test_blocks_are_compared_by_their_titles() -> None:
    left = [Block("arguments", "ls"), Block("result", "a\nb"), Block("note", "x")]
    right = [Block("arguments", "ls"), Block("result", "a\nc"), Block("more", "y")]
    sections = compare_blocks(left, right)
    assert [(section.kind, section.title) for section in sections] == [
        ("shared", "arguments"),
        ("changed", "result"),
        ("left", "note"),
        ("right", "more"),
    ]
    assert format_unified(Comparison("A\nB", "C", sections)) == (
        "--- A B\n+++ C\n@@ -1,2 +1,2 @@ result\n a\n-b\n+c\n@@ -1 +0,0 @@ note\n-x\n@@ -0,0 +1 @@ more\n+y\n"
    )


def test_equal_things_have_no_diff() -> None:
    comparison = Comparison("A", "B", compare_blocks([Block("x", "1")], [Block("x", "1")]))
    assert comparison.is_equal
    assert format_unified(comparison) == ""


def test_texts_too_long_to_compare_are_known() -> None:
    long = "line\n" * 2_000
    section = Section("changed", Block("x", long), Block("x", long + "end"))
    assert section.is_too_long
    assert [line.sign for line in section.compare()[0].lines].count("-") == 2_000
    assert not Section("left", Block("x", long), None).is_too_long


def test_arguments_are_readable() -> None:
    assert describe_arguments("Bash", {"command": "ls\npwd", "timeout": 3}) == "ls\npwd"
    assert describe_arguments("Edit", {"path": "a", "text": "x\ny", "n": [1]}) == "path: a\ntext:\nx\ny\nn:\n[\n  1\n]"
    assert describe_arguments("say", "hello") == "hello"
