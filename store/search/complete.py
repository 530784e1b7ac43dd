"""This module completes filters in a search box: their names, then their values. It is pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from store.search.query import DATE_EXAMPLES, DAY_EXAMPLES, FILTER_CHOICES, FILTERS, HOUR_EXAMPLES
from store.search.saved_searches import SavedSearch
from store.text.sanitize import one_line


class Vocabulary(NamedTuple):
    """Lists the values that filters can have in this archive, the most used first."""

    agents: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def values_for(self, name: str) -> tuple[str, ...]:
        values = {
            "agent": self.agents,
            "model": self.models,
            "cwd": self.folders,
            "user": self.users,
            "channel": self.channels,
            "owner": self.owners,
            "machine": self.machines,
            "tool": self.tools,
            "tag": self.tags,
            "before": DATE_EXAMPLES,
            "after": DATE_EXAMPLES,
            "day": DAY_EXAMPLES,
            "hour": HOUR_EXAMPLES,
        }
        return values.get(name) or FILTER_CHOICES.get(name, ())


def list_completions(text: str, cursor: int, vocabulary: Vocabulary, searches: Iterable[SavedSearch] = ()) -> list[str]:
    """Return what the word before the cursor can be completed to: names of filters, values of its filter, or after `@`
    the names of saved searches."""
    word = text[_find_word_start(text, cursor) : cursor]
    if word.startswith("@"):
        names = (f"@{search.name}" for search in searches)
        return [name for name in names if name.casefold().startswith(word.casefold()) and name != word]
    minus = "-" if word.startswith("-") else ""
    name, colon, typed = word.removeprefix("-").partition(":")
    name = name.lower()
    if not colon:
        return [f"{minus}{known}:" for known in FILTERS if known.startswith(name) and not typed]
    if name not in FILTERS:
        return []
    typed = typed.strip('"').lower()
    # Values that cannot be typed are left out. They may contain control characters that would reach the terminal.
    values = [
        value
        for value in vocabulary.values_for(name)
        if one_line(value) == value and '"' not in value and typed in value.lower()
    ]
    values.sort(key=lambda value: not value.lower().startswith(typed))
    return [f"{minus}{name}:{_quote_if_spaced(value)}" for value in values if value.lower() != typed]


def accept_completion(text: str, cursor: int, completion: str) -> tuple[str, int]:
    """Replace the word before the cursor with the completion. Return the new text and the new cursor position."""
    start = _find_word_start(text, cursor)
    rest = text[cursor:]
    if not completion.endswith(":"):
        completion, rest = f"{completion} ", rest.lstrip(" ")
    return text[:start] + completion + rest, start + len(completion)


def _find_word_start(text: str, cursor: int) -> int:
    """Return where the word before the cursor begins. A space within quotes does not end a word."""
    start, is_quoted = 0, False
    for position, character in enumerate(text[:cursor]):
        if character == '"':
            is_quoted = not is_quoted
        elif character.isspace() and not is_quoted:
            start = position + 1
    return start


def _quote_if_spaced(value: str) -> str:
    return f'"{value}"' if any(map(str.isspace, value)) else value
