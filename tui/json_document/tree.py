"""This module turns a JSON value into rows that can be folded.

Only open containers have rows, and only the visible parts of large containers are parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from store.model.entry import Json
from tui.json_document.large_containers import (
    CONTAINER_TYPES,
    LIST_TYPES,
    LargeList,
    LargeObject,
    iter_items,
    iter_keys,
)
from tui.json_document.parser import parse_embedded_json
from tui.json_document.values import encode_scalar, encode_string
from tui.render.word_wrap import WrappedLine, wrap_text


class EmbeddedStep:
    """Marks the step of a path from a string to the JSON in it."""


EMBEDDED: Final = EmbeddedStep()


class LazyValue:
    """Marks a value that is looked up in its parent each time it is needed."""


LAZY_VALUE: Final = LazyValue()

PathStep = str | int | EmbeddedStep
JsonPath = tuple[PathStep, ...]

INITIAL_ROWS = 60
INITIAL_LEVELS = 3
LONG_LIST = 12
"""The length from which a list is folded at first."""

UNLIMITED: Final = 10**9
MAX_SYNC_CHARACTERS = 64_000
"""Limits the strings that are wrapped immediately. A thread wraps longer ones."""

INDENT_CELLS = 2
ARROW_CELLS = 2


@dataclass(slots=True, eq=False)
class JsonRow:
    depth: int
    key: PathStep | None
    stored: Json
    "The value, or LAZY_VALUE."
    parent: JsonRow | None
    is_open: bool = False
    embedded: Json = None
    "The parsed JSON of a string, after a person opened it."

    @property
    def value(self) -> Json:
        if self.stored is LAZY_VALUE and self.parent is not None:
            return self.parent.content[self.key]
        return self.stored

    @property
    def content(self) -> Json:
        return self.value if self.embedded is None else self.embedded

    @property
    def value_row(self) -> JsonRow:
        """The row itself, or the row of the string that this line belongs to."""
        return self.parent if isinstance(self.stored, WrappedLine) and self.parent else self


# ── paths ─────────────────────────────────────────────────────────────────────────────────────────

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FROMJSON = " | fromjson | ."
_STEP_PATTERN = re.compile(
    rf"""\.?(?P<inside>{re.escape(_FROMJSON)}) | \.?(?P<name>{_IDENTIFIER.pattern}) | \.?\[(?P<index>\d+)\]
    | \.?\[(?P<quoted>"(?:[^"\\]|\\.)*")\] | \.$""",
    re.X,
)


def format_path(path: JsonPath) -> str:
    """Return a path in the syntax of jq, e.g. `.output[3].arguments | fromjson | .["a b"]`."""
    text = "."
    for step in path:
        dot = "" if text.endswith(".") else "."
        if isinstance(step, EmbeddedStep):
            text += _FROMJSON
        elif isinstance(step, int):
            text += f"[{step}]"
        else:
            text += dot + step if _IDENTIFIER.fullmatch(step) else f"[{encode_string(step)}]"
    return text


def parse_path(text: str) -> JsonPath | None:
    """Parse a path in the syntax of `format_path`. Return None if it is invalid."""
    steps: list[PathStep] = []
    position = 0
    while position < len(text):
        token = _STEP_PATTERN.match(text, position)
        if token is None:
            return None
        position = token.end()
        match token.lastgroup:
            case "inside":
                steps.append(EMBEDDED)
            case "name":
                steps.append(token["name"])
            case "index":
                steps.append(int(token["index"]))
            case "quoted":
                steps.append(json.loads(token["quoted"]))
    return tuple(steps)


def row_path(row: JsonRow) -> JsonPath:
    steps: list[PathStep] = []
    current = row.value_row
    while current.parent is not None:
        if current.key is not None:
            steps.append(current.key)
        current = current.parent
        if current.embedded is not None:
            steps.append(EMBEDDED)
    return tuple(reversed(steps))


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────


