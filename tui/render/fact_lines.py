"""Facts as a person reads them: a line each with where it came from, and below how it came to say what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from textual.content import Content

from store.model.knowledge import Change, Edit, Fact, Origin
from store.model.session import GLOBAL
from store.text.sanitize import cells, clean, expand_tabs, one_line
from tui.render.journal_lines import done
from tui.render.line_diff import difference
from tui.render.session_lines import with_tilde
from tui.render.styles import FAINT, MUTED, STRONG, Piece, age, content, count
from tui.render.viewport import AT_ONCE, Look

EVERY_SCOPE = ""
"""Where all facts are shown, whoever may know them."""

BY_HAND = "by hand"
MASK = "••••"
QUOTED = 400
"""Characters of what a fact said before, or of what was said where it was learnt."""

_IDENTITY = re.compile(r"(?:@[\w-]+)?:@[0-9a-f]+\Z")
_LONGEST_CATEGORY, _AGE, _NARROW = 12, 8, 60


class FactLine(NamedTuple):
    fact: Fact
    origin: Origin

    @property
    def is_unwritten(self) -> bool:
        """Corrected here, and its program does not know."""
        fact = self.fact
        return bool(fact.foreign_place) and fact.retired_at is None and fact.text != fact.foreign_text

    @property
    def came_from(self) -> str:
        """`Kiso: default`, `from Fix the flaky upload test`, `by hand`."""
        title, program = self.origin.title, self.origin.program
        if program:
            return f"{program}, not written back" if self.is_unwritten else f"{program}: {title}" if title else program
        return f"from {title}" if title else BY_HAND

    @property
    def at_turn(self) -> str:
        turn = self.origin.turn
        return f", turn {turn}" if turn is not None and not self.origin.program else ""

    def holds(self, words: Sequence[str]) -> bool:
        fact = self.fact
        told = f"{fact.id} {fact.text} {fact.category} {self.came_from}{self.at_turn} {fact.scope}".casefold()
        return all(word in told for word in words)


def scope_name(scope: str) -> str:
    """As short as it can be said: what the identity of a foreign store adds is for machines."""
    if scope in (EVERY_SCOPE, GLOBAL):
        return scope or "every scope"
    kind, _, name = scope.partition(":")
    return one_line(f"{kind} {_IDENTITY.sub('', name)}", 40)


# ── the list ──────────────────────────────────────────────────────────────────────────────────────


def heading(lines: int, limit: int, scope: str, shown: int, known: int, retired: bool) -> Content:
    """`Facts · 37 of 200 lines · global`, or `Facts · every scope: 99 · 37 of 200 lines global`."""
    over, narrowed = lines > limit, shown != known
    used: Piece = (f"{lines:,} of {limit:,} lines", "bold $text-warning" if over else MUTED)
    warned: list[Piece] = [(" · C makes them fewer", "$text-warning")] if over else []
    pieces: list[Piece] = [("Facts", STRONG), (" · ", FAINT)]
    if scope == EVERY_SCOPE:
        told = f"{shown:,} of {known:,}" if narrowed else f"{known:,}"
        pieces += [(f"{scope_name(scope)}: {told}", MUTED), (" · ", FAINT), used, (f" {GLOBAL}", MUTED), *warned]
    else:
        pieces += [used, *warned, (" · ", FAINT), (scope_name(scope), MUTED)]
        pieces += [(f" · {shown:,} of {known:,} shown", MUTED)] if narrowed else []
    pieces += [(" · retired too", MUTED)] if retired else []
    return content(pieces)


def table_line(line: FactLine, now: datetime, width: int, *, marked: bool = False, with_scope: bool = False) -> Content:
    fact = line.fact
    quiet = fact.retired_at is not None
    category_room = min(_LONGEST_CATEGORY, width // 6)
    where_room = 0 if width < _NARROW else min(max(width // 3 - 2, 16), 44)
    room = max(width - 2 - category_room - where_room - _AGE - 4, 1)
    said = one_line(fact.text, room)
    about = one_line(fact.category, category_room)
    where = _where(line, where_room, with_scope)
    style = "$text-warning" if line.is_unwritten else FAINT
    pieces: list[Piece] = [
        ("● " if marked else "  ", "$text-accent"),
        (said + " " * (room - cells(said) + 2), f"{FAINT} strike" if quiet else ""),
        (about + " " * (category_room - cells(about) + 2), FAINT if quiet else "$text-secondary"),
        (where + " " * (where_room - cells(where)), style),
        (f"{'retired' if quiet else age(fact.updated_at, now):>{_AGE}}", FAINT),
    ]
    return content(pieces).truncate(width)


def _where(line: FactLine, room: int, with_scope: bool) -> str:
    """The turn is told whatever else must be cut; and who may know it, where that is not said by where it came from."""
    fact, turn = line.fact, line.at_turn
    is_said = fact.scope == GLOBAL or (fact.foreign_place and fact.scope.startswith(("source:", "session:")))
    scope = f"{scope_name(fact.scope)} · " if with_scope and not is_said else ""
    return one_line(scope + line.came_from, max(room - cells(turn), 0)) + (turn if cells(turn) <= room else "")


# ── one fact ──────────────────────────────────────────────────────────────────────────────────────


class HistoryRow(NamedTuple):
    shown: Content
    entry: str | None = None
    "The turn that it speaks of, to go there."


def history(line: FactLine, edits: Sequence[Edit], now: datetime, width: int) -> list[HistoryRow]:
    """The whole of it, then what became of it, newest first, down to where it came from."""
    look = Look(max(width, 1))
    rows = [HistoryRow(shown) for shown in _whole(line, look)]
    rows += [HistoryRow(shown) for shown in _told_there(line, look)]
    learnt = False
    for edit in reversed(edits):
        for change in edit.changes:
            if change.table == "facts" and change.key == line.fact.id:
                learnt |= change.before is None
                begins = change.before is None and edit.undoes is None
                told = _learnt(line) if begins else _changed(edit, change)
                entry = line.fact.entry if begins else None
                rows += [HistoryRow(part, entry) for part in _dated(edit.at, now, told, look)]
    if not learnt:
        rows += [HistoryRow(part, line.fact.entry) for part in _dated(line.fact.created_at, now, _learnt(line), look)]
    return rows


def _dated(at: str, now: datetime, told: Sequence[Piece], look: Look) -> Iterator[Content]:
    """With how long ago beside the first of its lines."""
    begin = f"{age(at, now):>{_AGE}}  "
    for part in look.narrower(len(begin)).wrap(content(told)):
        yield content([(begin, FAINT)]) + part
        begin = " " * len(begin)


def _whole(line: FactLine, look: Look) -> Iterator[Content]:
    text, left = line.fact.text[:AT_ONCE], len(line.fact.text) - AT_ONCE
    for shown in expand_tabs(clean(text)).split("\n"):
        yield from look.wrap(content([(shown, STRONG)]))
    if left > 0:
        yield look.cut(content([(f"… {left:,} more characters · e opens all of them", f"italic {FAINT}")]))
    fact = line.fact
    told = [
        f"fact {fact.id}",
        scope_name(fact.scope),
        one_line(fact.category, 60),
        "retired" if fact.retired_at else "",
    ]
    yield look.cut(content([(" · ".join(filter(None, told)), FAINT)]))


def _told_there(line: FactLine, look: Look) -> Iterator[Content]:
    """What its program still says, where that is another thing."""
    if line.is_unwritten:
        said = one_line(line.fact.foreign_text, QUOTED)
        told = f"{line.origin.program} still says “{said}”" if said else f"{line.origin.program} says it no more"
        yield from look.wrap(content([(told, "$text-warning"), ("   w writes it back", FAINT)]))


def _learnt(line: FactLine) -> list[Piece]:
    origin = line.origin
    pieces: list[Piece] = []
    if origin.program:
        pieces += [("read from ", MUTED), (origin.program, "")]
        pieces += [(", ", MUTED), (one_line(origin.title, QUOTED), "")] if origin.title else []
    elif origin.title:
        pieces += [("learnt from ", MUTED), (one_line(origin.title, QUOTED), ""), (line.at_turn, MUTED)]
        pieces += [(": ", MUTED), (f"“{one_line(origin.said, QUOTED)}”", "")] if origin.said else []
    else:
        pieces += [(f"added {BY_HAND}", MUTED)]
    if line.fact.entry:
        pieces += [("   g goes there", "$text-accent")]
    return pieces


def _changed(edit: Edit, change: Change) -> list[Piece]:
    """`“Project uses Flask.” → “Project uses FastAPI.”`."""
    before, after = change.before or {}, change.after or {}
    pieces: list[Piece] = [(done(edit), MUTED)] if change.after is None or change.before is None else []
    old, new = before.get("text"), after.get("text")
    if old is not None and new is not None and old != new:
        pieces += [(f"“{one_line(old, QUOTED)}”", MUTED), (" → ", FAINT), (f"“{one_line(new, QUOTED)}”", "")]
    if before.get("category") != after.get("category") and change.before is not None and change.after is not None:
        pieces += [(_gap(pieces) + "category ", MUTED)]
        pieces += [(one_line(before["category"], 60) or "none", MUTED), (" → ", FAINT)]
        pieces += [(one_line(after["category"], 60) or "none", "")]
    if "retired_at" in after and change.before is not None:
        pieces += [(_gap(pieces) + ("retired" if after["retired_at"] else "brought back"), MUTED)]
    if edit.kind in ("merge facts", "consolidate facts", "write-back") or edit.undoes is not None:
        pieces += [(f"   {done(edit)}", FAINT)]
    if edit.undone_by is not None:
        pieces += [(f"   undone by {edit.undone_by}", FAINT)]
    return pieces


def _gap(pieces: Sequence[Piece]) -> str:
    return ", " if pieces else ""


# ── what an edit would do ─────────────────────────────────────────────────────────────────────────


def consolidated(unified: str) -> list[Content]:
    """A unified diff of the facts before and after, without its head; every line that changes, and its neighbours."""
    styles = {"+": ("+ ", "$text-success"), "-": ("− ", "$text-error"), "@": ("⋯", FAINT)}
    lines = []
    for line in unified.splitlines()[3:]:
        sign, style = styles.get(line[:1], ("  ", MUTED))
        lines.append(content([(sign, style), ("" if line.startswith("@@") else one_line(line[1:], 2_000), style)]))
    return lines


class PlannedRow(NamedTuple):
    """A row of another program's, as it is and as it would be."""

    table: str
    key: Mapping[str, Any]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


