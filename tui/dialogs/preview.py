"""This dialog shows what an edit would do before it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Static

from store.errors import ChangedMeanwhile, StoreError
from tui.dialogs.layout import HELP_BINDING, PREVIEW_CSS
from tui.messages import DataMessage
from tui.render.styles import ERROR, MUTED, STRONG, render_message
from tui.render.viewport import RenderedLine
from tui.widgets.key_hints import HintChange, KeyHintBar
from tui.widgets.text_view import AutoHeightText
from tui.workers import threaded

LoadPreview = Callable[[], tuple[Sequence[RenderedLine], bool]]
"""Returns what the edit would do, and whether it can be made. It runs in a thread, and again after every conflict."""


class PreviewDialog(ModalScreen[bool]):
    """Returns whether the edit was made."""

    AUTO_FOCUS = "TextView"
    DEFAULT_CSS = "PreviewDialog {" + PREVIEW_CSS + "}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "do", "Apply", id="showing.do", tooltip="Apply these changes"),
        Binding("escape,n,q", "dismiss(False)", "Cancel", id="showing.leave", tooltip="Close without changes"),
        HELP_BINDING,
    ]

    text = query_one(AutoHeightText)
    error_line = query_one("#refusal", Static)

    class PreviewLoaded(DataMessage):
        lines: Sequence[RenderedLine]
        can_apply: bool

    def __init__(
        self, title: str, load_preview: LoadPreview, apply: Callable[[], object], *, waiting: str = ""
    ) -> None:
        """The text `waiting` is shown until the preview is there, if that may take longer than a moment."""
        super().__init__()
        self._waiting = waiting
        self._heading = title
        self._load_preview = load_preview
        self._apply = apply
        self._can_apply = False

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(render_message(self._heading, STRONG), id="title")
            yield AutoHeightText()
            yield Static(id="refusal")
        yield KeyHintBar()

    def on_mount(self) -> None:
        if self._waiting:
            self.text.show([render_message(self._waiting, MUTED)])
        self._load_in_thread()

    @threaded(group="look")
    def _load_in_thread(self) -> None:
        try:
            lines, can_apply = self._load_preview()
        except StoreError as reason:
            self.app.call_from_thread(self.show_error, str(reason))
        else:
            self.post_message(self.PreviewLoaded(lines, can_apply))

    @on(PreviewLoaded)
    def _show_preview(self, loaded: PreviewLoaded) -> None:
        self.text.show(loaded.lines)
        self._can_apply = loaded.can_apply
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._can_apply if action == "do" else super().check_action(action, parameters)

    def change_hint(self, binding: Binding) -> HintChange | None:
        """Name the way out by what it does: if there is nothing to apply, there is nothing to cancel, either."""
        if binding.id == "showing.leave" and not self._can_apply:
            return HintChange("Close", "main")
        return None

    def action_do(self) -> None:
        self.show_error("")
        self._apply_in_thread()

    @threaded(group="take")
    def _apply_in_thread(self) -> None:
        try:
            self._apply()
        except ChangedMeanwhile as reason:
            self.app.call_from_thread(self.show_error, f"{reason} The preview is updated.")
            self.app.call_from_thread(self._load_in_thread)
        except StoreError as reason:
            self.app.call_from_thread(self.show_error, str(reason), can_apply=True)
        else:
            self.app.call_from_thread(self.dismiss, True)

    def show_error(self, reason: str, *, can_apply: bool = False) -> None:
        """Show why the edit was not made. It can be tried again only if the preview is still right."""
        self._can_apply = can_apply
        self.refresh_bindings()
        self.error_line.update(render_message(reason, ERROR))
