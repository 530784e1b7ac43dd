"""This dialog asks for confirmation before something that cannot be undone."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.dialogs.layout import DIALOG_CSS, HELP_BINDING
from tui.render.styles import STRONG, render_message
from tui.widgets.key_hints import KeyHintBar


class ConfirmDialog(ModalScreen[bool]):
    """Returns whether the person agrees."""

    DEFAULT_CSS = "ConfirmDialog {" + DIALOG_CSS + "}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes", id="confirm.yes", tooltip="Confirm"),
        Binding("n,escape,q", "dismiss(False)", "No", id="confirm.no", tooltip="Close without changes"),
        HELP_BINDING,
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._heading = title
        self._body_text = text

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(render_message(self._heading, STRONG), id="title")
            yield Static(render_message(self._body_text))
        yield KeyHintBar()
