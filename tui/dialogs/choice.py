"""These dialogs ask what happens with a text that is not saved, or that two people wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from store.text.sanitize import sanitize
from tui.dialogs.layout import DIALOG_CSS
from tui.render.styles import MUTED, STRONG
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

    def __init__(self, title: str, text: str, lines: Sequence[Content] = ()) -> None:
        super().__init__()
        self._heading = title
        self._body_text = text
        self._lines = lines

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content.styled(sanitize(self._heading), STRONG), id="title")
            yield Static(Content.styled(sanitize(self._body_text), MUTED), id="text")
            if self._lines:
                yield AutoHeightText()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        if self._lines:
            self.query_one(AutoHeightText).show(self._lines)


class UnsavedDialog(ChoiceDialog):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "dismiss('save')", "Save it", id="leave.save", tooltip="Save, then leave"),
        Binding("d", "dismiss('drop')", "Discard it", id="leave.drop", tooltip="Leave without it"),
        Binding("escape", "dismiss(None)", "Keep writing", id="leave.stay", tooltip="Stay"),
    ]


class ConflictDialog(ChoiceDialog):
    """Asks which text to keep when another program has saved a different text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss('yours')", "Save yours", id="both.yours", tooltip="Theirs stays as an older version"),
        Binding("t", "dismiss('theirs')", "Take theirs", id="both.theirs", tooltip="Theirs in place of yours"),
        Binding("escape", "dismiss(None)", "Keep writing", id="both.stay", tooltip="Decide later"),
    ]
