"""Markdown, code and tables as lines: aligned, within their width, and never anything but text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.render.code import MAX_HIGHLIGHTED_CHARACTERS, highlight_code
from tui.render.markdown import MAX_MARKDOWN_CHARACTERS as LONGEST_MARKDOWN
from tui.render.markdown import find_fenced_code, render_markdown
from tui.render.viewport import DEFAULT_TEXT_LIMIT, HIT_STYLE, Viewport

HOSTILE = (
    "\x1b]52;c;UFdORUQ=\x07 \x9b2J [b]bold[/b] [@click=app.quit]go[/] [/] \u202e abc \u2066 \x00\r\x08"
    " 👩\u200d👩\u200d👧 日本語\t| x"
)
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ud800-\udfff]")


def lines(text: str, width: int = 60, **look: object) -> list[str]:
    return [line.plain.rstrip() for line in render_markdown(text, Viewport(width, **look))]  # type: ignore[arg-type]


def styles(text: str) -> dict[str, str]:
    """What each piece of the text looks like."""
    return {
        line.plain[span.start : span.end]: str(span.style)
        for line in render_markdown(text, Viewport(80))
        for span in line.spans
    }


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("# Big\ntext", ["Big", "", "text"]),
        ("one\ntwo", ["one", "two"]),
        ("- a\n- b\n  - c\n\nafter", ["• a", "• b", "  ◦ c", "", "after"]),
        ("3. a\n4. b", ["3. a", "4. b"]),
        ("1. a\n\n   more\n\n2. b", ["1. a", "", "   more", "", "2. b"]),
        ("> said\n> > before", ["▎ said", "▎", "▎ ▎ before"]),
        ("-\n- b", ["•", "• b"]),
        ("[the docs](https://example.com/a)", ["the docs (https://example.com/a)"]),
        ("<https://example.com/a>", ["https://example.com/a"]),
        ("![a cat](cat.png)", ["⎘ a cat (cat.png)"]),
        ("<b>not html</b> &lt;", ["<b>not html</b> &lt;"]),
        ("a `b*c` d", ["a b*c d"]),
        ("", []),
    ],
)
def test_what_is_written_and_what_is_shown(written: str, shown: list[str]) -> None:
    assert lines(written) == shown


def test_paragraphs_lists_and_rules_are_wrapped_to_the_width() -> None:
    assert lines("- one two three four\n\n---", 12) == ["• one two", "  three four", "", "─" * 12]


def test_words_are_set_off() -> None:
    told = styles("**strong** *soft* ~~gone~~ `code` [link](u)\n\n## Heading")
    assert told["strong"] == "bold"
    assert told["soft"] == "italic"
    assert told["gone"] == "strike"
    assert "on $surface" in told["code"]
    assert "bold" in told["Heading"]


def test_code_is_highlighted_and_keeps_its_spaces() -> None:
    assert lines("```python\ndef f():\n    return 1\n```") == [" def f():", "     return 1"]
    assert styles("```python\ndef f(): pass\n```")["def"] == "$text-accent"


def test_code_of_no_known_language_is_shown_as_it_is() -> None:
    assert [line.plain for line in highlight_code("a\n\n b", "klingon\x1b")] == ["a", "", " b"]
    assert highlight_code("x" * (MAX_HIGHLIGHTED_CHARACTERS + 1), "python")[0].spans == []


def test_columns_stay_aligned_and_give_way_when_there_is_no_room() -> None:
    table = "| name | n |\n|---|--:|\n| a | 1 |\n| 日本 | 22 |"
    assert lines(table) == ["name   n", "────────", "a      1", "日本  22"]
    long = "| k | told |\n|---|---|\n| a | one two three four five |"
    assert lines(long, 16) == ["k  told", "────────────────", "a  one two three", "   four five"]
    many = "|" + "a|" * 9 + "\n|" + "-|" * 9 + "\n|" + "1|" * 9
    assert lines(many, 20)[0] == "a: 1"


def test_the_words_looked_for_are_marked_also_across_a_wrapped_line() -> None:
    told = list(render_markdown("one two **three** four", Viewport(9, re.compile("two three"))))
    marked = [line.plain[span.start : span.end] for line in told for span in line.spans if span.style == HIT_STYLE]
    assert marked == ["two", "three"]


def test_a_message_too_long_to_lay_out_at_once_says_how_much_is_left() -> None:
    text = "word " * 20_000
    assert lines(text)[-1] == f"… {len(text) - DEFAULT_TEXT_LIMIT:,} more characters · w to show all"
    whole = lines(text, is_full=True)
    assert len(text) > LONGEST_MARKDOWN
    assert sum(line.count("word") for line in whole) == 20_000


def test_fenced_code_is_given_as_it_was_written() -> None:
    assert find_fenced_code("a\n```sh\nls \x1b\n```\nb\n\n    indented\n") == ["ls \x1b\n", "indented\n"]


@settings(max_examples=200)
@given(
    text=st.text(alphabet=st.sampled_from('ab #*_`~[]()<>|-:+.\n\t123>!\\"&;日👩\u200d\x1b\x9b\u202e'), max_size=300),
    width=st.integers(4, 70),
)
def test_no_line_is_too_wide_and_nothing_that_a_terminal_obeys_is_left(text: str, width: int) -> None:
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
