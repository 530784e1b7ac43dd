"""This page lists all keys of a screen, and what the signs mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from store.text.sanitize import cell_width
from tui.render.styles import FAINT, MUTED, STRONG
from tui.widgets.key_hints import KeyHintBar

HelpKey = tuple[str, str, str]
"""Holds keys, what they do, and the id of the action, by which the config file can give it other keys."""

HelpSign = tuple[str, str]
"""Holds a sign and its meaning."""

THIS_SCREEN, EVERYWHERE = "This screen", "Everywhere"
_GROUP_NAMES = {
    "list": "List of sessions",
    "session": "Session",
    "edit": "Edit",
    "timeline": "Conversation",
    "json": "Record",
    "panes": "Panes",
    "filter": "Search box",
    "find": "Find",
    "chart": "Chart",
    "rows": "Table",
    "text": "Text",
    "app": EVERYWHERE,
}
"""Names the groups of keys by the first part of the ids of their actions. All others belong to the screen."""

GAP = "  "
MIN_MEANING_CELLS = 20
PADDING = 2
HORIZONTAL_MARGIN = 2 * PADDING + 2 + 4
"""Cells of a row that are not used for text: the padding, the scrollbar and the margin."""


class HelpScreen(ModalScreen[None]):
    DEFAULT_CSS = f"""
    HelpScreen {{
        align: center middle;

        VerticalScroll {{
            width: auto;
            height: auto;
            max-height: 90%;
            padding: 1 {PADDING};
            background: $surface;
            scrollbar-size-vertical: 1;
            scrollbar-background: $surface;
        }}

        Static {{
            width: auto;
            padding-right: 1;
        }}
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,enter,q", "dismiss", "Close", id="help.close", tooltip="Close this page"),
    ]

    def __init__(self, keys: Iterable[HelpKey], signs: Iterable[HelpSign]) -> None:
        super().__init__()
        self._keys = list(keys)
        self._signs = list(signs)

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static()
        yield KeyHintBar()

    def on_resize(self) -> None:
        self.query_one(Static).update(self._build_page(self.size.width - HORIZONTAL_MARGIN))

    def _build_page(self, room: int) -> Content:
        width = max(cell_width(keys) for keys, _, _ in self._keys)
        id_width = max(len(action_id) for _, _, action_id in self._keys)
        longest = max(cell_width(meaning) for _, meaning, _ in self._keys)
        column = max(min(longest, room - width - id_width - 2 * len(GAP)), MIN_MEANING_CELLS)
        keys: list[Content] = []
        for name, group in _group_keys(self._keys):
            keys += [Content(""), Content.styled(" " * (width + len(GAP)) + name, STRONG)]
            keys += [_format_key(key, width, column) for key in group]
        signs = [_format_sign(sign, width, max(room - width - len(GAP), MIN_MEANING_CELLS)) for sign in self._signs]
        title, marks = Content.styled("Keys · press End for the marks", MUTED), Content.styled("Marks", MUTED)
        closing = Content.styled("[browser.keys] in the config file gives an action other keys · Esc to close", MUTED)
        return Content("\n").join([title, *keys, Content(""), marks, *signs, Content(""), closing])


def _group_keys(keys: Iterable[HelpKey]) -> list[tuple[str, list[HelpKey]]]:
    """Group the keys by what they are about. Those that work everywhere come last."""
    groups: dict[str, list[HelpKey]] = {}
    for key in keys:
        groups.setdefault(_GROUP_NAMES.get(key[2].partition(".")[0], THIS_SCREEN), []).append(key)
    return sorted(groups.items(), key=lambda group: group[0] == EVERYWHERE)


def _format_key(key: HelpKey, width: int, column: int) -> Content:
    """Return a line with the keys, what they do, wrapped to its column, and the id of the action."""
    keys, meaning, action_id = key
    first, *others = Content(meaning).wrap(column) or [Content("")]
    line = _format_head(keys, width) + first + Content(" " * (column - first.cell_length) + GAP)
    line += Content.styled(action_id, FAINT)
    return Content("\n" + " " * width + GAP).join([line, *others])


def _format_sign(sign: HelpSign, width: int, column: int) -> Content:
    """Return a line, wrapped if it is too long."""
    return _format_head(sign[0], width) + Content("\n" + " " * width + GAP).join(Content(sign[1]).wrap(column))


def _format_head(sign: str, width: int) -> Content:
    return Content.assemble((" " * (width - cell_width(sign)) + sign, "bold $text-accent"), GAP)
