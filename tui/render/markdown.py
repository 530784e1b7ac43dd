"""This module renders Markdown as lines of Content, because one widget per message is too slow for long sessions.

markdown-it parses the text and is loaded when the first text is shown. The address of a link is shown after its words.
HTML and entities are shown unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from textual.content import Content

from store.text.sanitize import cell_width, sanitize
from tui.render import glyphs
from tui.render.code import highlight_code
from tui.render.markdown_table import TableCell, render_table
from tui.render.styles import FAINT, MUTED, STRONG, StyledText, build_content
from tui.render.time_limit import run_with_time_limit
from tui.render.viewport import Viewport, render_plain_text, to_display_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_MARKDOWN_CHARACTERS = 64_000
"""Limits the Markdown to parse. A longer text is shown as plain text, which takes a tenth of the time."""

CODE_STYLE = "$text-success on $surface"
CODE_BACKGROUND = "on $surface"
LINK_STYLE = "$text-primary"

_HEADING_STYLES = {"h1": "bold underline $text-primary", "h2": "bold $text-primary"}
_INLINE_STYLES = {"strong_open": STRONG, "em_open": "italic", "s_open": "strike", "link_open": LINK_STYLE}
_BULLETS = ("• ", "– ", "▪ ")


def render_markdown(text: str, viewport: Viewport) -> Iterator[Content]:
    text, left = viewport.limit_text(text)
    if len(text) > MAX_MARKDOWN_CHARACTERS:
        yield from render_plain_text(text, viewport)
    else:
        yield from run_with_time_limit(
            lambda: _MarkdownRenderer(viewport).render(_markdown_parser().parse(to_display_text(text))),
            lambda: list(render_plain_text(text, viewport)),
        )
    yield from viewport.render_more(left, "character")


def find_fenced_code(text: str) -> list[str]:
    """Return the code blocks of a message, unchanged."""
    return [token.content for token in _block_parser().parse(text) if token.type in ("fence", "code_block")]


def preload_parsers() -> None:
    """Load the parsers. Call this on a thread other than the one that paints, because it takes long."""
    list(render_markdown("```python\npass\n```", Viewport(20)))


@cache
def _markdown_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return parser.disable(["html_block", "html_inline", "entity"])


@cache
def _block_parser() -> MarkdownIt:
    """Return a parser that ignores the elements within a paragraph, which can take very long."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").disable(["inline", "html_block"])


