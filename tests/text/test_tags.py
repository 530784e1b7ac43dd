"""These tests check how several tags are read from one line, and written into one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.text.tags import format_tags, split_tags


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("", []),
        (" , ,", []),
        ("ci", ["ci"]),
        ("ci, later", ["ci", "later"]),
        ("two words", ["two words"]),
        ("two words, ci,ci", ["two words", "ci"]),
        ('"two words" ci', ["two words", "ci"]),
        ('ci "two words"', ["ci", "two words"]),
        ('"with, comma", ci', ["with, comma", "ci"]),
        ('"say ""hi"""', ['say "hi"']),
        ('"not closed', ["not closed"]),
        ('"', []),
    ],
)
def test_a_line_is_split_into_tags(text: str, tags: list[str]) -> None:
    assert split_tags(text) == tags


def test_a_tag_with_a_blank_is_written_in_quotes() -> None:
    assert format_tags(["ci", "two words", "a,b", 'x"y']) == 'ci, "two words", "a,b", "x""y"'


@given(st.lists(st.text(min_size=1).map(str.strip).filter(bool), unique=True))
def test_what_is_written_is_read_again(tags: list[str]) -> None:
    assert split_tags(format_tags(tags)) == tags
