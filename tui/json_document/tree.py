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
from tui.json_document.large_containers import CONTAINERS, LISTS, LargeList, LargeObject, items, steps
from tui.json_document.parser import json_in
from tui.json_document.values import plain, quoted
from tui.render.word_wrap import Chunk, wrapped


class Inside:
    """The step of a path from a string to the JSON that is in it."""


INSIDE: Final = Inside()


class LookedUp:
    """Stands for a value that is looked up in the parent's whenever somebody asks for it."""


LOOKED_UP: Final = LookedUp()

Step = str | int | Inside
Path = tuple[Step, ...]

ROWS_AT_FIRST = 60
LEVELS_AT_FIRST = 3
LONG_LIST = 12
"""Longer ones are folded at first."""

EVERYTHING: Final = 10**9
SHORT = 64_000
"""Characters of a string that are laid out while one waits."""

INDENT = 2
ARROW_CELLS = 2


@dataclass(slots=True, eq=False)
class Row:
    depth: int
    key: Step | None
    held: Json
    "The value, or LOOKED_UP."
    parent: Row | None
    open: bool = False
    inside: Json = None
    "The JSON that a string holds, once somebody asked for it."

    @property
    def value(self) -> Json:
        if self.held is LOOKED_UP and self.parent is not None:
            return self.parent.content[self.key]
        return self.held

    @property
    def content(self) -> Json:
        return self.value if self.inside is None else self.inside

    @property
    def whole(self) -> Row:
        """The row of the value: a line of a long string belongs to it."""
        return self.parent if isinstance(self.held, Chunk) and self.parent else self


# ── paths ─────────────────────────────────────────────────────────────────────────────────────────

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WITHIN = " | fromjson | ."
_STEP = re.compile(
    rf"""\.?(?P<inside>{re.escape(_WITHIN)}) | \.?(?P<name>{_IDENTIFIER.pattern}) | \.?\[(?P<index>\d+)\]
    | \.?\[(?P<quoted>"(?:[^"\\]|\\.)*")\] | \.$""",
    re.X,
)


def spell(path: Path) -> str:
    """As jq would have it: `.output[3].arguments | fromjson | .["a b"]`."""
    spelled = "."
    for step in path:
        dot = "" if spelled.endswith(".") else "."
        if isinstance(step, Inside):
            spelled += _WITHIN
        elif isinstance(step, int):
            spelled += f"[{step}]"
        else:
            spelled += dot + step if _IDENTIFIER.fullmatch(step) else f"[{quoted(step)}]"
    return spelled


def path_from(spelled: str) -> Path | None:
    """The other way round; None for what is no path."""
    steps: list[Step] = []
    at = 0
    while at < len(spelled):
        found = _STEP.match(spelled, at)
        if found is None:
            return None
        at = found.end()
        match found.lastgroup:
            case "inside":
                steps.append(INSIDE)
            case "name":
                steps.append(found["name"])
            case "index":
                steps.append(int(found["index"]))
            case "quoted":
                steps.append(json.loads(found["quoted"]))
    return tuple(steps)


def path_of(row: Row) -> Path:
    steps: list[Step] = []
    at = row.whole
    while at.parent is not None:
        if at.key is not None:
            steps.append(at.key)
        at = at.parent
        if at.inside is not None:
            steps.append(INSIDE)
    return tuple(reversed(steps))


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────


