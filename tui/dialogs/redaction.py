"""This dialog runs a redaction, or its undo: it shows every place first, then how far it is, then what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Static
from textual.worker import get_current_worker

from store.errors import StoreError
from tui.dialogs.layout import HELP_BINDING, PREVIEW_CSS
from tui.messages import DataMessage
from tui.render.redaction_lines import render_redaction_progress, render_redaction_report
from tui.render.styles import ERROR, MUTED, STRONG, render_message
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.text_view import AutoHeightText
from tui.workers import threaded

if TYPE_CHECKING:
    from store.leaks.redaction.redactions import RedactionRun
    from store.store import Store
    from tui.app import Backscroll

LOOKING = "Looking for every place…"


class RedactionDialog(ModalScreen[bool]):
    """Returns whether anything was done."""

    AUTO_FOCUS = "TextView"
    DEFAULT_CSS = "RedactionDialog {" + PREVIEW_CSS + "}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "run", "Do it", id="redaction.run", tooltip="Change all these places"),
        Binding("escape,q,n", "leave", "Close", id="redaction.leave", tooltip="Stop, or close"),
        HELP_BINDING,
    ]

    app: Backscroll
    text = query_one(AutoHeightText)
    progress_line = query_one("#progress", Static)

    class PlacesLoaded(DataMessage):
        lines: Sequence[Content]
        can_run: bool

    class RunAdvanced(DataMessage):
        """Says how far the run is."""

        line: Content

    class RunEnded(DataMessage):
        """Holds what was done and what is left, or nothing if the run was stopped or refused."""

        lines: Sequence[Content]
        reason: str

    def __init__(
        self,
        store: Store,
        title: str,
        load_places: Callable[[], tuple[Sequence[Content], bool]],
        begin: Callable[[], RedactionRun],
    ) -> None:
        """`load_places` returns what would be changed, and whether it can be. It runs in a thread."""
        super().__init__()
        self._store = store
        self._heading = title
        self._load_places = load_places
        self._begin = begin
        self._can_run = False
        self._is_running = False
        self._has_run = False

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(render_message(self._heading, STRONG), id="title")
            yield AutoHeightText()
            yield Static(id="progress")
        yield KeyHintBar()

    def on_mount(self) -> None:
        self.text.show([Content.styled(LOOKING, MUTED)])
        self._start()

    @work(exclusive=True, group="unlock")
    async def _start(self) -> None:
        from tui.dialogs.secret import unlock_secrets

        # The values are sealed before they are removed, so the key must be there.
        if self._store.secrets.is_locked and not await unlock_secrets(self.app, self._store):
            self.dismiss(False)
        else:
            self._load_in_thread()

    @threaded(group="look")
    def _load_in_thread(self) -> None:
        try:
            lines, can_run = self._load_places()
        except StoreError as error:
            self.post_message(self.RunEnded([], str(error)))
        else:
            self.post_message(self.PlacesLoaded(lines, can_run))

    @on(PlacesLoaded)
    def _show_places(self, loaded: PlacesLoaded) -> None:
        self.text.show(loaded.lines)
        self._can_run = loaded.can_run
        self.refresh_bindings()

    # ── running ───────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._can_run if action == "run" else super().check_action(action, parameters)

    def action_run(self) -> None:
        self._can_run, self._is_running, self._has_run = False, True, True
        self.refresh_bindings()
        self._run_in_thread()

    @threaded(exclusive=True, group="run")
    def _run_in_thread(self) -> None:
        worker = get_current_worker()
        try:
            run = self._begin()
            for progress in run.steps():
                self.post_message(self.RunAdvanced(render_redaction_progress(progress)))
                if worker.is_cancelled:
                    self.post_message(self.RunEnded([], "Stopped. It can be continued in the list of redactions."))
                    return
            lines, reason = render_redaction_report(run.report), ""
        except StoreError as error:
            lines, reason = [], str(error)
        self.post_message(self.RunEnded(lines, reason))

    @on(RunAdvanced)
    def _show_progress(self, advanced: RunAdvanced) -> None:
        if self._is_running:
            self.progress_line.update(advanced.line)

    @on(RunEnded)
    def _show_report(self, ended: RunEnded) -> None:
        self._is_running = False
        self.query_one("#title", Static).update(render_message(self._heading.rstrip("?"), STRONG))
        self.text.show(ended.lines)
        self.progress_line.update(render_message(ended.reason, ERROR))
        self.refresh_bindings()

    def action_leave(self) -> None:
        """Stop what runs, after the place that is being changed; otherwise close."""
        if self._is_running:
            self.workers.cancel_group(self, "run")
        else:
            self.dismiss(self._has_run)
