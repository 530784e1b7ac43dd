"""Tests that messages have no double full stops."""

from __future__ import annotations

import pytest
from command_line import CommandLine, add_upload_session

from store.errors import Refused, StoreError
from store.store import Store
from store.text.sentences import tidy_sentences


@pytest.mark.parametrize(
    ("message", "tidy"),
    [
        ("Undone: title changed “Mend it.”.", "Undone: title changed “Mend it.”"),
        ("Undone: pinned, in Mend it..", "Undone: pinned, in Mend it."),
        ("It failed: no room.. Try again.", "It failed: no room. Try again."),
        ("Undone: pinned, in A long title….", "Undone: pinned, in A long title…"),
        ("Why?. Because.", "Why? Because."),
        ("Run `cd ..`. Then `ls ../x`.", "Run `cd ..`. Then `ls ../x`."),
        ("cd .. && ls", "cd .. && ls"),
        ("Wait... what?", "Wait... what?"),
        ("No such file: a..b.", "No such file: a..b."),
        ("Done.", "Done."),
        ("", ""),
    ],
)
def test_double_full_stops_are_removed(message: str, tidy: str) -> None:
    assert tidy_sentences(message) == tidy
    assert tidy_sentences(tidy) == tidy


def test_an_error_that_quotes_another_one_ends_once() -> None:
    inner = Refused("The value has changed.")
    assert str(StoreError(f"Edit 3 cannot be undone now: {inner}.")) == (
        "Edit 3 cannot be undone now: The value has changed."
    )


def test_the_command_line_says_it_once(store: Store) -> None:
    session = add_upload_session(store)
    store.sessions.set_title(session, "Mend it.")
    assert ".." not in CommandLine(store.path)("undo").err
