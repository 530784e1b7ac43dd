"""Facts as a person reads them: a line each with where it came from, and below how it came to say what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from textual.content import Content

from store.model.knowledge import Change, Edit, Fact, FactOrigin
from store.model.session import GLOBAL_SCOPE
from store.text.sanitize import cell_width, expand_tabs, one_line, sanitize
from tui.render.journal_lines import edit_label
from tui.render.line_diff import render_text_diff
from tui.render.session_lines import abbreviate_home
from tui.render.styles import FAINT, MUTED, STRONG, StyledText, build_content, format_age, format_count
from tui.render.viewport import DEFAULT_TEXT_LIMIT, Viewport

ALL_SCOPES = ""
"""Where all facts are shown, whoever may know them."""

BY_HAND = "by hand"
MASK = "••••"
MAX_QUOTE_CHARACTERS = 400
"""Characters of what a fact said before, or of what was said where it was learnt."""

_STORE_IDENTITY = re.compile(r"(?:@[\w-]+)?:@[0-9a-f]+\Z")
_MAX_CATEGORY_CELLS, _AGE_CELLS, _NARROW_WIDTH = 12, 8, 60


class FactRow(NamedTuple):
    fact: Fact
    origin: FactOrigin

    @property
    def needs_write_back(self) -> bool:
        """Corrected here, and its program does not know."""
        fact = self.fact
        return bool(fact.foreign_place) and fact.retired_at is None and fact.text != fact.foreign_text

    @property
    def origin_label(self) -> str:
        """`Kiso: default`, `from Fix the flaky upload test`, `by hand`."""
        title, program = self.origin.title, self.origin.program
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
        told = f"{fact.id} {fact.text} {fact.category} {self.origin_label}{self.turn_label} {fact.scope}".casefold()
        return all(word in told for word in words)


def scope_name(scope: str) -> str:
    """As short as it can be said: what the identity of a foreign store adds is for machines."""
    if scope in (ALL_SCOPES, GLOBAL_SCOPE):
        return scope or "every scope"
    kind, _, name = scope.partition(":")
    return one_line(f"{kind} {_STORE_IDENTITY.sub('', name)}", 40)


# ── the list ──────────────────────────────────────────────────────────────────────────────────────


def render_facts_heading(lines: int, limit: int, scope: str, shown: int, known: int, retired: bool) -> Content:
    """`Facts · 37 of 200 lines · global`, or `Facts · every scope: 99 · 37 of 200 lines global`."""
    over, narrowed = lines > limit, shown != known
    used: StyledText = (f"{lines:,} of {limit:,} lines", "bold $text-warning" if over else MUTED)
    warned: list[StyledText] = [(" · C makes them fewer", "$text-warning")] if over else []
    pieces: list[StyledText] = [("Facts", STRONG), (" · ", FAINT)]
    if scope == ALL_SCOPES:
        told = f"{shown:,} of {known:,}" if narrowed else f"{known:,}"
        pieces += [(f"{scope_name(scope)}: {told}", MUTED), (" · ", FAINT), used, (f" {GLOBAL_SCOPE}", MUTED), *warned]
    else:
        pieces += [used, *warned, (" · ", FAINT), (scope_name(scope), MUTED)]
        pieces += [(f" · {shown:,} of {known:,} shown", MUTED)] if narrowed else []
    pieces += [(" · retired too", MUTED)] if retired else []
    return build_content(pieces)


def render_fact_row(
    line: FactRow, now: datetime, width: int, *, marked: bool = False, with_scope: bool = False
) -> Content:
    fact = line.fact
    quiet = fact.retired_at is not None
    category_room = min(_MAX_CATEGORY_CELLS, width // 6)
    where_room = 0 if width < _NARROW_WIDTH else min(max(width // 3 - 2, 16), 44)
    room = max(width - 2 - category_room - where_room - _AGE_CELLS - 4, 1)
    said = one_line(fact.text, room)
    about = one_line(fact.category, category_room)
    where = _origin_cell(line, where_room, with_scope)
    style = "$text-warning" if line.needs_write_back else FAINT
    pieces: list[StyledText] = [
        ("● " if marked else "  ", "$text-accent"),
        (said + " " * (room - cell_width(said) + 2), f"{FAINT} strike" if quiet else ""),
        (about + " " * (category_room - cell_width(about) + 2), FAINT if quiet else "$text-secondary"),
        (where + " " * (where_room - cell_width(where)), style),
        (f"{'retired' if quiet else format_age(fact.updated_at, now):>{_AGE_CELLS}}", FAINT),
    ]
    return build_content(pieces).truncate(width)


def _origin_cell(line: FactRow, room: int, with_scope: bool) -> str:
    """The turn is told whatever else must be cut; and who may know it, where that is not said by where it came from."""
    fact, turn = line.fact, line.turn_label
    is_said = fact.scope == GLOBAL_SCOPE or (fact.foreign_place and fact.scope.startswith(("source:", "session:")))
    scope = f"{scope_name(fact.scope)} · " if with_scope and not is_said else ""
    return one_line(scope + line.origin_label, max(room - cell_width(turn), 0)) + (
        turn if cell_width(turn) <= room else ""
    )


# ── one fact ──────────────────────────────────────────────────────────────────────────────────────


class FactHistoryRow(NamedTuple):
    content: Content
    entry: str | None = None
    "The turn that it speaks of, to go there."


def render_fact_history(line: FactRow, edits: Sequence[Edit], now: datetime, width: int) -> list[FactHistoryRow]:
    """The whole of it, then what became of it, newest first, down to where it came from."""
    look = Viewport(max(width, 1))
    rows = [FactHistoryRow(shown) for shown in _render_full_fact(line, look)]
    rows += [FactHistoryRow(shown) for shown in _render_foreign_text(line, look)]
    learnt = False
    for edit in reversed(edits):
        for change in edit.changes:
            if change.table == "facts" and change.key == line.fact.id:
                learnt |= change.before is None
                begins = change.before is None and edit.undoes is None
                told = _describe_origin(line) if begins else _describe_change(edit, change)
                entry = line.fact.entry if begins else None
                rows += [FactHistoryRow(part, entry) for part in _with_age(edit.at, now, told, look)]
    if not learnt:
        rows += [
            FactHistoryRow(part, line.fact.entry)
            for part in _with_age(line.fact.created_at, now, _describe_origin(line), look)
        ]
    return rows


def _with_age(at: str, now: datetime, told: Sequence[StyledText], look: Viewport) -> Iterator[Content]:
    """With how long ago beside the first of its lines."""
    begin = f"{format_age(at, now):>{_AGE_CELLS}}  "
    for part in look.narrow_by(len(begin)).wrap(build_content(told)):
        yield build_content([(begin, FAINT)]) + part
        begin = " " * len(begin)


def _render_full_fact(line: FactRow, look: Viewport) -> Iterator[Content]:
    text, left = line.fact.text[:DEFAULT_TEXT_LIMIT], len(line.fact.text) - DEFAULT_TEXT_LIMIT
    for shown in expand_tabs(sanitize(text)).split("\n"):
        yield from look.wrap(build_content([(shown, STRONG)]))
    if left > 0:
        yield look.truncate(build_content([(f"… {left:,} more characters · e opens all of them", f"italic {FAINT}")]))
    fact = line.fact
    told = [
        f"fact {fact.id}",
        scope_name(fact.scope),
        one_line(fact.category, 60),
        "retired" if fact.retired_at else "",
    ]
    yield look.truncate(build_content([(" · ".join(filter(None, told)), FAINT)]))


def _render_foreign_text(line: FactRow, look: Viewport) -> Iterator[Content]:
    """What its program still says, where that is another thing."""
    if line.needs_write_back:
        said = one_line(line.fact.foreign_text, MAX_QUOTE_CHARACTERS)
        told = f"{line.origin.program} still says “{said}”" if said else f"{line.origin.program} says it no more"
        yield from look.wrap(build_content([(told, "$text-warning"), ("   w writes it back", FAINT)]))


def _describe_origin(line: FactRow) -> list[StyledText]:
    origin = line.origin
    pieces: list[StyledText] = []
    if origin.program:
        pieces += [("read from ", MUTED), (origin.program, "")]
        pieces += [(", ", MUTED), (one_line(origin.title, MAX_QUOTE_CHARACTERS), "")] if origin.title else []
    elif origin.title:
        pieces += [
            ("learnt from ", MUTED),
            (one_line(origin.title, MAX_QUOTE_CHARACTERS), ""),
            (line.turn_label, MUTED),
        ]
        pieces += [(": ", MUTED), (f"“{one_line(origin.quote, MAX_QUOTE_CHARACTERS)}”", "")] if origin.quote else []
    else:
        pieces += [(f"added {BY_HAND}", MUTED)]
    if line.fact.entry:
        pieces += [("   g goes there", "$text-accent")]
    return pieces


def _describe_change(edit: Edit, change: Change) -> list[StyledText]:
    """`“Project uses Flask.” → “Project uses FastAPI.”`."""
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
        pieces += [(_separator(pieces) + ("retired" if after["retired_at"] else "brought back"), MUTED)]
    if edit.kind in ("merge facts", "consolidate facts", "write-back") or edit.undoes is not None:
        pieces += [(f"   {edit_label(edit)}", FAINT)]
    if edit.undone_by is not None:
        pieces += [(f"   undone by {edit.undone_by}", FAINT)]
    return pieces


def _separator(pieces: Sequence[StyledText]) -> str:
    return ", " if pieces else ""


# ── what an edit would do ─────────────────────────────────────────────────────────────────────────


def render_consolidation(unified: str) -> list[Content]:
    """A unified diff of the facts before and after, without its head; every line that changes, and its neighbours."""
    styles = {"+": ("+ ", "$text-success"), "-": ("− ", "$text-error"), "@": ("⋯", FAINT)}
    lines = []
    for line in unified.splitlines()[3:]:
        sign, style = styles.get(line[:1], ("  ", MUTED))
        lines.append(
            build_content([(sign, style), ("" if line.startswith("@@") else one_line(line[1:], 2_000), style)])
        )
    return lines


class PlannedRow(NamedTuple):
    """A row of another program's, as it is and as it would be."""

    table: str
    key: Mapping[str, Any]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


