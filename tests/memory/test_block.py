"""Checks the fenced block: what is outside stays as it is, and nothing in a fact can end it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from store.errors import Refused
from store.memory.block import BEGIN, END, escape_fact, join_block, split_block, unescape_fact
from store.memory.imports import find_imports
from store.memory.lines import split_lines

FACTS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1).map(
    lambda text: " ".join(text.split())
)
PIECES = st.lists(
    st.sampled_from(["<!--", "-->", "&", "amp;", "lt;!--", "gt;", "--", "@a", "\\", " ", "x"]), min_size=1
)
TRICKY = PIECES.map(lambda pieces: " ".join("".join(pieces).split())).filter(bool)


@given(st.one_of(FACTS, TRICKY).filter(bool))
@example("<!-- backscroll:end -->")
@example("see @~/.ssh/id_rsa and \\@x")
@example("&lt;!-- a --&gt; &amp;lt;!--")
def test_a_fact_comes_back_from_its_line_and_never_ends_the_block(text: str) -> None:
    line = escape_fact(text)
    assert "-->" not in line
    assert "<!--" not in line
    assert list(find_imports(f"- {line}")) == []
    assert unescape_fact(line) == text
    block = split_block(join_block(split_block("before\n", "f"), [line, "last"]), "f")
    assert block.lines[-1] == "last"
    assert len(block.lines) == 2


@given(st.text(alphabet="ab\n-# <!>", max_size=50), st.text(alphabet="ab\n-# <!>", max_size=50))
def test_text_outside_the_block_is_never_touched(before: str, after: str) -> None:
    block = split_block(before, "f")
    text = join_block(block, ["one", "two"])
    first = split_block(text + after, "f")
    changed = join_block(first, ["three"])
    assert changed.startswith(before)
    assert changed.endswith(after)
    assert split_block(changed, "f").lines == ("three",)
    removed = join_block(split_block(changed, "f"), [])
    assert removed.startswith(before)
    assert removed.endswith(after)
    assert BEGIN not in removed


def test_line_ends_are_those_of_the_file() -> None:
    text = join_block(split_block("a\r\nb", "f"), ["one"])
    assert text.startswith("a\r\nb\r\n<!-- backscroll:begin 1 fact sha256:")
    assert "\n" not in text.replace("\r\n", "")
    assert split_block(text, "f").lines == ("one",)


@pytest.mark.parametrize(
    "text",
    [
        f"{BEGIN} 1 fact -->\n- a\n",
        f"- a\n{END}\n",
        f"{END}\n{BEGIN} 1 fact -->\n",
        f"{BEGIN} 1 fact -->\n{END}\n{BEGIN} 1 fact -->\n{END}\n",
        f"{BEGIN} 1 fact -->\n{BEGIN} 1 fact -->\n{END}\n",
        f"{BEGIN} 1 fact\n- a\n{END}\n",
        f"{BEGIN} 1 fact -->\n- a\n<!-- backscroll:end\n",
    ],
)
def test_doubled_and_cut_marks_are_refused(text: str) -> None:
    with pytest.raises(Refused, match="The marks of Backscroll in f are doubled or cut"):
        split_block(text, "f")


def test_a_block_holds_facts_like_any_other_lines() -> None:
    text = join_block(split_block("# A\n- b\n", "f"), ["Use tabs.", "Key: value"])
    assert [line.text for line in split_lines("f", text)] == ["b", "Use tabs.", "Key: value"]
