"""Questions with more than two answers: what becomes of a text that is not saved, or that two people wrote."""

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
from tui.dialogs.text import DIALOG_CSS
from tui.render.styles import MUTED, STRONG
from tui.widgets.text_view import AutoHeightText


class ChoiceDialog(ModalScreen[str | None]):
    """Answers with what was chosen; None: go on as before."""

    AUTO_FOCUS = "TextView"
    DEFAULT_CSS = (
        "ChoiceDialog {"
        + DIALOG_CSS
        + """
        Vertical {
            width: 100;
        }

        #told {
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
            yield Static(Content.styled(sanitize(self._body_text), MUTED), id="told")
            if self._lines:
                yield AutoHeightText()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        if self._lines:
            self.query_one(AutoHeightText).show(self._lines)


class UnsavedDialog(ChoiceDialog):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "dismiss('save')", "Save it", id="leave.save", tooltip="Save, then leave"),
        Binding("d", "dismiss('drop')", "Throw it away", id="leave.drop", tooltip="Leave without it"),
        Binding("escape", "dismiss(None)", "Go on writing", id="leave.stay", tooltip="Stay"),
    ]


class ConflictDialog(ChoiceDialog):
    """Somebody else saved meanwhile; nothing is overwritten unseen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss('yours')", "Save yours", id="both.yours", tooltip="Theirs stays as an older version"),
        Binding("t", "dismiss('theirs')", "Take theirs", id="both.theirs", tooltip="Theirs in place of yours"),
        Binding("escape", "dismiss(None)", "Go on writing", id="both.stay", tooltip="Decide later"),
    ]
