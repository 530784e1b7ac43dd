"""This dialog shows how a figure came about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.dialogs.layout import HELP_BINDING
from tui.messages import Copy, DataMessage
from tui.render.styles import MUTED, STRONG, render_message
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.text_view import AutoHeightText
from tui.workers import threaded

DIALOG_CELLS = 84
TEXT_CELLS = 70
"""The width of the text in a narrow terminal, too."""

LoadExplanation = Callable[[int], Sequence[Content]]
"""Returns the lines of an explanation for a width. It runs in a thread."""


class ExplanationDialog(ModalScreen[None]):
    AUTO_FOCUS = "TextView"
    DEFAULT_CSS = f"""
    ExplanationDialog {{
        align: center middle;

        Vertical {{
            width: {DIALOG_CELLS};
            max-width: 98%;
            height: auto;
            max-height: 92%;
            padding: 0 1;
            background: $background;
            border: round $foreground 25%;
        }}

        TextView {{
            margin: 1 0;
        }}

        #title {{
            height: 1;
            padding: 0 1;
        }}
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "Copy", id="explain.copy", tooltip="Copy this explanation"),
        Binding("escape,q,equals_sign,enter", "dismiss(None)", "Close", id="explain.close", tooltip="Close this page"),
        HELP_BINDING,
    ]

    text = query_one(AutoHeightText)

    class ExplanationLoaded(DataMessage):
        lines: Sequence[Content]

    def __init__(self, title: str, load: LoadExplanation) -> None:
        super().__init__()
        self._heading = title
        self._load_explanation = load
        self._lines: Sequence[Content] = ()

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(render_message(self._heading, STRONG), id="title")
            yield AutoHeightText()
        yield KeyHintBar()

    def on_mount(self) -> None:
        self.text.show([Content.styled("Adding up…", MUTED)])
        self._load_in_thread()

    @threaded(group="explain")
    def _load_in_thread(self) -> None:
        self.post_message(self.ExplanationLoaded(self._load_explanation(TEXT_CELLS)))

    @on(ExplanationLoaded)
    def _show_lines(self, loaded: ExplanationLoaded) -> None:
        self._lines = loaded.lines
        self.text.show(loaded.lines)

    def action_copy(self) -> None:
        self.post_message(Copy("\n".join(line.plain.rstrip() for line in self._lines), "the explanation"))
