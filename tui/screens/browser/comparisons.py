"""This module chooses what the browser compares: two selected sessions, two items, or a fork and its parent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from store.model.session import Session
from tui.render.styles import session_title
from tui.workers import run_in_thread

if TYPE_CHECKING:
    from store.store import Store
    from tui.screens.browser.screen import BrowserScreen

COMPARE_TOOLTIP = "Compare two selected sessions, the marked item with this one, or a fork with its parent"
SELECT_TWO = "Select two sessions with Space, then press D to compare them."
MARK_ONE = "Nothing is marked. Press M on an item, then D on another one to compare them."
MARK_ANOTHER = "This item is the marked one. Press D on another one to compare them."


class Comparisons:
    def __init__(self, screen: BrowserScreen, store: Store) -> None:
        self._screen = screen
        self._store = store

    def start(self) -> None:
        if self._screen.is_reading:
            self._compare_items()
        else:
            self._compare_sessions()

    def _compare_items(self) -> None:
        timeline = self._screen.conversation.timeline_pane.timeline_view
        session = self._screen.conversation.session
        if session is None or not len(timeline.cards):
            return
        current = timeline.name_current_item()
        if timeline.mark is None:
            self._offer_parent(session, MARK_ONE)
        elif timeline.mark == current:
            self._screen.notify(MARK_ANOTHER, timeout=4, markup=False)
        else:
            self._open(timeline.mark.reference, current.reference)

    def _compare_sessions(self) -> None:
        keys = self._screen.sessions.marked_keys
        if len(keys) == 2:
            run_in_thread(self._screen, lambda: self._open_sessions(keys), group="compare")
        elif keys:
            self._screen.notify(SELECT_TWO, timeout=4, markup=False)
        elif (session := self._screen.current_session) is not None:
            self._offer_parent(session, SELECT_TWO)

    def _open_sessions(self, keys: Sequence[int]) -> None:
        """Compare two sessions, in the order in which they were selected."""
        self._screen.app.call_from_thread(self._open, *(self._store.sessions.by_key(key).id for key in keys))

    def _offer_parent(self, session: Session, otherwise: str) -> None:
        """Offer to compare a fork with its parent. Explain how to compare other sessions."""
        from tui.dialogs.confirm import ConfirmDialog

        parent = session.parent_id
        if parent is None or session.relation not in ("fork", "superseded"):
            self._screen.notify(otherwise, timeout=4, markup=False)
            return

        def go_on(agreed: bool | None) -> None:
            if agreed:
                self._open(parent, session.id)

        text = f"{session_title(session)}\n\nCompare this session with the one that it was forked from?"
        self._screen.app.push_screen(ConfirmDialog("Compare with its parent", text), go_on)

    def _open(self, left: str, right: str) -> None:
        from tui.screens.comparison import ComparisonScreen

        is_masked = self._screen.is_reading and self._screen.conversation.is_masked
        self._screen.app.push_screen(
            ComparisonScreen(self._store, left, right, is_masked=is_masked),
            partial(self._screen.open_entry, is_masked=is_masked),
        )
