"""These tests check that `sanitize` replaces what a terminal obeys, and leaves the writing of people unchanged."""

import re
import unicodedata

import pytest
from documents.hostile_text import TERMINAL_PAYLOADS
from hypothesis import given
from hypothesis import strategies as st

from store.text.sanitize import cell_width, expand_tabs, one_line, sanitize

ANYTHING = st.text(st.characters())
"""Generates every code point, also surrogates."""

HIDDEN = [
    0x00AD,
    0x034F,
    0x061C,
    *(0x115F, 0x1160),
    *(0x17B4, 0x17B5),
    0x180E,
    0x200B,
    *(0x200E, 0x200F),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    0x3164,
    0xFEFF,
    0xFFA0,
    *range(0xFDD0, 0xFDF0),
    *range(0xFFF0, 0xFFFC),
    *(0xFFFE, 0xFFFF),
    *range(0x13430, 0x13440),
    0x16FE4,
    *range(0x1BCA0, 0x1BCA4),
    0x1D159,
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE0100),
    *range(0xE01F0, 0xE1000),
]

VISIBLE_FORMATS = [*range(0x0600, 0x0606), 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD]
"""Lists signs of Arabic, Syriac and Kaithi that Unicode counts as format characters, although they have a shape."""

SCRIPTS = {
    "arabic": "السلام عليكم ورحمة الله",
    "persian with a non-joiner": "می‌خواهم کتاب‌ها را بخوانم",
    "persian with selectors": "می\u200cخواهم ❤\ufe0f 葛\U000e0100",
    "mongolian with a selector": "ᠠ\u180bᠨ",
    "braille": "⠓⠑⠇⠇⠕⠀⠺⠕⠗⠇⠙ ⣿⣀⠀⠀⣀⣿",
    "hindi with joiners": "नमस्ते, क्‍षमा करें, र्‍य",
    "thai": "สวัสดีครับ ผมชื่อน้ำ",
    "chinese": "敏捷的棕色狐狸跳过了懒狗。",
    "combining accents": "cafe\u0301 n\u0303",
    "family emoji": "👩‍👩‍👧‍👦 👩🏽‍🚀 🏳️‍🌈",
    "heart and keycap": "❤️ 1️⃣ ☎︎",
    "flag": "🇩🇪🇯🇵",
    "code": "def f(x):\n\treturn x[0]  # [bold]not markup[/]\n",
}


_SELECTOR = "[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
STRAY_SELECTOR = re.compile(rf"(^|\s|{_SELECTOR}){_SELECTOR}")


def find_controls(text: str) -> set[str]:
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"}


@pytest.mark.parametrize("code", [code for code in range(0x20) if code not in (0x09, 0x0A)])
def test_c0_becomes_its_picture(code: int) -> None:
    assert sanitize(f"a{chr(code)}b") == f"a{chr(0x2400 + code)}b"


@pytest.mark.parametrize("code", [*range(0x80, 0xA0), 0xD800, 0xDBFF, 0xDC00, 0xDFFF])
def test_c1_and_lone_surrogates_become_the_replacement_character(code: int) -> None:
    assert sanitize(f"a{chr(code)}b") == "a\ufffdb"


def test_hidden_characters_are_named() -> None:
    assert [code for code in HIDDEN if sanitize(f"a{chr(code)}b") != f"a⟨U+{code:04X}⟩b"] == []


def test_every_format_character_without_a_shape_is_named() -> None:
    formats = {code for code in range(0x110000) if unicodedata.category(chr(code)) == "Cf"}
    assert formats - {*HIDDEN, *VISIBLE_FORMATS} == {0x200C, 0x200D}


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x7f", "\u2421"),
        ("a\r\nb", "a\nb"),
        ("a\rb", "a\u240db"),
        ("a\r\r\nb", "a\u240d\nb"),
        ("\n\t", "\n\t"),
        ("", ""),
        ("\u202egnp.exe", "⟨U+202E⟩gnp.exe"),
        ("\U000e0041\U000e0042", "⟨U+E0041⟩⟨U+E0042⟩"),
    ],
)
def test_other_characters(raw: str, shown: str) -> None:
    assert sanitize(raw) == shown


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_the_writing_of_people_is_unchanged(text: str) -> None:
    assert sanitize(text) == text


@pytest.mark.parametrize("payload", TERMINAL_PAYLOADS.values(), ids=TERMINAL_PAYLOADS.keys())
def test_no_payload_survives(payload: str) -> None:
    assert find_controls(payload)
    for shown in (sanitize(payload), one_line(payload), one_line(payload, 20)):
        assert not find_controls(shown)