def planned(where: str, rows: Sequence[PlannedRow], unplaced: Sequence[str], conflicts: Sequence[str]) -> list[Content]:
    """Exactly what would be written, and what would not."""
    lines = [content([("in ", FAINT), (one_line(with_tilde(where), 300), MUTED)]), Content("")]
    for row in rows:
        named = " ".join(_spelled(value) for value in row.key.values())
        lines.append(content([(one_line(f"{row.table} {named}", 300), STRONG)]))
        before, after = row.before or {}, row.after or {}
        for column in dict.fromkeys([*before, *after]):
            old, new = (_spelled(side[column]) if column in side else "" for side in (before, after))
            if old != new or row.before is None or row.after is None:
                lines.append(content([(f"  {one_line(column, 60)}", FAINT)]))
                lines += [Content("  ") + part for part in difference(old, new)]
    lines += [content([(clean(told), MUTED)]) for told in unplaced]
    lines += [content([(clean(told), "$text-error")]) for told in conflicts]
    if not rows and not conflicts:
        lines.append(content([("There is nothing to write back.", MUTED)]))
    return lines


def _spelled(value: object) -> str:
    """A text that is more than a text is a secret on its way."""
    if isinstance(value, str):
        return value if type(value) is str else MASK
    return "" if value is None else f"{count(len(value), 'byte')}" if isinstance(value, bytes) else str(value)