def render_fact_write_back(
    where: str, rows: Sequence[PlannedRow], unplaced: Sequence[str], conflicts: Sequence[str]
) -> list[Content]:
    """Exactly what would be written, and what would not."""
    lines = [build_content([("in ", FAINT), (one_line(abbreviate_home(where), 300), MUTED)]), Content("")]
    for row in rows:
        named = " ".join(_format_value(value) for value in row.key.values())
        lines.append(build_content([(one_line(f"{row.table} {named}", 300), STRONG)]))
        before, after = row.before or {}, row.after or {}
        for column in dict.fromkeys([*before, *after]):
            old, new = (_format_value(side[column]) if column in side else "" for side in (before, after))
            if old != new or row.before is None or row.after is None:
                lines.append(build_content([(f"  {one_line(column, 60)}", FAINT)]))
                lines += [Content("  ") + part for part in render_text_diff(old, new)]
    lines += [build_content([(sanitize(told), MUTED)]) for told in unplaced]
    lines += [build_content([(sanitize(told), "$text-error")]) for told in conflicts]
    if not rows and not conflicts:
        lines.append(build_content([("There is nothing to write back.", MUTED)]))
    return lines


def _format_value(value: object) -> str:
    """A text that is more than a text is a secret on its way."""
    if isinstance(value, str):
        return value if type(value) is str else MASK
    return "" if value is None else f"{format_count(len(value), 'byte')}" if isinstance(value, bytes) else str(value)
