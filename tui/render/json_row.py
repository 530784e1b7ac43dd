"""This module renders a row of a JSON value: what fits on one line, and a short description of what does not."""

from __future__ import annotations

import re
from itertools import islice

from textual.content import Content

from store.model.entry import Json
from store.text.sanitize import cell_width, expand_tabs, one_line, sanitize
from tui.json_document.large_containers import CONTAINER_TYPES, LIST_TYPES, OBJECT_TYPES, LargeObject, iter_keys
from tui.json_document.parser import looks_like_json
from tui.json_document.tree import JsonRow, indent_width, text_width
from tui.json_document.values import DuplicateKeyObject, TextLines, VerbatimNumber, encode_scalar, encode_string
from tui.render import glyphs
from tui.render.highlight import highlight_words
from tui.render.styles import FAINT, MUTED, WARNING, StyledText, build_content, format_size
from tui.render.word_wrap import WrappedLine

KEY_STYLE = "$text-primary"
TEXT_STYLE = ""
NUMBER_STYLE = "$text-warning"
LITERAL_STYLE = "$text-accent"

HIT_CONTEXT = 20
"""The number of characters to show before a match in a long string."""

MIN_COUNTED_CHARACTERS = 200
"""The length from which the row shows the number of characters. A shorter string uses that room for its text."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{256}")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[^,]{0,100};base64,")
_MAGIC_PREFIXES = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
    "JVBERi0": "application/pdf",
}


def render_json_row(row: JsonRow, width: int, words: str = "") -> Content:
    """Render a row within a width. The words that a person searches for are highlighted."""
    space = text_width(row.depth, width)
    if isinstance(row.stored, WrappedLine):
        content = Content(row.stored)
    elif _is_text_line(row):
        content = build_content(_render_text_line(row, space))
    else:
        content = build_content(_render_pair(row, space, words))
    content = highlight_words(content, words)
    arrow = f"{glyphs.fold_mark(row.is_open)} " if can_open(row, width) else "  "
    return Content.assemble(" " * indent_width(row.depth, width), (arrow, FAINT), content).truncate(
        width, ellipsis=True
    )


def can_open(row: JsonRow, width: int) -> bool:
    """Return whether a row has more than its line shows."""
    if isinstance(row.stored, WrappedLine):
        return False
    if type(row.value) is str and row.embedded is None:
        return row.is_open or "\n" in row.value or not _fits(row.value, _text_width(row, width))
    return bool(row.content) and isinstance(row.content, CONTAINER_TYPES)


def _text_width(row: JsonRow, width: int) -> int:
    punctuation = 0 if _is_text_line(row) else 4 if row.key is not None else 2
    return text_width(row.depth, width) - cell_width(_key_text(row)) - punctuation


def _fits(text: str, space: int) -> bool:
    return len(text) <= space and cell_width(text) <= space


def _is_text_line(row: JsonRow) -> bool:
    return row.parent is not None and isinstance(row.parent.stored, TextLines)


def format_folded(value: Json, width: int = 60) -> str:
    """Describe a container: `{type, text}`, `{31}` if the names do not fit, or `[12]`."""
    if isinstance(value, LIST_TYPES):
        return f"[{len(value):,}]" if value else "[]"
    names = ", ".join(one_line(str(key), 30) for key in islice(iter_keys(value), 16))
    fits = len(value) <= 16 and cell_width(names) + 2 <= width
    return f"{{{names}}}" if fits else f"{{{len(value):,}}}"


def describe_string(text: str) -> str:
    """Describe a string that is not shown in full: its type if it is base64, and its size."""
    start = text[:600]
    url = _DATA_URL.match(start)
    body = start[url.end() :] if url else start
    if _BASE64.match(body):
        size = (len(text) - (url.end() if url else 0)) * 3 // 4
        kind = (url and url[1]) or next((kind for magic, kind in _MAGIC_PREFIXES.items() if body.startswith(magic)), "")
        return ", ".join(filter(None, [sanitize(kind), "base64", format_size(size)]))
    lines = text.count("\n") + 1
    return f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"


# ── a key and its value ───────────────────────────────────────────────────────────────────────────


def _render_pair(row: JsonRow, space: int, words: str) -> list[StyledText]:
    is_container = isinstance(row.content, CONTAINER_TYPES)
    key = _key_text(row)
    pieces: list[StyledText] = []
    if key:
        pieces = [(key, MUTED if isinstance(row.key, int) else KEY_STYLE), (" " if is_container else ": ", FAINT)]
    space -= sum(cell_width(text) for text, _ in pieces)
    if is_container:
        pieces += _render_container(row, space)
    elif type(row.value) is str:
        pieces += _render_string(row, space, words)
    else:
        pieces.append((one_line(encode_scalar(row.value), max(space, 1)), _value_style(row.value)))
    return pieces + _render_warning(row)


def _key_text(row: JsonRow) -> str:
    return "" if row.key is None or _is_text_line(row) else one_line(str(row.key), 60)


def _render_container(row: JsonRow, space: int) -> list[StyledText]:
    text = format_folded(row.content, min(space, 60))
    if row.is_open and isinstance(row.content, OBJECT_TYPES):
        text = ""
    return [(text, MUTED), (" from a string" if row.embedded is not None else "", FAINT)]


def _render_string(row: JsonRow, space: int, words: str) -> list[StyledText]:
    text: str = row.value
    is_json = looks_like_json(text)
    if row.is_open:
        return [(describe_string(text), FAINT)]
    if len(text) + 2 <= space and "\n" not in text and not is_json:
        encoded = sanitize(encode_string(text))
        if cell_width(encoded) <= space:
            return [(encoded, TEXT_STYLE)]
    suffix = (
        "  JSON"
        if is_json
        else "  " + describe_string(text)
        if len(text) > MIN_COUNTED_CHARACTERS or "\n" in text
        else ""
    )
    width = max(space - cell_width(suffix) - 2, 8)
    return [(_excerpt(text, width, words), TEXT_STYLE), (suffix, FAINT)]


def _excerpt(text: str, width: int, words: str) -> str:
    """Return the start of a text, or the part around the words that a person searches for."""
    start = 0
    if words:
        position = text.casefold().find(words.casefold())
        if position + len(words) > width - 2:
            start = max(position - HIT_CONTEXT, 0)
    cut = text[start : start + width + 1]
    encoded = sanitize(encode_string(cut))[1:-1]
    shown = one_line(("…" if start else '"') + encoded, width - 1)
    return shown.removesuffix("…") + "…" if len(text) > start + len(cut) or shown.endswith("…") else shown + '"'


def _render_warning(row: JsonRow) -> list[StyledText]:
    parent = row.parent.content if row.parent is not None else None
    if isinstance(parent, DuplicateKeyObject | LargeObject) and row.key in parent.times:
        return [(f"  ! duplicate key, last of {parent.times[str(row.key)]}", WARNING)]
    return []


def _render_text_line(row: JsonRow, space: int) -> list[StyledText]:
    if row.is_open:
        return [(describe_string(row.value), FAINT)]
    if _fits(row.value, space):
        return [(expand_tabs(sanitize(row.value)), TEXT_STYLE)]
    suffix = "  " + describe_string(row.value)
    return [(expand_tabs(one_line(row.value, max(space - cell_width(suffix), 8))), TEXT_STYLE), (suffix, FAINT)]


def _value_style(value: Json) -> str:
    if isinstance(value, CONTAINER_TYPES):
        return MUTED
    return (
        NUMBER_STYLE
        if isinstance(value, int | float | VerbatimNumber) and not isinstance(value, bool)
        else LITERAL_STYLE
    )