class JsonTree:
    """Holds the visible rows from the top. At first it opens the given levels, and about the given number of rows."""

    def __init__(self, value: Json, width: int = 80, levels: int = INITIAL_LEVELS, rows: int = INITIAL_ROWS) -> None:
        self.width = width
        self.root = JsonRow(-1, None, value, None)
        "Is not a visible row, unless it is the only one."
        if _has_children(value):
            self.rows = self._initial_rows(levels, rows)
        else:
            self.root.depth = 0
            self.rows = [self.root]

    def _initial_rows(self, levels: int, room: int) -> list[JsonRow]:
        """Open rows level by level while there is room, so that small values are complete and large ones an outline."""
        children: dict[JsonRow, list[JsonRow]] = {}
        level = [self.root]
        for depth in range(levels + 1):
            next_level: list[JsonRow] = []
            for row in level:
                size = len(row.value)
                if (
                    depth
                    and room < UNLIMITED
                    and (size > room or (isinstance(row.value, LIST_TYPES) and size > LONG_LIST))
                ):
                    continue
                room -= size if room < UNLIMITED else 0
                row.is_open = True
                children[row] = list(self.children(row))
                if room > 0:
                    next_level += [child for child in children[row] if _has_children(child.value)]
            level = next_level
            if not level:
                break
        return list(_flatten(self.root, children))

    def children(self, row: JsonRow) -> Iterator[JsonRow]:
        """Yield the rows below a row. This changes nothing, so a thread may call it."""
        content, depth = row.content, row.depth + 1
        if isinstance(content, LargeList | LargeObject):
            return (JsonRow(depth, step, LAZY_VALUE, row) for step in iter_keys(content))
        if isinstance(content, CONTAINER_TYPES):
            return (JsonRow(depth, step, value, row) for step, value in iter_items(content))
        return (JsonRow(depth, None, line, row) for line in wrap_text(content, text_width(depth, self.width)))

    # ── opening and closing ───────────────────────────────────────────────────────────────────────

    def open(self, index: int, children: Iterable[JsonRow] | None = None) -> None:
        """Open a row. Pass its children if they are already built."""
        row = self.rows[index]
        if not row.is_open and isinstance(row.content, (*CONTAINER_TYPES, str)):
            row.is_open = True
            self.rows[index + 1 : index + 1] = self.children(row) if children is None else children

    def close(self, index: int) -> None:
        row = self.rows[index]
        if row.is_open:
            row.is_open = False
            del self.rows[index + 1 : self._subtree_end(index)]

    def open_embedded(self, index: int) -> bool:
        """Show the JSON in a string instead of the string. Return False if it contains none."""
        return self.show_embedded(index, parse_embedded_json(self.rows[index].value))

    def show_embedded(self, index: int, embedded: Json) -> bool:
        """Show parsed JSON instead of the string that contains it. Return False if there is none."""
        row = self.rows[index]
        if embedded is None:
            return False
        self.close(index)
        row.embedded = embedded
        self.open(index)
        return True

    def close_embedded(self, index: int) -> None:
        self.close(index)
        self.rows[index].embedded = None

    def _subtree_end(self, index: int) -> int:
        """Return the index of the first row after all descendants of a row."""
        depth = self.rows[index].depth if index >= 0 else -1
        end = index + 1
        while end < len(self.rows) and self.rows[end].depth > depth:
            end += 1
        return end

    def rewrap(self, width: int) -> list[JsonRow]:
        """Wrap open strings for another width. Strings too long to wrap here are closed and returned."""
        if width == self.width:
            return []
        self.width = width
        if not any(isinstance(row.stored, WrappedLine) for row in self.rows):
            return []
        rows: list[JsonRow] = []
        too_long: list[JsonRow] = []
        for row in self.rows:
            if isinstance(row.stored, WrappedLine):
                continue
            rows.append(row)
            if row.is_open and type(row.content) is str:
                row.is_open = len(row.content) <= MAX_SYNC_CHARACTERS
                if row.is_open:
                    rows += self.children(row)
                else:
                    too_long.append(row)
        self.rows = rows
        return too_long

    # ── paths to rows ─────────────────────────────────────────────────────────────────────────────

    def parent_index(self, index: int) -> int:
        """Return the index of a row's parent, or of the row itself at the top level."""
        parent = self.rows[index].parent
        parent_index = index
        while parent_index >= 0 and self.rows[parent_index] is not parent:
            parent_index -= 1
        return parent_index if parent_index >= 0 else index

    def find_nearest(self, path: JsonPath) -> int:
        """Return the index of the row of a path, or of the closed row that contains it."""
        index = self._root_index
        for step in path:
            child = None if isinstance(step, EmbeddedStep) else self._find_child(index, step)
            index = index if child is None else child
        return max(index, 0)

    def reveal(self, path: JsonPath) -> int | None:
        """Open all rows on a path and return the index of the last one, or None if there is no such path."""
        index = self._root_index
        for step in path:
            if isinstance(step, EmbeddedStep):
                if index < 0 or (self.rows[index].embedded is None and not self.open_embedded(index)):
                    return None
                continue
            if index >= 0 and _has_children(self.rows[index].content):
                self.open(index)
            child = self._find_child(index, step)
            if child is None:
                return None
            index = child
        return max(index, 0)

    @property
    def _root_index(self) -> int:
        return 0 if self.rows[0] is self.root else -1

    def _find_child(self, index: int, key: str | int) -> int | None:
        row = self.rows[index] if index >= 0 else self.root
        for child in range(index + 1, self._subtree_end(index)):
            if self.rows[child].parent is row and self.rows[child].key == key:
                return child
        return None

    def embedded_values(self) -> dict[JsonPath, Json]:
        """Return the open embedded JSON values by their paths."""
        return {row_path(row): row.embedded for row in self.rows if row.embedded is not None}


