"""Tests that the height index gives the same answers as a plain list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.widgets.timeline.height_index import HeightIndex

SMALL = st.integers(0, 5)


def assert_equal(heights: HeightIndex, plain: list[int]) -> None:
    assert (len(heights), heights.total) == (len(plain), sum(plain))
    lines = [(index, line) for index, height in enumerate(plain) for line in range(height)]
    assert [heights.locate_line(line) for line in range(heights.total)] == lines
    assert [heights.start_line(index) for index in range(len(plain) + 1)] == [
        sum(plain[:index]) for index in range(len(plain) + 1)
    ]
    assert [heights[index] for index in range(len(plain))] == plain


@given(plain=st.lists(SMALL, max_size=40), data=st.data())
def test_the_index_equals_a_list(plain: list[int], data: st.DataObject) -> None:
    heights = HeightIndex(plain)
    assert_equal(heights, plain)
    if plain:
        changes = st.lists(st.tuples(st.integers(0, len(plain) - 1), SMALL), max_size=10)
        for index, height in data.draw(changes):
            heights[index] = plain[index] = height
        assert_equal(heights, plain)


@pytest.mark.parametrize("line", [-1, 6, 100])
def test_a_line_outside_is_an_error(line: int) -> None:
    with pytest.raises(IndexError):
        HeightIndex([1, 2, 3]).locate_line(line)


def test_an_empty_index_has_no_lines() -> None:
    with pytest.raises(IndexError):
        HeightIndex().locate_line(0)
