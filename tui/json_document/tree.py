"""A JSON value as rows to look through, made as they are asked for.

Only what lies open has rows, and of what is large only what is looked at is parsed.
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
    """The step of a path from a string to the JSON that is in it."""


EMBEDDED: Final = EmbeddedStep()


class LazyValue:
    """Stands for a value that is looked up in the parent's whenever somebody asks for it."""


LAZY_VALUE: Final = LazyValue()

PathStep = str | int | EmbeddedStep
JsonPath = tuple[PathStep, ...]

INITIAL_ROWS = 60
INITIAL_LEVELS = 3
LONG_LIST = 12
"""Longer ones are folded at first."""

UNLIMITED: Final = 10**9
MAX_SYNC_CHARACTERS = 64_000
"""Characters of a string that are laid out while one waits."""

INDENT_CELLS = 2
ARROW_CELLS = 2


@dataclass(slots=True, eq=False)
class JsonRow:
    depth: int
    key: PathStep | None
    stored: Json
    "The value, or LOOKED_UP."
    parent: JsonRow | None
    is_open: bool = False
    embedded: Json = None
    "The JSON that a string holds, once somebody asked for it."

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
        """The row of the value: a line of a long string belongs to it."""
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
    """As jq would have it: `.output[3].arguments | fromjson | .["a b"]`."""
    spelled = "."
    for step in path:
        dot = "" if spelled.endswith(".") else "."
        if isinstance(step, EmbeddedStep):
            spelled += _FROMJSON
        elif isinstance(step, int):
            spelled += f"[{step}]"
        else:
            spelled += dot + step if _IDENTIFIER.fullmatch(step) else f"[{encode_string(step)}]"
    return spelled


def parse_path(spelled: str) -> JsonPath | None:
    """The other way round; None for what is no path."""
    steps: list[PathStep] = []
    at = 0
    while at < len(spelled):
        found = _STEP_PATTERN.match(spelled, at)
        if found is None:
            return None
        at = found.end()
        match found.lastgroup:
            case "inside":
                steps.append(EMBEDDED)
            case "name":
                steps.append(found["name"])
            case "index":
                steps.append(int(found["index"]))
            case "quoted":
                steps.append(json.loads(found["quoted"]))
    return tuple(steps)


def row_path(row: JsonRow) -> JsonPath:
    steps: list[PathStep] = []
    at = row.value_row
    while at.parent is not None:
        if at.key is not None:
            steps.append(at.key)
        at = at.parent
        if at.embedded is not None:
            steps.append(EMBEDDED)
    return tuple(reversed(steps))


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────