class Tree:
    """The rows that lie open, from the top. At first so many levels and about so many rows."""

    def __init__(self, value: Json, width: int = 80, levels: int = LEVELS_AT_FIRST, rows: int = ROWS_AT_FIRST) -> None:
        self.width = width
        self.root = Row(-1, None, value, None)
        "Has no row, unless it is all there is."
        if _haschildren(value):
            self.rows = self._unfolded(levels, rows)
        else:
            self.root.depth = 0
            self.rows = [self.root]

    def _unfolded(self, levels: int, room: int) -> list[Row]:
        """Level by level as far as the room goes, so that what is small is seen whole and what is big in outline."""
        made: dict[Row, list[Row]] = {}
        waiting = [self.root]
        for depth in range(levels + 1):
            below: list[Row] = []
            for row in waiting:
                size = len(row.value)
                if depth and room < EVERYTHING and (size > room or (isinstance(row.value, LISTS) and size > LONG_LIST)):
                    continue
                room -= size if room < EVERYTHING else 0
                row.open = True
                made[row] = list(self.children(row))
                if room > 0:
                    below += [child for child in made[row] if _haschildren(child.value)]
            waiting = below
            if not waiting:
                break
        return list(_flattened(self.root, made))

    def children(self, row: Row) -> Iterator[Row]:
        """May be asked for in a thread: nothing changes by it."""
        content, depth = row.content, row.depth + 1
        if isinstance(content, LargeList | LargeObject):
            return (Row(depth, step, LOOKED_UP, row) for step in steps(content))
        if isinstance(content, CONTAINERS):
            return (Row(depth, step, value, row) for step, value in items(content))
        return (Row(depth, None, chunk, row) for chunk in wrapped(content, room(depth, self.width)))

    # ── opening and closing ───────────────────────────────────────────────────────────────────────

    def open(self, at: int, children: Iterable[Row] | None = None) -> None:
        """With the children, where somebody else has made them already."""
        row = self.rows[at]
        if not row.open and isinstance(row.content, (*CONTAINERS, str)):
            row.open = True
            self.rows[at + 1 : at + 1] = self.children(row) if children is None else children

    def close(self, at: int) -> None:
        row = self.rows[at]
        if row.open:
            row.open = False
            del self.rows[at + 1 : self._end(at)]

    def open_inside(self, at: int) -> bool:
        """The JSON that the string holds, in its place; False when it holds none."""
        row = self.rows[at]
        inside = json_in(row.value)
        if inside is None:
            return False
        self.close(at)
        row.inside = inside
        self.open(at)
        return True

    def close_inside(self, at: int) -> None:
        self.close(at)
        self.rows[at].inside = None

    def _end(self, at: int) -> int:
        """The first row after all that hangs on this one."""
        depth = self.rows[at].depth if at >= 0 else -1
        end = at + 1
        while end < len(self.rows) and self.rows[end].depth > depth:
            end += 1
        return end

    def wrap(self, width: int) -> list[Row]:
        """Strings that lie open are laid out anew for another width; those too long to wait for are folded and given
        back, to be laid out elsewhere."""
        if width == self.width:
            return []
        self.width = width
        if not any(isinstance(row.held, Chunk) for row in self.rows):
            return []
        rows: list[Row] = []
        left: list[Row] = []
        for row in self.rows:
            if isinstance(row.held, Chunk):
                continue
            rows.append(row)
            if row.open and type(row.content) is str:
                row.open = len(row.content) <= SHORT
                if row.open:
                    rows += self.children(row)
                else:
                    left.append(row)
        self.rows = rows
        return left

    # ── finding one's way ─────────────────────────────────────────────────────────────────────────

    def parent(self, at: int) -> int:
        """Where the row's parent is; the row itself at the top."""
        parent = self.rows[at].parent
        above = at
        while above >= 0 and self.rows[above] is not parent:
            above -= 1
        return above if above >= 0 else at

    def nearest(self, path: Path) -> int:
        """The row of the path, or of what it lies folded in."""
        at = self._top
        for step in path:
            child = None if isinstance(step, Inside) else self._child(at, step)
            at = at if child is None else child
        return max(at, 0)

    def reveal(self, path: Path) -> int | None:
        """Opens what the path goes through; None when it leads nowhere."""
        at = self._top
        for step in path:
            if isinstance(step, Inside):
                if at < 0 or (self.rows[at].inside is None and not self.open_inside(at)):
                    return None
                continue
            if at >= 0 and _haschildren(self.rows[at].content):
                self.open(at)
            child = self._child(at, step)
            if child is None:
                return None
            at = child
        return max(at, 0)

    @property
    def _top(self) -> int:
        return 0 if self.rows[0] is self.root else -1

    def _child(self, at: int, key: str | int) -> int | None:
        row = self.rows[at] if at >= 0 else self.root
        for below in range(at + 1, self._end(at)):
            if self.rows[below].parent is row and self.rows[below].key == key:
                return below
        return None

    def insides(self) -> dict[Path, Json]:
        """Of which strings the JSON is open."""
        return {path_of(row): row.inside for row in self.rows if row.inside is not None}


def indent(depth: int, width: int) -> int:
    """However deep, two thirds of the line are left to read."""
    return min(INDENT * depth, width // 3)


def room(depth: int, width: int) -> int:
    """Cells for a key and its value."""
    return width - indent(depth, width) - ARROW_CELLS


def _flattened(root: Row, made: Mapping[Row, list[Row]]) -> Iterator[Row]:
    stack = [iter(made[root])]
    while stack:
        row = next(stack[-1], None)
        if row is None:
            stack.pop()
            continue
        yield row
        if row in made:
            stack.append(iter(made[row]))


def _haschildren(value: Json) -> bool:
    return isinstance(value, CONTAINERS) and bool(value)


# ── finding ───────────────────────────────────────────────────────────────────────────────────────

LOOKED_AT = 2_000
"""How many values are looked at before asking whether anybody still wants to know."""


def find(value: Json, words: str, insides: Mapping[Path, Json], stopped: Callable[[], bool]) -> Iterator[Path]:
    """The paths of the keys and values that hold the words, from the top, whatever their case."""
    words = words.casefold()
    if not _haschildren(value):
        if _holds(value, words):
            yield ()
        return
    stack: list[tuple[Path, Iterator[tuple[Step, Json]]]] = [((), items(value, words))]
    seen = 0
    while stack:
        path, below = stack[-1]
        step, item = next(below, (None, None))
        if step is None:
            stack.pop()
            continue
        seen += 1
        if seen % LOOKED_AT == 0 and stopped():
            return
        if (isinstance(step, str) and words in step.casefold()) or _holds(item, words):
            yield (*path, step)
        if insides and (*path, step) in insides:
            inner = (*path, step)
            stack.append(((*inner, INSIDE), items(insides[inner], words)))
        elif _haschildren(item):
            stack.append(((*path, step), items(item, words)))


def _holds(value: Json, words: str) -> bool:
    if isinstance(value, str):
        return words in value.casefold()
    return not isinstance(value, CONTAINERS) and words in plain(value)
