"""This module renders the differences of two things, as a unified diff or side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from typing import NamedTuple

from textual.content import Content

from store.formats.comparison import Comparison, Section
from store.formats.file_changes import FileChange
from store.text.sanitize import cell_width, one_line
from store.text.word_diff import iter_replaced_runs
from tui.render import glyphs
from tui.render.line_diff import (
    ADDED,
    MAX_LINES,
    REMOVED,
    DiffLine,
    count_diff_lines,
    list_diff_lines,
    render_diff_lines,
)
from tui.render.styles import FAINT, MUTED, STRONG, WARNING, StyledText, build_content, format_count
from tui.render.viewport import HangingLine, WrappableLine

MAX_SHOWN_LINES = 5_000
"""Limits the lines of all differences together, because they are wrapped when the screen is painted."""

NOT_SHOWN = "… not shown, because there are so many differences. `y` copies all of them."
EQUAL = "Both are equal."
_SEPARATOR = Content.styled(" │ ", FAINT)


class SideBySideLine(NamedTuple):
    """Is a line of both sides. A side without a line is empty."""

    left: HangingLine | None
    right: HangingLine | None

    def wrap(self, width: int) -> list[Content]:
        room = max((width - _SEPARATOR.cell_length) // 2, 1)
        sides = [side.wrap(room) if side is not None else [] for side in self]
        blank = Content(" " * room)
        rows = zip_longest(*sides, fillvalue=blank)
        return [left.pad_right(room - left.cell_length) + _SEPARATOR + right for left, right in rows]


def render_comparison_heading(comparison: Comparison, origins: Sequence[str], width: int) -> Content:
    """Render the names and origins of both sides on two lines, and the numbers of differences below."""
    counts = [
        f"{comparison.count('changed')} changed" if comparison.count("changed") else "",
        f"{comparison.count('left')} only in the first" if comparison.count("left") else "",
        f"{comparison.count('right')} only in the second" if comparison.count("right") else "",
    ]
    notes: list[StyledText] = [(note, WARNING) for note in comparison.notes]
    summary = " · ".join(filter(None, counts)) or EQUAL
    lines = [
        build_content([(f"{glyphs.REMOVED} ", REMOVED), *_name_side(comparison.left, origins[0], width - 2)]),
        build_content([(f"{glyphs.ADDED} ", ADDED), *_name_side(comparison.right, origins[1], width - 2)]),
        Content.styled(" · ", FAINT).join([build_content([piece]) for piece in [(summary, MUTED), *notes]]),
    ]
    return Content("\n").join([line.truncate(width, ellipsis=True) for line in lines])


def _name_side(name: str, origin: str, width: int) -> list[StyledText]:
    """Return the name of a side and where it comes from. A long name is cut off first."""
    about = f" · {one_line(origin)}" if origin else ""
    return [(one_line(name, max(width - cell_width(about), 10)), STRONG), (about, MUTED)]


def render_sections(sections: Sequence[Section], *, is_side_by_side: bool) -> list[list[WrappableLine]]:
    """Render differences up to a number of lines. Of the others, only the titles are shown."""
    rendered: list[list[WrappableLine]] = []
    room = MAX_SHOWN_LINES
    for section in sections:
        lines = _render_section(section, is_side_by_side=is_side_by_side, is_open=room > 0)
        room -= len(lines)
        rendered.append(lines)
    return rendered


def _render_section(section: Section, *, is_side_by_side: bool, is_open: bool) -> list[WrappableLine]:
    """Render a difference under its title. What both sides share is one line."""
    if section.kind == "shared":
        return [_render_shared(section), Content("")]
    if not is_open:
        return [_render_title(section), build_content([(NOT_SHOWN, FAINT)]), Content("")]
    change = FileChange("", section.compare())
    lines = list(islice(list_diff_lines([change]), MAX_LINES))  # an object for each of a million lines takes seconds
    left_out = count_diff_lines(change) - len(lines)
    body = _pair_lines(lines, left_out) if is_side_by_side else render_diff_lines(lines, left_out=left_out)
    return [_render_title(section), *body, Content("")]


def _render_shared(section: Section) -> Content:
    is_turns = section.title.startswith("turn ")
    text = format_count(section.count, "shared turn") if is_turns else f"{section.title}: the same on both sides"
    return build_content([(f"{glyphs.FOLDED} {text}", FAINT)])


def _render_title(section: Section) -> Content:
    pieces: list[StyledText] = [
        (one_line(section.title, 200), "bold $text-accent"),
        ("only in the first" if section.kind == "left" else "", REMOVED),
        ("only in the second" if section.kind == "right" else "", ADDED),
        (
            "too long to compare by lines: all of the first, then all of the second" if section.is_too_long else "",
            WARNING,
        ),
        ("" if section.is_detailed else "only its prompt", WARNING),
    ]
    return Content.styled(" · ", FAINT).join([build_content([piece]) for piece in pieces if piece[0]])


def _pair_lines(lines: Sequence[DiffLine], left_out: int) -> Iterator[WrappableLine]:
    """Put each removed line beside the added line that replaces it. Unchanged lines stand on both sides."""
    lefts = render_diff_lines((line._replace(new=None) for line in lines), left_out=left_out)
    rights = render_diff_lines(line._replace(old=None) for line in lines)
    runs = {removed.start: (removed, added) for removed, added in iter_replaced_runs([line.sign for line in lines])}
    index, end = 0, len(lines)
    while index < end:
        if (run := runs.get(index)) is not None:
            for removed, added in zip_longest(*run):
                yield SideBySideLine(_take(lefts, removed), _take(rights, added))
            index = run[1].stop
            continue
        sign = lines[index].sign
        if sign in "@#":
            yield lefts[index]
        else:
            yield SideBySideLine(lefts[index] if sign != "+" else None, rights[index] if sign != "-" else None)
        index += 1
    yield from lefts[end:]


def _take(rendered: Sequence[HangingLine], index: int | None) -> HangingLine | None:
    return rendered[index] if index is not None else None
