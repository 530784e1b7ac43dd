"""Tests the fields of messages: by position, by name and by default."""

from __future__ import annotations

from tui.messages import DataMessage


class Moved(DataMessage):
    line: int
    column: int = 0


def test_fields_are_given_by_position_or_by_name() -> None:
    by_position, by_name = Moved(3, 4), Moved(line=3, column=4)
    assert (by_position.line, by_position.column) == (by_name.line, by_name.column) == (3, 4)


def test_missing_fields_have_their_default() -> None:
    first, second = Moved(3, column=4), Moved(5)
    assert (first.column, second.column) == (4, 0)


def test_they_behave_like_other_messages() -> None:
    assert Moved.handler_name == "on_moved"
    assert Moved(1).bubble
    assert Moved(1) != Moved(1)
