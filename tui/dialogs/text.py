"""Small dialogs. What is typed is kept until the store has taken it: a refusal stands by the field, in one sentence."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static

from store.errors import ChangedMeanwhile, StoreError
from store.text.sanitize import one_line, sanitize
from tui.render.styles import ERROR, MUTED, STRONG, format_count
from tui.workers import threaded

if TYPE_CHECKING:
    from textual.widgets import TextArea

SaveText = Callable[[str], object]
"""Takes what was typed to the store, in a thread; a StoreError is told by the field, and nothing is lost."""

CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
"""What no key types, but a paste may bring along."""

CONFLICT_PREVIEW_CHARACTERS = 600
"""Characters of what somebody else wrote meanwhile; of a longer text the beginning."""

DIALOG_CSS = """
    align: center middle;

    Vertical {
        width: 80;
        max-width: 96%;
        height: auto;
        max-height: 90%;
        padding: 1 2;
        background: $surface;
    }

    #title, #note, #refusal {
        height: auto;
    }

    #note {
        margin-bottom: 1;
    }

    Input {
        background: $background;

        &:focus {
            background-tint: $background 0%;
        }
    }

    TextArea {
        height: 45vh;
        max-height: 16;
        background: $background;

        &, &:focus {
            border: none;
        }
    }
"""


class TextDialog(ModalScreen[str | None]):
    """Answers with what was typed once the store has taken it, or None when the person thought better of it."""

    DEFAULT_CSS = "TextDialog {" + DIALOG_CSS + "}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave it", id="asking.leave", tooltip="Change nothing"),
        # Priority: a text area would select a line.
        Binding(
            "f6", "tidy", "Take them out", priority=True, id="asking.tidy", tooltip="Take the control characters out"
        ),
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
            yield Static(Content.styled(sanitize(self._heading), STRONG), id="title")
            yield Static(Content.styled(sanitize(self._note), MUTED), id="note")
            yield from self.compose_field()
            yield Static(id="refusal")
        yield Footer(show_command_palette=False)

    def compose_field(self) -> ComposeResult:
        raise NotImplementedError

    def read_text(self) -> str:
        raise NotImplementedError

    def set_text(self, text: str) -> None:
        """In place of what was typed."""
        raise NotImplementedError

    def submit(self) -> None:
        if self._is_busy:
            return
        text = self.read_text()
        controls = CONTROL_CHARACTERS.findall(text)
        self._has_control_characters = bool(controls)
        self.refresh_bindings()
        if controls:
            named = " ".join(map(sanitize, dict.fromkeys(controls[:9])))
            self.show_error(
                f"It holds {format_count(len(controls), 'control character')} ({named}); F6 takes them out."
            )
        else:
            self.show_error("")
            self._is_busy = True
            self._save_in_thread(text)

    def action_take(self) -> None:
        """After the keys that are still on their way to the field."""
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
        except ChangedMeanwhile as meanwhile:
            theirs = one_line(str(meanwhile.current), CONFLICT_PREVIEW_CHARACTERS) or "nothing"
            told = f"{meanwhile} It says now: {theirs}\nOnce more puts yours in its place."
            self.app.call_from_thread(self.show_error, told)
        except StoreError as reason:
            self.app.call_from_thread(self.show_error, str(reason))
        else:
            self.app.call_from_thread(self.dismiss, text)

    def show_error(self, reason: str) -> None:
        """By the field; what was typed stays."""
        self._is_busy = False
        self.query_one("#refusal", Static).update(Content.styled(sanitize(reason), ERROR))


class SingleLineDialog(TextDialog):
    """One line."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        # Priority: the field has a binding of its own, of which the footer says nothing.
        Binding("enter", "take", "Save", priority=True, id="asking.take", tooltip="Keep what was typed"),
    ]

    def compose_field(self) -> ComposeResult:
        yield Input(self._value, compact=True, select_on_focus=False)

    def read_text(self) -> str:
        return self.query_one(Input).value

    def set_text(self, text: str) -> None:
        self.query_one(Input).value = text


class MultilineDialog(TextDialog):
    """A text of any length, with the keys that people know, and their own editor behind a key."""

    AUTO_FOCUS = "TextArea"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave it", id="asking.leave", tooltip="Change nothing"),
        Binding("ctrl+s", "save", "Save", id="asking.save", tooltip="Keep what is written"),
        Binding("f4", "editor", "Your editor", id="asking.editor", tooltip="Write in $EDITOR, then come back"),
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
        self._value = self.area.text  # as a text area spells it
        self.area.move_cursor(self.area.document.end)

    @property
    def is_unsaved(self) -> bool:
        return self.read_text().strip() not in ("", self._value.strip())

    def action_leave(self) -> None:
        """What took a while to write is not lost by one key, least of all by the one that ends writing elsewhere."""
        from tui.dialogs.choice import UnsavedDialog

        def decide(choice: str | None) -> None:
            if choice == "save":
                self.submit()
            elif choice == "drop":
                self.dismiss(None)

        if self.is_unsaved:
            self.app.push_screen(UnsavedDialog("It is not saved", "What becomes of it?"), decide)
        else:
            self.dismiss(None)

    def action_save(self) -> None:
        self.submit()

    def action_editor(self) -> None:
        try:
            with self.app.suspend():
                self.area.text = edit_in_external_editor(self.read_text())
        except StoreError as reason:
            self.show_error(str(reason))


class ConfirmDialog(ModalScreen[bool]):
    """Before what cannot be taken back."""

    DEFAULT_CSS = "ConfirmDialog {" + DIALOG_CSS + "}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes", id="confirm.yes", tooltip="Do it"),
        Binding("n,escape,q", "dismiss(False)", "No", id="confirm.no", tooltip="Leave it as it is"),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._heading = title
        self._body_text = text

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content.styled(sanitize(self._heading), STRONG), id="title")
            yield Static(Content(sanitize(self._body_text)))
        yield Footer(show_command_palette=False)


def edit_in_external_editor(text: str) -> str:
    """The text as the person's own editor leaves it. In a private file that is gone afterwards."""
    argv = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="backscroll-") as folder:
        path = Path(folder) / "text.md"
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        try:
            done = subprocess.run([*argv, str(path)], check=False)
            if done.returncode:
                raise StoreError(f"The editor {argv[0]} ended with an error, so what it wrote was not taken.")
            return path.read_text("utf-8").removesuffix("\n")
        except (OSError, ValueError) as reason:
            raise StoreError(f"The editor {argv[0]} could not be used ({reason}); set $EDITOR to another.") from None