class JsonTree:
    """The rows that lie open, from the top. At first so many levels and about so many rows."""

    def __init__(self, value: Json, width: int = 80, levels: int = INITIAL_LEVELS, rows: int = INITIAL_ROWS) -> None:
        self.width = width
        self.root = JsonRow(-1, None, value, None)
        "Has no row, unless it is all there is."
        if _has_children(value):
            self.rows = self._initial_rows(levels, rows)
        else:
            self.root.depth = 0
            self.rows = [self.root]

    def _initial_rows(self, levels: int, room: int) -> list[JsonRow]:
        """Level by level as far as the room goes, so that what is small is seen whole and what is big in outline."""
        made: dict[JsonRow, list[JsonRow]] = {}
        waiting = [self.root]
        for depth in range(levels + 1):
            below: list[JsonRow] = []
            for row in waiting:
                size = len(row.value)
                if (
                    depth
                    and room < UNLIMITED
                    and (size > room or (isinstance(row.value, LIST_TYPES) and size > LONG_LIST))
                ):
                    continue
                room -= size if room < UNLIMITED else 0
                row.is_open = True
                made[row] = list(self.children(row))
                if room > 0:
                    below += [child for child in made[row] if _has_children(child.value)]
            waiting = below
            if not waiting:
                break
        return list(_flatten(self.root, made))

    def children(self, row: JsonRow) -> Iterator[JsonRow]:
        """May be asked for in a thread: nothing changes by it."""
        content, depth = row.content, row.depth + 1
        if isinstance(content, LargeList | LargeObject):
            return (JsonRow(depth, step, LAZY_VALUE, row) for step in iter_keys(content))
        if isinstance(content, CONTAINER_TYPES):
            return (JsonRow(depth, step, value, row) for step, value in iter_items(content))
        return (JsonRow(depth, None, chunk, row) for chunk in wrap_text(content, text_width(depth, self.width)))

    # ── opening and closing ───────────────────────────────────────────────────────────────────────

    def open(self, at: int, children: Iterable[JsonRow] | None = None) -> None:
        """With the children, where somebody else has made them already."""
        row = self.rows[at]
        if not row.is_open and isinstance(row.content, (*CONTAINER_TYPES, str)):
            row.is_open = True
            self.rows[at + 1 : at + 1] = self.children(row) if children is None else children

    def close(self, at: int) -> None:
        row = self.rows[at]
        if row.is_open:
            row.is_open = False
            del self.rows[at + 1 : self._subtree_end(at)]

    def open_embedded(self, at: int) -> bool:
        """The JSON that the string holds, in its place; False when it holds none."""
        row = self.rows[at]
        inside = parse_embedded_json(row.value)
        if inside is None:
            return False
        self.close(at)
        row.embedded = inside
        self.open(at)
        return True

    def close_embedded(self, at: int) -> None:
        self.close(at)
        self.rows[at].embedded = None

    def _subtree_end(self, at: int) -> int:
        """The first row after all that hangs on this one."""
        depth = self.rows[at].depth if at >= 0 else -1
        end = at + 1
        while end < len(self.rows) and self.rows[end].depth > depth:
            end += 1
        return end

    def rewrap(self, width: int) -> list[JsonRow]:
        """Strings that lie open are laid out anew for another width; those too long to wait for are folded and given
        back, to be laid out elsewhere."""
        if width == self.width:
            return []
        self.width = width
        if not any(isinstance(row.stored, WrappedLine) for row in self.rows):
            return []
        rows: list[JsonRow] = []
        left: list[JsonRow] = []
        for row in self.rows:
            if isinstance(row.stored, WrappedLine):
                continue
            rows.append(row)
            if row.is_open and type(row.content) is str:
                row.is_open = len(row.content) <= MAX_SYNC_CHARACTERS
                if row.is_open:
                    rows += self.children(row)
                else:
                    left.append(row)
        self.rows = rows
        return left

    # ── finding one's way ─────────────────────────────────────────────────────────────────────────

    def parent_index(self, at: int) -> int:
        """Where the row's parent is; the row itself at the top."""
        parent = self.rows[at].parent
        above = at
        while above >= 0 and self.rows[above] is not parent:
            above -= 1
        return above if above >= 0 else at

    def find_nearest(self, path: JsonPath) -> int:
        """The row of the path, or of what it lies folded in."""
        at = self._root_index
        for step in path:
            child = None if isinstance(step, EmbeddedStep) else self._find_child(at, step)
            at = at if child is None else child
        return max(at, 0)

    def reveal(self, path: JsonPath) -> int | None:
        """Opens what the path goes through; None when it leads nowhere."""
        at = self._root_index
        for step in path:
            if isinstance(step, EmbeddedStep):
                if at < 0 or (self.rows[at].embedded is None and not self.open_embedded(at)):
                    return None
                continue
            if at >= 0 and _has_children(self.rows[at].content):
                self.open(at)
            child = self._find_child(at, step)
            if child is None:
                return None
            at = child
        return max(at, 0)

    @property
    def _root_index(self) -> int:
        return 0 if self.rows[0] is self.root else -1

    def _find_child(self, at: int, key: str | int) -> int | None:
        row = self.rows[at] if at >= 0 else self.root
        for below in range(at + 1, self._subtree_end(at)):
            if self.rows[below].parent is row and self.rows[below].key == key:
                return below
        return None

    def embedded_values(self) -> dict[JsonPath, Json]:
        """Of which strings the JSON is open."""
        return {row_path(row): row.embedded for row in self.rows if row.embedded is not None}


def indent_width(depth: int, width: int) -> int:
    """However deep, two thirds of the line are left to read."""
    return min(INDENT_CELLS * depth, width // 3)


def text_width(depth: int, width: int) -> int:
    """Cells for a key and its value."""
    return width - indent_width(depth, width) - ARROW_CELLS


def _flatten(root: JsonRow, made: Mapping[JsonRow, list[JsonRow]]) -> Iterator[JsonRow]:
    stack = [iter(made[root])]
    while stack:
        row = next(stack[-1], None)
        if row is None:
            stack.pop()
            continue
        yield row
        if row in made:
            stack.append(iter(made[row]))


def _has_children(value: Json) -> bool:
    return isinstance(value, CONTAINER_TYPES) and bool(value)


# ── finding ───────────────────────────────────────────────────────────────────────────────────────

CANCEL_CHECK_INTERVAL = 2_000
"""How many values are looked at before asking whether anybody still wants to know."""


def find_paths(
    value: Json, words: str, insides: Mapping[JsonPath, Json], stopped: Callable[[], bool]
) -> Iterator[JsonPath]:
    """The paths of the keys and values that hold the words, from the top, whatever their case."""
    words = words.casefold()
    if not _has_children(value):
        if _contains(value, words):
            yield ()
        return
    stack: list[tuple[JsonPath, Iterator[tuple[PathStep, Json]]]] = [((), iter_items(value, words))]
    seen = 0
    while stack:
        path, below = stack[-1]
        step, item = next(below, (None, None))
        if step is None:
            stack.pop()
            continue
        seen += 1
        if seen % CANCEL_CHECK_INTERVAL == 0 and stopped():
            return
        if (isinstance(step, str) and words in step.casefold()) or _contains(item, words):
            yield (*path, step)
        if insides and (*path, step) in insides:
            inner = (*path, step)
            stack.append(((*inner, EMBEDDED), iter_items(insides[inner], words)))
        elif _has_children(item):
            stack.append(((*path, step), iter_items(item, words)))


def _contains(value: Json, words: str) -> bool:
    if isinstance(value, str):
        return words in value.casefold()
    return not isinstance(value, CONTAINER_TYPES) and words in encode_scalar(value)
