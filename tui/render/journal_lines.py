"""The journal as a person reads it: what was edited, where and when; and of one edit, before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby, islice
from typing import NamedTuple

from textual.content import Content

from store.edits.diff import ColumnChange, foreign_changes, locators, moved_rows, own_changes
from store.model.knowledge import Edit, Names
from store.text.sanitize import cells, one_line
from tui.render.line_diff import ADDED, REMOVED, difference
from tui.render.styles import FAINT, MUTED, STRONG, Piece, age, content, count, moment

LONGEST = 300
"""Characters of what an edit is about, and of where it was."""

NAMED = 5
CHANGES_SHOWN = 200
SHORT = 60

DONE = {
    "title": "title given",
    "pin": "pinned",
    "unpin": "unpinned",
    "archive": "archived",
    "unarchive": "brought back from the archive",
    "delete": "moved to the trash",
    "restore": "taken out of the trash",
    "fork": "forked",
    "tag": "tagged",
    "untag": "tag taken off",
    "note": "note written",
    "unnote": "note removed",
    "summary": "summary written",
    "learn": "fact learnt",
    "edit fact": "fact reworded",
    "categorise fact": "fact categorised",
    "retire fact": "fact retired",
    "restore fact": "fact brought back",
    "merge facts": "facts merged",
    "consolidate facts": "facts consolidated",
    "set secret": "secret set",
    "seal secret": "secret sealed",
    "remove secret": "secret removed",
    "publish": "file published",
    "unpublish": "file withdrawn",
    "meta": "value set",
    "write-back": "written back",
}
"""Kinds of edits in words; a kind that is not here is told as it is."""

_TELLING = ("own_title", "text", "name", "filename", "content", "value", "category")
"""Columns that say what an edit is about, the best first."""

_TABLES = {"facts": "fact", "tags": "tag", "notes": "note", "summaries": "summary", "meta": "value"}
_COLUMNS = {
    "own_title": "title",
    "agent_title": "its agent's title",
    "up_to_turn": "covers turns up to",
    "foreign_text": "as its program says it",
    "foreign_place": "place there",
    "entry_seq": "entry",
    "retired_at": "retired",
    "current": "in use",
}
_FLAGS = ("pinned", "archived", "deleted", "gone", "current")


class EditLine(NamedTuple):
    """An edit in the list: small, since there may be very many."""

    id: int
    done: str
    about: str
    where: str
    at: str
    sessions: tuple[str, ...]
    undone_by: int | None
    blanked: bool

    def holds(self, words: Sequence[str]) -> bool:
        undone = "undone" if self.undone_by is not None else ""
        told = f"{self.id} {self.done} {self.about} {self.where} {undone}".casefold()
        return all(word in told for word in words)


def edit_line(edit: Edit, names: Names) -> EditLine:
    where = ", ".join(one_line(names.titles.get(name, name), LONGEST) for name in edit.session_ids[:NAMED])
    if len(edit.session_ids) > NAMED:
        where += f" and {len(edit.session_ids) - NAMED:,} more"
    about, sessions = one_line(about_of(edit, names.facts), LONGEST), edit.session_ids[:1]
    return EditLine(edit.id, done(edit), about, where, edit.at, sessions, edit.undone_by, edit.blanked)


def done(edit: Edit) -> str:
    """`fact reworded`, `undo of 12`."""
    if edit.undoes is not None:
        return f"undo of {edit.undoes}"
    return DONE.get(edit.kind) or one_line(edit.kind, SHORT)


def about_of(edit: Edit, facts: Mapping[int, str]) -> str:
    """The title, the fact, the names of the tags: whatever an edit is told apart by."""
    changes = list(islice((*own_changes(edit), *foreign_changes(edit)), CHANGES_SHOWN))
    if secrets := [change.key.rpartition(" ")[0] for change in changes if change.table == "secrets"]:
        return ", ".join(dict.fromkeys(secrets))
    for column in _TELLING:
        values = [change.new or change.old for change in changes if change.column == column]
        if values:
            return " · ".join(dict.fromkeys(values))
    known = [facts[change.key] for change in edit.changes if change.table == "facts" and change.key in facts]
    return " · ".join(dict.fromkeys(known[:CHANGES_SHOWN]))


def sentence(edit: Edit, names: Names) -> str:
    """`fact reworded “…”, in Fix the flaky upload test`."""
    line = edit_line(edit, names)
    about = f" “{one_line(line.about, SHORT)}”" if line.about else ""
    return f"{line.done}{about}" + (f", in {one_line(line.where, SHORT)}" if line.where else "")


# ── the list ──────────────────────────────────────────────────────────────────────────────────────

_NUMBER, _DONE, _AGE = 5, 17, 8


def table_line(line: EditLine, now: datetime, width: int) -> Content:
    """`  12  fact reworded  Project uses FastAPI…   Fix the flaky upload test   3d`; what was undone is quieter."""
    undone = line.undone_by is not None or line.blanked
    ending = f"undone by {line.undone_by}" if line.undone_by is not None else "purged" if line.blanked else ""
    end = content([(f"  {ending}" if ending else "", FAINT), (f"{age(line.at, now):>{_AGE}}", FAINT)])
    said = one_line(line.done, max(width - _NUMBER - 2, 1))
    said += " " * max(_DONE - cells(said), 0) + "  "
    room = max(width - _NUMBER - 2 - cells(said) - end.cell_length, 0)
    where = one_line(line.where, room * 2 // 5 if line.about else room)
    about = one_line(line.about, max(room - cells(where) - 2 * bool(where), 0))
    gap = " " * max(room - cells(about) - cells(where), 0)
    pieces: list[Piece] = [(f"{line.id:>{_NUMBER},}  ", FAINT), (said, FAINT if undone else MUTED)]
    pieces += [(about, FAINT if undone else ""), (gap if about else "", ""), (where, FAINT if undone else MUTED)]
    start = content(pieces).truncate(max(width - end.cell_length, 0))
    return (start + Content(" " * max(width - end.cell_length - start.cell_length, 0)) + end).truncate(width)


def heading(shown: int, known: int, more: bool) -> Content:
    """`Journal · 12 of 340 edits`."""
    of = f"{shown:,} of {known:,}" if shown != known else f"{known:,}"
    plus = "+" if more else ""
    return content([("Journal", STRONG), (f" · {of}{plus} {'edit' if known == 1 else 'edits'}", MUTED)])


# ── one edit ──────────────────────────────────────────────────────────────────────────────────────


def page(edit: Edit, names: Names, later: Sequence[Edit], now: datetime) -> list[Content]:
    """All that there is to say of one: how it stands, where, and before and after."""
    return [*_standing(edit, names, later, now), Content(""), *_differences(edit, names)]


def _standing(edit: Edit, names: Names, later: Sequence[Edit], now: datetime) -> Iterator[Content]:
    then = moment(edit.at)
    when = f"{then:%Y-%m-%d %H:%M}, {age(edit.at, now)}" if then else one_line(edit.at, SHORT)
    yield content([(f"{edit.id:,} {done(edit)}", STRONG), (f"   {when}", MUTED)])
    for name in edit.session_ids[:NAMED]:
        yield content([("in ", FAINT), (one_line(names.titles.get(name, name), LONGEST), MUTED)])
    if len(edit.session_ids) > NAMED:
        yield content([(f"and {count(len(edit.session_ids) - NAMED, 'more session')}", FAINT)])
    if edit.undone_by is not None:
        yield content([(f"Undone by edit {edit.undone_by}; undo that one to have it again.", "$text-warning")])
    elif later:
        yield content([(build_on(later), "$text-warning")])


def build_on(later: Sequence[Edit]) -> str:
    """`Edits 14 and 15 build on it.`"""
    numbers = [str(edit.id) for edit in reversed(later)]
    if len(numbers) == 1:
        return f"Edit {numbers[0]} builds on it."
    named = ", ".join(numbers[:NAMED])
    rest = f" and {len(numbers) - NAMED:,} more" if len(numbers) > NAMED else ""
    return (
        f"Edits {named}{rest} build on it."
        if rest
        else f"Edits {', '.join(numbers[:-1])} and {numbers[-1]} build on it."
    )


def _differences(edit: Edit, names: Names) -> Iterator[Content]:
    if edit.blanked:
        yield content([("What it changed was purged, and is gone for good.", MUTED)])
    for locator in locators(edit):
        yield content([("in the store ", FAINT), (one_line(locator, LONGEST), MUTED)])
    yield from _rows(foreign_changes(edit), Names({}, {}))
    for moved in moved_rows(edit):
        told = ", ".join(moved.keys[:NAMED]) if len(moved.keys) <= NAMED else count(len(moved.keys), "row")
        style = ADDED if moved.sign == "+" else REMOVED
        yield content([(f"{_minus(moved.sign)} {one_line(f'{moved.table}: {told}', LONGEST)}", style)])
    yield from _summaries(edit, names)
    yield from _rows((change for change in own_changes(edit) if change.table != "summaries"), names)


def _summaries(edit: Edit, names: Names) -> Iterator[Content]:
    """One version took another's place: what matters is what the one says and the other does not."""
    versions = [change for change in edit.changes if change.table == "summaries"]
    if not versions:
        return
    sides: dict[str, str] = {"before": "", "after": ""}
    for change in versions:
        for side, columns in (("before", change.before), ("after", change.after)):
            if columns is not None and columns.get("current") == 1:
                sides[side] = columns.get("text") or names.summaries.get(change.key, "")
    yield content([("summary", MUTED)])
    lines = difference(sides["before"], sides["after"])
    yield from (Content("  ") + line for line in lines)
    for change in versions:
        if change.before is None and change.after is not None and change.after.get("up_to_turn") is not None:
            yield content([(f"  covers turns up to {change.after['up_to_turn']}", FAINT)])