def test_clean_text_is_returned_without_a_copy() -> None:
    text = "plain words, 漢字 and 👩‍🚀\n" * 50_000
    assert sanitize(text) is text


@given(ANYTHING)
def test_nothing_a_terminal_obeys_is_left(text: str) -> None:
    shown = sanitize(text)
    assert not find_controls(shown)
    assert not {chr(code) for code in HIDDEN} & set(shown)
    assert sanitize(shown) == shown


PRINTABLE = st.characters(exclude_categories=["C", "Zl", "Zp"], exclude_characters=[*map(chr, HIDDEN), "\u2800"])


@given(st.text(PRINTABLE).filter(lambda text: not STRAY_SELECTOR.search(text)))
def test_printable_text_is_unchanged(text: str) -> None:
    assert sanitize(text) == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\ntwo", "one two"),
        ("one\r\n\r\n\ttwo\n", "one two"),
        ("def f():\n    return 1", "def f(): return 1"),
        ("two  spaces", "two  spaces"),
        ("\n\n  ", ""),
    ],
)
def test_one_line_folds(text: str, line: str) -> None:
    assert one_line(text) == line


@pytest.mark.parametrize(
    ("text", "width", "line"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("abcdef", 1, "…"),
        ("abcdef", 0, ""),
        ("漢字漢字", 8, "漢字漢字"),
        ("漢字漢字", 7, "漢字漢…"),
        ("漢字漢字", 6, "漢字…"),
        ("cafe\u0301s", 5, "cafe\u0301s"),
        ("cafe\u0301s!", 5, "cafe\u0301…"),
        ("👩‍🚀 to the moon", 4, "👩…"),
        ("\x1b[2Jhello", 6, "␛[2Jh…"),
        ("x" * 10_000_000, 4, "xxx…"),
        ("x" + "\n" * 10_000_000 + "y", 4, "x…"),
    ],
)
def test_one_line_cuts_by_cells(text: str, width: int, line: str) -> None:
    assert one_line(text, width) == line


@given(ANYTHING, st.integers(0, 30))
def test_a_cut_line_fits(text: str, width: int) -> None:
    line = one_line(text, width)
    assert cell_width(line) <= width
    assert not find_controls(line)
    assert "\n" not in line
    assert "\t" not in line
    if line and not line.endswith("…"):
        assert line == one_line(text)


@pytest.mark.parametrize(
    ("text", "size", "expanded"),
    [
        ("a\tb", 4, "a   b"),
        ("\t\tb", 2, "    b"),
        ("abcd\te", 4, "abcd    e"),
        ("漢\tb", 4, "漢  b"),
        ("a\n漢字\tb\n\tc", 4, "a\n漢字    b\n    c"),
        ("no tab: é", 4, "no tab: é"),
    ],
)
def test_tabs_reach_the_next_stop(text: str, size: int, expanded: str) -> None:
    assert expand_tabs(text, size) == expanded


@pytest.mark.parametrize("text", ["👩\u200d🚀", "می\u200cخواهم", "क्\u200dष"])
def test_joiners_that_join_stay(text: str) -> None:
    assert sanitize(text) == text


@pytest.mark.parametrize("text", ["\u200dx", "a \u200cb", "a\u200d\u200d\u200cb", "\n\u200d"])
def test_joiners_with_nothing_to_join_become_visible(text: str) -> None:
    assert "⟨U+200" in sanitize(text)


@pytest.mark.parametrize("selector", ["\ufe00", "\ufe0f", "\U000e0100", "\U000e01ef"])
def test_a_run_of_variation_selectors_becomes_visible_after_the_first(selector: str) -> None:
    assert sanitize(f"a{selector}b") == f"a{selector}b"
    assert sanitize(f"a{selector * 3}b") == f"a{selector}" + f"⟨U+{ord(selector):04X}⟩" * 2 + "b"


@pytest.mark.parametrize("text", ["\ufe0fa", "a \ufe00b", "\n\U000e0100", "a\u200d\ufe0fb", "\u180b"])
def test_a_variation_selector_with_nothing_to_vary_becomes_visible(text: str) -> None:
    assert "⟨U+" in sanitize(text)


@pytest.mark.parametrize("pair", ["\u200d\ufe0f", "\u200c\ufe01", "\ufe0f\u200d", "\u180b\u200d"])
def test_a_message_of_joiners_and_selectors_becomes_visible(pair: str) -> None:
    assert sanitize("a" + pair * 20 + "b").count("⟨U+") >= 19


@pytest.mark.parametrize("text", ["\u2800", "a\u2800b", "a\u2800\u2800 \u2800"])
def test_blanks_of_braille_outside_braille_become_visible(text: str) -> None:
    assert sanitize(text) == text.replace("\u2800", "⟨U+2800⟩")
