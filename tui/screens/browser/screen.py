"""This module holds the first screen: sessions on the left, the chosen conversation in the middle, its records on the
right.

If the terminal is too narrow for all three panes, it shows those that are worked in; the keys stay the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.getters import query_one
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from store.model.session import Session, entry_id
from store.search.list_rows import EMPTY_GROUP, SessionListLayout
from store.search.query import Query
from tui.messages import Copy
from tui.render.browser_notices import explain_hidden_session, render_breadcrumb
from tui.screens.browser.comparisons import COMPARE_TOOLTIP, Comparisons
from tui.screens.browser.empty_list import EmptyList
from tui.screens.browser.leaks_opener import LeaksOpener
from tui.screens.browser.live_sync import LiveSync
from tui.screens.browser.session_edits import SessionEdits, edit_binding
from tui.screens.browser.stats_opener import StatsOpener
from tui.screens.browser.wait_notifier import WaitNotifier
from tui.screens.session_list_screen import SessionListScreen
from tui.screens.store_screen import Clock
from tui.textual_compat import reliable_timer
from tui.widgets.key_hints import HintChange, KeyHintBar
from tui.widgets.pane_row import PaneRow, SizedPane, pane_title
from tui.widgets.session_list_view import SCOPE_TOOLTIP, TITLE_MARGIN, SessionListView
from tui.widgets.top_bar import TopBar
from tui.workers import threaded, wait_for_opening

if TYPE_CHECKING:
    from store.store import Store
    from store.sync.worker_process import WorkerProcess
    from tui.screens.conversation import ConversationPane

OPEN_DELAY_SECONDS = 0.3
"""The cursor of the list rests this long on a session before the conversation is opened next to it, so that scrolling
past a session reads nothing."""

MEDIUM_WIDTH, WIDE_WIDTH = 100, 140
"""The widths from which two panes, and all three panes, are shown side by side."""

MIN_LIST_CELLS, MIN_RECORD_CELLS = 24, 20

CONVERSATION_CELLS = 84
"""The width that a conversation needs. What a wide terminal has beyond it is given to the list, for its titles."""

CONVERSATION_CSS = Path(__file__).parents[1] / "conversation.tcss"


def arrange_browser(width: int, title_cells: int, pane: int, *, is_zoomed: bool) -> tuple[str, list[SizedPane]]:
    """Return the name of the arrangement and the panes with widths of their own, until a person changes them."""
    if is_zoomed or width < MEDIUM_WIDTH:
        return "single", []
    if width < WIDE_WIDTH:
        record = SizedPane("record", "JsonPane", width * 2 // 5, MIN_RECORD_CELLS, is_last=True)
        sessions = SizedPane("sessions", "#sessions", max(width * 36 // 100, 38), MIN_LIST_CELLS)
        return "medium", [record if pane == RECORD_PANE else sessions]
    record_cells = width * 24 // 100
    least, most = max(width * 24 // 100, 38), width - record_cells - CONVERSATION_CELLS
    list_cells = max(min(title_cells, most), least)
    return "wide", [
        SizedPane("sessions", "#sessions", list_cells, MIN_LIST_CELLS),
        SizedPane("record", "JsonPane", record_cells, MIN_RECORD_CELLS, is_last=True),
    ]


RECORD_PANE = 2
LEAKS_TOOLTIP = "Show keys, tokens and passwords in conversations and files"


def _pane_binding(keys: str, action: str, name: str, label: str, tooltip: str) -> Binding:
    return Binding(keys, action, label, id=f"panes.{name}", tooltip=tooltip, show=False)


def _list_binding(keys: str, action: str, label: str, tooltip: str, shown_as: str | None = None) -> Binding:
    return Binding(keys, action, label, id=f"list.{action}", tooltip=tooltip, key_display=shown_as, show=False)


def _session_binding(keys: str, action: str, label: str, tooltip: str, *, show: bool = False) -> Binding:
    return Binding(keys, action, label, id=f"session.{action}", tooltip=tooltip, show=show)


_ITEM_KEYS = (
    "i,F,O,J,K,x,X,e,E,n,N,v,y,Y,B,M,H,R,plus,at,number_sign,left_square_bracket,right_square_bracket,quotation_mark"
)
"""Are the keys of a conversation that only say in the list where they work. So they have no id there."""


class BrowserScreen(SessionListScreen[None]):
    """Shows the sessions and the current conversation. Its parts load the list (`session_list`), edit sessions
    (`edits`), follow the sync (`live_sync`) and explain an empty list (`empty_list`)."""

    DEFAULT_CLASSES = "-pane-0"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (MEDIUM_WIDTH, "-medium"), (WIDE_WIDTH, "-wide")]  # noqa: RUF012 (declared so by Textual)
    BINDINGS: ClassVar[list[BindingType]] = [
        edit_binding("t", "title", "Title", "Change the title of the session, or of all selected sessions"),
        edit_binding(
            "ctrl+t",
            "propose_titles",
            "Propose titles",
            "Propose titles with your own program, for the session or all selected ones",
        ),
        edit_binding("T", "tags", "Tags", "Tag the session, or all selected sessions"),
        edit_binding("m", "note", "Note", "Add or edit a note on the session, or in a conversation on the entry"),
        edit_binding("p", "pin", "Pin", "Pin or unpin the session, or all selected sessions"),
        edit_binding("a", "archive", "Archive", "Archive or unarchive the session, or all selected sessions"),
        # Both use one key: if there is nothing to move to the trash, there is a demo to show.
        Binding("d", "demo", "Show a demo", id="list.demo", tooltip="Try Backscroll with made-up conversations"),
        edit_binding("d", "trash", "Move to trash", "Move the session, or all selected sessions, to the trash"),
        edit_binding(
            "d", "restore", "Restore", "Take the session, or all selected sessions, out of the trash", show=True
        ),
        edit_binding("delete", "purge", "Delete", "Delete the session, or all selected ones, for good", show=True),
        edit_binding("S", "summary", "Summary", "Read or edit the summary"),
        edit_binding("dollar_sign", "secrets", "Secrets", "Show the secrets of the session"),
        edit_binding("w", "write_back", "Write back", "Write edits back to the agent's store"),
        edit_binding("ampersand", "share", "Share", "Share the session, or all selected sessions, with your team"),
        edit_binding("semicolon", "comment", "Comment", "Comment on the entry or the session, for all who can read it"),
        edit_binding("tilde", "conflicts", "Two values", "Choose between values that two people wrote at once"),
        edit_binding("f", "facts", "Facts", "Show the facts that agents share"),
        edit_binding("P", "published", "Published files", "Show the published files of the session"),
        edit_binding("u", "undo", "Undo", "Undo the newest edit"),
        edit_binding("U", "journal", "Journal", "Show all edits, with before and after"),
        _list_binding("A", "tools", "All tool calls", "Show the tool calls of all sessions"),
        _list_binding("percent_sign", "stats", "Statistics", "Show tokens, API value and other statistics", "%"),
        _list_binding("exclamation_mark", "leaks", "Leaks", LEAKS_TOOLTIP, "!"),
        # The list has this key, too. With priority, the focus has moved before the next key is handled.
        Binding("enter", "open_session", "Open", id="list.open", priority=True, tooltip="Open the session"),
        # The list has this key, too, but it is hidden if it is empty.
        Binding("s", "scope", "Scope", id="list.scope", tooltip=SCOPE_TOOLTIP),
        _session_binding("r", "resume", "Resume", "Resume the session in its agent", show=True),
        _session_binding("c", "copy_command", "Copy command", "Copy the resume command"),
        _session_binding("D", "compare", "Compare", COMPARE_TOOLTIP),
        _session_binding("I", "card", "Session card", "Show everything known about the session"),
        _session_binding("apostrophe", "notes", "Go to notes", "Open the session at its first note"),
        _session_binding("C", "copy_id", "Copy id", "Copy the id of the session"),
        Binding(
            "equals_sign",
            "explain",
            "Explain cost",
            show=False,
            key_display="=",
            id="session.explain",
            tooltip="Show how the cost of the session, or of this turn, came about",
        ),
        # The conversation has these keys, too.
        _session_binding("V", "changes", "Changes", "Show the files that the session changed"),
        _session_binding("W", "export", "Export", "Export the session, this turn or this answer to a file"),
        Binding(_ITEM_KEYS, "explain_item_key", show=False),
        _pane_binding("tab", "next_pane(1)", "next", "Next pane", "Go to the pane on the right"),
        _pane_binding("shift+tab", "next_pane(-1)", "previous", "Previous pane", "Go to the pane on the left"),
        _pane_binding("1", "pane(0)", "sessions", "Sessions", "Go to the list of sessions"),
        _pane_binding("2", "pane(1)", "timeline", "Conversation", "Go to the conversation"),
        _pane_binding("3", "pane(2)", "record", "Record", "Go to the record as the agent wrote it"),
        _pane_binding("z", "zoom", "zoom", "Zoom", "Show only this pane, or all panes"),
        Binding("escape", "clear", "All sessions", id="list.clear", tooltip="Clear the search, then the scope"),
        _pane_binding("escape,backspace", "back", "back", "Back", "Go back one step"),
    ]

    empty_message = query_one("#empty", Static)
    banner = query_one("#banner", Static)
    location_bar = query_one("#place", Static)
    pane_row = query_one(PaneRow)
    conversation: ConversationPane
    "Is set after the list was painted, because the code that shows conversations is imported then."

    def __init__(
        self,
        store: Store,
        clock: Clock,
        title: str = "backscroll",
        *,
        worker: WorkerProcess | None = None,
        is_new_store: bool = False,
    ) -> None:
        super().__init__(store, clock)
        self.live_sync = LiveSync(self, worker, is_new_store=is_new_store)
        self._wait_notifier = WaitNotifier(self, store, clock)
        self.edits = SessionEdits(self, store, clock)
        self.comparisons = Comparisons(self, store)
        self.empty_list = EmptyList(self, store)
        self._stats_opener = StatsOpener(self, store, clock)
        self._leaks_opener = LeaksOpener(self, store, clock)
        self._shown_title = title
        self.has_conversation = False
        "Is set when `conversation` is."
        self._active_pane = 0
        self._title_cells = 0
        "The width of a list with whole titles, as it was when the list was first shown or the terminal was resized."
        self._open_timer: Timer | None = None
        self._cursor_moved_at = 0.0
        self._selected_turn: int | None = None
        self._pending_session_key: int | None = None
        "Names the session to which the cursor moves when it is listed."
        self._key_left_behind: int | None = None
        "Names the session under the cursor of the list while one is read that the list does not show."
        self._is_enter_pending = False
        "Is true from the Enter that opens a session until the session is known and can be shown."

    def compose(self) -> ComposeResult:
        yield TopBar(self._shown_title)
        yield Static(id="place")
        yield Static(id="banner")
        row = PaneRow(id="panes", sizes=self.app.settings.pane_sizes)
        with row, Vertical(id="sessions", classes="pane") as pane:
            pane.border_title = pane_title("Sessions", "1")
            yield SessionListView()
        yield Static(id="empty")
        yield KeyHintBar()

    def on_mount(self) -> None:
        self.watch(self.sessions, "cursor", self._schedule_open, init=False)
        self.call_after_refresh(self._mount_conversation)

    def on_screen_resume(self, resume: events.ScreenResume) -> None:
        """Keep Textual from computing all styles a second time before the first rows. The focus is on the list, so no
        style depends on what Textual computes only then."""
        if not self.stack_updates:
            resume.refresh_styles = False

    async def _mount_conversation(self) -> None:
        """Import and mount the conversation pane. Messages to the screen wait for it; the list still scrolls, and the
        sync starts before if the list is empty."""
        is_empty = not self.sessions.keys
        if is_empty:
            self.live_sync.start()
        module = await asyncio.to_thread(import_module, "tui.screens.conversation")
        self.app.stylesheet.read(CONVERSATION_CSS)
        self.app.stylesheet.parse()
        conversation: ConversationPane = module.ConversationPane(self._store, self._clock)
        await self.pane_row.mount(conversation)
        self.conversation = conversation
        self.has_conversation = True
        self._arrange_panes()
        self.app.freeze_gc()
        self._open_if_enter_pending()
        self._schedule_open_if_loaded()
        if not is_empty:
            self.live_sync.start()

    @property
    def keeps_cursor(self) -> bool:
        """While the first list fills, the cursor stays on the newest session until the person moves it."""
        return not self.live_sync.is_first_run or bool(self.sessions.cursor) or self.is_reading

    def handle_store_change(self) -> None:
        super().handle_store_change()
        self._wait_notifier.check()
        if self.has_conversation:
            self.conversation.handle_store_change()

    def refresh_ages(self) -> None:
        super().refresh_ages()
        if self.has_conversation:
            self.conversation.timeline_pane.update_heading()

    # ── the session under the cursor ──────────────────────────────────────────────────────────────

    def _schedule_open(self) -> None:
        """Open the session after a rest of the cursor. The cursor moves often, and reading the clock is cheaper than
        starting a timer, so a running timer is kept."""
        self._cursor_moved_at = time.monotonic()
        if self._open_timer is None:
            self._open_timer = reliable_timer(self.set_timer(OPEN_DELAY_SECONDS, self._open_after_delay))

    @property
    def is_opening(self) -> bool:
        """Is true while the session under the cursor waits to be opened."""
        return not self.has_conversation or self._open_timer is not None

    def _open_after_delay(self) -> None:
        seconds_left = self._cursor_moved_at + OPEN_DELAY_SECONDS - time.monotonic()
        if seconds_left > 0:
            self._open_timer = reliable_timer(self.set_timer(seconds_left, self._open_after_delay))
        else:
            self._open_timer = None
            self._open_selected()
            self.refresh_bindings()

    def handle_rows_loaded(self, keys: Sequence[int]) -> None:
        if self.sessions.selected_key in keys:
            self._open_if_enter_pending()
            self._schedule_open_if_loaded()
            self.refresh_bindings()

    def _schedule_open_if_loaded(self) -> None:
        selected = self.sessions.selected
        if self.has_conversation and selected is not None and not self.conversation.is_open(selected.key):
            if self.search_query and self._open_timer is None:
                self._open_selected()  # the pause after typing was long enough
            else:
                self._schedule_open()
            self.refresh_bindings()

    def _open_selected(self, *, is_found: bool = False) -> None:
        """Open the selected session if the pane that shows it is visible. One that is open already is opened again, at
        its hit, if it was just found."""
        selected = self.sessions.selected
        if selected is None or not self.has_conversation or not self.conversation.is_on_screen:
            return
        query, entry = self._find_opening()
        is_open = self.conversation.is_open(selected.key, query if is_found else None)
        if not is_open and selected.key != self._key_left_behind:
            self._key_left_behind = None
            self.conversation.open(selected, query=query, at_entry=entry)

    def _find_opening(self) -> tuple[Query, str | None]:
        """Return what is highlighted in the session under the cursor, and the entry at which it opens, if it was found
        in a tool call."""
        hit = self.sessions.selected_tool_hit
        return (self.sessions.listing.tool_hits.query, hit.entry) if hit else (self.search_query, None)

    async def action_open_session(self) -> None:
        """Open the session under the cursor and go to it. The app handles one key after the other, so the keys that
        follow wait until the conversation has the focus."""
        self._is_enter_pending = True
        self._open_if_enter_pending()
        await wait_for_opening(lambda: self._is_enter_pending)

    @on(SessionListView.Opened)
    def _open_clicked_session(self) -> None:
        self._is_enter_pending = True
        self._open_if_enter_pending()

    @on(TopBar.Exited)
    def _open_choice(self, exited: TopBar.Exited) -> None:
        if exited.opens:
            self._open_clicked_session()

    @on(TopBar.QueryChanged)
    def _cancel_opening(self) -> None:
        self._is_enter_pending = False
        self.live_sync.hide_banner()
        if self.has_conversation:
            self.conversation.cancel_opening()

    def handle_sessions_loaded(self, *, is_typed: bool) -> None:
        """Open the session that a typed query put under the cursor, without a delay, because nobody scrolls past it.

        The next letter cancels it.
        """
        self._open_if_enter_pending()
        query_input = self.bar.query_input
        is_searching = query_input.has_focus and not query_input.is_choosing
        if is_typed and is_searching and self.session_list.is_current:
            self._open_selected(is_found=True)

    def _open_if_enter_pending(self) -> None:
        """Open the session for which Enter was pressed, once it is known which one that is."""
        session = self.sessions.selected
        if not self._is_enter_pending or not self.has_conversation or not self.session_list.is_current:
            return
        if session is None:
            self._is_enter_pending = self.sessions.selected_key is not None
            return
        self._is_enter_pending = False
        # A conversation that is already shown next to the list is not opened again, unless its leaks are hidden.
        query, entry = self._find_opening()
        is_open = self.conversation.is_open(session.key, query) and not self.conversation.is_masked
        if not is_open:
            self.conversation.prepare(session, query=query, at_entry=entry)
        self.action_pane(1)
        if not is_open:
            # After the layout: a pane without a size cannot be opened at an entry.
            self.call_after_refresh(self.conversation.open, session, query=query, at_entry=entry)

    def on_conversation_pane_read_requested(self, requested: ConversationPane.ReadRequested) -> None:
        self.live_sync.read_next(requested.native_id)

    def on_conversation_pane_turn_selected(self, selected: ConversationPane.TurnSelected) -> None:
        self._selected_turn = selected.turn
        self.location_bar.update(render_breadcrumb(selected.session, selected.turn, self._active_pane), layout=False)

    def on_conversation_pane_entry_requested(self, requested: ConversationPane.EntryRequested) -> None:
        self.open_entry(requested.entry, is_masked=requested.is_masked)

    def on_conversation_pane_session_forked(self, forked: ConversationPane.SessionForked) -> None:
        """Move the cursor to the fork, under its parent. A fork that its agent can continue is offered to resume."""
        parent = self.conversation.session
        self._pending_session_key = forked.session.key
        self.conversation.open(forked.session)
        unfolded = self.session_list.options.unfolded
        self.session_list.change(unfolded=unfolded | ({parent.key} if parent else set()))
        if forked.is_native:
            self._open_resume_screen(forked.session)
        else:
            self.notify("Forked the session. Press u to undo.", timeout=3, markup=False)

    def handle_list_shown(self, shown: SessionListLayout) -> None:
        self.empty_list.update(shown)
        if self._title_cells <= TITLE_MARGIN:
            self._fit_titles()
        pending_key, self._pending_session_key = self._pending_session_key, None
        if pending_key is not None and (row := shown.row_of(pending_key)) is not None:
            self.sessions.cursor = row

    @property
    def is_reading(self) -> bool:
        """Whether the person is in the conversation or its record, and not in the list."""
        return bool(self._active_pane)

    @property
    def current_session(self) -> Session | None:
        """The session that is read, or the one under the cursor of the list, depending on the active pane."""
        return self.conversation.session if self.is_reading else self.sessions.selected

    def open_entry(self, entry: str | None, *, is_masked: bool = False) -> None:
        """Go to an entry, of any session, for which another screen was left. With `is_masked`, leaks are hidden."""
        if entry is not None:
            self._load_session_of_entry(entry, is_masked)

    @threaded(exclusive=True, group="go to")
    def _load_session_of_entry(self, entry: str, is_masked: bool) -> None:
        session = self._store.sessions.get(entry.rpartition("#")[0])
        ancestors = self._store.sessions.ancestors(session)
        self.app.call_from_thread(self._open_at_entry, session, ancestors, entry, is_masked)

    def _open_at_entry(self, session: Session, ancestors: Sequence[Session], entry: str, is_masked: bool) -> None:
        self.conversation.open(session, at_entry=entry, is_masked=is_masked)
        self._select_in_list(session, ancestors)
        self.action_pane(1)

    def _select_in_list(self, session: Session, ancestors: Sequence[Session]) -> None:
        """Move the cursor of the list to a session that is opened from elsewhere, or say why the list does not show it.

        The session stays open until the cursor moves.
        """
        listing = self.sessions.listing
        if (row := listing.row_of(session.key)) is not None:
            self.sessions.cursor = row
            return
        self._key_left_behind = self.sessions.selected_key
        above = [ancestor.key for ancestor in ancestors] + [EMPTY_GROUP] * (not session.turns)
        if any(listing.row_of(key) is not None for key in above):
            self._pending_session_key = session.key
            self.session_list.change(unfolded=self.session_list.options.unfolded.union(above))
        else:
            self.notify(explain_hidden_session(session, listing), timeout=4, markup=False)

    # ── panes ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def _panes(self) -> tuple[Widget, Widget, Widget]:
        return self.sessions, self.conversation.timeline_pane.timeline_view, self.conversation.record_pane.json_view

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        ancestors = set(event.widget.ancestors_with_self)
        if event.widget in (self.sessions, self.bar.query_input):
            self._activate_pane(0)
        elif self.has_conversation and self.conversation.record_pane in ancestors:
            self._activate_pane(2)
        elif self.has_conversation and self.conversation.timeline_pane in ancestors:
            self._activate_pane(1)

    def _activate_pane(self, pane: int) -> None:
        if pane == self._active_pane:
            return
        if pane:
            self.live_sync.hide_banner()
        self.remove_class(f"-pane-{self._active_pane}")
        self._active_pane = pane
        self.add_class(f"-pane-{pane}")
        self._arrange_panes()
        if (session := self.conversation.shown_session) is not None:
            self.location_bar.update(render_breadcrumb(session, self._selected_turn, pane), layout=False)
        self.call_after_refresh(self._load_visible_panes)

    def _load_visible_panes(self) -> None:
        self._open_selected()
        # This may run late, when another screen was in front and all screens are closed by now.
        if self.has_conversation and self.conversation.is_running and self.conversation.record_pane.is_on_screen:
            self.conversation.load_selected_record()

    def on_resize(self) -> None:
        self._fit_titles()
        self.call_after_refresh(self._load_visible_panes)

    def handle_first_rows(self) -> None:
        self._fit_titles()

    def _fit_titles(self) -> None:
        """Let the list be as wide as its titles need. Its width stays then, also when it shows other sessions."""
        self._title_cells = self.sessions.title_cells
        self._arrange_panes()

    def _arrange_panes(self) -> None:
        """Give the panes that are shown next to others their widths."""
        arrangement, sized = arrange_browser(
            self.app.size.width, self._title_cells, self._active_pane, is_zoomed=self.has_class("-zoom")
        )
        self.pane_row.set_sized_panes(arrangement, sized, self.app.size.width)

    def action_pane(self, pane: int) -> None:
        # Before the focus: a hidden widget cannot have it.
        self._activate_pane(pane)
        self.set_focus(self._panes[pane])

    def action_next_pane(self, by: int) -> None:
        self.action_pane((self._active_pane + by) % len(self._panes))

    def action_zoom(self) -> None:
        self.toggle_class("-zoom")
        self._arrange_panes()
        self.call_after_refresh(self._load_visible_panes)

    def action_back(self) -> None:
        if self.live_sync.hide_banner():
            return
        if self.has_class("-zoom"):
            self.action_zoom()
        elif self._active_pane:
            openers = (self._leaks_opener, self._stats_opener)
            if self._active_pane > 1 or not any(opener.return_from_conversation() for opener in openers):
                self.action_pane(self._active_pane - 1)
        else:
            self.action_clear()

    # ── actions on a session ──────────────────────────────────────────────────────────────────────

    def action_edit(self, name: str) -> None:
        self.edits.run(name)

    def action_resume(self) -> None:
        if (session := self.current_session) is not None:
            self._open_resume_screen(session)

    def _open_resume_screen(self, session: Session) -> None:
        from tui.screens.resume import ResumeScreen

        self.app.push_screen(ResumeScreen(self._store, session, self.app.settings), self.app.exit_and_resume)

    def action_compare(self) -> None:
        self.comparisons.start()

    def action_card(self) -> None:
        from tui.screens.session_card import SessionCardScreen

        if (session := self.current_session) is not None:
            self.app.push_screen(SessionCardScreen(self._store, session, self._clock), self.open_entry)

    @threaded(exclusive=True, group="go to")
    def action_notes(self) -> None:
        """Open the session under the cursor at the first note inside it."""
        if (session := self.sessions.selected) is not None:
            places = [note.entry_seq for note in self._store.notes.notes(session) if note.entry_seq is not None]
            if places:
                self.app.call_from_thread(self.open_entry, entry_id(session.id, min(places)))
            else:
                self.notify("No notes inside this session.", timeout=3, markup=False)

    def action_explain(self) -> None:
        """Explain the cost of the session under the cursor, or of the turn that is read."""
        if (session := self.current_session) is not None:
            self._stats_opener.explain(session, self._selected_turn if self.is_reading else None)

    def action_changes(self) -> None:
        from tui.screens.changes import ChangesScreen

        if (session := self.current_session) is not None:
            self.app.push_screen(ChangesScreen(self._store, session), self.open_entry)

    def action_export(self) -> None:
        from tui.dialogs.session_export import SessionExportDialog

        def report(path: str | None) -> None:
            if path is not None:
                self.notify(f"Exported to {path}.", timeout=4, markup=False)

        if (session := self.current_session) is not None:
            place = (self._selected_turn, self.conversation.selected_seq) if self.is_reading else (None, None)
            self.app.push_screen(SessionExportDialog(self._store, session, *place), report)

    def action_explain_item_key(self) -> None:
        self.notify("This key works in the conversation. Press Enter to go there.", timeout=3, markup=False)

    def action_copy_command(self) -> None:
        if (session := self.current_session) is not None:
            self._copy_command(session)

    @threaded(group="copy")
    def _copy_command(self, session: Session) -> None:
        """Copy the command. No key should wait for the large modules that are loaded for it."""
        from store.resume.command import plan_resume

        plan = plan_resume(session, owner=self._store.team.find_owner(session.id))
        self.post_message(Copy(plan.command or plan.hint, "the command" if plan.command else "the instructions"))

    def action_copy_id(self) -> None:
        if (session := self.current_session) is not None:
            self.post_message(Copy(session.id, "the id"))

    # ── actions on the list ───────────────────────────────────────────────────────────────────────

    def action_demo(self) -> None:
        self.empty_list.make_demo()

    def action_tools(self) -> None:
        """Open the list of all tool calls, with the same query and folder."""
        from tui.screens.tool_calls import ToolCallsScreen

        options, scopes = self.session_list.options, self.session_list.folder_scopes
        is_masked = self.is_reading and self.conversation.is_masked
        screen = ToolCallsScreen(self._store, self._clock, options.query, scopes, options.folder, is_masked=is_masked)
        self.app.push_screen(screen, partial(self.open_entry, is_masked=is_masked))

    def action_stats(self) -> None:
        self._stats_opener.open()

    def action_leaks(self) -> None:
        self._leaks_opener.open()

    def action_clear(self) -> None:
        if not self._stats_opener.return_from_list():
            super().action_clear()

    def action_scope(self) -> None:
        self.sessions.action_scope()

    def show_trash(self) -> None:
        self.search_for("is:trashed")

    def show_archived(self) -> None:
        self.search_for("is:archived")

    def search_for(self, query: str) -> None:
        """Put a query into the search box and go to its results."""
        self.bar.query_input.value = query
        self.action_pane(0)

    def change_hint(self, binding: Binding) -> HintChange | None:
        """Name a key by what it would do to the session under the cursor."""
        session = self.current_session
        match binding.id:
            case "edit.pin" if session is not None and session.pinned:
                return HintChange("Unpin", "extra")
            case "edit.archive" if session is not None and session.archived:
                return HintChange("Unarchive", "first")
            case "session.compare" if not self.is_reading and len(self.sessions.marked_keys) == 2:
                return HintChange(binding.description, "first")
            case "edit.restore" | "edit.purge":
                return HintChange(binding.description, "first")
            case "panes.back" if self.is_reading:
                return HintChange(binding.description, "main" if binding.key == "escape" else "hidden")
            case "edit.note" if self.is_reading:
                item = self.conversation.timeline_pane.timeline_view.current_item
                return HintChange("Edit note" if item is not None and item.note else binding.description, "main")
            case "edit.propose_titles":  # useful only after its setting was made
                return HintChange(binding.description, "hidden")
        return None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        is_store_empty = self.empty_list.is_store_empty
        match action:
            case "search":
                return not is_store_empty and self.focused in (None, self.sessions)
            case "open_session":
                has_row = self.sessions.selected_key is not None and not self.sessions.is_on_group
                return (self.focused is self.sessions or self.bar.query_input.is_choosing) and has_row
            case "clear":
                is_narrowed = self.session_list.is_narrowed
                return self.bar.query_input.has_focus or (is_narrowed and not self.is_reading)
            case "edit":
                return self.edits.is_available(str(parameters[0]))
            case "demo":
                return self.empty_list.can_make_demo
            case "stats" | "leaks":
                return not is_store_empty
            case "scope":
                return self.has_class("-nothing") and not is_store_empty
            case "changes" | "explain_item_key" | "notes":
                return self.focused is self.sessions and self.current_session is not None
            case "pane" | "next_pane" | "zoom" if not self.has_conversation:
                return False
            case "resume" | "card" | "explain" | "compare" | "copy_command" | "copy_id" | "pane" | "next_pane" | "zoom":
                return not is_store_empty and self.current_session is not None
        return super().check_action(action, parameters)
