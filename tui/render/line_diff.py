"""This module renders the file edits of tool calls, and the differences of two texts.

A diff has line numbers where they are known, the colours of the file's language, and signs, so that it can be read
without colours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby, islice
from typing import Literal, NamedTuple

from textual.content import Content, Span

from store.formats.file_changes import (
    FileChange,
    Hunk,
    compare_texts,
    find_changes,
    locate_hunks,
)
from store.model.entry import Json
from store.text.sanitize import expand_tabs, one_line, sanitize
from store.text.word_diff import find_changed_words
from tui.render import glyphs
from tui.render.code import MAX_HIGHLIGHTED_CHARACTERS, highlight_code
from tui.render.styles import FAINT, MUTED, StyledText, build_content, format_count
from tui.render.time_limit import run_with_time_limit
from tui.render.viewport import HangingLine

DiffSign = Literal["+", "-", " ", "@", "#"]


class DiffLine(NamedTuple):
    sign: DiffSign
    "Added, removed or unchanged. `@` marks a position in a file, and `#` the name of a file."
    text: str
    old: int | None = None
    "The line number in the old text, if it is known and the line is in it."
    new: int | None = None
    note: str = ""
    "Says what happens to a file as a whole, e.g. `delete file`."


MAX_LINES = 2_000
MAX_LINE_CHARACTERS = 2_000

ADDED, REMOVED = "$text-success", "$text-error"
ADDED_BACKGROUND, REMOVED_BACKGROUND = "on $success 12%", "on $error 12%"
ADDED_WORDS, REMOVED_WORDS = "bold on $success 35%", "bold on $error 35%"


class _SignStyle(NamedTuple):
    mark: str
    text: str
    background: str = ""
    words: str = ""
    "The style of words that differ."


_SIGN_STYLES: dict[DiffSign, _SignStyle] = {
    "+": _SignStyle(f"{glyphs.ADDED} ", ADDED, ADDED_BACKGROUND, ADDED_WORDS),
    "-": _SignStyle(f"{glyphs.REMOVED} ", REMOVED, REMOVED_BACKGROUND, REMOVED_WORDS),
    " ": _SignStyle("  ", MUTED),
}


def render_edit_diff(name: str, arguments: Json, result: Json = None, record: Json = None) -> list[HangingLine] | None:
    """Return the diff of an edit, or None if the call is not a known kind of edit.

    The result and its record may tell the line numbers.
    """
    lines = compare_edit(name, arguments, result, record)
    return render_diff_lines(lines) if lines is not None else None


def compare_edit(name: str, arguments: Json, result: Json = None, record: Json = None) -> list[DiffLine] | None:
    """Return the lines of the diff that `render_edit_diff` renders. Comparing takes most of its time, and may be done
    in a thread."""
    changes = locate_hunks(find_changes(name, arguments, record), result)
    return list(list_diff_lines(changes)) if changes else None


def render_text_diff(old: str, new: str) -> list[HangingLine]:
    """Return the line diff of two texts. Equal texts give no lines."""
    hunks = tuple(compare_texts("\n".join(old.splitlines()), "\n".join(new.splitlines())))
    return render_diff_lines(_iter_hunk_lines(hunks))


def count_changed_lines(name: str, arguments: Json) -> tuple[int, int] | None:
    """Count the lines that an edit adds and removes. Return None if the call is not a known kind of edit."""
    changes = find_changes(name, arguments)
    return (sum(change.added for change in changes), sum(change.removed for change in changes)) if changes else None


# ── the lines of a diff ───────────────────────────────────────────────────────────────────────────


def list_diff_lines(changes: Iterable[FileChange]) -> Iterator[DiffLine]:
    """Yield the lines of changes. Several changes of one file have one title."""
    title: DiffLine | None = None
    for change in changes:
        if (new_title := _describe_file(change)) != title:
            if new_title.text or new_title.note:
                yield new_title
        else:
            yield DiffLine("@", glyphs.LEFT_OUT)
        title = new_title
        yield from _iter_hunk_lines(change.hunks)


def _describe_file(change: FileChange) -> DiffLine:
    details = {"add": "add file", "delete": "delete file", "write": "whole file"}.get(change.kind, "")
    moved = f"move to {change.moved_to}" if change.moved_to else ""
    return DiffLine("#", change.path, note=" · ".join(filter(None, [details, moved])))


def _iter_hunk_lines(hunks: Iterable[Hunk]) -> Iterator[DiffLine]:
    for number, hunk in enumerate(hunks):
        if hunk.heading:
            yield DiffLine("@", f"@@ {hunk.heading}")
        elif number:
            yield DiffLine("@", glyphs.LEFT_OUT)
        yield from _number_lines(hunk)


def count_diff_lines(change: FileChange) -> int:
    """Return the number of lines that `list_diff_lines` yields for a change, without the name of the file."""
    headings = (bool(hunk.heading) or number > 0 for number, hunk in enumerate(change.hunks))
    return sum(headings) + sum(len(hunk.lines) for hunk in change.hunks)


def _number_lines(hunk: Hunk) -> Iterator[DiffLine]:
    """Yield the lines of a hunk with their numbers, if it is known where in the file they are."""
    if hunk.old_start is None or hunk.new_start is None:
        yield from (DiffLine(*line) for line in hunk.lines)
        return
    old, new = hunk.old_start, hunk.new_start
    for sign, text in hunk.lines:
        in_old, in_new = sign in " -", sign in " +"
        yield DiffLine(sign, text, old if in_old else None, new if in_new else None)
        old, new = old + in_old, new + in_new


# ── rendering ─────────────────────────────────────────────────────────────────────────────────────


def render_diff_lines(lines: Iterable[DiffLine], path: str = "", left_out: int = 0) -> list[HangingLine]:
    """Render a diff up to a number of lines. The path tells the language where no line names a file, and `left_out`
    is the number of lines that the caller leaves out."""
    lines = iter(lines)
    shown = list(islice(lines, MAX_LINES))
    changed_words = find_changed_words([line[:2] for line in shown])
    gutter = _Gutter(shown)
    texts: dict[int, Content] = {}
    run_with_time_limit(lambda: _highlight_sides(texts, shown, path), lambda: None)
    rendered = [
        _render_line(line, gutter, texts.get(index), changed_words.get(index, ())) for index, line in enumerate(shown)
    ]
    if left := left_out + sum(1 for _ in lines):
        rendered.append(_render_heading(f"… {format_count(left, 'more line')}"))
    return rendered


class _Gutter:
    """Renders the line numbers of both sides, as narrow as the largest of them."""

    def __init__(self, lines: Sequence[DiffLine]) -> None:
        self._widths = [
            max((len(str(number)) for number in numbers if number is not None), default=0)
            for numbers in ((line.old for line in lines), (line.new for line in lines))
        ]

    def render(self, line: DiffLine) -> StyledText:
        columns = zip((line.old, line.new), self._widths, strict=True)
        numbers = [("" if number is None else str(number)).rjust(width) for number, width in columns if width]
        return " ".join([*numbers, ""]), FAINT


def _highlight_sides(texts: dict[int, Content], lines: Sequence[DiffLine], path: str) -> None:
    """Add the lines in the colours of their language, by index. Old and new lines are separate pieces of code.

    If the time runs out, the beginning is highlighted.
    """
    room = MAX_HIGHLIGHTED_CHARACTERS
    language = find_language(path)
    for is_heading, section in groupby(enumerate(lines), lambda item: item[1].sign in "@#"):
        numbered = list(section)
        if is_heading:
            language = next((find_language(line.text) for _, line in numbered if line.sign == "#"), language)
            continue
        for signs in ("- ", "+ "):
            side = [(index, _shown_text(line)) for index, line in numbered if line.sign in signs]
            room -= sum(len(text) for _, text in side)
            if language and side and room >= 0:
                code = highlight_code("\n".join(text for _, text in side), language)
                if len(code) == len(side):
                    texts.update(zip((index for index, _ in side), code, strict=True))


def find_language(path: str) -> str:
    """Return the language of a file by its name, as Pygments calls it, or nothing."""
    name = re.split(r"[/\\]", path)[-1].lower()
    return _file_languages().get(name) or _file_languages().get(f"*.{name.rpartition('.')[2]}", "")


@cache
def _file_languages() -> dict[str, str]:
    """Return the language of each file name and each ending. Pygments' own search takes a tenth of a second."""
    from pygments.lexers import get_all_lexers  # type: ignore[import-untyped]

    languages: dict[str, str] = {}
    for _, aliases, patterns, _ in get_all_lexers(plugins=False):
        for pattern in map(str.lower, patterns if aliases else ()):
            # Several languages share an ending; one of them is often called by it.
            if pattern not in languages or pattern.removeprefix("*.") in aliases:
                languages[pattern] = aliases[0]
    return languages


def _shown_text(line: DiffLine) -> str:
    cut = line.text[:MAX_LINE_CHARACTERS]
    return expand_tabs(sanitize(cut).replace("\n", " ")) + ("…" if cut != line.text else "")


def _render_line(
    line: DiffLine, gutter: _Gutter, code: Content | None, changed_words: Sequence[tuple[int, int]]
) -> HangingLine:
    if line.sign in "@#":
        return _render_heading(f"{line.text} · {line.note}".strip(" ·") if line.note else line.text)
    style = _SIGN_STYLES[line.sign]
    text = build_content([(_shown_text(line), style.text)]) if code is None else code
    if len(text.plain) == len(line.text):  # otherwise tabs or control characters have moved the words
        text = text.add_spans([Span(start, end, style.words) for start, end in changed_words])
    return HangingLine(build_content([gutter.render(line), (style.mark, style.text)]), text, style.background)


def _render_heading(text: str) -> HangingLine:
    return HangingLine(Content(""), build_content([(one_line(text, MAX_LINE_CHARACTERS), FAINT)]))
