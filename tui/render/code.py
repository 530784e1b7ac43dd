"""This module highlights code with Pygments, in the colours of the theme. Pygments is loaded with the first code."""

from __future__ import annotations

import sys
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from textual.content import Content, Span

from tui.render.time_limit import leave_to_other_process, run_with_time_limit
from tui.render.viewport import to_display_text

if TYPE_CHECKING:
    from pygments.lexer import Lexer  # type: ignore[import-untyped]

MAX_HIGHLIGHTED_CHARACTERS = 64_000
"""Limits the code to highlight. Longer code is shown in one colour."""

MAX_LINE_CHARACTERS = 2_000
"""Limits the line length to highlight, because some lexers need minutes for a very long line."""

LIGHT_MODULES = frozenset(
    "c_cpp configs css data diff go html javascript jvm make markup php python ruby rust shell sql".split()
)
"""Lists the modules of Pygments that the thread that paints may load. Each takes 10 ms at most, others take 50 ms."""

_TOKEN_STYLES = {
    "Comment": "italic $foreground 65%",
    "Error": "",
    "Generic.Deleted": "$text-error",
    "Generic.Inserted": "$text-success",
    "Generic.Heading": "$text-primary",
    "Generic.Subheading": "$text-primary",
    "Generic.Prompt": "$foreground 65%",
    "Keyword": "$text-accent",
    "Literal.Number": "$text-warning",
    "Literal.String": "$text-success",
    "Literal.String.Doc": "italic $text-success",
    "Name.Attribute": "$text-warning",
    "Name.Builtin": "$text-secondary",
    "Name.Class": "$text-warning",
    "Name.Decorator": "$text-primary",
    "Name.Function": "$text-primary",
    "Name.Tag": "$text-primary",
    "Name.Variable": "$text-secondary",
    "Operator.Word": "$text-accent",
}


def highlight_code(code: str, language: str) -> list[Content]:
    """Sanitize foreign code and return one Content for each line."""
    code = to_display_text(code)
    lines = code.split("\n")
    lexer = _find_lexer(language.lower()) if language else None
    if lexer is None or len(code) > MAX_HIGHLIGHTED_CHARACTERS or max(map(len, lines)) > MAX_LINE_CHARACTERS:
        return [Content(line) for line in lines]
    spans: list[Span] = []
    run_with_time_limit(lambda: _add_spans(spans, lexer, code), lambda: None)
    return Content(code, spans=spans).split("\n", allow_blank=True)


def _add_spans(spans: list[Span], lexer: Lexer, code: str) -> None:
    """Add the styles token by token. If the time runs out, the beginning of the code is highlighted."""
    position = 0
    for kind, text in lexer.get_tokens(code):
        end = min(position + len(text), len(code))
        if end > position and (style := _token_style(kind)):
            spans.append(Span(position, end, style))
        position = end


@cache
def _token_style(kind: tuple[str, ...]) -> str:
    for length in range(len(kind), 0, -1):
        if (style := _TOKEN_STYLES.get(".".join(kind[:length]))) is not None:
            return style
    return ""


@lru_cache(maxsize=32)
def _find_lexer(language: str) -> Lexer | None:
    """Return the lexer of a language, or None. Lexers that other installed packages offer are not looked for."""
    from pygments.lexers import LEXERS, get_lexer_by_name  # type: ignore[import-untyped]

    module = next((module for module, _, aliases, _, _ in LEXERS.values() if language in aliases), None)
    if module is None:
        return None
    if module not in sys.modules and module.rpartition(".")[2] not in LIGHT_MODULES:
        leave_to_other_process()
    return get_lexer_by_name(language, stripnl=False, ensurenl=False)
