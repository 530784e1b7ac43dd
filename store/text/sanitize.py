"""This module makes untrusted text safe to show in a terminal.

A conversation contains text of models, tools and web pages, and a terminal obeys escape sequences in it: they can write
the clipboard, clear the screen or make the terminal type something. A direction override can make one command look like
another. This module replaces these characters by visible marks. The store keeps the original text, which is what a
person copies.
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
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    r"\ufdd0-\ufdef\ufff0-\ufffb\ufffe\uffff\U00013430-\U0001343f\U00016fe4\U0001bca0-\U0001bca3\U0001d159"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
"""Lists bidi controls, zero-width characters, fillers, separators, tags, format controls of rare scripts, and code
points that are no characters: all that Unicode allows a terminal to show as nothing. Joiners and variation selectors
are not included, because Persian, the scripts of India, Mongolian and emoji need them."""

_UNSAFE = re.compile(f"[{_CONTROLS}{_HIDDEN}{_SURROGATES}]+")
_UNSAFE_ASCII = re.compile(r"[\x00-\x08\x0b-\x1f\x7f][\x00-\x08\x0b-\x1f\x7f]*")
"""Finds in ASCII text what the pattern above would, but sooner."""

_SELECTORS = r"\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_STRAY_JOINERS = re.compile(rf"[{JOINERS}](?<![^\s{JOINERS}][{JOINERS}])[{JOINERS}]*")
_STRAY_SELECTORS = re.compile(rf"[{_SELECTORS}](?<![^\s{JOINERS}{_SELECTORS}][{_SELECTORS}])[{_SELECTORS}]*")
_STRAY_BLANKS = re.compile(r"\u2800(?<![\u2800-\u28ff]\u2800)\u2800*(?![\u2800-\u28ff])")
"""Match joiners that have nothing to join, selectors that have nothing to vary, all but the first of several in a row,
and blanks of Braille outside a picture made of Braille. A hidden message can be made of them, and terminals disagree on
their width. The patterns begin with a set of characters and look back from it, because Python skips quickly to one."""

_LINE_BREAKS = re.compile(r"[\n\t][\n\t ]*")

CHARACTERS_PER_CELL = 8
"""Limits how much text is examined to fill one cell of a truncated line, so that a row costs the same for a hundred
characters and for a hundred million. No script needs that many characters for a letter and its marks."""

_MAX_CACHED_LENGTH = 200
"""Limits the length of texts whose width is cached."""


def sanitize(text: str) -> str:
    """Replace every character that a terminal obeys, or that is invisible, by a visible mark."""
    # Nearly all text is clean. The scans run in C, and return the text itself when they find nothing.
    text = text.replace("\r\n", "\n")
    if text.isascii():
        return _UNSAFE_ASCII.sub(_replace_unsafe_run, text)
    shown = _UNSAFE.sub(_replace_unsafe_run, text)
    shown = _STRAY_SELECTORS.sub(_replace_unsafe_run, shown)
    if "\u2800" in shown:
        shown = _STRAY_BLANKS.sub(_replace_unsafe_run, shown)
    if not any(joiner in shown for joiner in JOINERS):
        return shown
    return _STRAY_JOINERS.sub(_replace_unsafe_run, shown)


def _replace_unsafe_run(run: re.Match[str]) -> str:
    return "".join(map(_visible_mark, run[0]))


def one_line(text: str, width: int | None = None) -> str:
    """Return the sanitized text on one line, truncated to `width` terminal cells if it is given."""
    if width is None:
        return _sanitize_to_one_line(text)
    text = text.lstrip(" \n\t")
    enough = max(width, 1) * CHARACTERS_PER_CELL
    if len(text) > enough:
        return truncate(_sanitize_to_one_line(text[:enough]) + ELLIPSIS, width)
    return truncate(_sanitize_to_one_line(text), width)


def cell_width(text: str) -> int:
    """Return how many terminal cells the text takes. The result is sometimes a little too large, never too small."""
    if text.isascii():
        return len(text)
    return _cached_cell_width(text) if len(text) < _MAX_CACHED_LENGTH else sum(map(_character_width, text))


def truncate(line: str, width: int) -> str:
    """Cut a sanitized line to `width` cells, with an ellipsis at the end."""
    if width < 1:
        return ""
    if cell_width(line) <= width:
        return line
    end = width - 1 if line.isascii() else bisect_left([*accumulate(map(_character_width, line))], width)
    return line[:end].rstrip(JOINERS) + ELLIPSIS


def expand_tabs(text: str, size: int = 4) -> str:
    """Replace tabs by spaces up to the next tab stop, counted in cells, because terminals disagree on tab widths."""
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
    """Cache the widths of the texts in list rows, which are needed at every key press."""
    return sum(map(_character_width, text))


@lru_cache(maxsize=4096)
def _character_width(character: str) -> int:
    # Python's own tables are good enough to truncate a line, and the store needs no terminal library. Combining marks
    # count zero, or accented and Indic text would be truncated too early. The emoji selector counts one, because it
    # widens a narrow sign (❤) to two cells. Each emoji of a joined picture counts, because a line that is too short is
    # better than one that overflows.
    if character == EMOJI_STYLE:
        return 1
    if character in JOINERS or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _expand_line(line: str, size: int) -> str:
    *before_tabs, rest = line.split("\t")
    return "".join(piece + " " * (size - cell_width(piece) % size) for piece in before_tabs) + rest
