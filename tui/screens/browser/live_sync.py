"""How a list comes to have sessions: what agents write is read while it is open, and an empty one offers a demo."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Thread
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import on
from textual.binding import Binding, BindingType
from textual.getters import query_one
from textual.widgets import Static
from textual.worker import Worker, WorkerState

from store.errors import StoreError
from store.paths import data_dir
from store.search.list_rows import SessionListLayout
from tui.messages import DataMessage
from tui.render.browser_notices import format_progress, render_empty_list, render_first_run, render_welcome
from tui.render.session_lines import abbreviate_home
from tui.screens.browser.session_edits import TRASH_BINDING, SessionEditScreen
from tui.screens.store_screen import Clock
from tui.widgets.top_bar import TopBar
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store
    from store.sync.worker_process import WorkerProcess

Result = TypeVar("Result")

DEMO_GROUP = "demo"


class LiveSyncScreen(SessionEditScreen[Result]):
    """Subclasses compose a `#banner` and an `#empty` besides, and say with `begin_to_fill` when they are ready."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # One key for two: where there is nothing to throw away, there is a demo to be shown.
        Binding("d", "demo", "Show a demo", id="list.demo", tooltip="Look around in made-up conversations"),
        TRASH_BINDING,
        # The list has these keys, and is hidden where it has nothing to show.
        Binding("enter", "further", "Tool calls", id="list.further", tooltip="Look for the words among the tool calls"),
        Binding("s", "scope", "Scope", id="list.scope", tooltip="Everywhere, this folder, this git work tree"),
    ]

    empty_message = query_one("#empty", Static)
    banner = query_one("#banner", Static)

    class DemoMade(DataMessage):
        store: Store

    class SyncProgressed(DataMessage):
        """How far the reading of the agents' own stores is, and how many sessions were found of each."""

        done: int
        total: int
        session_counts: Mapping[str, int]
        is_finished: bool

    class WorkerStopped(DataMessage):
        """The worker process has ended without being asked to."""

        is_restarted: bool

    class SyncFailed(DataMessage):
        """The worker cannot sync, for this reason."""

        reason: str

    def __init__(
        self, store: Store, clock: Clock, *, worker: WorkerProcess | None = None, is_new_store: bool = False
    ) -> None:
        super().__init__(store, clock)
        self._worker = worker
        self._is_empty = False
        self._is_first_run = is_new_store
        "Also where something was found before there was a screen."
        self._is_making_demo = False

    def start_sync(self) -> None:
        """Let the worker sync, and show what it reports."""
        if self._worker is None:
            return
        self._is_first_run = self._is_first_run or not self.sessions.keys
        self._worker.allow_start()
        Thread(target=self._receive_messages, args=(self._worker,), daemon=True).start()

    # ── messages of the worker ────────────────────────────────────────────────────────────────────

    def _receive_messages(self, worker: WorkerProcess) -> None:
        """Post what the worker reports, and start it again when it stops. Runs in a thread."""
        for message in worker.messages():
            if message is None:
                self.post_message(self.WorkerStopped(is_restarted=worker.restart()))
            elif message["event"] == "error":
                self.post_message(self.SyncFailed(message["message"]))
            elif message["event"] in ("progress", "idle"):
                done, total = message.get("done", 0), message.get("total", 0)
                is_finished = message["event"] == "idle"
                self.post_message(self.SyncProgressed(done, total, message["found"], is_finished=is_finished))

    @on(WorkerStopped)
    def _report_stopped_worker(self, stopped: WorkerStopped) -> None:
        if stopped.is_restarted:
            self.notify("The sync worker stopped and was started again.", severity="warning")
        else:
            self.app.show_error(
                StoreError("The sync worker stops again and again: new sessions are not read. Run `backscroll sync`.")
            )

    @on(SyncFailed)
    def _report_failed_sync(self, failed: SyncFailed) -> None:
        self.app.show_error(StoreError(failed.reason))

    @on(SyncProgressed)
    def _show_progress(self, progress: SyncProgressed) -> None:
        self.check_for_changes()
        self.bar.show_status(format_progress(progress.done, progress.total))
        if self._is_first_run and progress.session_counts:
            self.banner.update(render_first_run(progress.session_counts, progress.is_finished))
            self.banner.display = True

    @property
    def keeps_cursor(self) -> bool:
        """While a first list fills, whoever has touched nothing looks at the newest session."""
        return not self._is_first_run or bool(self.sessions.cursor)

    def hide_banner(self) -> bool:
        """Whether there was one."""
        was_there = bool(self.banner.display)
        self.banner.display = False
        self._is_first_run = False
        return was_there

    # ── nothing to list ───────────────────────────────────────────────────────────────────────────

    def handle_list_shown(self, shown: SessionListLayout) -> None:
        self._is_empty = not shown.keys and not shown.options.query.strip() and not shown.options.folder
        self.set_class(self._is_empty, "-empty")
        self.set_class(not shown.keys, "-nothing")
        if self._is_empty:
            self._show_welcome()
        elif not shown.keys:
            self.empty_message.update(render_empty_list(shown.options, can_search_calls=True))
        else:
            self.call_after_refresh(self._handle_rows_shown)

    @on(TopBar.Exited)
    def _search_tool_calls_on_enter(self, left: TopBar.Exited) -> None:
        if left.entered and self.sessions.listing.options == self._list_options and self._can_search_tool_calls():
            self.action_further()

    def _can_search_tool_calls(self) -> bool:
        """What nobody said may stand in what was run."""
        shown = self.sessions.listing
        return not shown.keys and bool(shown.query.terms)

    def action_further(self) -> None:
        self.action_tools()

    def action_scope(self) -> None:
        self.sessions.action_scope()

    def _handle_rows_shown(self) -> None:
        """The focus only now that they are shown: word of the list's having been hidden would take it away again."""
        if self.focused is None and not self._is_empty:
            self.set_focus(self.sessions)

    def _show_welcome(self) -> None:
        self.set_focus(None)
        self.empty_message.update(render_welcome(abbreviate_home(str(self._store.path)), self._is_making_demo))
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "demo":
            return self._is_empty and not self._is_making_demo
        if action == "further":
            return self._can_search_tool_calls()
        if action == "scope":
            return self.has_class("-nothing") and not self._is_empty
        return super().check_action(action, parameters)

    # ── the demo ──────────────────────────────────────────────────────────────────────────────────

    def action_demo(self) -> None:
        self._is_making_demo = True
        self._show_welcome()
        self._make_demo()

    @threaded(group=DEMO_GROUP)
    def _make_demo(self) -> None:
        """In a store of its own, so that the person's stays clean."""
        from store import demo
        from store.store import Store

        store = Store.open(data_dir() / "demo.db")
        if not store.sessions.newest(1):
            demo.fill_store(store)
        self.post_message(self.DemoMade(store))

    @on(Worker.StateChanged)
    def _handle_demo_failure(self, changed: Worker.StateChanged) -> None:
        if changed.worker.group == DEMO_GROUP and changed.state is WorkerState.ERROR:
            self._is_making_demo = False
            self._show_welcome()
