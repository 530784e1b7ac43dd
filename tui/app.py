"""The browser's table of contents: its screens, its keys, and the one place that shows errors.

Screens are imported when they are first opened; only the list is needed to begin with.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.worker import WorkerFailed

from store.clean import clean
from store.errors import StoreError
from tui.backstop import Backstop
from tui.painting.sessions import SIGNS
from tui.screens.browser import BrowserScreen
from tui.screens.listing import Clock

if TYPE_CHECKING:
    from textual.filter import LineFilter

    from store.store import Store
    from tui.screens.help import Line


class Backscroll(App[None]):
    TITLE = "Backscroll"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Keys", key_display="?", id="app.help", tooltip="All keys of this screen"),
        Binding("q", "quit", "Quit", id="app.quit", tooltip="Leave Backscroll"),
    ]

    def __init__(self, store: Store, clock: Clock = lambda: datetime.now(UTC), *, follow: bool = False) -> None:
        super().__init__()
        self._stores = [store]
        self._follow = follow
        self._clock = clock
        self._backstop = Backstop()

    def get_default_screen(self) -> Screen[None]:
        return BrowserScreen(self._stores[-1], self._clock, follow=self._follow)

    def close_stores(self) -> None:
        """After `run`, when no worker is left that might still be reading."""
        for store in self._stores:
            store.close()

    # ── safety ────────────────────────────────────────────────────────────────────────────────────

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._backstop]

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Without the screenshot: a file with whatever was on the screen, left lying about."""
        return (command for command in super().get_system_commands(screen) if command.title != "Screenshot")

    def show_error(self, error: StoreError) -> None:
        self.notify(clean(str(error)), severity="error", timeout=10, markup=False)

    def _handle_exception(self, error: Exception) -> None:
        """What the store refuses a worker is told and survived; anything else is a fault of the program and ends it."""
        if isinstance(error, WorkerFailed) and isinstance(error.error, StoreError):
            self.show_error(error.error)
        else:
            super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """As Textual's own, without the values of variables: they are people's conversations."""
        self.panic(Text(clean(traceback.format_exc())))

    # ── help ──────────────────────────────────────────────────────────────────────────────────────

    def action_help(self) -> None:
        from tui.screens.help import HelpScreen

        self.push_screen(HelpScreen(self._keys_of(self.screen), SIGNS))

    def _keys_of(self, screen: Screen[object]) -> Iterable[Line]:
        """Only bindings with an id are ours; keys that do the same stand on one line."""
        keys: dict[str, list[str]] = {}
        told: dict[str, str] = {}
        for _, binding, enabled, tooltip in screen.active_bindings.values():
            if binding.id and enabled:
                keys.setdefault(binding.id, []).append(self.get_key_display(binding))
                told[binding.id] = tooltip or binding.tooltip or binding.description
        return [("  ".join(keys[name]), told[name]) for name in keys]

    # ── demo ──────────────────────────────────────────────────────────────────────────────────────

    @on(BrowserScreen.DemoMade)
    def _browse_demo(self, made: BrowserScreen.DemoMade) -> None:
        self._stores.append(made.store)
        self.push_screen(BrowserScreen(made.store, self._clock, title="backscroll demo"))
