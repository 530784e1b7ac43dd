"""These dialogs ask for a secret or a passphrase. What is typed is hidden and never logged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.getters import query_one
from textual.widgets import Input

from store.errors import ChangedMeanwhile, StoreError, WrongPassphrase
from tui.dialogs.text import TextDialog
from tui.privacy.secret_value import SecretValue
from tui.render.styles import format_count
from tui.widgets.secret_view import HiddenInput
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store
    from tui.app import Backscroll

SealSecret = Callable[[str, SecretValue], object]
"""Seals a value under a name in the store. It runs in a thread."""


class HiddenInputDialog(TextDialog):
    BINDINGS: ClassVar[list[BindingType]] = [
        # Priority, so that a value typed right after the name reaches its own field.
        Binding("enter", "take", "Save", priority=True, id="confiding.keep", tooltip="Seal the value"),
        Binding("ctrl+t", "show", "Show or hide", id="confiding.show", tooltip="Show or hide the value"),
    ]

    app: Backscroll
    hidden_input = query_one(HiddenInput)

    def on_mount(self) -> None:
        self.app.suppress_logging(True)
        self.app.hide_secrets_signal.subscribe(self, lambda _: self._hide_input(), immediate=True)

    def on_unmount(self) -> None:
        self.app.suppress_logging(False)

    def on_screen_suspend(self) -> None:
        self._hide_input()

    def on_app_blur(self) -> None:
        self._hide_input()

    def _hide_input(self) -> None:
        self.hidden_input.password = True

    def action_show(self) -> None:
        self.hidden_input.password = not self.hidden_input.password


class SecretDialog(HiddenInputDialog):
    """Returns the name under which a value was sealed."""

    AUTO_FOCUS = "Input"

    def __init__(self, title: str, seal: SealSecret, *, name: str = "", note: str = "") -> None:
        super().__init__(title, name, note=note)
        self._seal = seal

    def compose_field(self) -> ComposeResult:
        if not self._value:
            yield Input(placeholder="name, e.g. GITHUB_TOKEN", compact=True, id="name")
        yield HiddenInput(placeholder="value")

    def read_text(self) -> str:
        """Return the name of the secret."""
        return self._value or self.query_one("#name", Input).value

    def action_take(self) -> None:
        if self.hidden_input.has_focus:
            super().action_take()
        else:
            self.set_focus(self.hidden_input)

    def submit(self) -> None:
        name = self.read_text()
        if not name.strip():
            self.show_error("The name is empty. Enter a name.")
            self.set_focus(self.query_one("#name"))
        elif not self.hidden_input.value:
            self.show_error("The value is empty. To delete the secret, press Esc and then x.")
        elif not self._is_busy:
            self.show_error("")
            self._is_busy = True
            self._seal_in_thread(name, SecretValue(self.hidden_input.value))

    @threaded(group="take")
    def _seal_in_thread(self, name: str, value: SecretValue) -> None:
        try:
            self._seal(name, value)
        except ChangedMeanwhile as reason:
            self.app.call_from_thread(self.show_error, f"{reason} Save again to overwrite it.")
        except StoreError as reason:
            self.app.call_from_thread(self.show_error, str(reason))
        else:
            self.app.call_from_thread(self.dismiss, name)


class PassphraseDialog(HiddenInputDialog):
    """Returns an empty text after the secrets were unlocked."""

    AUTO_FOCUS = "HiddenInput"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Unlock", priority=True, id="confiding.unlock", tooltip="Unlock the secrets"),
    ]

    def __init__(self, store: Store) -> None:
        super().__init__("Unlock the secrets", note="Enter the passphrase.")
        self._store = store
        self._was_delayed = False

    def compose_field(self) -> ComposeResult:
        yield HiddenInput()

    def on_mount(self) -> None:
        self.set_interval(0.5, self._show_delay)
        self._show_delay()

    def read_text(self) -> str:
        return ""

    def submit(self) -> None:
        if self.app.passphrase_delay.seconds_left or self._is_busy:
            return
        self.show_error("")
        self._is_busy = True
        self._unlock_in_thread(SecretValue(self.hidden_input.value))

    @threaded(group="take")
    def _unlock_in_thread(self, passphrase: SecretValue) -> None:
        try:
            self._store.secrets.unlock(passphrase.text)
        except WrongPassphrase:
            self.app.passphrase_delay.add_failure()
            self.app.call_from_thread(self._show_delay)
        except StoreError as reason:
            self.app.call_from_thread(self.show_error, str(reason))
        else:
            self.app.passphrase_delay.reset()
            self.app.call_from_thread(self.dismiss, "")

    def _show_delay(self) -> None:
        seconds = self.app.passphrase_delay.seconds_left
        if seconds:
            self._was_delayed = True
            self.show_error(f"Wrong passphrase. Try again in {format_count(seconds, 'second')}.")
        elif self._was_delayed:
            self._was_delayed = False
            self.show_error("Wrong passphrase. Try again.")


async def unlock_secrets(app: Backscroll, store: Store) -> bool:
    """Unlock the secrets, and ask for the passphrase if there is one. Return whether they are unlocked. Call this in a
    worker, because it waits for the dialog."""
    protection = await asyncio.to_thread(lambda: store.secrets.protection)
    if protection == "passphrase":
        return await app.push_screen_wait(PassphraseDialog(store)) is not None
    await asyncio.to_thread(store.secrets.unlock)
    return True
