"""Messages have their fields by place, by name, or as they are by default."""

from __future__ import annotations

from tui.messages import DataMessage


class Moved(DataMessage):
    line: int
    column: int = 0


def test_fields_are_given_by_place_or_by_name() -> None:
    by_place, by_name = Moved(3, 4), Moved(line=3, column=4)
    assert (by_place.line, by_place.column) == (by_name.line, by_name.column) == (3, 4)


def test_what_is_not_given_is_as_it_is_by_default() -> None:
    first, second = Moved(3, column=4), Moved(5)
    assert (first.column, second.column) == (4, 0)


def test_they_are_messages_like_any_other() -> None:
    assert Moved.handler_name == "on_moved"
    assert Moved(1).bubble
    assert Moved(1) != Moved(1)
