"""Shows what an edit would do before it is done: exactly that, or nothing."""

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
from textual.widgets import Footer, Static

from store.errors import ChangedMeanwhile, StoreError
from store.text.sanitize import clean
from tui.messages import Told
from tui.render.styles import ERROR, STRONG
from tui.widgets.text_view import FittedText
from tui.workers import threaded

Look = Callable[[], tuple[Sequence[Content], bool]]
"""What it would do, and whether it can be done at all; in a thread, and again whenever it was changed meanwhile."""


class ShowingScreen(ModalScreen[bool]):
    """Answers whether it was done."""

    AUTO_FOCUS = "TextView"
    DEFAULT_CSS = """
    ShowingScreen {
        align: center middle;

        Vertical {
            width: 120;
            max-width: 96%;
            height: auto;
            max-height: 90%;
            padding: 0 1;
            background: $background;
            border: round $foreground 25%;
        }

        TextView {
            margin: 1 0;
        }

        #title, #refusal {
            height: auto;
            padding: 0 1;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "do", "Do it", id="showing.do", tooltip="Do exactly this"),
        Binding("n,escape,q", "dismiss(False)", "Leave it", id="showing.leave", tooltip="Change nothing"),
    ]

    text = query_one(FittedText)
    refusal = query_one("#refusal", Static)

    class Looked(Told):
        lines: Sequence[Content]
        is_possible: bool

    def __init__(self, title: str, look: Look, do: Callable[[], object]) -> None:
        super().__init__()
        self._asked = title
        self._look = look
        self._do = do
        self._is_possible = False

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content.styled(clean(self._asked), STRONG), id="title")
            yield FittedText()
            yield Static(id="refusal")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._look_at_it()

    @threaded(group="look")
    def _look_at_it(self) -> None:
        try:
            lines, is_possible = self._look()
        except StoreError as reason:
            self.app.call_from_thread(self.refuse, str(reason))
        else:
            self.post_message(self.Looked(lines, is_possible))

    @on(Looked)
    def _show(self, looked: Looked) -> None:
        self.text.show(looked.lines)
        self._is_possible = looked.is_possible
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._is_possible if action == "do" else super().check_action(action, parameters)

    def action_do(self) -> None:
        self.refuse("")
        self._take()

    @threaded(group="take")
    def _take(self) -> None:
        try:
            self._do()
        except ChangedMeanwhile as reason:
            self.app.call_from_thread(self.refuse, f"{reason} This is what it would do now.")
            self.app.call_from_thread(self._look_at_it)
        except StoreError as reason:
            self.app.call_from_thread(self.refuse, str(reason), is_possible=True)
        else:
            self.app.call_from_thread(self.dismiss, True)

    def refuse(self, reason: str, *, is_possible: bool = False) -> None:
        """It may be tried again, unless what it would do must be looked at anew."""
        self._is_possible = is_possible
        self.refresh_bindings()
        self.refusal.update(Content.styled(clean(reason), ERROR))
