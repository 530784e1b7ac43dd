"""Tests how Markdown, code and tables are rendered: aligned, within their width, and without control characters."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.render.code import MAX_HIGHLIGHTED_CHARACTERS, highlight_code
from tui.render.markdown import MAX_MARKDOWN_CHARACTERS, find_fenced_code, render_markdown
from tui.render.viewport import DEFAULT_TEXT_LIMIT, HIT_STYLE, Viewport

HOSTILE = (
    "\x1b]52;c;UFdORUQ=\x07 \x9b2J [b]bold[/b] [@click=app.quit]go[/] [/] \u202e abc \u2066 \x00\r\x08"
    " 👩\u200d👩\u200d👧 日本語\t| x"
)
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ud800-\udfff]")


def render_lines(text: str, width: int = 60, **options: object) -> list[str]:
    return [line.plain.rstrip() for line in render_markdown(text, Viewport(width, **options))]  # type: ignore[arg-type]


def find_styles(text: str) -> dict[str, str]:
    """Return the style of each piece of the text."""
    return {
        line.plain[span.start : span.end]: str(span.style)
        for line in render_markdown(text, Viewport(80))
        for span in line.spans
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Big\ntext", ["Big", "", "text"]),
        ("one\ntwo", ["one", "two"]),
        ("- a\n- b\n  - c\n\nafter", ["• a", "• b", "  – c", "", "after"]),
        ("3. a\n4. b", ["3. a", "4. b"]),
        ("1. a\n\n   more\n\n2. b", ["1. a", "", "   more", "", "2. b"]),
        ("> said\n> > before", ["▎ said", "▎", "▎ ▎ before"]),
        ("-\n- b", ["•", "• b"]),
        ("[the docs](https://example.com/a)", ["the docs (https://example.com/a)"]),
        ("<https://example.com/a>", ["https://example.com/a"]),
        ("![a cat](cat.png)", ["▣ a cat (cat.png)"]),
        ("<b>not html</b> &lt;", ["<b>not html</b> &lt;"]),
        ("a `b*c` d", ["a b*c d"]),
        ("", []),
    ],
)
def test_markdown_is_rendered_as_lines(text: str, expected: list[str]) -> None:
    assert render_lines(text) == expected


def test_paragraphs_lists_and_rules_are_wrapped_to_the_width() -> None:
    assert render_lines("- one two three four\n\n---", 12) == ["• one two", "  three four", "", "─" * 12]


def test_words_are_styled() -> None:
    word_styles = find_styles("**strong** *soft* ~~gone~~ `code` [link](u)\n\n## Heading")
    assert word_styles["strong"] == "bold"
    assert word_styles["soft"] == "italic"
    assert word_styles["gone"] == "strike"
    assert "on $surface" in word_styles["code"]
    assert "bold" in word_styles["Heading"]


def test_code_is_highlighted_and_keeps_its_spaces() -> None:
    assert render_lines("```python\ndef f():\n    return 1\n```") == [" def f():", "     return 1"]
    assert find_styles("```python\ndef f(): pass\n```")["def"] == "$text-accent"


def test_code_of_an_unknown_language_is_not_highlighted() -> None:
    assert [line.plain for line in highlight_code("a\n\n b", "klingon\x1b")] == ["a", "", " b"]
    assert highlight_code("x" * (MAX_HIGHLIGHTED_CHARACTERS + 1), "python")[0].spans == []


def test_columns_stay_aligned_and_shrink_to_fit() -> None:
    table = "| name | n |\n|---|--:|\n| a | 1 |\n| 日本 | 22 |"
    assert render_lines(table) == ["name   n", "────────", "a      1", "日本  22"]
    long = "| k | text |\n|---|---|\n| a | one two three four five |"
    assert render_lines(long, 16) == ["k  text", "────────────────", "a  one two three", "   four five"]
    many = "|" + "a|" * 9 + "\n|" + "-|" * 9 + "\n|" + "1|" * 9
    assert render_lines(many, 20)[0] == "a: 1"


def test_matches_are_highlighted_across_a_wrapped_line() -> None:
    wrapped = list(render_markdown("one two **three** four", Viewport(9, re.compile("two three"))))
    marked = [line.plain[span.start : span.end] for line in wrapped for span in line.spans if span.style == HIT_STYLE]
    assert marked == ["two", "three"]


def test_a_long_message_is_shortened_and_says_how_much_is_left() -> None:
    text = "word " * 20_000
    assert render_lines(text)[-1] == f"… {len(text) - DEFAULT_TEXT_LIMIT:,} more characters · w to show all"
    full = render_lines(text, is_full=True)
    assert len(text) > MAX_MARKDOWN_CHARACTERS
    assert sum(line.count("word") for line in full) == 20_000


def test_code_blocks_are_returned_unchanged() -> None:
    assert find_fenced_code("a\n```sh\nls \x1b\n```\nb\n\n    indented\n") == ["ls \x1b\n", "indented\n"]


@settings(max_examples=200)
@given(
    text=st.text(alphabet=st.sampled_from('ab #*_`~[]()<>|-:+.\n\t123>!\\"&;日👩\u200d\x1b\x9b\u202e'), max_size=300),
    width=st.integers(4, 70),
)
def test_no_line_is_too_wide_and_no_control_character_survives(text: str, width: int) -> None:
    for line in render_markdown(text, Viewport(width, re.compile("a"))):
        assert cell_len(line.plain) <= width
        assert not _CONTROL.search(line.plain)
        assert "\n" not in line.plain


def test_hostile_text_is_only_ever_text() -> None:
    places = (
        "# {}",
        "- {}",
        "> {}",
        "```{}\n{}\n```",
        "[{}](<http://{}>)",
        "| {} |\n|---|\n| {} |",
        "`{}`",
        "&#x202e;&#27;",
        "    {}",
    )
    everywhere = "\n\n".join(place.replace("{}", HOSTILE) for place in places)
    for line in render_markdown(everywhere, Viewport(70)):
        assert not _CONTROL.search(line.plain)
        assert not any("click" in str(span.style) for span in line.spans)
