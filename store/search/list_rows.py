"""A list of sessions, however long: what is wanted of it, which rows it has, on which line each stands. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from store.search.query import Query

if TYPE_CHECKING:
    from store.model.knowledge import Hit
    from store.model.session import Session

Order = Literal["best", "newest", "oldest", "turns", "errors", "title"]
Grouping = Literal["day", "folder", "agent", "none"]
ORDERS: tuple[Order, ...] = get_args(Order)
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)

LINES_PER_ROW = 2
"""Lines to a session; a heading has one."""

MAX_NESTING = 7
"""What is nested deeper is shown at this depth."""


class SessionListOptions(NamedTuple):
    query: str = ""
    "As it is being typed: the last word may be half of one."
    folder: str = ""
    "Only what happened in it or below; everywhere when empty."
    order: Order = "best"
    "The newest, and before them those that fit the words best."
    group: Grouping = "day"
    unfolded: frozenset[int] = frozenset()
    "The sessions whose children are shown."


BEST_MATCHES = "best"
"""In the place of a day, above those that fit the words best."""


class Heading(NamedTuple):
    row: int
    "The first row beneath it."
    value: str
    "A date, a folder's path or an agent's name; empty where nobody knows."
    sessions: int


class ListLine(NamedTuple):
    """What stands on a line: a row's first or second line, or the heading of that number."""

    row: int
    row_line: int
    heading: int | None = None


@dataclass(frozen=True)
class SessionListLayout:
    """The keys of the rows from top to bottom; arrays, since there may be a hundred thousand of them."""

    options: SessionListOptions = field(default_factory=SessionListOptions)
    query: Query = field(default_factory=Query)
    keys: array[int] = field(default_factory=lambda: array("q"))
    total: int = 0
    "How many sessions match, those that are folded away included."
    headings: tuple[Heading, ...] = ()
    depths: bytes = b""
    "How deep each row is nested; empty when none is."
    guides: bytes = b""
    "Of each row the levels, as bits, on which something follows further down; empty when none is nested."
    last_hit_entries: Mapping[int, int] = field(default_factory=dict, repr=False, compare=False)
    "As far as it was looked for: of sessions in which the words were said, the last entry that holds them."

    def __post_init__(self) -> None:
        starts = array("q", [heading.row for heading in self.headings])
        object.__setattr__(self, "_heading_rows", starts)
        object.__setattr__(
            self, "_heading_lines", array("q", [row * LINES_PER_ROW + n for n, row in enumerate(starts)])
        )

    _heading_rows: array[int] = field(init=False, repr=False, compare=False)
    _heading_lines: array[int] = field(init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def line_count(self) -> int:
        return len(self.keys) * LINES_PER_ROW + len(self.headings)

    def first_line_of(self, row: int) -> int:
        """The first of a row's lines."""
        return row * LINES_PER_ROW + bisect_right(self._heading_rows, row)

    def line_at(self, line: int) -> ListLine:
        above = bisect_right(self._heading_lines, line)
        if above and self._heading_lines[above - 1] == line:
            return ListLine(self._heading_rows[above - 1], 0, above - 1)
        row, part = divmod(line - above, LINES_PER_ROW)
        return ListLine(row, part)

    def row_of(self, key: int | None) -> int | None:
        try:
            return self.keys.index(key) if key is not None else None
        except ValueError:
            return None

    def depth(self, row: int) -> int:
        return self.depths[row] if self.depths else 0

    def has_guide(self, row: int, level: int) -> bool:
        return bool(self.guides and self.guides[row] >> level & 1)

    def parent_row(self, row: int) -> int | None:
        """The row under which it stands."""
        depth = self.depth(row)
        return next((above for above in range(row - 1, -1, -1) if self.depth(above) < depth), None) if depth else None

    def has_rows_beneath(self, row: int) -> bool:
        return row + 1 < len(self.keys) and self.depth(row + 1) > self.depth(row)


class SessionRow(NamedTuple):
    """What the list shows of a session."""

    session: Session
    has_summary: bool = False
    has_secrets: bool = False
    tags: tuple[str, ...] = ()
    children: int = 0
    hit: Hit | None = None
    "Where the words of the query were said last."
