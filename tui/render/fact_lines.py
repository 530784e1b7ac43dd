"""This module renders facts: one line each with its origin, the history of one fact, and planned changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from textual.content import Content

from store.edits.wording import edit_label
from store.formats.file_changes import ChangedLine
from store.model.knowledge import Change, Edit, Fact, FactOrigin
from store.model.session import GLOBAL_SCOPE
from store.text.sanitize import cell_width, expand_tabs, one_line, sanitize
from tui.render import glyphs
from tui.render.line_diff import DiffLine, render_diff_lines
from tui.render.styles import (
    FAINT,
    MUTED,
    STRONG,
    StyledText,
    build_content,
    fill_cells,
    format_age,
    format_count,
    share_room,
)
from tui.render.viewport import HangingLine, Viewport

ALL_SCOPES = ""
"""Selects the facts of every scope."""

BY_HAND = "by hand"
MAX_SHOWN_CHARACTERS = 4_000
"""Limits the text of a fact in its history. It is one line, and the thread that paints wraps it."""

MAX_QUOTE_CHARACTERS = 400
"""Limits an older text of a fact, and the quote from the entry it was learned from."""

_DISPUTED: list[StyledText] = [
    ("Another member changed it at the same time", "$text-warning"),
    ("   ~ to choose", FAINT),
]
_STORE_IDENTITY = re.compile(r"(?:@[\w-]+)?:@[0-9a-f]+\Z")
_MAX_CATEGORY_CELLS, _AGE_CELLS, _GAP_CELLS, _NARROW_WIDTH = 12, 8, 2, 60


class FactRow(NamedTuple):
    fact: Fact
    origin: FactOrigin

    @property
    def needs_write_back(self) -> bool:
        """True if the fact was changed here and its agent still has the old text."""
        fact = self.fact
        return bool(fact.foreign_place) and fact.retired_at is None and fact.text != fact.foreign_text

    @property
    def origin_label(self) -> str:
        """The origin of the fact, e.g. `Kiso: default`, `from Fix the flaky upload test` or `by hand`.

        A fact of the team names the member who changed it last.
        """
        title, program, member = self.origin.title, self.origin.program, self.origin.member
        if member or self.origin.is_disputed:
            mark = f"{glyphs.DISPUTED} " if self.origin.is_disputed else ""
            return f"{mark}{f'{glyphs.SHARED} {member}' if member else BY_HAND}"
        if program:
            return (
                f"{program}, not written back" if self.needs_write_back else f"{program}: {title}" if title else program
            )
        return f"from {title}" if title else BY_HAND

    @property
    def turn_label(self) -> str:
        turn = self.origin.turn
        return f", turn {turn}" if turn is not None and not self.origin.program else ""

    def matches(self, words: Sequence[str]) -> bool:
        fact = self.fact
        text = f"{fact.id} {fact.text} {fact.category} {self.origin_label}{self.turn_label} {fact.scope}".casefold()
        return all(word in text for word in words)


def scope_name(scope: str) -> str:
    """Return the name of a scope for people, without the identity of the store it came from."""
    if scope in (ALL_SCOPES, GLOBAL_SCOPE):
        return scope or "all scopes"
    kind, _, name = scope.partition(":")
    return one_line(f"{kind} {_STORE_IDENTITY.sub('', name)}", 40)


# ── the list ──────────────────────────────────────────────────────────────────────────────────────


def render_facts_heading(lines: int, limit: int, scope: str, shown: int, known: int, retired: bool) -> Content:
    """Render `Facts · 37 of 200 lines · global` or `Facts · all scopes: 99 · 37 of 200 lines global`."""
    is_over, is_filtered = lines > limit, shown != known
    usage: StyledText = (f"{lines:,} of {limit:,} lines", "bold $text-warning" if is_over else MUTED)
    warning: list[StyledText] = [(" · C to consolidate", "$text-warning")] if is_over else []
    pieces: list[StyledText] = [("Facts", STRONG), (" · ", FAINT)]
    if scope == ALL_SCOPES:
        count = f"{shown:,} of {known:,}" if is_filtered else f"{known:,}"
        pieces += [(f"{scope_name(scope)}: {count}", MUTED), (" · ", FAINT), usage]
        pieces += [(f" {GLOBAL_SCOPE}", MUTED), *warning]
    else:
        pieces += [usage, *warning, (" · ", FAINT), (scope_name(scope), MUTED)]
        pieces += [(f" · {shown:,} of {known:,} shown", MUTED)] if is_filtered else []
    pieces += [(" · with retired", MUTED)] if retired else []
    return build_content(pieces)


class FactColumns(NamedTuple):
    """Holds the widths of the columns."""

    text: int = 0
    category: int = 0
    origin: int = 0

    @classmethod
    def measure(cls, rows: Sequence[FactRow], *, with_scope: bool) -> FactColumns:
        """Return the widths that show every cell in full, up to a limit."""
        cells = [
            (row.fact.text, one_line(row.fact.category, _MAX_CATEGORY_CELLS), _origin_cell(row, 200, with_scope))
            for row in rows
        ]
        return cls(*(max(map(cell_width, column)) for column in zip(*cells, strict=True)))

    def fit(self, width: int) -> FactColumns:
        """Return the widths in a list of this width. What one column does not need goes to the others."""
        category = min(self.category, width // 6)
        room = width - 2 - (category and category + _GAP_CELLS) - _AGE_CELLS - 1
        origin = 0 if width < _NARROW_WIDTH else share_room(room - _GAP_CELLS, self.origin, self.text)
        return FactColumns(max(room - (origin and origin + _GAP_CELLS), 1), category, origin)


def render_fact_row(
    row: FactRow, now: datetime, width: int, widths: FactColumns, *, marked: bool = False, with_scope: bool = False
) -> Content:
    """Render `Project uses FastAPI.  project  from Fix the flaky upload test, turn 3   4d`."""
    fact, columns = row.fact, widths.fit(width)
    is_retired = fact.retired_at is not None
    gap = " " * _GAP_CELLS
    pieces: list[StyledText] = [
        (f"{glyphs.SELECTED} " if marked else "  ", "$text-accent"),
        (fill_cells(fact.text, columns.text), f"{FAINT} strike" if is_retired else ""),
    ]
    if columns.category:
        pieces.append((gap + fill_cells(fact.category, columns.category), FAINT if is_retired else "$text-secondary"))
    if columns.origin:
        origin = _origin_cell(row, columns.origin, with_scope)
        pieces.append((gap + fill_cells(origin, columns.origin), "$text-warning" if row.needs_write_back else FAINT))
    pieces.append((f"{'retired' if is_retired else format_age(fact.updated_at, now):>{_AGE_CELLS + 1}}", FAINT))
    return build_content(pieces).truncate(width)


def _origin_cell(row: FactRow, room: int, with_scope: bool) -> str:
    """Return the origin and the turn, which is never cut. The scope is added unless the origin implies it."""
    fact, turn = row.fact, row.turn_label
    is_implied = fact.scope == GLOBAL_SCOPE or (fact.foreign_place and fact.scope.startswith(("source:", "session:")))
    scope = f"{scope_name(fact.scope)} · " if with_scope and not is_implied else ""
    return one_line(scope + row.origin_label, max(room - cell_width(turn), 0)) + (
        turn if cell_width(turn) <= room else ""
    )


# ── one fact ──────────────────────────────────────────────────────────────────────────────────────


class FactHistoryRow(NamedTuple):
    content: Content
    entry: str | None = None
    "The entry that the row refers to, so that a key can open it."


def render_fact_history(row: FactRow, edits: Sequence[Edit], now: datetime, width: int) -> list[FactHistoryRow]:
    """Render a fact in full, then its changes, the newest first, and its origin last."""
    viewport = Viewport(max(width, 1))
    rows = [FactHistoryRow(content) for content in _render_full_fact(row, viewport)]
    rows += [FactHistoryRow(content) for content in _render_foreign_text(row, viewport)]
    if row.origin.is_disputed:
        rows += [FactHistoryRow(content) for content in viewport.wrap(build_content(_DISPUTED))]
    has_origin = False
    for edit in reversed(edits):
        for change in edit.changes:
            if change.table == "facts" and change.key == row.fact.id:
                has_origin |= change.before is None
                is_origin = change.before is None and edit.undoes is None
                pieces = _describe_origin(row, edit.author) if is_origin else _describe_change(edit, change)
                entry = row.fact.entry if is_origin else None
                rows += [FactHistoryRow(content, entry) for content in _with_age(edit.at, now, pieces, viewport)]
    if not has_origin:
        rows += [
            FactHistoryRow(content, row.fact.entry)
            for content in _with_age(row.fact.created_at, now, _describe_origin(row), viewport)
        ]
    return rows


def _with_age(at: str, now: datetime, pieces: Sequence[StyledText], viewport: Viewport) -> Iterator[Content]:
    """Wrap the text and put its age before the first line."""
    prefix = f"{format_age(at, now):>{_AGE_CELLS}}  "
    for line in viewport.narrow_by(len(prefix)).wrap(build_content(pieces)):
        yield build_content([(prefix, FAINT)]) + line
        prefix = " " * len(prefix)


def _render_full_fact(row: FactRow, viewport: Viewport) -> Iterator[Content]:
    text, left = row.fact.text[:MAX_SHOWN_CHARACTERS], len(row.fact.text) - MAX_SHOWN_CHARACTERS
    for text_line in expand_tabs(sanitize(text)).split("\n"):
        yield from viewport.wrap(build_content([(text_line, STRONG)]))
    if left > 0:
        more = format_count(left, "more character")
        yield viewport.truncate(build_content([(f"… {more} · e to open the full text", f"italic {FAINT}")]))
    fact = row.fact
    details = [
        f"fact {fact.id}",
        scope_name(fact.scope),
        one_line(fact.category, 60),
        "retired" if fact.retired_at else "",
    ]
    yield viewport.truncate(build_content([(" · ".join(filter(None, details)), FAINT)]))


def _render_foreign_text(row: FactRow, viewport: Viewport) -> Iterator[Content]:
    """Render the text that the agent still has, if it differs."""
    if row.needs_write_back:
        foreign_text = one_line(row.fact.foreign_text, MAX_QUOTE_CHARACTERS)
        sentence = (
            f"{row.origin.program} still says “{foreign_text}”"
            if foreign_text
            else f"{row.origin.program} no longer has it"
        )
        yield from viewport.wrap(build_content([(sentence, "$text-warning"), ("   w to write back", FAINT)]))


def _describe_origin(row: FactRow, author: str = "") -> list[StyledText]:
    origin = row.origin
    pieces: list[StyledText] = []
    if author:
        pieces += [("added by ", MUTED), (one_line(author, 60), "")]
    elif origin.program:
        pieces += [("read from ", MUTED), (origin.program, "")]
        pieces += [(", ", MUTED), (one_line(origin.title, MAX_QUOTE_CHARACTERS), "")] if origin.title else []
    elif origin.title:
        pieces += [
            ("learned from ", MUTED),
            (one_line(origin.title, MAX_QUOTE_CHARACTERS), ""),
            (row.turn_label, MUTED),
        ]
        pieces += [(": ", MUTED), (f"“{one_line(origin.quote, MAX_QUOTE_CHARACTERS)}”", "")] if origin.quote else []
    else:
        pieces += [(f"added {BY_HAND}", MUTED)]
    if row.fact.entry:
        pieces += [("   g to open", "$text-accent")]
    return pieces


def _describe_change(edit: Edit, change: Change) -> list[StyledText]:
    """Describe a change, e.g. `“Project uses Flask.” → “Project uses FastAPI.”`."""
    before, after = change.before or {}, change.after or {}
    pieces: list[StyledText] = [(edit_label(edit), MUTED)] if change.after is None or change.before is None else []
    old, new = before.get("text"), after.get("text")
    if old is not None and new is not None and old != new:
        pieces += [
            (f"“{one_line(old, MAX_QUOTE_CHARACTERS)}”", MUTED),
            (" → ", FAINT),
            (f"“{one_line(new, MAX_QUOTE_CHARACTERS)}”", ""),
        ]
    if before.get("category") != after.get("category") and change.before is not None and change.after is not None:
        pieces += [(_separator(pieces) + "category ", MUTED)]
        pieces += [(one_line(before["category"], 60) or "none", MUTED), (" → ", FAINT)]
        pieces += [(one_line(after["category"], 60) or "none", "")]
    if "retired_at" in after and change.before is not None:
        is_changed = bool(before.get("retired_at")) != bool(after["retired_at"])
        pieces += [(_separator(pieces) + ("retired" if after["retired_at"] else "restored"), MUTED)] * is_changed
    if edit.kind in ("merge facts", "consolidate facts", "write-back") or edit.undoes is not None:
        pieces += [(f"   {edit_label(edit)}", FAINT)]
    if edit.undone_by is not None:
        pieces += [("   undone", FAINT)]
    return [(f"{one_line(edit.author, 60)}: ", ""), *pieces] if edit.author else pieces


def _separator(pieces: Sequence[StyledText]) -> str:
    return ", " if pieces else ""


# ── planned changes ───────────────────────────────────────────────────────────────────────────────


def render_consolidation(unified: str) -> list[HangingLine]:
    """Render a unified diff of the facts before and after, without its header."""
    lines = [
        DiffLine("@", glyphs.LEFT_OUT) if line.startswith("@@") else DiffLine(*ChangedLine.parse(line))
        for line in unified.splitlines()[3:]
    ]
    return render_diff_lines(lines)
