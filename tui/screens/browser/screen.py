"""The first screen: sessions on the left, the chosen conversation in the middle, its records on the right.

Where the terminal has no room for all three, it shows those that are worked in; the keys stay the same.
"""

from __future__ import annotations

import asyncio
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.getters import query_one
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from store.model.session import Session
from store.search.list_rows import SessionListLayout
from tui.messages import Copy
from tui.render.browser_notices import render_breadcrumb
from tui.screens.browser.live_sync import LiveSyncScreen
from tui.screens.browser.session_list import SessionListScreen
from tui.screens.store_screen import Clock
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.session_list_view import SessionListView
from tui.widgets.top_bar import TopBar
from tui.workers import reliable_timer, threaded

if TYPE_CHECKING:
    from store.store import Store
    from store.sync.worker_process import WorkerProcess
    from tui.screens.conversation import ConversationPane

OPEN_DELAY_SECONDS = 0.3
"""The cursor of the list rests so long on a session before it is opened beside it: scrolling past reads nothing."""

CONVERSATION_CSS = Path(__file__).parents[1] / "conversation.tcss"


def _pane_binding(keys: str, action: str, name: str, told: str, tooltip: str) -> Binding:
    return Binding(keys, action, told, id=f"panes.{name}", tooltip=tooltip, show=False)


def _session_binding(keys: str, action: str, told: str, tooltip: str, *, show: bool = False) -> Binding:
    return Binding(keys, action, told, id=f"session.{action}", tooltip=tooltip, show=show)


