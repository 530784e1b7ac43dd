"""This module describes a list of sessions: its options, its rows, and the line of each row. It is pure."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from store.search.query import Query

if TYPE_CHECKING:
    from store.model.knowledge import Hit
    from store.model.session import Session

Order = Literal["best", "newest", "oldest", "turns", "errors", "tokens", "cost", "title"]
Grouping = Literal["day", "folder", "agent", "user", "none"]
ORDERS: tuple[Order, ...] = get_args(Order)
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)

LINES_PER_ROW = 2
"""The lines of a session. A heading takes one line."""

MAX_NESTING = 7
"""The deepest level that is shown. Sessions that are nested deeper appear at this level."""


class SessionListOptions(NamedTuple):
    """Says which sessions a list shows, in which order and under which headings."""

    query: str = ""
    "Holds the text of the search box. Its last word may be incomplete."
    folder: str = ""
    "Limits the list to sessions in this folder or below it. Is empty for all folders."
    order: Order = "best"
    "By default, the best matches come first and then the newest sessions."
    group: Grouping = "day"
    unfolded: frozenset[int] = frozenset()
    "The sessions whose children are shown."


BEST_MATCHES = "best"
"""The value of the heading above the best matches, where other headings have a day."""


EMPTY_SESSIONS = "empty"
"""The value of the heading above the empty sessions."""

EMPTY_GROUP = -1
"""Is used like the key of a session for the row below that heading, under which the empty sessions are folded."""


PINNED_SESSIONS = "\0pinned"
OTHER_SESSIONS = "\0others"
"""The values of the headings above the pinned sessions, and above the others if these have no headings of their own.
No folder, agent or user is named so."""


TOOL_OUTPUT = "tool output"
"""The value of the heading above the sessions whose only hits are in tool calls and their results."""


class ToolHits(NamedTuple):
    """Holds the newest sessions whose only hits are in tool calls, and the newest hit of each."""

    query: Query = Query()
    "The query that was searched for. It may have corrections."
    hits: Mapping[int, Hit] = {}
    has_more: bool = False
    "Is true if more sessions match than are listed."


class Heading(NamedTuple):
    """Describes a heading and the sessions below it."""

    row: int
    "The first row below the heading."
    value: str
    "Holds a date, the path of a folder or the name of an agent. Is empty if it is unknown."
    sessions: int


class ListLine(NamedTuple):
    """Describes one line of the list: the first or second line of a row, or a heading."""

    row: int
    row_line: int
    heading: int | None = None


@dataclass(frozen=True)
class SessionListLayout:
    """Holds the keys of the rows from top to bottom, and their headings and nesting.

    It uses arrays because there may be a hundred thousand rows.
    """

    options: SessionListOptions = field(default_factory=SessionListOptions)
    query: Query = field(default_factory=Query)
    keys: array[int] = field(default_factory=lambda: array("q"))
    total: int = 0
    "Counts the sessions that match, including folded ones."
    archived: int = 0
    "Counts the archived sessions that match but are left out."
    trashed: int = 0
    "Counts the sessions in the trash that match but are left out."
    headings: tuple[Heading, ...] = ()
    depths: bytes = b""
    "Holds the nesting depth of each row. Is empty when no row is nested."
    guides: bytes = b""
    "Holds, for each row, one bit per level that has a guide line to a later row. Is empty when no row is nested."
    last_hit_entries: Mapping[int, int] = field(default_factory=dict, repr=False, compare=False)
    "Maps sessions to the last entry that matches the query, as far as the search needed it."
    tool_hits: ToolHits = field(default_factory=ToolHits, repr=False, compare=False)
    "Holds the hits of the sessions at the end of the list that were found in tool calls only."

    def __post_init__(self) -> None:
        rows = array("q", [heading.row for heading in self.headings])
        lines = array("q", [row * LINES_PER_ROW + index for index, row in enumerate(rows)])
        object.__setattr__(self, "_heading_rows", rows)
        object.__setattr__(self, "_heading_lines", lines)

    _heading_rows: array[int] = field(init=False, repr=False, compare=False)
    _heading_lines: array[int] = field(init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.keys)

    def with_tool_hits(self, found: ToolHits) -> SessionListLayout:
        """Return the list with the sessions below it that were found in tool calls only."""
        listed = set(self.keys)
        found = found._replace(hits={key: hit for key, hit in found.hits.items() if key not in listed})
        if not found.hits:
            return replace(self, tool_hits=found)
        return replace(
            self,
            keys=self.keys + array("q", found.hits),
            headings=(*self.headings, Heading(len(self.keys), TOOL_OUTPUT, len(found.hits))),
            depths=self.depths + bytes(len(found.hits)) if self.depths else b"",
            guides=self.guides + bytes(len(found.hits)) if self.guides else b"",
            tool_hits=found,
        )

    @property
    def line_count(self) -> int:
        return len(self.keys) * LINES_PER_ROW + len(self.headings)

    def first_line_of(self, row: int) -> int:
        """Return the number of the first line of a row."""
        return row * LINES_PER_ROW + bisect_right(self._heading_rows, row)

    def line_at(self, line: int) -> ListLine:
        headings_above = bisect_right(self._heading_lines, line)
        heading = headings_above - 1
        if headings_above and self._heading_lines[heading] == line:
            return ListLine(self._heading_rows[heading], 0, heading)
        row, row_line = divmod(line - headings_above, LINES_PER_ROW)
        return ListLine(row, row_line)

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
        """Return the row that a nested row belongs to, or None if the row is not nested."""
        depth = self.depth(row)
        return next((above for above in range(row - 1, -1, -1) if self.depth(above) < depth), None) if depth else None

    def has_rows_beneath(self, row: int) -> bool:
        return row + 1 < len(self.keys) and self.depth(row + 1) > self.depth(row)


class SessionRow(NamedTuple):
    """Holds what the list shows of a session."""

    session: Session
    has_summary: bool = False
    has_secrets: bool = False
    tags: tuple[str, ...] = ()
    children: int = 0
    hit: Hit | None = None
    "The newest message that matches the query, or a note if none does."
    has_notes: bool = False
    owner: str = ""
    "Is the member of the team who shares the session, if that is another machine."
    is_shared: bool = False
    "Is true if this machine shares the session."
    is_disputed: bool = False
    "Is true if its title or summary was changed on two machines at once, and no value has been chosen yet."
