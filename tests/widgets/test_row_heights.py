"""The index of heights says what a plain list would, only sooner."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.widgets.timeline.height_index import HeightIndex

SMALL = st.integers(0, 5)


def agree(heights: HeightIndex, plain: list[int]) -> None:
    assert (len(heights), heights.total) == (len(plain), sum(plain))
    lines = [(index, line) for index, height in enumerate(plain) for line in range(height)]
    assert [heights.locate_line(line) for line in range(heights.total)] == lines
    assert [heights.start_line(index) for index in range(len(plain) + 1)] == [
        sum(plain[:index]) for index in range(len(plain) + 1)
    ]
    assert [heights[index] for index in range(len(plain))] == plain


@given(plain=st.lists(SMALL, max_size=40), data=st.data())
def test_it_says_what_a_list_would_say(plain: list[int], data: st.DataObject) -> None:
    heights = HeightIndex(plain)
    agree(heights, plain)
    if plain:
        changes = st.lists(st.tuples(st.integers(0, len(plain) - 1), SMALL), max_size=10)
        for index, height in data.draw(changes):
            heights[index] = plain[index] = height
        agree(heights, plain)


@pytest.mark.parametrize("line", [-1, 6, 100])
def test_no_line_outside(line: int) -> None:
    with pytest.raises(IndexError):
        HeightIndex([1, 2, 3]).locate_line(line)


def test_nothing_has_no_lines() -> None:
    with pytest.raises(IndexError):
        HeightIndex().locate_line(0)
