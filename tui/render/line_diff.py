"""What an edit changed, as a person reads it: lines that came and lines that went.

Every agent spells its edits in a way of its own; here are the ways there are: a piece of text and what replaces it, one
or many; a whole file; a patch, in the format of diff or in the one that begins with `*** Begin Patch`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Literal, NamedTuple

from textual.content import Content

from store.model.entry import Json
from store.text.sanitize import clean, expand_tabs, one_line
from tui.render.styles import FAINT, MUTED, content, count

Sign = Literal["+", "-", " ", "@"]


class Line(NamedTuple):
    sign: Sign
    "Added, removed, kept; or `@` for a line that says where."
    text: str


LINES_SHOWN = 2_000
LONGEST_LINE = 2_000
LINES_COMPARED = 2_000
"""Longer texts are shown as all of the old, then all of the new: comparing takes the square of their length."""

CONTEXT = 3

ADDED, REMOVED = "$text-success", "$text-error"

_LOOK: dict[Sign, tuple[str, str]] = {"+": ("+ ", ADDED), "-": ("− ", REMOVED), " ": ("  ", MUTED), "@": ("", FAINT)}

_PATHS = ("file_path", "filePath", "path", "filename", "file")
_REPLACED = (("old_string", "new_string"), ("oldString", "newString"), ("old_str", "new_str"), ("oldText", "newText"))
_PATCHES = ("patch", "patchText", "patch_text", "diff", "unified_diff", "input")
_WRITES = {"write", "write_file", "writefile", "create_file", "create"}
_WRITTEN = ("content", "file_text", "contents")

_BEGIN_PATCH = re.compile(r"^\*\*\* Begin Patch\s*?$", re.M)
_DIFF = re.compile(r"^--- .*\n\+\+\+ |^@@ -\d", re.M)
_PATCHED_FILE = re.compile(r"\*\*\* ((?:Add|Update|Delete) File|Move to): (.*)")
_DIFF_NOISE = re.compile(r"diff |index [0-9a-f]+\.\.|\\ No newline|\*\*\* (?:Begin|End) ")


def diff_of(name: str, arguments: Json) -> list[Content] | None:
    """The lines of the edit; None when this call is none that we know."""
    lines = edit_lines(name, arguments)
    return None if lines is None else _shown(lines)


def difference(old: str, new: str) -> list[Content]:
    """What one text says and the other does not, line by line; nothing when they say the same."""
    return _shown(_compared(old.splitlines(), new.splitlines()))


def _shown(lines: Iterator[Line]) -> list[Content]:
    shown = list(map(_painted, islice(lines, LINES_SHOWN)))
    left = sum(1 for _ in lines)
    return [*shown, content([(f"… {count(left, 'more line')}", FAINT)])] if left else shown


def tally(name: str, arguments: Json) -> tuple[int, int] | None:
    """How many lines came and went: `+12 −3`."""
    lines = edit_lines(name, arguments)
    if lines is None:
        return None
    signs = [line.sign for line in lines]
    return signs.count("+"), signs.count("-")


def edit_lines(name: str, arguments: Json) -> Iterator[Line] | None:
    patch = _patch_in(arguments)
    if patch is not None:
        return _patch_lines(patch)
    if not isinstance(arguments, Mapping):
        return None
    edits = arguments.get("edits")
    each = [arguments, *edits] if isinstance(edits, list) else [arguments]
    replaced = [pair for edit in each if (pair := _replacement(edit)) is not None]
    if replaced:
        return _replaced_lines(_path_of(arguments), replaced)
    written = _text_under(arguments, _WRITTEN) if name.lower() in _WRITES else None
    return None if written is None else _written_lines(_path_of(arguments), written)


# ── a piece of text and what replaces it ──────────────────────────────────────────────────────────


def _replacement(edit: Json) -> tuple[str, str] | None:
    if isinstance(edit, Mapping):
        for old, new in _REPLACED:
            pair = edit.get(old), edit.get(new)
            if isinstance(pair[0], str) and isinstance(pair[1], str):
                return pair[0], pair[1]
    return None


def _replaced_lines(path: str, pairs: Iterable[tuple[str, str]]) -> Iterator[Line]:
    if path:
        yield Line("@", path)
    for number, (old, new) in enumerate(pairs):
        if number:
            yield Line("@", "⋯")
        yield from _compared(old.splitlines(), new.splitlines())


def _compared(old: list[str], new: list[str]) -> Iterator[Line]:
    if len(old) + len(new) > LINES_COMPARED:
        yield from _signed("-", old)
        yield from _signed("+", new)
        return
    from difflib import SequenceMatcher  # only who looks at an edit needs it

    groups = SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT)
    for number, group in enumerate(groups):
        if number:
            yield Line("@", "⋯")
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                yield from _signed(" ", old[old_from:old_to])
            else:
                yield from _signed("-", old[old_from:old_to])
                yield from _signed("+", new[new_from:new_to])


def _written_lines(path: str, text: str) -> Iterator[Line]:
    yield Line("@", f"{path} · written whole".lstrip(" ·"))
    yield from _signed("+", text.splitlines())


def _signed(sign: Sign, lines: Iterable[str]) -> Iterator[Line]:
    return (Line(sign, line) for line in lines)


# ── patches ───────────────────────────────────────────────────────────────────────────────────────


def _patch_in(arguments: Json) -> str | None:
    """A patch may stand alone, under a name that says so, or within the words of a command."""
    if isinstance(arguments, Mapping):
        under = _text_under(arguments, _PATCHES)
        if under is not None and (_BEGIN_PATCH.search(under) or _DIFF.search(under)):
            return under
        arguments = arguments.get("command")
    words = arguments if isinstance(arguments, list) else [arguments]
    return next((word for word in words if isinstance(word, str) and _BEGIN_PATCH.search(word)), None)


def _patch_lines(patch: str) -> Iterator[Line]:
    begin = _BEGIN_PATCH.search(patch)
    lines = patch[begin.start() if begin else 0 :].splitlines()
    for number, line in enumerate(lines):
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith("*** End Patch"):
            return
        if (line.startswith("--- ") and after.startswith("+++ ")) or _DIFF_NOISE.match(line):
            continue
        if line.startswith("+++ ") and number and lines[number - 1].startswith("--- "):
            yield Line("@", _named_by(lines[number - 1][4:], line[4:]))
        elif told := _PATCHED_FILE.match(line):
            yield Line("@", told[2] if told[1] == "Update File" else f"{told[2]} · {told[1].lower()}")
        elif line.startswith(("+", "-", " ")):
            yield Line(line[0], line[1:])  # type: ignore[arg-type]
        else:
            yield Line("@" if line else " ", line)


def _named_by(old: str, new: str) -> str:
    """The file that the two heading lines of a diff speak of, without the letters that git puts before it."""
    old, new = (name.split("\t")[0].strip() for name in (old, new))
    if new == "/dev/null":
        return f"{old.removeprefix('a/')} · delete file"
    name = new.removeprefix("b/")
    return f"{name} · add file" if old == "/dev/null" else name


# ── pieces ────────────────────────────────────────────────────────────────────────────────────────


def _path_of(arguments: Mapping[str, Json]) -> str:
    return _text_under(arguments, _PATHS) or ""


def _text_under(arguments: Mapping[str, Json], names: Iterable[str]) -> str | None:
    return next((arguments[name] for name in names if isinstance(arguments.get(name), str)), None)


def _painted(line: Line) -> Content:
    mark, style = _LOOK[line.sign]
    if line.sign == "@":
        return content([(one_line(line.text, LONGEST_LINE), style)])
    cut = line.text[:LONGEST_LINE]
    shown = expand_tabs(clean(cut).replace("\n", " "))
    return content([(mark, style), (shown + ("…" if cut != line.text else ""), style)])
