"""This module reads and writes several tags as one line. It is pure.

Tags are separated by commas. A tag may contain blanks; it is written in quotes then, so that one sees where it ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_QUOTED = re.compile(r'"((?:[^"]|"")*)"?')


def split_tags(text: str) -> list[str]:
    """Return the tags of a line such as `ci, "two words", three more words`. Each is listed once."""
    names: list[str] = []
    unquoted = ""
    position = 0
    while position < len(text):
        if text[position] == '"' and (quoted := _QUOTED.match(text, position)):
            names += [*unquoted.split(","), quoted[1].replace('""', '"')]
            unquoted, position = "", quoted.end()
        else:
            unquoted += text[position]
            position += 1
    return list(dict.fromkeys(name for name in map(str.strip, [*names, *unquoted.split(",")]) if name))


def format_tag(name: str) -> str:
    """Return a tag as `split_tags` reads it: in quotes if it contains a blank, a comma or a quote."""
    if not any(character.isspace() or character in ',"' for character in name):
        return name
    return '"' + name.replace('"', '""') + '"'


def format_tags(names: Iterable[str]) -> str:
    return ", ".join(map(format_tag, names))
