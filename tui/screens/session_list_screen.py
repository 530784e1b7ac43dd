"""This module connects the widgets of a screen that lists sessions with the part that loads the list."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import events, on
from textual.binding import BindingType
from textual.getters import query_one

from store.search.list_rows import SessionListLayout
from store.search.query import Query
from store.search.saved_searches import RecentSearches, SavedSearch
from tui.screens.browser.session_list import SessionList
from tui.screens.search_screen import SearchScreen, search_binding
from tui.screens.store_screen import Clock
from tui.textual_compat import use_dirty_region_compositor
from tui.widgets.session_list_view import SessionListView
from tui.widgets.top_bar import QueryInput, TopBar
from tui.workers import run_in_thread

if TYPE_CHECKING:
    from store.store import Store

Result = TypeVar("Result")


class SessionListScreen(SearchScreen[Result]):
    """A screen with a top bar and a list of sessions. Subclasses compose both and may define what happens when
    something was loaded."""

    AUTO_FOCUS = "SessionListView"
    BINDINGS: ClassVar[list[BindingType]] = [
        search_binding("list.search", "Search sessions by words and filters"),
    ]

    sessions = query_one(SessionListView)

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store, clock)
        self.session_list = SessionList(self, store, clock)
        use_dirty_region_compositor(self)

    def on_mount(self) -> None:
        self.watch(self.bar.query_input, "choice", self._follow_choice, init=False)
        self.refresh_ages()
        self.session_list.restore_order()
        self.session_list.show_first_rows()
        self.handle_first_rows()
        self.call_after_refresh(lambda: self.session_list.load(keep_cursor=self.keeps_cursor))
        self.call_after_refresh(self.session_list.load_saved_searches)

    def on_unmount(self) -> None:
        self.session_list.close()

    def handle_store_change(self) -> None:
        self.session_list.load_changes()
        self.session_list.load_saved_searches()

    def refresh_ages(self) -> None:
        self.sessions.now = self._clock()

    @property
    def keeps_cursor(self) -> bool:
        """Whether the cursor stays on its session when newer ones appear above it."""
        return True

    @property
    def search_query(self) -> Query:
        """The query of the sessions that are shown; its words are highlighted in a conversation."""
        return self.sessions.listing.query

    # ── what the session list reports ─────────────────────────────────────────────────────────────

    def handle_first_rows(self) -> None:
        """Runs before the first paint, when the first rows are known."""

    def handle_list_shown(self, shown: SessionListLayout) -> None:
        """Runs when a complete list is shown."""

    def handle_sessions_loaded(self, *, is_typed: bool) -> None:
        """Runs when sessions were loaded, even if they are only the first ones."""

    def handle_rows_loaded(self, keys: Sequence[int]) -> None:
        """Runs when the rows of these sessions are known."""

    # ── what the widgets ask for ──────────────────────────────────────────────────────────────────

    @on(SessionListView.RowsRequested)
    def _load_rows(self, request: SessionListView.RowsRequested) -> None:
        self.session_list.load_rows(request)

    @on(SessionListView.FoldRequested)
    def _fold(self, request: SessionListView.FoldRequested) -> None:
        self.session_list.fold(request.key, request.folded)

    @on(events.DescendantFocus)
    def _unmark_unlisted(self) -> None:
        self.session_list.unmark_unlisted()

    @on(SessionListView.MarkedChanged)
    def _show_selection(self) -> None:
        self.session_list.show_count()
        self.refresh_bindings()

    @on(SessionListView.ScopeRequested)
    def _switch_folder_scope(self) -> None:
        self.session_list.switch_folder_scope()

    @on(SessionListView.OrderRequested)
    def _open_order_dialog(self) -> None:
        from tui.dialogs.session_order import SessionOrderDialog

        self.app.push_screen(SessionOrderDialog(self.session_list.options), self.session_list.set_order)

    @on(TopBar.QueryChanged)
    def _search(self, changed: TopBar.QueryChanged) -> None:
        self.session_list.search(changed.query)

    @on(TopBar.Exited)
    def _focus_list(self, exited: TopBar.Exited) -> None:
        if self.sessions.keys and not exited.opens:
            self.set_focus(self.sessions)

    def _follow_choice(self, before: int | None, after: int | None) -> None:
        """Move the cursor of the list for the arrow keys of the search box."""
        self.sessions.show_as_active(after is not None)
        if before is not None and after is not None:
            self.sessions.action_move(after - before)

    # ── saved and recent searches ─────────────────────────────────────────────────────────────────

    def set_searches(self, searches: Sequence[SavedSearch]) -> None:
        self.session_list.set_searches(searches)

    @on(TopBar.QueryLeft)
    def _remember_query(self, left: TopBar.QueryLeft) -> None:
        run_in_thread(self, partial(RecentSearches().add, left.query), group="recent searches")

    @on(QueryInput.SaveRequested)
    def _open_save_dialog(self) -> None:
        from tui.dialogs.searches import open_save_dialog

        open_save_dialog(self, self._store, self.bar.query_input.value)

    @on(QueryInput.RecallRequested)
    def _open_recall_dialog(self) -> None:
        from tui.dialogs.searches import SearchesDialog

        self.app.push_screen(SearchesDialog(self._store), self._run_recalled)

    def _run_recalled(self, query: str | None) -> None:
        if query is not None:
            self.bar.run(query)

    def action_clear(self) -> None:
        self.session_list.clear()
        self.set_focus(self.sessions)
