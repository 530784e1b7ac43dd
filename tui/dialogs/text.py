"""These dialogs ask for a text. If the store refuses it, they say why next to the field, and nothing typed is lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from store.errors import ChangedMeanwhile, SecretLocked, StoreError
from store.text.sanitize import one_line, sanitize
from tui.dialogs.external_editor import edit_in_external_editor
from tui.dialogs.layout import DIALOG_CSS, VERTICAL_BREAKPOINTS
from tui.render.styles import ERROR, MUTED, STRONG, format_count, render_message
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.line_input import LineInput
from tui.workers import threaded

if TYPE_CHECKING:
    from textual.widgets import TextArea

    from tui.app import Backscroll

SaveText = Callable[[str], object]
"""Saves the text in the store. It runs in a thread; the dialog shows a StoreError next to the field."""

CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
"""Matches characters that no key types, but that a paste may contain."""

CONFLICT_PREVIEW_CHARACTERS = 600
"""Limits how much of the conflicting text is shown."""


def describe_conflict(conflict: ChangedMeanwhile) -> str:
    """Return what was changed elsewhere, and its current value."""
    return f"{conflict} Current value: {one_line(str(conflict.current), CONFLICT_PREVIEW_CHARACTERS) or '(empty)'}"


class TextDialog(ModalScreen[str | None]):
    """Returns the text after the store has saved it, or None if the person leaves the dialog."""

    app: Backscroll

    DEFAULT_CSS = "TextDialog {" + DIALOG_CSS + "}"
    VERTICAL_BREAKPOINTS = VERTICAL_BREAKPOINTS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Cancel", id="asking.leave", tooltip="Close without changes"),
        # Priority, because F6 selects a line in a text area.
        Binding("f6", "tidy", "Remove them", priority=True, id="asking.tidy", tooltip="Remove the control characters"),
    ]

    def __init__(self, title: str, value: str = "", save: SaveText = lambda _: None, *, note: str = "") -> None:
        super().__init__()
        self._heading = title
        self._value = value
        self._save = save
        self._note = note
        self._is_busy = False
        self._has_control_characters = False

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(render_message(self._heading, STRONG), id="title")
            yield Static(render_message(self._note, MUTED), id="note")
            yield from self.compose_field()
            yield Static(id="refusal")
        yield KeyHintBar()

    def compose_field(self) -> ComposeResult:
        raise NotImplementedError

    def read_text(self) -> str:
        raise NotImplementedError

    def set_text(self, text: str) -> None:
        """Replace the text."""
        raise NotImplementedError

    def submit(self) -> None:
        if self._is_busy:
            return
        text = self.read_text()
        controls = CONTROL_CHARACTERS.findall(text)
        self._has_control_characters = bool(controls)
        self.refresh_bindings()
        if controls:
            shown = " ".join(map(sanitize, dict.fromkeys(controls[:9])))
            count = format_count(len(controls), "control character")
            self.show_error(f"The text contains {count} ({shown}). Press F6 to remove them.")
        else:
            self.show_error("")
            self._is_busy = True
            self._save_in_thread(text)

    def action_take(self) -> None:
        """Submit after the field has handled the keys that were pressed before."""
        (self.focused or self).call_later(self.submit)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._has_control_characters if action == "tidy" else super().check_action(action, parameters)

    def action_tidy(self) -> None:
        self._has_control_characters = False
        self.set_text(CONTROL_CHARACTERS.sub("", self.read_text()))
        self.show_error("")
        self.refresh_bindings()

    @threaded(group="take")
    def _save_in_thread(self, text: str) -> None:
        try:
            self._save(text)
        except ChangedMeanwhile as conflict:
            self.app.call_from_thread(self.show_error, f"{describe_conflict(conflict)}\nSave again to overwrite it.")
        except SecretLocked as locked:
            self.app.call_from_thread(self._unlock_and_save, locked)
        except StoreError as error:
            self.app.call_from_thread(self.show_error, str(error))
        else:
            self.app.call_from_thread(self.dismiss, text)

    @work(exclusive=True, group="unlock")
    async def _unlock_and_save(self, locked: SecretLocked) -> None:
        """Ask for the passphrase, because saving needs the values of secrets, and save again."""
        self.show_error(str(locked))
        if await self.app.unlock_secrets():
            self.submit()

    def show_error(self, reason: str) -> None:
        """Show next to the field why the text was not saved."""
        self._is_busy = False
        self.query_one("#refusal", Static).update(render_message(reason, ERROR))


class SingleLineDialog(TextDialog):
    """Asks for one line."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        # Priority, because the field has a binding for Enter that the footer does not show.
        Binding("enter", "take", "Save", priority=True, id="asking.take", tooltip="Save the text"),
    ]

    def compose_field(self) -> ComposeResult:
        yield LineInput(self._value, compact=True, select_on_focus=False)

    def read_text(self) -> str:
        return self.query_one(Input).value

    def set_text(self, text: str) -> None:
        self.query_one(Input).value = text


class MultilineDialog(TextDialog):
    """Asks for a text of any length. It can also be written in the person's own editor."""

    AUTO_FOCUS = "TextArea"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Cancel", id="asking.leave", tooltip="Close without changes"),
        Binding("ctrl+s", "save", "Save", id="asking.save", tooltip="Save the text"),
        Binding("f4", "editor", "Your editor", id="asking.editor", tooltip="Edit the text in $EDITOR"),
    ]

    @property
    def area(self) -> TextArea:
        from textual.widgets import TextArea

        return self.query_one(TextArea)

    def compose_field(self) -> ComposeResult:
        from tui.widgets.text_editor import TextEditor

        yield TextEditor(self._value)

    def read_text(self) -> str:
        return self.area.text

    def set_text(self, text: str) -> None:
        self.area.text = text

    def on_mount(self) -> None:
        self._value = self.area.text  # with the line breaks of the text area
        self.area.move_cursor(self.area.document.end)

    @property
    def is_unsaved(self) -> bool:
        return self.read_text().strip() not in ("", self._value.strip())

    def action_leave(self) -> None:
        """Ask before an unsaved text is dropped: in some editors, Escape only ends typing."""
        from tui.dialogs.choice import UnsavedDialog

        def decide(choice: str | None) -> None:
            if choice == "save":
                self.submit()
            elif choice == "drop":
                self.dismiss(None)

        if self.is_unsaved:
            self.app.push_screen(UnsavedDialog(), decide)
        else:
            self.dismiss(None)

    def action_save(self) -> None:
        self.submit()

    def action_editor(self) -> None:
        try:
            self.area.text = edit_in_external_editor(self.app, self.read_text())
        except StoreError as reason:
            self.show_error(str(reason))
