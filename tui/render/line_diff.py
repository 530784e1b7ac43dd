"""This module renders the file edits of tool calls as diffs.

It knows the formats that agents use: one or several pairs of old and new text, the content of a whole file, a unified
diff, and a patch that begins with `*** Begin Patch`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Literal, NamedTuple

from textual.content import Content

from store.model.entry import Json
from store.text.sanitize import expand_tabs, one_line, sanitize
from tui.render.styles import FAINT, MUTED, build_content, format_count

DiffSign = Literal["+", "-", " ", "@"]


class DiffLine(NamedTuple):
    sign: DiffSign
    "Added, removed or unchanged. `@` marks a line that names a file or a position."
    text: str


MAX_LINES = 2_000
MAX_LINE_CHARACTERS = 2_000
MAX_COMPARED_LINES = 2_000
MAX_COMPARED_CHARACTERS = 64_000
"""Limit the comparison, because its time grows with the square of the length. Longer texts are shown old, then new."""

CONTEXT_LINES = 3

ADDED, REMOVED = "$text-success", "$text-error"

_SIGN_STYLES: dict[DiffSign, tuple[str, str]] = {
    "+": ("+ ", ADDED),
    "-": ("− ", REMOVED),
    " ": ("  ", MUTED),
    "@": ("", FAINT),
}

_PATH_ARGUMENTS = ("file_path", "filePath", "path", "filename", "file")
_REPLACEMENT_ARGUMENTS = (
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("old_str", "new_str"),
    ("oldText", "newText"),
)
_PATCH_ARGUMENTS = ("patch", "patchText", "patch_text", "diff", "unified_diff", "input")
_WRITE_TOOLS = {"write", "write_file", "writefile", "create_file", "create"}
_CONTENT_ARGUMENTS = ("content", "file_text", "contents")

_BEGIN_PATCH = re.compile(r"^\*\*\* Begin Patch\s*?$", re.M)
_UNIFIED_DIFF = re.compile(r"^--- .*\n\+\+\+ |^@@ -\d", re.M)
_PATCHED_FILE = re.compile(r"\*\*\* ((?:Add|Update|Delete) File|Move to): (.*)")
_DIFF_NOISE = re.compile(r"diff |index [0-9a-f]+\.\.|\\ No newline|\*\*\* (?:Begin|End) ")


def render_edit_diff(name: str, arguments: Json) -> list[Content] | None:
    """Return the diff of an edit, or None if the call is not a known kind of edit."""
    lines = parse_edit_lines(name, arguments)
    return None if lines is None else _render_lines(lines)


def render_text_diff(old: str, new: str) -> list[Content]:
    """Return the line diff of two texts. Equal texts give no lines."""
    return _render_lines(_diff_lines(old.splitlines(), new.splitlines()))


def _render_lines(lines: Iterator[DiffLine]) -> list[Content]:
    shown = list(map(_render_line, islice(lines, MAX_LINES)))
    left = sum(1 for _ in lines)
    return [*shown, build_content([(f"… {format_count(left, 'more line')}", FAINT)])] if left else shown


def count_changed_lines(name: str, arguments: Json) -> tuple[int, int] | None:
    """Count the lines that an edit adds and removes. Return None if the call is not a known kind of edit."""
    lines = parse_edit_lines(name, arguments)
    if lines is None:
        return None
    signs = [line.sign for line in lines]
    return signs.count("+"), signs.count("-")


def parse_edit_lines(name: str, arguments: Json) -> Iterator[DiffLine] | None:
    patch = _find_patch(arguments)
    if patch is not None:
        return _parse_patch(patch)
    if not isinstance(arguments, Mapping):
        return None
    edits = arguments.get("edits")
    candidates = [arguments, *edits] if isinstance(edits, list) else [arguments]
    pairs = [pair for edit in candidates if (pair := _find_replacement(edit)) is not None]
    if pairs:
        return _replacement_lines(_find_path(arguments), pairs)
    content = _find_text(arguments, _CONTENT_ARGUMENTS) if name.lower() in _WRITE_TOOLS else None
    return None if content is None else _written_lines(_find_path(arguments), content)


# ── old text and new text ─────────────────────────────────────────────────────────────────────────


def _find_replacement(edit: Json) -> tuple[str, str] | None:
    if isinstance(edit, Mapping):
        for old, new in _REPLACEMENT_ARGUMENTS:
            pair = edit.get(old), edit.get(new)
            if isinstance(pair[0], str) and isinstance(pair[1], str):
                return pair[0], pair[1]
    return None


def _replacement_lines(path: str, pairs: Iterable[tuple[str, str]]) -> Iterator[DiffLine]:
    if path:
        yield DiffLine("@", path)
    for number, (old, new) in enumerate(pairs):
        if number:
            yield DiffLine("@", "⋯")
        yield from _diff_lines(old.splitlines(), new.splitlines())


def _diff_lines(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    if len(old) + len(new) > MAX_COMPARED_LINES or sum(map(len, old)) + sum(map(len, new)) > MAX_COMPARED_CHARACTERS:
        yield from _with_sign("-", old)
        yield from _with_sign("+", new)
        return
    from difflib import SequenceMatcher  # imported late: only diffs need it

    # In long texts, `autojunk` skips lines that occur often. Without it, the same line a thousand times takes seconds.
    groups = SequenceMatcher(None, old, new, autojunk=True).get_grouped_opcodes(CONTEXT_LINES)
    for number, group in enumerate(groups):
        if number:
            yield DiffLine("@", "⋯")
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                yield from _with_sign(" ", old[old_from:old_to])
            else:
                yield from _with_sign("-", old[old_from:old_to])
                yield from _with_sign("+", new[new_from:new_to])


def _written_lines(path: str, text: str) -> Iterator[DiffLine]:
    yield DiffLine("@", f"{path} · whole file".lstrip(" ·"))
    yield from _with_sign("+", text.splitlines())


def _with_sign(sign: DiffSign, lines: Iterable[str]) -> Iterator[DiffLine]:
    return (DiffLine(sign, line) for line in lines)


# ── patches ───────────────────────────────────────────────────────────────────────────────────────


def _find_patch(arguments: Json) -> str | None:
    """Find a patch: the arguments themselves, a named argument, or a word of a command."""
    if isinstance(arguments, Mapping):
        patch = _find_text(arguments, _PATCH_ARGUMENTS)
        if patch is not None and (_BEGIN_PATCH.search(patch) or _UNIFIED_DIFF.search(patch)):
            return patch
        arguments = arguments.get("command")
    words = arguments if isinstance(arguments, list) else [arguments]
    return next((word for word in words if isinstance(word, str) and _BEGIN_PATCH.search(word)), None)


def _parse_patch(patch: str) -> Iterator[DiffLine]:
    begin = _BEGIN_PATCH.search(patch)
    lines = patch[begin.start() if begin else 0 :].splitlines()
    for number, line in enumerate(lines):
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith("*** End Patch"):
            return
        if (line.startswith("--- ") and after.startswith("+++ ")) or _DIFF_NOISE.match(line):
            continue
        if line.startswith("+++ ") and number and lines[number - 1].startswith("--- "):
            yield DiffLine("@", _patched_file_name(lines[number - 1][4:], line[4:]))
        elif header := _PATCHED_FILE.match(line):
            yield DiffLine("@", header[2] if header[1] == "Update File" else f"{header[2]} · {header[1].lower()}")
        elif line.startswith(("+", "-", " ")):
            yield DiffLine(line[0], line[1:])  # type: ignore[arg-type]
        else:
            yield DiffLine("@" if line else " ", line)


def _patched_file_name(old: str, new: str) -> str:
    """Return the file that the two header lines of a diff name, without the prefixes `a/` and `b/`."""
    old, new = (name.split("\t")[0].strip() for name in (old, new))
    if new == "/dev/null":
        return f"{old.removeprefix('a/')} · delete file"
    name = new.removeprefix("b/")
    return f"{name} · add file" if old == "/dev/null" else name


# ── helpers ───────────────────────────────────────────────────────────────────────────────────────


def _find_path(arguments: Mapping[str, Json]) -> str:
    return _find_text(arguments, _PATH_ARGUMENTS) or ""


def _find_text(arguments: Mapping[str, Json], names: Iterable[str]) -> str | None:
    return next((arguments[name] for name in names if isinstance(arguments.get(name), str)), None)


def _render_line(line: DiffLine) -> Content:
    mark, style = _SIGN_STYLES[line.sign]
    if line.sign == "@":
        return build_content([(one_line(line.text, MAX_LINE_CHARACTERS), style)])
    cut = line.text[:MAX_LINE_CHARACTERS]
    shown = expand_tabs(sanitize(cut).replace("\n", " "))
    return build_content([(mark, style), (shown + ("…" if cut != line.text else ""), style)])
