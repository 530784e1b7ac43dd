"""This module shows what the sync worker reports while the browser is open."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Thread
from typing import TYPE_CHECKING

from store.errors import StoreError
from tui.render.browser_notices import format_progress, render_first_run

if TYPE_CHECKING:
    from store.sync.worker_process import WorkerProcess
    from tui.screens.browser.screen import BrowserScreen


class LiveSync:
    """Starts the worker process, shows its progress in the top bar, and shows a banner on the first run."""

    def __init__(self, screen: BrowserScreen, worker: WorkerProcess | None, *, is_new_store: bool) -> None:
        self.is_first_run = is_new_store
        "Is true while a new store is filled, until the person hides the banner."
        self._screen = screen
        self._worker = worker

    def start(self) -> None:
        """Start the worker, and show what it reports."""
        if self._worker is None:
            return
        self.is_first_run = self.is_first_run or not self._screen.sessions.keys
        self._worker.start()
        Thread(target=self._receive_messages, args=(self._worker,), daemon=True).start()

    def read_next(self, native_id: str) -> None:
        """Ask the worker to read this session before the others."""
        if self._worker is not None:
            self._worker.read_next(native_id)

    def hide_banner(self) -> bool:
        """Hide the banner of the first run. Return whether it was visible."""
        was_visible = bool(self._screen.banner.display)
        self._screen.banner.display = False
        self.is_first_run = False
        return was_visible

    # ── messages of the worker ────────────────────────────────────────────────────────────────────

    def _receive_messages(self, worker: WorkerProcess) -> None:
        """Hand over what the worker reports, and start it again when it stops. Runs in a thread."""
        for message in worker.messages():
            if message is None:
                self._screen.call_later(self._report_stopped_worker, worker.restart())
            elif message["event"] == "error":
                self._screen.call_later(self._screen.app.show_error, StoreError(message["message"]))
            elif message["event"] in ("progress", "idle"):
                done, total = message.get("done", 0), message.get("total", 0)
                is_finished = message["event"] == "idle"
                self._screen.call_later(self._show_progress, done, total, message["found"], is_finished)

    def _report_stopped_worker(self, is_restarted: bool) -> None:
        if is_restarted:
            self._screen.notify("The sync worker stopped and was started again.", severity="warning")
        else:
            self._screen.app.show_error(
                StoreError("The sync worker keeps stopping, so new sessions are not read. Run `backscroll sync`.")
            )

    def _show_progress(self, done: int, total: int, session_counts: Mapping[str, int], is_finished: bool) -> None:
        """Show how far the sync is, and how many sessions it found of each agent."""
        self._screen.check_for_changes()
        self._screen.bar.show_status(format_progress(done, total))
        if self.is_first_run and session_counts:
            self._screen.banner.update(render_first_run(session_counts, is_finished))
            self._screen.banner.display = True
