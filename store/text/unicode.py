"""Letters without their accents, and words however they are accented: the index makes no difference. Pure."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from store.text.validate import replace_surrogates

_ACCENTED_RANGES = (range(0xC0, 0x250), range(0x370, 0x460), range(0x1E00, 0x2000))
"""Latin, Greek and Cyrillic ones that are a plain letter and a mark in one."""

_COMBINING_MARKS = "[\u0300-\u036f]*"


def fold_accents(text: str) -> str:
    """As the index has it: in small letters, without accents."""
    text = text.lower()
    if text.isascii():
        return text
    return "".join(one for one in unicodedata.normalize("NFD", text) if not unicodedata.combining(one))


def accent_insensitive_pattern(text: str) -> str:
    """As a regular expression: `resume` also where `résumé` was written, in one piece or in two."""
    return "".join(map(_letter_pattern, fold_accents(text)))


@cache
def _letter_pattern(plain: str) -> str:
    accented = _accented_letters().get(plain)
    return f"[{plain}{accented}]{_COMBINING_MARKS}" if accented else re.escape(plain)


@cache
def _accented_letters() -> dict[str, str]:
    found: dict[str, str] = {}
    for number in (number for letters in _ACCENTED_RANGES for number in letters):
        parts = unicodedata.normalize("NFD", chr(number)).lower()
        if len(parts) > 1:
            found[parts[0]] = found.get(parts[0], "") + chr(number)
    return found


@cache
def cjk_pattern() -> re.Pattern[str]:
    """One character. Compiled when first asked for: with so wide a range that takes four milliseconds."""
    return re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")


def separate_cjk(text: str) -> str:
    """CJK characters set apart, so that a word inside a sentence is found as a phrase of its characters."""
    if text.isascii():
        return text
    return cjk_pattern().sub(r" \g<0> ", replace_surrogates(text))
