"""This dialog shows the different values of a key side by side, and asks which one all of its lines get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Click
from textual.screen import ModalScreen
from textual.widgets import Static

from store.model.memory import MergeOption
from tui.dialogs.layout import HELP_BINDING, SIDE_BY_SIDE_CSS
from tui.dialogs.text import SingleLineDialog
from tui.messages import DataMessage
from tui.render.memory_lines import render_merge_option
from tui.render.styles import MUTED, STRONG, build_content
from tui.widgets.key_hints import KeyHintBar

MAX_OPTIONS = 4
"""Limits the values that are shown. Nobody can compare more of them side by side."""


class OptionBox(Static):
    class Clicked(DataMessage):
        number: int

    def __init__(self, option: MergeOption, number: int) -> None:
        super().__init__(render_merge_option(option))
        self._number = number
        self.border_title = f"{number + 1}"

    def on_click(self, event: Click) -> None:
        event.stop()
        self.post_message(self.Clicked(self._number))


class MergeDialog(ModalScreen[str | None]):
    """Returns the text that all lines with the key get."""

    DEFAULT_CSS = (
        "MergeDialog {"
        + SIDE_BY_SIDE_CSS
        + """
        OptionBox {
            width: 1fr;
            height: auto;
            max-height: 14;
            padding: 0 1;
            border: round $foreground 25%;

            &.-current {
                border: round $accent;
            }

            &.-current:nocolor {
                border: heavy $foreground;
            }
        }
    }
    """
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter", "take", "Use this one", id="merge.take", tooltip="Write this text into all lines with the key"
        ),
        Binding("right,l,tab", "move(1)", "Next", key_display="→", id="merge.next", tooltip="Go to the next text"),
        Binding(
            "left,h,shift+tab", "move(-1)", "Previous", show=False, id="merge.previous", tooltip="Go to the one before"
        ),
        Binding("e", "write", "Write another", id="merge.write", tooltip="Write another text, starting with this one"),
        Binding("escape,q", "dismiss(None)", "Cancel", id="merge.cancel", tooltip="Close without changes"),
        HELP_BINDING,
        *(
            Binding(
                str(number),
                f"pick({number - 1})",
                f"Use {number}",
                show=False,
                id=f"merge.pick_{number}",
                tooltip=f"Write text {number} into all lines with the key",
            )
            for number in range(1, MAX_OPTIONS + 1)
        ),
    ]

    def __init__(self, key: str, where: str, options: Sequence[MergeOption]) -> None:
        super().__init__()
        self._key, self._where = key, where
        self._all_options = options
        self._options = options[:MAX_OPTIONS]
        self._current = 0

    def compose(self) -> ComposeResult:
        count = len(self._all_options)
        with Vertical():
            title = [(f"{self._key}", STRONG), (f" has {count} different values in {self._where}", "")]
            yield Static(build_content(title), id="title")
            yield Static(Content.styled("Which one is right? You see every change before it is written.", MUTED))
            with Horizontal():
                for number, option in enumerate(self._options):
                    yield OptionBox(option, number)
        yield KeyHintBar()

    def on_mount(self) -> None:
        self.action_move(0)

    def action_move(self, by: int) -> None:
        self._current = (self._current + by) % len(self._options)
        for number, box in enumerate(self.query(OptionBox)):
            box.set_class(number == self._current, "-current")

    def action_take(self) -> None:
        self.action_pick(self._current)

    @on(OptionBox.Clicked)
    def _pick_box(self, clicked: OptionBox.Clicked) -> None:
        self.action_pick(clicked.number)

    def action_pick(self, number: int) -> None:
        if number < len(self._options):
            self.dismiss(self._options[number].text)

    def action_write(self) -> None:
        def finish(text: str | None) -> None:
            if text is not None:
                self.dismiss(text)

        note = f"All lines with `{self._key}:` get this text."
        text = self._options[self._current].text
        self.app.push_screen(SingleLineDialog("Write another text", text, note=note), finish)
