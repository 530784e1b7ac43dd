"""The first screen: every session, newest first, filtered as one types."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.getters import query_one
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Static
from textual.worker import Worker, WorkerState, get_current_worker

from store.errors import Busy, StoreError
from store.paths import data_dir
from tui.painting.sessions import Row, nothing_found, reading_progress, welcome
from tui.widgets.session_list import PAGE, SessionList
from tui.widgets.top_bar import TopBar

if TYPE_CHECKING:
    from store.store import Store
    from tui.app import Backscroll

Clock = Callable[[], datetime]

POLL_SECONDS = 0.5
FOLLOW_SECONDS = 1.0
AGES_SECONDS = 30
DEMO = "demo"


class BrowserScreen(Screen[None]):
    AUTO_FOCUS = "SessionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "demo", "Show a demo", id="list.demo", tooltip="Look around in made-up conversations"),
        # Priority: the words may follow in the same breath, and must find the focus where it is going.
        Binding(
            "slash",
            "filter",
            "Filter",
            key_display="/",
            priority=True,
            id="list.filter",
            tooltip="Only the sessions with these words",
        ),
        Binding("escape", "clear", "All sessions", id="list.clear", tooltip="Take the filter away"),
    ]

    app: Backscroll
    bar = query_one(TopBar)
    sessions = query_one(SessionList)
    empty = query_one("#empty", Static)

    @dataclass
    class Listed(Message):
        """The keys of all sessions that match; of the first few when it is not the whole list."""

        generation: int
        keys: array[int]
        follow: bool
        whole: bool

    @dataclass
    class Read(Message):
        wanted: SessionList.Wanted
        rows: Sequence[Row]

    @dataclass
    class DemoMade(Message):
        store: Store

    @dataclass
    class Reading(Message):
        """How far the reading of the agents' own stores is; nothing to say once it is done."""

        text: str

    def __init__(self, store: Store, clock: Clock, title: str = "backscroll", *, follow: bool = False) -> None:
        super().__init__()
        self._store = store
        self._follow = follow
        self._clock = clock
        self._shown_title = title
        self._query = ""
        self._generation = 0
        self._is_empty = False
        self._making_demo = False
        self._version = store.sessions.data_version()

    def compose(self) -> ComposeResult:
        yield TopBar(self._shown_title)
        yield SessionList()
        yield Static(id="empty")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._tell_time()
        self._load(follow=False)
        self._poll = self.set_interval(POLL_SECONDS, self._notice_changes)
        self.set_interval(AGES_SECONDS, self._tell_time)
        if self._follow:
            self._sync()

    # ── what the store says ───────────────────────────────────────────────────────────────────────

    def _load(self, *, follow: bool) -> None:
        self._generation += 1
        self._list(self._query, self._generation, follow, first_page=not self.sessions.keys)

    @work(thread=True, exclusive=True, group="list")
    def _list(self, query: str, generation: int, follow: bool, first_page: bool) -> None:
        if generation != self._generation:
            return
        keys = self._store.sessions.keys
        if first_page:
            self.post_message(self.Listed(generation, keys(query, PAGE), follow, whole=False))
        self.post_message(self.Listed(generation, keys(query), follow, whole=True))

    @work(thread=True, group="rows")
    def _read(self, wanted: SessionList.Wanted) -> None:
        found = self._store.sessions.by_keys(wanted.keys)
        summarised, with_secrets = self._store.sessions.badges(wanted.keys)
        rows = [Row(session, session.key in summarised, session.key in with_secrets) for session in found]
        self.post_message(self.Read(wanted, rows))

    def _notice_changes(self) -> None:
        """Here and not in a worker: the number tells of changes only to the connection that asked before."""
        try:
            version = self._store.sessions.data_version()
        except StoreError as error:
            self._poll.stop()
            self.app.show_error(error)
            return
        if version != self._version:
            self._version = version
            self._load(follow=True)

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

    def _tell_time(self) -> None:
        self.sessions.now = self._clock()

    # ── what goes down ────────────────────────────────────────────────────────────────────────────

    @on(Listed)
    def _show_list(self, listed: Listed) -> None:
        if listed.generation != self._generation:
            return
        count = len(listed.keys)
        self.sessions.show(listed.keys, follow=listed.follow)
        if not listed.whole:
            return
        self._is_empty = not count and not self._query.strip()
        self.set_class(self._is_empty, "-empty")
        self.set_class(not count, "-nothing")
        if self._is_empty:
            self._show_welcome()
        elif not count:
            self.empty.update(nothing_found(self._query))
        what = "found" if self._query.strip() else "session" if count == 1 else "sessions"
        self.bar.show_count(f"{count:,} {what}")
        if count and self.focused is None:
            self.set_focus(self.sessions)
        self.refresh_bindings()

    def _show_welcome(self) -> None:
        self.set_focus(None)
        self.empty.update(welcome(_with_tilde(self._store.path), self._making_demo))
        self.refresh_bindings()

    @on(Read)
    def _show_rows(self, read: Read) -> None:
        self.sessions.supply(read.wanted, read.rows)

    # ── what comes up ─────────────────────────────────────────────────────────────────────────────

    @on(SessionList.Wanted)
    def _read_rows(self, wanted: SessionList.Wanted) -> None:
        self._read(wanted)

    @on(SessionList.Opened)
    def _open(self, opened: SessionList.Opened) -> None:
        from tui.screens.conversation import ConversationScreen

        self.app.push_screen(ConversationScreen(self._store, opened.session, self._clock))

    @on(TopBar.Asked)
    def _ask(self, asked: TopBar.Asked) -> None:
        self._query = asked.query
        self._load(follow=not asked.query)

    @on(TopBar.Left)
    def _leave_bar(self) -> None:
        if self.sessions.keys:
            self.set_focus(self.sessions)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "demo":
                return self._is_empty and not self._making_demo
            case "filter":
                return not self._is_empty and not self.bar.words.has_focus
            case "clear":
                return bool(self._query) or self.bar.words.has_focus
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        self.set_focus(self.bar.words)

    def action_clear(self) -> None:
        self.bar.clear()
        self.set_focus(self.sessions)

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
        if not store.sessions.keys(limit=1):
            demo.fill(store)
        self.post_message(self.DemoMade(store))

    @on(Worker.StateChanged)
    def _allow_another_try(self, changed: Worker.StateChanged) -> None:
        if changed.worker.group == DEMO and changed.state is WorkerState.ERROR:
            self._making_demo = False
            self._show_welcome()


def _with_tilde(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