class _MarkdownRenderer:
    def __init__(self, viewport: Viewport) -> None:
        self._viewport = viewport
        self._lines: list[Content] = []
        self._prefix: list[StyledText] = []
        "Precedes every line: the bars of quotes and the indentation of lists."
        self._bullet: Content | None = None
        "Replaces the prefix of the next line only."
        self._lists: list[tuple[str, int]] = []
        self._needs_blank_line = False

    def render(self, tokens: Sequence[Token]) -> list[Content]:
        index = 0
        while index < len(tokens):
            token = tokens[index]
            if token.type == "table_open":
                end = next(n for n in range(index, len(tokens)) if tokens[n].type == "table_close")
                self._render_table(tokens[index:end])
                index = end
            elif token.type == "inline":
                self._render_paragraph(token, tokens[index - 1])
            elif token.type in ("fence", "code_block"):
                self._render_code(token)
            elif token.type == "hr":
                self._begin_element()
                self._emit([build_content([("─" * self._inner_viewport.width, FAINT)])])
                self._needs_blank_line = True
            else:
                self._handle_container(token)
            index += 1
        return self._lines

    # ── containers ────────────────────────────────────────────────────────────────────────────────

    def _handle_container(self, token: Token) -> None:
        match token.type:
            case "blockquote_open":
                self._begin_element()
                self._prefix.append(("▎ ", FAINT))
            case "blockquote_close":
                self._prefix.pop()
            case "bullet_list_open" | "ordered_list_open":
                self._lists.append((token.type, len(self._lists)))
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
                self._needs_blank_line = not self._lists
            case "list_item_open":
                self._begin_list_item(token)
            case "list_item_close":
                if self._bullet is not None:
                    self._emit([Content("")])
                self._prefix.pop()
            case "paragraph_close" | "heading_close":
                self._needs_blank_line = not token.hidden

    def _begin_list_item(self, token: Token) -> None:
        kind, depth = self._lists[-1]
        mark = f"{token.info}. " if kind == "ordered_list_open" else _BULLETS[min(depth, 2)]
        self._begin_element()
        self._bullet = build_content([*self._prefix, (mark, MUTED)])
        self._prefix.append((" " * cell_width(mark), ""))

    def _begin_element(self) -> None:
        """Emit a blank line if one is needed before the next element."""
        if self._needs_blank_line and self._lines and self._bullet is None:
            self._emit([Content("")])
        self._needs_blank_line = False

    @property
    def _inner_viewport(self) -> Viewport:
        return self._viewport.narrow_by(sum(cell_width(text) for text, _ in self._prefix))

    def _emit(self, lines: Sequence[Content]) -> None:
        prefix = build_content(self._prefix)
        for line in lines:
            start, self._bullet = self._bullet or prefix, None
            self._lines.append((start + line).truncate(self._viewport.width))

    # ── elements ──────────────────────────────────────────────────────────────────────────────────

    def _render_paragraph(self, token: Token, opening: Token) -> None:
        self._begin_element()
        style = _HEADING_STYLES.get(opening.tag, STRONG) if opening.type == "heading_open" else ""
        self._emit(
            [
                wrapped
                for line in render_inline(token.children or (), style)
                for wrapped in self._inner_viewport.wrap(line)
            ],
        )

    def _render_code(self, token: Token) -> None:
        self._begin_element()
        room = self._inner_viewport
        inside = room.narrow_by(2)
        language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
        lines = [
            part for line in highlight_code(token.content.rstrip("\n"), language) for part in inside.hard_wrap(line)
        ]
        padded = (
            build_content([(" ", "")]) + line.pad_right(max(room.width - 1 - line.cell_length, 0)) for line in lines
        )
        self._emit([line.stylize_before(CODE_BACKGROUND) for line in padded])
        self._needs_blank_line = True

    def _render_table(self, tokens: Sequence[Token]) -> None:
        self._begin_element()
        rows: list[list[TableCell]] = []
        for n, token in enumerate(tokens):
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open"):
                style = STRONG if token.type == "th_open" else ""
                cell = Content(" ").join(render_inline(tokens[n + 1].children or (), style))
                rows[-1].append(TableCell(cell, str(token.attrs.get("style", "")).removeprefix("text-align:")))
        self._emit(render_table(rows, self._inner_viewport))
        self._needs_blank_line = True


def render_inline(tokens: Sequence[Token], style: str = "") -> list[Content]:
    """Render the lines of a paragraph. Line breaks of the source are kept."""
    lines: list[list[StyledText]] = [[]]
    styles = [style]
    addresses: list[str] = []
    for token in tokens:
        current = " ".join(filter(None, styles))
        match token.type:
            case "softbreak" | "hardbreak":
                lines.append([])
            case "code_inline":
                lines[-1].append((sanitize(token.content), f"{current} {CODE_STYLE}".strip()))
            case "image":
                lines[-1].append(
                    (
                        sanitize(f"{glyphs.IMAGE} {token.content} ({token.attrs.get('src', '')})"),
                        f"{current} {MUTED}".strip(),
                    )
                )
            case "link_open":
                addresses.append(sanitize(str(token.attrs.get("href", ""))))
                styles.append(LINK_STYLE)
            case "link_close":
                styles.pop()
                address = addresses.pop()
                if address and (not lines[-1] or lines[-1][-1][0] not in (address, address.removeprefix("mailto:"))):
                    lines[-1].append((f" ({address})", FAINT))
            case opening if opening in _INLINE_STYLES:
                styles.append(_INLINE_STYLES[opening])
            case closing if closing.endswith("_close"):
                styles.pop()
            case _:
                lines[-1].append((sanitize(token.content), current))
    return [build_content(line) for line in lines]
