"""This part of the browser opens the statistics screen, and comes back to it from what was opened there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tui.render.styles import session_title
from tui.screens.store_screen import Clock

if TYPE_CHECKING:
    from store.model.session import Session
    from store.store import Store
    from tui.screens.browser.screen import BrowserScreen
    from tui.screens.stats.state import StatsChoice, StatsState


class StatsOpener:
    """Remembers where a person left the statistics, so that Escape leads back to them."""

    def __init__(self, screen: BrowserScreen, store: Store, clock: Clock) -> None:
        self._screen = screen
        self._store = store
        self._clock = clock
        self._left: StatsChoice | None = None
        self._query_before = ""

    def open(self) -> None:
        """Open the statistics of the sessions that the list shows."""
        from tui.screens.stats.state import StatsState

        options = self._screen.session_list.options
        self._left, self._query_before = None, options.query
        self._show(StatsState.begin(options.query, options.folder, self._clock().astimezone().date()))

    def explain(self, session: Session, turn: int | None) -> None:
        """Show how the cost of a session, or of one of its turns, came about."""
        from tui.dialogs.explanation import ExplanationDialog
        from tui.screens.stats.session_explanation import explain_session

        title = f"Turn {turn:,}" if turn is not None else session_title(session)
        load = partial(explain_session, self._store, session, turn)
        self._screen.app.push_screen(ExplanationDialog(f"{title}: how its cost adds up", load))

    def _show(self, state: StatsState) -> None:
        from tui.screens.stats.screen import StatsScreen

        scopes = self._screen.session_list.folder_scopes
        self._screen.app.push_screen(StatsScreen(self._store, self._clock, state, scopes), self._follow)

    def _follow(self, choice: StatsChoice | None) -> None:
        self._left = choice
        if choice is None:
            return
        if choice.entry:
            self._screen.open_entry(choice.entry)
        else:
            self._screen.search_for(choice.query)

    def return_from_list(self) -> bool:
        """Go back from the sessions that were opened in the statistics. Return False if others are listed."""
        left = self._left
        if left is None or left.entry or self._screen.session_list.options.query != left.query:
            return False
        self._screen.search_for(self._query_before)
        self._reopen(left)
        return True

    def return_from_conversation(self) -> bool:
        """Go back from a conversation that was opened in the statistics."""
        left, session = self._left, self._screen.conversation.session
        if left is None or not left.entry or session is None or left.entry.rpartition("#")[0] != session.id:
            return False
        self._screen.action_pane(0)
        self._reopen(left)
        return True

    def _reopen(self, left: StatsChoice) -> None:
        self._left = None
        self._show(left.state)
