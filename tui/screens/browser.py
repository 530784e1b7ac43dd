"""The first screen: every session, narrowed as one types."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.getters import query_one
from textual.message import Message
from textual.widgets import Footer, Static
from textual.worker import Worker, WorkerState, get_current_worker

from store.errors import Busy
from store.listed import Listing
from store.paths import data_dir
from tui.painting.sessions import nothing_found, reading_progress, welcome, with_tilde
from tui.screens.listing import Clock, ListingScreen
from tui.widgets.session_list import SessionList
from tui.widgets.top_bar import TopBar

if TYPE_CHECKING:
    from store.store import Store

FOLLOW_SECONDS = 1.0
DEMO = "demo"


class BrowserScreen(ListingScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "demo", "Show a demo", id="list.demo", tooltip="Look around in made-up conversations"),
    ]

    empty = query_one("#empty", Static)

    @dataclass
    class DemoMade(Message):
        store: Store

    @dataclass
    class Reading(Message):
        """How far the reading of the agents' own stores is; nothing to say once it is done."""

        text: str

    def __init__(self, store: Store, clock: Clock, title: str = "backscroll", *, follow: bool = False) -> None:
        super().__init__(store, clock)
        self._follow = follow
        self._shown_title = title
        self._is_empty = False
        self._making_demo = False

    def compose(self) -> ComposeResult:
        yield TopBar(self._shown_title)
        yield SessionList()
        yield Static(id="empty")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        if self._follow:
            self._sync()

    # ── what the store says ───────────────────────────────────────────────────────────────────────

    @work(thread=True, group="sync")
    def _sync(self) -> None:
        """What the agents on this machine write, as long as the browser is open. The list hears of it by polling."""
        from store import sync

        worker = get_current_worker()
        while not worker.is_cancelled:
            try:
                for progress in sync.sync(self._store, sync.targets()):
                    if worker.is_cancelled:
                        return
                    self.post_message(self.Reading(reading_progress(progress.done, progress.total)))
            except Busy:
                pass  # another browser or a sync is at it; what it brings appears here, too
            self.post_message(self.Reading(""))
            time.sleep(FOLLOW_SECONDS)

    @on(Reading)
    def _show_reading(self, reading: Reading) -> None:
        self.bar.show_status(reading.text)

    def listed(self, shown: Listing) -> None:
        self._is_empty = not shown.keys and not shown.wanted.query.strip() and not shown.wanted.folder
        self.set_class(self._is_empty, "-empty")
        self.set_class(not shown.keys, "-nothing")
        if self._is_empty:
            self._show_welcome()
        elif not shown.keys:
            self.empty.update(nothing_found(shown.wanted))
        elif self.focused is None:
            self.set_focus(self.sessions)

    def _show_welcome(self) -> None:
        self.set_focus(None)
        self.empty.update(welcome(with_tilde(str(self._store.path)), self._making_demo))
        self.refresh_bindings()

    # ── what comes up ─────────────────────────────────────────────────────────────────────────────

    @on(SessionList.Opened)
    def _open(self, opened: SessionList.Opened) -> None:
        from tui.screens.conversation import ConversationScreen

        self.app.push_screen(ConversationScreen(self._store, opened.session, self._clock))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "demo":
                return self._is_empty and not self._making_demo
            case "search" if self._is_empty:
                return False
        return super().check_action(action, parameters)

    # ── the demo ──────────────────────────────────────────────────────────────────────────────────

    def action_demo(self) -> None:
        self._making_demo = True
        self._show_welcome()
        self._make_demo()

    @work(thread=True, group=DEMO)
    def _make_demo(self) -> None:
        """In a store of its own, so that the person's stays clean."""
        from store import demo
        from store.store import Store

        store = Store.open(data_dir() / "demo.db")
        if not store.sessions.newest(1):
            demo.fill(store)
        self.post_message(self.DemoMade(store))

    @on(Worker.StateChanged)
    def _allow_another_try(self, changed: Worker.StateChanged) -> None:
        if changed.worker.group == DEMO and changed.state is WorkerState.ERROR:
            self._making_demo = False
            self._show_welcome()