def _rows(changes: Iterator[ColumnChange], names: Names) -> Iterator[Content]:
    """Row by row, and so many of them; an edit may have touched thousands."""
    shown = list(islice(changes, CHANGES_SHOWN))
    for (table, key, sign), columns in groupby(shown, key=lambda change: change[:3]):
        if label := _label(table, key, names):
            style = {"+": ADDED, "-": REMOVED}.get(sign, MUTED)
            yield content([(f"{_minus(sign)} " if sign else "", style), (label, style)])
        for change in columns:
            yield from _column(change)
    if left := sum(1 for _ in changes):
        yield content([(f"… {count(left, 'more change')}", FAINT)])


def _label(table: str, key: str, names: Names) -> str:
    """Which row it was; a session is named above."""
    if table == "sessions":
        return ""
    if table == "secrets":
        name, _, version = key.rpartition(" ")
        return one_line(f"secret {name}, version {version}", LONGEST)
    said = names.facts.get(int(key), "") if table == "facts" and key.isdecimal() else ""
    told = f"{_TABLES.get(table, table)} {key}" + (f"  “{one_line(said, SHORT)}”" if said else "")
    return one_line(told, LONGEST)


def _column(change: ColumnChange) -> Iterator[Content]:
    """A short value on one line, a text as a difference of its lines."""
    old, new = (_value(change.column, value) for value in (change.old, change.new))
    label = f"  {_COLUMNS.get(change.column) or one_line(change.column, SHORT)}: "
    if len(old) + len(new) > SHORT or "\n" in old + new:
        yield content([(label, FAINT)])
        for line in difference(old, new):
            yield Content("  ") + line
        return
    pieces: list[Piece] = [(label, FAINT)]
    pieces += [(one_line(old), REMOVED)] if old else []
    pieces += [(" → ", FAINT)] if old and new else []
    pieces += [(one_line(new), ADDED)] if new else [(" taken away", FAINT)] if not change.sign else []
    yield content(pieces)


def _value(column: str, value: str) -> str:
    if column in _FLAGS:
        return {"0": "no", "1": "yes"}.get(value, value)
    if column == "retired_at":
        return "yes" if value else "no"
    return value


def _minus(sign: str) -> str:
    return "−" if sign == "-" else sign
