"""Markdown as lines of Content. Ours, since a widget per message cannot carry a long conversation.

markdown-it reads it and is loaded when the first text is shown. Nothing becomes a link that can be followed: the
address stands beside the words. HTML and entities stay as they were written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from textual.content import Content

from store.text.sanitize import cells, clean
from tui.render.code import highlighted
from tui.render.markdown_table import Cell, table_lines
from tui.render.styles import FAINT, MUTED, STRONG, Piece, content
from tui.render.viewport import Look, plain, shown

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

LONGEST = 64_000
"""Characters; a longer text is shown as it was written, which takes a tenth of the time."""

CODE = "$text-success on $surface"
CODE_GROUND = "on $surface"
LINK = "$text-primary"

_HEADINGS = {"h1": "bold underline $text-primary", "h2": "bold $text-primary"}
_INLINE = {"strong_open": STRONG, "em_open": "italic", "s_open": "strike", "link_open": LINK}
_BULLETS = ("• ", "◦ ", "▪ ")


def markdown(text: str, look: Look) -> Iterator[Content]:
    text, left = look.limited(text)
    if len(text) > LONGEST:
        yield from plain(text, look)
    else:
        yield from _Writer(look).write(_reader().parse(shown(text)))
    yield from look.more(left, "characters")


def code_blocks(text: str) -> list[str]:
    """The fenced code of a message, as it was written."""
    return [token.content for token in _reader().parse(text) if token.type in ("fence", "code_block")]


def warm_up() -> None:
    """Load what takes long to load; anywhere but on the thread that paints."""
    list(markdown("```python\npass\n```", Look(20)))


@cache
def _reader() -> MarkdownIt:
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return reader.disable(["html_block", "html_inline", "entity"])


class _Writer:
    def __init__(self, look: Look) -> None:
        self._look = look
        self._lines: list[Content] = []
        self._before: list[Piece] = []
        "What stands before every line: the bars of quotes, the indent of lists."
        self._bullet: Content | None = None
        "Stands in place of that before the next line, once."
        self._lists: list[tuple[str, int]] = []
        self._wants_blank = False

    def write(self, tokens: Sequence[Token]) -> list[Content]:
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.type == "table_open":
                end = next(n for n in range(at, len(tokens)) if tokens[n].type == "table_close")
                self._table(tokens[at:end])
                at = end
            elif token.type == "inline":
                self._paragraph(token, tokens[at - 1])
            elif token.type in ("fence", "code_block"):
                self._code(token)
            elif token.type == "hr":
                self._begin()
                self._emit([content([("─" * self._room.width, FAINT)])])
                self._wants_blank = True
            else:
                self._frame(token)
            at += 1
        return self._lines

    # ── what stands around ────────────────────────────────────────────────────────────────────────

    def _frame(self, token: Token) -> None:
        match token.type:
            case "blockquote_open":
                self._begin()
                self._before.append(("▎ ", FAINT))
            case "blockquote_close":
                self._before.pop()
            case "bullet_list_open" | "ordered_list_open":
                self._lists.append((token.type, len(self._lists)))
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
                self._wants_blank = not self._lists
            case "list_item_open":
                self._item(token)
            case "list_item_close":
                if self._bullet is not None:
                    self._emit([Content("")])
                self._before.pop()
            case "paragraph_close" | "heading_close":
                self._wants_blank = not token.hidden

    def _item(self, token: Token) -> None:
        kind, depth = self._lists[-1]
        mark = f"{token.info}. " if kind == "ordered_list_open" else _BULLETS[min(depth, 2)]
        self._begin()
        self._bullet = content([*self._before, (mark, MUTED)])
        self._before.append((" " * cells(mark), ""))

    def _begin(self) -> None:
        """A blank line, where one is due."""
        if self._wants_blank and self._lines and self._bullet is None:
            self._emit([Content("")])
        self._wants_blank = False

    @property
    def _room(self) -> Look:
        return self._look.narrower(sum(cells(text) for text, _ in self._before))

    def _emit(self, lines: Sequence[Content]) -> None:
        before = content(self._before)
        for line in lines:
            start, self._bullet = self._bullet or before, None
            self._lines.append((start + line).truncate(self._look.width))

    # ── what stands there ─────────────────────────────────────────────────────────────────────────

    def _paragraph(self, token: Token, opening: Token) -> None:
        self._begin()
        style = _HEADINGS.get(opening.tag, STRONG) if opening.type == "heading_open" else ""
        self._emit(
            [wrapped for line in inline(token.children or (), style) for wrapped in self._room.wrap(line)],
        )

    def _code(self, token: Token) -> None:
        self._begin()
        room = self._room
        inside = room.narrower(2)
        language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
        lines = [part for line in highlighted(token.content.rstrip("\n"), language) for part in inside.fold(line)]
        padded = (content([(" ", "")]) + line.pad_right(max(room.width - 1 - line.cell_length, 0)) for line in lines)
        self._emit([line.stylize_before(CODE_GROUND) for line in padded])
        self._wants_blank = True

    def _table(self, tokens: Sequence[Token]) -> None:
        self._begin()
        rows: list[list[Cell]] = []
        for n, token in enumerate(tokens):
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open"):
                style = STRONG if token.type == "th_open" else ""
                told = Content(" ").join(inline(tokens[n + 1].children or (), style))
                rows[-1].append(Cell(told, str(token.attrs.get("style", "")).removeprefix("text-align:")))
        self._emit(table_lines(rows, self._room))
        self._wants_blank = True


def inline(tokens: Sequence[Token], style: str = "") -> list[Content]:
    """The lines of a paragraph; those of its writer are kept."""
    lines: list[list[Piece]] = [[]]
    styles = [style]
    addresses: list[str] = []
    for token in tokens:
        now = " ".join(filter(None, styles))
        match token.type:
            case "softbreak" | "hardbreak":
                lines.append([])
            case "code_inline":
                lines[-1].append((clean(token.content), f"{now} {CODE}".strip()))
            case "image":
                lines[-1].append((clean(f"⎘ {token.content} ({token.attrs.get('src', '')})"), f"{now} {MUTED}".strip()))
            case "link_open":
                addresses.append(clean(str(token.attrs.get("href", ""))))
                styles.append(LINK)
            case "link_close":
                styles.pop()
                address = addresses.pop()
                if address and (not lines[-1] or lines[-1][-1][0] not in (address, address.removeprefix("mailto:"))):
                    lines[-1].append((f" ({address})", FAINT))
            case opening if opening in _INLINE:
                styles.append(_INLINE[opening])
            case closing if closing.endswith("_close"):
                styles.pop()
            case _:
                lines[-1].append((clean(token.content), now))
    return [content(line) for line in lines]
