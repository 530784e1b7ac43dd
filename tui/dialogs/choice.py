"""These dialogs ask what happens with a text that is not saved, or that two people wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.dialogs.layout import DIALOG_CSS, HELP_BINDING
from tui.render.styles import MUTED, STRONG, render_message
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.text_view import AutoHeightText


class ChoiceDialog(ModalScreen[str | None]):
    """Returns the choice, or None to continue as before."""

    AUTO_FOCUS = "TextView"
    DEFAULT_CSS = (
        "ChoiceDialog {"
        + DIALOG_CSS
        + """
        Vertical {
            width: 100;
        }

        #text {
            height: auto;
        }

        TextView {
            margin-top: 1;
            background: $background;
        }
    }
    """
    )

    BINDINGS: ClassVar[list[BindingType]] = [HELP_BINDING]

    def __init__(self, title: str, text: str, lines: Sequence[Content] = ()) -> None:
        super().__init__()
        self._heading = title
        self._body_text = text
        self._lines = lines

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(render_message(self._heading, STRONG), id="title")
            yield Static(render_message(self._body_text, MUTED), id="text")
            if self._lines:
                yield AutoHeightText()
        yield KeyHintBar()

    def on_mount(self) -> None:
        if self._lines:
            self.query_one(AutoHeightText).show(self._lines)


class UnsavedDialog(ChoiceDialog):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "dismiss('save')", "Save", id="leave.save", tooltip="Save, then leave"),
        Binding("d", "dismiss('drop')", "Discard", id="leave.drop", tooltip="Leave without saving"),
        Binding("escape", "dismiss(None)", "Keep editing", id="leave.stay", tooltip="Go back to the text"),
    ]

    def __init__(self) -> None:
        super().__init__("Unsaved changes", "Save them before you leave?")


class ConflictDialog(ChoiceDialog):
    """Asks which text to keep when another program has saved a different text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "y",
            "dismiss('yours')",
            "Save my version",
            id="both.yours",
            tooltip="The other version stays as an older one",
        ),
        Binding("t", "dismiss('theirs')", "Use the other version", id="both.theirs", tooltip="Discard my text"),
        Binding("escape", "dismiss(None)", "Keep editing", id="both.stay", tooltip="Decide later"),
    ]
