"""This module connects the widgets of a screen that lists sessions with the part that loads the list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import on
from textual.binding import Binding, BindingType
from textual.getters import query_one

from store.search.list_rows import SessionListLayout
from store.search.query import Query
from tui.screens.browser.session_list import SessionList
from tui.screens.store_screen import Clock, StoreScreen
from tui.textual_compat import use_dirty_region_compositor
from tui.widgets.session_list_view import SessionListView
from tui.widgets.top_bar import TopBar

if TYPE_CHECKING:
    from store.store import Store

Result = TypeVar("Result")


def search_binding(name: str, tooltip: str) -> Binding:
    """Return the key that starts a search. It has priority, so that letters pressed right after it are typed."""
    return Binding("slash", "search", "Search", key_display="/", priority=True, id=name, tooltip=tooltip)


class SessionListScreen(StoreScreen[Result]):
    """A screen with a top bar and a list of sessions. Subclasses compose both and may define what happens when
    something was loaded."""

    AUTO_FOCUS = "SessionListView"
    BINDINGS: ClassVar[list[BindingType]] = [
        search_binding("list.search", "Search sessions by words and filters"),
    ]

    bar = query_one(TopBar)
    sessions = query_one(SessionListView)

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store, clock)
        self.session_list = SessionList(self, store, clock)
        use_dirty_region_compositor(self)

    def on_mount(self) -> None:
        self.refresh_ages()
        self.session_list.show_first_rows()
        self.call_after_refresh(self.session_list.load, keep_cursor=True)

    def on_unmount(self) -> None:
        self.session_list.close()

    def handle_store_change(self) -> None:
        self.session_list.load(keep_cursor=self.keeps_cursor)

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

    def handle_list_shown(self, shown: SessionListLayout) -> None:
        """Runs when a complete list is shown."""

    def handle_sessions_loaded(self) -> None:
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

    @on(SessionListView.ScopeRequested)
    def _switch_folder_scope(self) -> None:
        self.session_list.switch_folder_scope()

    @on(SessionListView.OrderRequested)
    def _open_order_dialog(self) -> None:
        from tui.dialogs.session_order import SessionOrderDialog

        self.app.push_screen(SessionOrderDialog(self.session_list.options), self.session_list.set_order)

    @on(TopBar.Focused)
    def _load_vocabulary(self) -> None:
        self.session_list.load_vocabulary()

    @on(TopBar.QueryChanged)
    def _search(self, changed: TopBar.QueryChanged) -> None:
        self.session_list.search(changed.query)

    @on(TopBar.Exited)
    def _focus_list(self) -> None:
        if self.sessions.keys:
            self.set_focus(self.sessions)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "search":
            return not self.bar.query_input.has_focus
        return super().check_action(action, parameters)

    def action_search(self) -> None:
        self.set_focus(self.bar.query_input)

    def action_clear(self) -> None:
        self.session_list.clear()
        self.set_focus(self.sessions)
