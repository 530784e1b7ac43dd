"""This module protects the secrets that an app shows.

It locks them when the person is away, keeps them out of logs and screenshots, and clears them from the clipboard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from textual import constants, events
from textual.signal import Signal
from textual.timer import Timer

from store.secrets.attempts import delay_after
from tui.privacy.secret_value import ConcealableWidget, SecretValue
from tui.textual_compat import HookedApp
from tui.workers import threaded

if TYPE_CHECKING:
    from rich.console import RenderableType

    from store.store import Store
    from tui.privacy.clipboard import CopiedSecret

IDLE_SECONDS = 600.0
IDLE_CHECK_SECONDS = 5.0
CLIPBOARD_SECONDS = 30.0
Result = TypeVar("Result")


class PassphraseDelay:
    """Doubles the time until the next attempt after every wrong passphrase, in all dialogs together."""

    def __init__(self) -> None:
        self._failures = 0
        self._blocked_until = 0.0

    @property
    def seconds_left(self) -> int:
        return max(ceil(self._blocked_until - monotonic()), 0)

    def add_failure(self) -> None:
        self._failures += 1
        self._blocked_until = monotonic() + delay_after(self._failures)

    def reset(self) -> None:
        self._failures, self._blocked_until = 0, 0.0


class PrivateApp(HookedApp[Result]):
    _stores: list[Store]

    def __init__(self) -> None:
        super().__init__()
        self.passphrase_delay = PassphraseDelay()
        self.hide_secrets_signal: Signal[None] = Signal(self, "hide secrets")
        "Tells widgets to hide revealed secrets, and to show again whether the secrets are locked."
        self._last_input = monotonic()
        self._log_suppressions = 0
        self._log_file = constants.LOG_FILE
        self._copied_secret: CopiedSecret | None = None
        self._clear_timer: Timer | None = None

    def on_mount(self) -> None:
        self.set_interval(IDLE_CHECK_SECONDS, self._lock_when_idle)
        self.app_suspend_signal.subscribe(self, lambda _: self.hide_secrets_signal.publish(None), immediate=True)

    # ── locking ───────────────────────────────────────────────────────────────────────────────────

    def lock_secrets(self) -> None:
        """Require the passphrase again, if there is one, and hide every revealed secret."""
        for store in self._stores:
            if "secrets" in vars(store):  # an unused collection holds no key
                store.secrets.drop_key()
        self.hide_secrets_signal.publish(None)

    def _lock_when_idle(self) -> None:
        if monotonic() - self._last_input >= IDLE_SECONDS:
            self.lock_secrets()

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.InputEvent | events.Paste):
            self._last_input = monotonic()
        await super().on_event(event)

    def action_suspend_process(self) -> None:
        self.lock_secrets()
        super().action_suspend_process()

    def exit(self, result: Result | None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Lock the secrets first: the terminal may be handed over to an agent."""
        self.lock_secrets()
        super().exit(result, return_code, message)

    # ── logs and screenshots ──────────────────────────────────────────────────────────────────────

    def suppress_logging(self, suppress: bool) -> None:
        """Stop Textual's log while a secret may be typed or shown, because it contains every key and every message."""
        self._log_suppressions += 1 if suppress else -1
        constants.LOG_FILE = None if self._log_suppressions else self._log_file  # type: ignore[misc]

    @property
    def is_logging(self) -> bool:
        return not self._log_suppressions

    def export_screenshot(self, *, title: str | None = None, simplify: bool = False) -> str:
        with ExitStack() as stack:
            for widget in self._concealable_widgets():
                stack.enter_context(widget.concealed())
            return super().export_screenshot(title=title, simplify=simplify)

    def _concealable_widgets(self) -> Iterator[ConcealableWidget]:
        for screen in self.screen_stack:
            yield from (widget for widget in screen.walk_children() if isinstance(widget, ConcealableWidget))

    # ── the clipboard ─────────────────────────────────────────────────────────────────────────────

    @threaded(group="copy")
    def copy_secret(self, value: SecretValue, description: str) -> None:
        from tui.privacy.clipboard import copy_secret

        self.clear_copied_secret()
        copied = copy_secret(value.text, CLIPBOARD_SECONDS)
        self.call_from_thread(self._finish_secret_copy, value, copied, description)

    def _finish_secret_copy(self, value: SecretValue, copied: CopiedSecret | None, description: str) -> None:
        self._copied_secret = copied
        if self._clear_timer is not None:
            self._clear_timer.stop()
        if copied is None:
            self.copy_to_clipboard(value.text)
            self.forget_copied_text()
            notice = f"Sent {description} to the terminal's clipboard. It stays there until something else is copied."
            self.notify(notice, timeout=8, markup=False)
            return
        self._clear_timer = self.set_timer(CLIPBOARD_SECONDS, self._clear_clipboard)
        seconds = f"{CLIPBOARD_SECONDS:.0f} seconds"
        notice = f"Copied {description}. The clipboard is cleared in {seconds}, or when you quit."
        if copied.clipboard == "tmux":
            notice += " The terminal around tmux may keep a copy."
        self.notify(notice, timeout=5, markup=False)

    @threaded(group="copy")
    def _clear_clipboard(self) -> None:
        copied, self._copied_secret = self._copied_secret, None
        if copied is not None and not copied.clear():
            notice = "The clipboard may still contain the secret. Copy something else to replace it."
            self.notify(notice, severity="warning", timeout=8, markup=False)

    async def on_unmount(self) -> None:
        await asyncio.to_thread(self.clear_copied_secret)

    def clear_copied_secret(self) -> None:
        """Remove a copied secret from the clipboard now. Call it also after `run`: a crash may skip `on_unmount`."""
        copied, self._copied_secret = self._copied_secret, None
        if copied is not None:
            copied.clear()
