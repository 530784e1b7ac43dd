"""Untrusted text made safe to show.

A conversation holds whatever a model, a tool or a web page said, and a terminal obeys what it is
sent: an escape sequence can write the clipboard, clear the screen or make the terminal type an
answer back; a direction override can make one command look like another. Here such characters
become visible marks. What the store holds stays as it was: clean on the way to the screen, copy
the original.
"""

import re
import unicodedata
from bisect import bisect_left
from functools import cache, lru_cache
from itertools import accumulate

ELLIPSIS = "…"
JOINERS = "\u200c\u200d"
EMOJI_STYLE = "\ufe0f"

_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_SURROGATES = r"\ud800-\udfff"
_HIDDEN = (
    r"\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f"
)
"""Bidi controls, zero-width characters, separators and tags. Joiners and variation selectors are
not among them: Persian, the scripts of India and emoji need those."""

_UNSAFE = re.compile(f"[{_CONTROLS}{_HIDDEN}{_SURROGATES}]+")
_STRAY_JOINERS = re.compile(rf"(?<![^\s{JOINERS}])[{JOINERS}]+")
"""Joiners with nothing before them to join: something may be written in them, and terminals disagree on their room."""

_LINE_BREAKS = re.compile(r"[\n\t][\n\t ]*")

_CHARACTERS_PER_CELL = 8
"""How much text is looked at to fill one cell of a cut line, so that a list row costs the same
whether the text behind it has a hundred characters or a hundred million. No script needs as many
for a letter and its marks."""

_MAX_CACHED_LENGTH = 200
"""Characters of a text up to which its room is remembered."""


def sanitize(text: str) -> str:
    """The text with every character that a terminal obeys, or an eye misses, made visible."""
    # Nearly all text is clean: all scans run in C, and without a hit give back the text itself.
    shown = _UNSAFE.sub(_replace_unsafe_run, text.replace("\r\n", "\n"))
    if shown.isascii() or not any(joiner in shown for joiner in JOINERS):
        return shown
    return _STRAY_JOINERS.sub(_replace_unsafe_run, shown)


def _replace_unsafe_run(run: re.Match[str]) -> str:
    return "".join(map(_visible_mark, run[0]))


def one_line(text: str, width: int | None = None) -> str:
    """The text, clean and on one line, cut to so many terminal cells if a width is given."""
    if width is None:
        return _sanitize_to_one_line(text)
    text = text.lstrip(" \n\t")
    enough = max(width, 1) * _CHARACTERS_PER_CELL
    if len(text) > enough:
        return truncate(_sanitize_to_one_line(text[:enough]) + ELLIPSIS, width)
    return truncate(_sanitize_to_one_line(text), width)


def cell_width(text: str) -> int:
    """How many terminal cells the text takes, at times a little more than a terminal needs."""
    if text.isascii():
        return len(text)
    return _cached_cell_width(text) if len(text) < _MAX_CACHED_LENGTH else sum(map(_character_width, text))


def truncate(line: str, width: int) -> str:
    """A clean line, so much of it as has room."""
    if width < 1:
        return ""
    if cell_width(line) <= width:
        return line
    end = width - 1 if line.isascii() else bisect_left([*accumulate(map(_character_width, line))], width)
    return line[:end].rstrip(JOINERS) + ELLIPSIS


def expand_tabs(text: str, size: int = 4) -> str:
    """Tabs as spaces up to the next stop, counted in cells; nobody agrees how wide a tab is."""
    if "\t" not in text or text.isascii():
        return text.expandtabs(size)
    return "\n".join(_expand_line(line, size) for line in text.split("\n"))


@cache
def _visible_mark(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if code < 0xA0 or 0xD800 <= code < 0xE000:
        return "\ufffd"
    return f"⟨U+{code:04X}⟩"


def _sanitize_to_one_line(text: str) -> str:
    return _LINE_BREAKS.sub(" ", sanitize(text)).strip(" ")


@lru_cache(maxsize=2048)
def _cached_cell_width(text: str) -> int:
    """Of the pieces of a list's lines, which are asked for at every key."""
    return sum(map(_character_width, text))


@lru_cache(maxsize=4096)
def _character_width(character: str) -> int:
    # Python's own tables suffice for cutting a line, and keep the store free of a terminal library.
    # Marks that sit on the letter before them count nothing, or accented and Indic text would be
    # cut short; the selector that asks for a picture counts one, since it widens a narrow sign (❤)
    # to two cells. Emoji joined into one picture count singly: better cut early than overflow.
    if character == EMOJI_STYLE:
        return 1
    if character in JOINERS or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _expand_line(line: str, size: int) -> str:
    *before_tabs, rest = line.split("\t")
    return "".join(piece + " " * (size - cell_width(piece) % size) for piece in before_tabs) + rest
