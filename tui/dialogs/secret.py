"""Dialogs in which a secret or a passphrase is typed: hidden, kept until the store has taken it, told to nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.getters import query_one
from textual.widgets import Input

from store.errors import ChangedMeanwhile, StoreError, WrongPassphrase
from tui.dialogs.text import Asking
from tui.privacy.secret_value import Confided
from tui.widgets.secret_view import HiddenInput
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store
    from tui.app import Backscroll

Seal = Callable[[str, Confided], object]
"""Takes name and value to the store, in a thread."""


class Confiding(Asking):
    BINDINGS: ClassVar[list[BindingType]] = [
        # Priority: a value may follow a name in the same breath, and must find the focus where it is going.
        Binding("enter", "take", "Keep", priority=True, id="confiding.keep", tooltip="Take what was typed"),
        Binding("ctrl+t", "show", "Show or hide", id="confiding.show", tooltip="Show what is typed, or hide it again"),
    ]

    app: Backscroll
    hidden = query_one(HiddenInput)

    def on_mount(self) -> None:
        self.app.keep_quiet(True)
        self.app.hide_signal.subscribe(self, lambda _: self._hide(), immediate=True)

    def on_unmount(self) -> None:
        self.app.keep_quiet(False)

    def on_screen_suspend(self) -> None:
        self._hide()

    def on_app_blur(self) -> None:
        self._hide()

    def _hide(self) -> None:
        self.hidden.password = True

    def action_show(self) -> None:
        self.hidden.password = not self.hidden.password


class SecretScreen(Confiding):
    """Answers with the name under which a value was sealed."""

    AUTO_FOCUS = "Input"

    def __init__(self, title: str, seal: Seal, *, name: str = "", note: str = "") -> None:
        super().__init__(title, name, note=note)
        self._seal = seal

    def field(self) -> ComposeResult:
        if not self._value:
            yield Input(placeholder="name, e.g. GITHUB_TOKEN", compact=True, id="name")
        yield HiddenInput(placeholder="value")

    def typed(self) -> str:
        """The name."""
        return self._value or self.query_one("#name", Input).value

    def action_take(self) -> None:
        if self.hidden.has_focus:
            super().action_take()
        else:
            self.set_focus(self.hidden)

    def take(self) -> None:
        name = self.typed()
        if not name.strip():
            self.refuse("A secret needs a name.")
            self.set_focus(self.query_one("#name"))
        elif not self.hidden.value:
            self.refuse("The value is empty; to remove a secret, leave this and press x.")
        elif not self._is_busy:
            self.refuse("")
            self._is_busy = True
            self._confide(name, Confided(self.hidden.value))

    @threaded(group="take")
    def _confide(self, name: str, value: Confided) -> None:
        try:
            self._seal(name, value)
        except ChangedMeanwhile as reason:
            self.app.call_from_thread(self.refuse, f"{reason} Once more puts yours in its place.")
        except StoreError as reason:
            self.app.call_from_thread(self.refuse, str(reason))
        else:
            self.app.call_from_thread(self.dismiss, name)


class PassphraseScreen(Confiding):
    """Answers with an empty text once the secrets are open."""

    AUTO_FOCUS = "HiddenInput"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Unlock", priority=True, id="confiding.unlock", tooltip="Unlock the secrets with it"),
    ]

    def __init__(self, store: Store) -> None:
        super().__init__("Passphrase of the secrets", note="They are locked.")
        self._store = store
        self._waited = False

    def field(self) -> ComposeResult:
        yield HiddenInput()

    def on_mount(self) -> None:
        self.set_interval(0.5, self._tell_wait)
        self._tell_wait()

    def typed(self) -> str:
        return ""

    def take(self) -> None:
        if self.app.waits.left or self._is_busy:
            return
        self.refuse("")
        self._is_busy = True
        self._unlock(Confided(self.hidden.value))

    @threaded(group="take")
    def _unlock(self, passphrase: Confided) -> None:
        try:
            self._store.secrets.unlock(passphrase.text)
        except WrongPassphrase:
            self.app.waits.wrong()
            self.app.call_from_thread(self._tell_wait)
        except StoreError as reason:
            self.app.call_from_thread(self.refuse, str(reason))
        else:
            self.app.waits.right()
            self.app.call_from_thread(self.dismiss, "")

    def _tell_wait(self) -> None:
        left = self.app.waits.left
        if left:
            seconds = "second" if left == 1 else "seconds"
            self._waited = True
            self.refuse(f"That is not the passphrase. The next try is in {left} {seconds}.")
        elif self._waited:
            self._waited = False
            self.refuse("That was not the passphrase; try again.")


async def opened(app: Backscroll, store: Store) -> bool:
    """Whether the secrets are open, after having asked for the passphrase where one is needed. Within a worker."""
    protection = await asyncio.to_thread(lambda: store.secrets.protection)
    if protection == "passphrase":
        return await app.push_screen_wait(PassphraseScreen(store)) is not None
    await asyncio.to_thread(store.secrets.unlock)
    return True