def indent_width(depth: int, width: int) -> int:
    """Return the indentation of a row. It never takes more than a third of the line."""
    return min(INDENT_CELLS * depth, width // 3)


def text_width(depth: int, width: int) -> int:
    """Return the width that is left for a key and its value."""
    return width - indent_width(depth, width) - ARROW_CELLS


def _flatten(root: JsonRow, children: Mapping[JsonRow, list[JsonRow]]) -> Iterator[JsonRow]:
    stack = [iter(children[root])]
    while stack:
        row = next(stack[-1], None)
        if row is None:
            stack.pop()
            continue
        yield row
        if row in children:
            stack.append(iter(children[row]))


def _has_children(value: Json) -> bool:
    return isinstance(value, CONTAINER_TYPES) and bool(value)


# ── finding ───────────────────────────────────────────────────────────────────────────────────────

CANCEL_CHECK_INTERVAL = 2_000
"""The number of values to search before checking whether the search was cancelled."""


def find_paths(
    value: Json, words: str, embedded: Mapping[JsonPath, Json], stopped: Callable[[], bool]
) -> Iterator[JsonPath]:
    """Yield the paths of the keys and values that contain the words, from the top, ignoring case."""
    words = words.casefold()
    if not _has_children(value):
        if _contains(value, words):
            yield ()
        return
    stack: list[tuple[JsonPath, Iterator[tuple[PathStep, Json]]]] = [((), iter_items(value, words))]
    seen = 0
    while stack:
        path, items = stack[-1]
        step, item = next(items, (None, None))
        if step is None:
            stack.pop()
            continue
        seen += 1
        if seen % CANCEL_CHECK_INTERVAL == 0 and stopped():
            return
        if (isinstance(step, str) and words in step.casefold()) or _contains(item, words):
            yield (*path, step)
        if embedded and (*path, step) in embedded:
            embedded_path = (*path, step)
            stack.append(((*embedded_path, EMBEDDED), iter_items(embedded[embedded_path], words)))
        elif _has_children(item):
            stack.append(((*path, step), iter_items(item, words)))


def _contains(value: Json, words: str) -> bool:
    if isinstance(value, str):
        return words in value.casefold()
    return not isinstance(value, CONTAINER_TYPES) and words in encode_scalar(value)
