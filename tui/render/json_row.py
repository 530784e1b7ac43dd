"""What a row of a JSON value looks like: what fits on one line, and a word about what does not."""

from __future__ import annotations

import re
from itertools import islice

from textual.content import Content

from store.model.entry import Json
from store.text.sanitize import cells, clean, expand_tabs, one_line
from tui.json_document.large_containers import CONTAINERS, LISTS, OBJECTS, LargeObject, steps
from tui.json_document.parser import looks_like_json
from tui.json_document.tree import Row, indent, room
from tui.json_document.values import Lines, Number, Repeated, plain, quoted
from tui.render.highlight import with_hits
from tui.render.styles import FAINT, MUTED, STAR, Piece, content
from tui.render.word_wrap import Chunk

KEY = "$text-primary"
TEXT = ""
NUMBER = "$text-warning"
WORD = "$text-accent"

BEFORE_HIT = 20
"""Characters shown before the words that were found in a long string."""

WORTH_A_COUNT = 200
"""Characters of a string from which on it is told how many there are; a shorter one shows all it can instead."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{256}")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[^,]{0,100};base64,")
_MAGIC = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
    "JVBERi0": "application/pdf",
}


def row_line(row: Row, width: int, words: str = "") -> Content:
    """The row within so many cells; with the words that are being looked for set off."""
    space = room(row.depth, width)
    if isinstance(row.held, Chunk):
        shown = Content(row.held)
    elif _is_line_of_text(row):
        shown = content(_text_line(row, space))
    else:
        shown = content(_pair(row, space, words))
    shown = with_hits(shown, words)
    arrow = ("▾ " if row.open else "▸ ") if can_open(row, width) else "  "
    return Content.assemble(" " * indent(row.depth, width), (arrow, FAINT), shown).truncate(width, ellipsis=True)


def can_open(row: Row, width: int) -> bool:
    """Whether there is more to it than the line shows."""
    if isinstance(row.held, Chunk):
        return False
    if type(row.value) is str and row.inside is None:
        return row.open or "\n" in row.value or not _fits(row.value, _room_for_text(row, width))
    return bool(row.content) and isinstance(row.content, CONTAINERS)


def _room_for_text(row: Row, width: int) -> int:
    around = 0 if _is_line_of_text(row) else 4 if row.key is not None else 2
    return room(row.depth, width) - cells(_key(row)) - around


def _fits(text: str, space: int) -> bool:
    return len(text) <= space and cells(text) <= space


def _is_line_of_text(row: Row) -> bool:
    return row.parent is not None and isinstance(row.parent.held, Lines)


def folded(value: Json, width: int = 60) -> str:
    """What is in a container: `{type, text}`, `{31}` when the names do not fit, `[12]`."""
    if isinstance(value, LISTS):
        return f"[{len(value):,}]" if value else "[]"
    names = ", ".join(one_line(str(key), 30) for key in islice(steps(value), 16))
    fits = len(value) <= 16 and cells(names) + 2 <= width
    return f"{{{names}}}" if fits else f"{{{len(value):,}}}"


def about(text: str) -> str:
    """How much there is of a string that is not shown whole, and what it seems to be."""
    start = text[:600]
    url = _DATA_URL.match(start)
    body = start[url.end() :] if url else start
    if _BASE64.match(body):
        size = (len(text) - (url.end() if url else 0)) * 3 // 4
        kind = (url and url[1]) or next((kind for magic, kind in _MAGIC.items() if body.startswith(magic)), "")
        return ", ".join(filter(None, [clean(kind), "base64", size_of(size)]))
    lines = text.count("\n") + 1
    return f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"


def size_of(n: int) -> str:
    if n < 1_000:
        return f"{n} bytes"
    return f"{n / 1_000:,.0f} KB" if n < 1_000_000 else f"{n / 1_000_000:,.1f} MB"


# ── a key and its value ───────────────────────────────────────────────────────────────────────────


def _pair(row: Row, space: int, words: str) -> list[Piece]:
    is_container = isinstance(row.content, CONTAINERS)
    key = _key(row)
    pieces: list[Piece] = []
    if key:
        pieces = [(key, MUTED if isinstance(row.key, int) else KEY), (" " if is_container else ": ", FAINT)]
    space -= sum(cells(text) for text, _ in pieces)
    if is_container:
        pieces += _container(row, space)
    elif type(row.value) is str:
        pieces += _string(row, space, words)
    else:
        pieces.append((one_line(plain(row.value), max(space, 1)), _style(row.value)))
    return pieces + _warning(row)


def _key(row: Row) -> str:
    return "" if row.key is None or _is_line_of_text(row) else one_line(str(row.key), 60)


def _container(row: Row, space: int) -> list[Piece]:
    told = folded(row.content, min(space, 60))
    if row.open and isinstance(row.content, OBJECTS):
        told = ""
    return [(told, MUTED), (" from a string" if row.inside is not None else "", FAINT)]


def _string(row: Row, space: int, words: str) -> list[Piece]:
    text: str = row.value
    is_json = looks_like_json(text)
    if row.open:
        return [(about(text), FAINT)]
    if len(text) + 2 <= space and "\n" not in text and not is_json:
        spelled = clean(quoted(text))
        if cells(spelled) <= space:
            return [(spelled, TEXT)]
    told = "  JSON" if is_json else "  " + about(text) if len(text) > WORTH_A_COUNT or "\n" in text else ""
    left = max(space - cells(told) - 2, 8)
    return [(_excerpt(text, left, words), TEXT), (told, FAINT)]


def _excerpt(text: str, width: int, words: str) -> str:
    """The beginning, or what is around the words that are looked for."""
    start = 0
    if words:
        at = text.casefold().find(words.casefold())
        if at + len(words) > width - 2:
            start = max(at - BEFORE_HIT, 0)
    cut = text[start : start + width + 1]
    spelled = clean(quoted(cut))[1:-1]
    shown = one_line(("…" if start else '"') + spelled, width - 1)
    return shown.removesuffix("…") + "…" if len(text) > start + len(cut) or shown.endswith("…") else shown + '"'


def _warning(row: Row) -> list[Piece]:
    holder = row.parent.content if row.parent is not None else None
    if isinstance(holder, Repeated | LargeObject) and row.key in holder.times:
        return [(f"  ! given {holder.times[str(row.key)]} times, this is the last", STAR)]
    return []


def _text_line(row: Row, space: int) -> list[Piece]:
    if row.open:
        return [(about(row.value), FAINT)]
    if _fits(row.value, space):
        return [(expand_tabs(clean(row.value)), TEXT)]
    told = "  " + about(row.value)
    return [(expand_tabs(one_line(row.value, max(space - cells(told), 8))), TEXT), (told, FAINT)]


def _style(value: Json) -> str:
    if isinstance(value, CONTAINERS):
        return MUTED
    return NUMBER if isinstance(value, int | float | Number) and not isinstance(value, bool) else WORD