class BrowserScreen(LiveSyncScreen[None]):
    DEFAULT_CLASSES = "-pane-0"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-medium"), (140, "-wide")]  # noqa: RUF012 (declared so by Textual)
    BINDINGS: ClassVar[list[BindingType]] = [
        _session_binding("r", "resume", "Resume", "Continue this conversation in its agent", show=True),
        _session_binding("c", "copy_command", "Copy command", "Copy the command that continues this conversation"),
        _session_binding("C", "copy_id", "Copy id", "Copy the session's id"),
        _pane_binding("tab", "next_pane(1)", "next", "Next pane", "To the pane on the right"),
        _pane_binding("shift+tab", "next_pane(-1)", "previous", "Pane before", "To the pane on the left"),
        _pane_binding("1", "pane(0)", "sessions", "Sessions", "To the list of sessions"),
        _pane_binding("2", "pane(1)", "timeline", "Conversation", "To the conversation"),
        _pane_binding("3", "pane(2)", "record", "Record", "To the record as its agent wrote it"),
        _pane_binding("z", "zoom", "zoom", "Zoom", "This pane alone, and back"),
        Binding("escape", "clear", "All sessions", id="list.clear", tooltip="Without words; then, everywhere"),
        _pane_binding("escape,backspace", "back", "back", "Back", "One step back"),
    ]

    location_bar = query_one("#place", Static)
    conversation: ConversationPane
    "There once the list has been painted: what shows conversations is loaded after that."

    def __init__(
        self,
        store: Store,
        clock: Clock,
        title: str = "backscroll",
        *,
        worker: WorkerProcess | None = None,
        is_new_store: bool = False,
    ) -> None:
        super().__init__(store, clock, worker=worker, is_new_store=is_new_store)
        self._shown_title = title
        self._has_conversation = False
        self._active_pane = 0
        self._open_timer: Timer | None = None
        self._cursor_moved_at = 0.0
        self._selected_turn: int | None = None
        self._pending_session_key: int | None = None
        "The session that the list goes to when it is listed."
        self._is_enter_pending = False
        "Enter was pressed before the list of the words as they stand was there."

    def compose(self) -> ComposeResult:
        yield TopBar(self._shown_title)
        yield Static(id="place")
        yield Static(id="banner")
        with Horizontal(id="panes"):
            yield SessionListView()
        yield Static(id="empty")
        yield KeyHintBar()

    def on_mount(self) -> None:
        self.watch(self.sessions, "cursor", self._schedule_open, init=False)
        self.call_after_refresh(self._mount_conversation)

    async def _mount_conversation(self) -> None:
        """Messages to the screen wait for it; the list scrolls meanwhile, and an empty one begins to fill."""
        is_empty = not self.sessions.keys
        if is_empty:
            self.start_sync()
        module = await asyncio.to_thread(import_module, "tui.screens.conversation")
        self.app.stylesheet.read(CONVERSATION_CSS)
        self.app.stylesheet.parse()
        reading: ConversationPane = module.ConversationPane(self._store, self._clock)
        await self.query_one("#panes").mount(reading)
        self.conversation = reading
        self._has_conversation = True
        self.app.freeze_gc()
        self._schedule_open_if_loaded()
        if not is_empty:
            self.start_sync()

    @property
    def keeps_cursor(self) -> bool:
        return super().keeps_cursor or bool(self._active_pane)

    def handle_store_change(self) -> None:
        super().handle_store_change()
        if self._has_conversation:
            self.conversation.handle_store_change()

    def refresh_ages(self) -> None:
        super().refresh_ages()
        if self._has_conversation:
            self.conversation.timeline_pane.update_heading()

    # ── the session under the cursor ──────────────────────────────────────────────────────────────

    def _schedule_open(self) -> None:
        """Often, and a timer costs more than a look at the clock."""
        self._cursor_moved_at = time.monotonic()
        if self._open_timer is None:
            self._open_timer = reliable_timer(self.set_timer(OPEN_DELAY_SECONDS, self._open_after_delay))

    def _open_after_delay(self) -> None:
        left = self._cursor_moved_at + OPEN_DELAY_SECONDS - time.monotonic()
        self._open_timer = reliable_timer(self.set_timer(left, self._open_after_delay)) if left > 0 else None
        if self._open_timer is None:
            self._open_selected()

    @on(SessionListScreen.RowsLoaded)
    def _handle_rows_loaded(self, read: SessionListScreen.RowsLoaded) -> None:
        """What the cursor stands on may be known only now; once the list has it, too."""
        if self.sessions.selected_key in read.request.keys:
            self.call_later(self._schedule_open_if_loaded)

    def _schedule_open_if_loaded(self) -> None:
        selected = self.sessions.selected
        if self._has_conversation and selected is not None and not self.conversation.is_open(selected.key):
            if self.search_query and self._open_timer is None:
                self._open_selected()  # whoever has stopped typing waited long enough
            else:
                self._schedule_open()
            self.refresh_bindings()

    def _open_selected(self) -> None:
        """Where nobody sees it, it need not be read yet."""
        selected = self.sessions.selected
        if selected is None or not self._has_conversation or not self.conversation.is_on_screen:
            return
        if not self.conversation.is_open(selected.key):
            self.conversation.open(selected, query=self.search_query)

    @on(SessionListView.Opened)
    def _open_session(self, opened: SessionListView.Opened) -> None:
        if not self._has_conversation:
            self.call_after_refresh(self._open_session, opened)
            return
        self._is_enter_pending = self.sessions.listing.options.query != self._list_options.query
        if self._is_enter_pending:
            return
        # What stands open beside the list is not opened once more.
        is_open = self.conversation.is_open(opened.session.key, self.search_query)
        if not is_open:
            self.conversation.buffer_keys()
        self.action_pane(1)
        if not is_open:
            # Once it is laid out: a pane without a size cannot be opened at an entry.
            self.call_after_refresh(self.conversation.open, opened.session, query=self.search_query)

    @on(SessionListScreen.SessionsLoaded)
    def _handle_sessions_loaded(self) -> None:
        self.call_later(self._open_if_enter_pending)

    def _open_if_enter_pending(self) -> None:
        if self._is_enter_pending and (selected := self.sessions.selected):
            self._open_session(SessionListView.Opened(selected))

    def on_conversation_pane_read_requested(self, requested: ConversationPane.ReadRequested) -> None:
        if self._worker is not None:
            self._worker.read_next(requested.native_id)

    def on_conversation_pane_turn_selected(self, moved: ConversationPane.TurnSelected) -> None:
        self._selected_turn = moved.turn
        self.location_bar.update(render_breadcrumb(moved.session, moved.turn, self._active_pane), layout=False)

    def on_conversation_pane_session_forked(self, forked: ConversationPane.SessionForked) -> None:
        """The list goes to it, under its parent; what its agent can go on with is offered to go on with."""
        parent = self.conversation.session
        self._pending_session_key = forked.session.key
        self.conversation.open(forked.session)
        self.change_list(keep_cursor=True, unfolded=self._list_options.unfolded | ({parent.key} if parent else set()))
        if forked.is_native:
            self._open_resume_screen(forked.session)
        else:
            self.notify("Forked; u undoes it.", timeout=3, markup=False)

    def handle_list_shown(self, shown: SessionListLayout) -> None:
        super().handle_list_shown(shown)
        awaited, self._pending_session_key = self._pending_session_key, None
        if awaited is not None and (at := shown.row_of(awaited)) is not None:
            self.sessions.cursor = at

    @property
    def current_session(self) -> Session | None:
        """The session that is read, or the one under the list's cursor, whichever is worked in."""
        return self.conversation.session if self._active_pane else self.sessions.selected

    def open_entry(self, entry: str | None) -> None:
        if entry is not None:
            self._load_session_of_entry(entry)

    @threaded(exclusive=True, group="go to")
    def _load_session_of_entry(self, entry: str) -> None:
        session = self._store.sessions.get(entry.rpartition("#")[0])
        self.app.call_from_thread(self._open_at_entry, session, entry)

    def _open_at_entry(self, session: Session, entry: str) -> None:
        self.conversation.open(session, at_entry=entry)
        self.action_pane(1)

    # ── panes ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def _panes(self) -> tuple[Widget, Widget, Widget]:
        return self.sessions, self.conversation.timeline_pane.timeline_view, self.conversation.record_pane.json_view

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        ancestors = set(event.widget.ancestors_with_self)
        if event.widget in (self.sessions, self.bar.query_input):
            self._activate_pane(0)
        elif self._has_conversation and self.conversation.record_pane in ancestors:
            self._activate_pane(2)
        elif self._has_conversation and self.conversation.timeline_pane in ancestors:
            self._activate_pane(1)

    def _activate_pane(self, pane: int) -> None:
        if pane == self._active_pane:
            return
        self.remove_class(f"-pane-{self._active_pane}")
        self._active_pane = pane
        self.add_class(f"-pane-{pane}")
        if self.conversation.session is not None:
            self.location_bar.update(
                render_breadcrumb(self.conversation.session, self._selected_turn, pane), layout=False
            )
        self.call_after_refresh(self._load_visible_panes)

    def _load_visible_panes(self) -> None:
        self._open_selected()
        # What waited while another screen was in front may be called when all of them are closed.
        if self._has_conversation and self.conversation.is_running and self.conversation.record_pane.is_on_screen:
            self.conversation.load_selected_record()

    def on_resize(self) -> None:
        self.call_after_refresh(self._load_visible_panes)

    def action_pane(self, pane: int) -> None:
        # Before the focus: what is not displayed cannot have it.
        self._activate_pane(pane)
        self.set_focus(self._panes[pane])

    def action_next_pane(self, by: int) -> None:
        self.action_pane((self._active_pane + by) % len(self._panes))

    def action_zoom(self) -> None:
        self.toggle_class("-zoom")
        self.call_after_refresh(self._load_visible_panes)

    def action_back(self) -> None:
        if self.hide_banner():
            return
        if self.has_class("-zoom"):
            self.action_zoom()
        elif self._active_pane:
            self.action_pane(self._active_pane - 1)
        else:
            self.action_clear()

    # ── what can be done with a session ───────────────────────────────────────────────────────────

    def action_resume(self) -> None:
        if (session := self.current_session) is not None:
            self._open_resume_screen(session)

    def _open_resume_screen(self, session: Session) -> None:
        from tui.screens.resume import ResumeScreen

        self.app.push_screen(ResumeScreen(self._store, session, self.app.settings), self.app.exit_and_resume)

    def action_copy_command(self) -> None:
        from store.resume.command import plan_resume

        if (session := self.current_session) is not None:
            found = plan_resume(session)
            self.post_message(Copy(found.command or found.hint, "the command" if found.command else "how it goes on"))

    def action_copy_id(self) -> None:
        if (session := self.current_session) is not None:
            self.post_message(Copy(session.id, "the id"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "search":
                return not self._is_empty and self.focused in (None, self.sessions)
            case "clear":
                is_narrowed = bool(self._list_options.query or self._list_options.folder)
                return self.bar.query_input.has_focus or (is_narrowed and not self._active_pane)
            case "pane" | "next_pane" | "zoom" if not self._has_conversation:
                return False
            case "tags" | "pin" | "archive" | "trash" if self._active_pane:
                return False  # while one reads, a slip of the finger should move nothing
            case "resume" | "copy_command" | "copy_id" | "pane" | "next_pane" | "zoom":
                return not self._is_empty and self.current_session is not None
        return super().check_action(action, parameters)
