"""These tests cover how text is prepared for the search index."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from store.text.unicode import cjk_pattern, separate_cjk
from store.text.validate import replace_surrogates

MIXED_TEXT = st.text(
    st.one_of(
        st.characters(), st.characters(min_codepoint=0x2E80, max_codepoint=0xFFFF), st.sampled_from("→“é🎈の話한𠀀")
    )
)
"""Draws text from all of Unicode, but often from the part of it that has the CJK characters."""


@given(text=MIXED_TEXT)
def test_every_cjk_character_is_separated(text: str) -> None:
    separated = cjk_pattern().sub(lambda run: f" {' '.join(run[0])} ", replace_surrogates(text))
    assert separate_cjk(text) == separated


def test_every_single_cjk_character_is_recognized() -> None:
    characters = [chr(code) for code in range(0x80, 0x40000) if not 0xD800 <= code < 0xE000]
    assert [char for char in characters if separate_cjk(char) != char] == list(filter(cjk_pattern().match, characters))
