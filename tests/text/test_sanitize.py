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
    0x061C,
    *(0x115F, 0x1160),
    0x180E,
    0x200B,
    *(0x200E, 0x200F),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    0x3164,
    0xFEFF,
    0xFFA0,
    *(0xFFF9, 0xFFFA, 0xFFFB),
    *range(0xE0000, 0xE0080),
]

SCRIPTS = {
    "arabic": "السلام عليكم ورحمة الله",
    "persian with a non-joiner": "می‌خواهم کتاب‌ها را بخوانم",
    "hindi with joiners": "नमस्ते, क्‍षमा करें, र्‍य",
    "thai": "สวัสดีครับ ผมชื่อน้ำ",
    "chinese": "敏捷的棕色狐狸跳过了懒狗。",
    "combining accents": "cafe\u0301 n\u0303",
    "family emoji": "👩‍👩‍👧‍👦 👩🏽‍🚀 🏳️‍🌈",
    "heart and keycap": "❤️ 1️⃣ ☎︎",
    "flag": "🇩🇪🇯🇵",
    "code": "def f(x):\n\treturn x[0]  # [bold]not markup[/]\n",
}


SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2}")


def find_controls(text: str) -> set[str]:
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"}


@pytest.mark.parametrize("code", [code for code in range(0x20) if code not in (0x09, 0x0A)])
def test_c0_becomes_its_picture(code: int) -> None:
    assert sanitize(f"a{chr(code)}b") == f"a{chr(0x2400 + code)}b"


@pytest.mark.parametrize("code", [*range(0x80, 0xA0), 0xD800, 0xDBFF, 0xDC00, 0xDFFF])
def test_c1_and_lone_surrogates_become_the_replacement_character(code: int) -> None:
    assert sanitize(f"a{chr(code)}b") == "a\ufffdb"


@pytest.mark.parametrize("code", HIDDEN)
def test_hidden_characters_are_named(code: int) -> None:
    assert sanitize(f"a{chr(code)}b") == f"a⟨U+{code:04X}⟩b"


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


PRINTABLE = st.characters(exclude_categories=["C", "Zl", "Zp"], exclude_characters="\u115f\u1160\u3164\uffa0")


@given(st.text(PRINTABLE).filter(lambda text: not SELECTORS.search(text)))
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
