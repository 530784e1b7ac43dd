"""Letters without their accents, and words however they are accented: the index makes no difference. Pure."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from store.text.validate import column_text

_LETTERS = (range(0xC0, 0x250), range(0x370, 0x460), range(0x1E00, 0x2000))
"""Latin, Greek and Cyrillic ones that are a plain letter and a mark in one."""

_MARKS = "[\u0300-\u036f]*"


def folded(text: str) -> str:
    """As the index has it: in small letters, without accents."""
    text = text.lower()
    if text.isascii():
        return text
    return "".join(one for one in unicodedata.normalize("NFD", text) if not unicodedata.combining(one))


def any_accents(text: str) -> str:
    """As a regular expression: `resume` also where `résumé` was written, in one piece or in two."""
    return "".join(map(_letter, folded(text)))


@cache
def _letter(plain: str) -> str:
    accented = _accented().get(plain)
    return f"[{plain}{accented}]{_MARKS}" if accented else re.escape(plain)


@cache
def _accented() -> dict[str, str]:
    found: dict[str, str] = {}
    for number in (number for letters in _LETTERS for number in letters):
        parts = unicodedata.normalize("NFD", chr(number)).lower()
        if len(parts) > 1:
            found[parts[0]] = found.get(parts[0], "") + chr(number)
    return found


@cache
def cjk() -> re.Pattern[str]:
    """One character. Compiled when first asked for: with so wide a range that takes four milliseconds."""
    return re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")


def search_text(text: str) -> str:
    """CJK characters set apart, so that a word inside a sentence is found as a phrase of its characters."""
    if text.isascii():
        return text
    return cjk().sub(r" \g<0> ", column_text(text))
