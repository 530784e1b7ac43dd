"""This module is the base of the screens that have a search box in their top bar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from textual import on
from textual.binding import Binding
from textual.getters import query_one

from store.search.complete import Vocabulary
from store.search.saved_searches import SavedSearch
from tui.messages import DataMessage
from tui.screens.store_screen import StoreScreen
from tui.widgets.top_bar import TopBar
from tui.workers import threaded

Result = TypeVar("Result")


def search_binding(name: str, tooltip: str) -> Binding:
    """Return the key that starts a search. It has priority, so that letters pressed right after it are typed."""
    tooltip = f"{tooltip}. ↓ chooses a result while letters go on searching; Tab goes to the list"
    return Binding("slash", "search", "Search", key_display="/", priority=True, id=name, tooltip=tooltip)


class SearchScreen(StoreScreen[Result]):
    """Prepares for a person who types: reads the words and the saved searches that the box completes, and lets the sync
    worker rest."""

    bar = query_one(TopBar)

    class VocabularyLoaded(DataMessage):
        vocabulary: Vocabulary
        searches: Sequence[SavedSearch]

    @on(TopBar.Focused)
    def _prepare_for_typing(self) -> None:
        self.app.prepare_for_typing()
        self._load_vocabulary()

    @threaded(exclusive=True, group="vocabulary")
    def _load_vocabulary(self) -> None:
        searches = self._store.saved_searches.list_searches()
        self.post_message(self.VocabularyLoaded(self._store.search.load_vocabulary(), searches))

    @on(VocabularyLoaded)
    def _set_vocabulary(self, loaded: VocabularyLoaded) -> None:
        self.bar.set_vocabulary(loaded.vocabulary)
        self.set_searches(loaded.searches)

    def set_searches(self, searches: Sequence[SavedSearch]) -> None:
        self.bar.set_searches(searches)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "search":
            return not self.bar.query_input.has_focus
        return super().check_action(action, parameters)

    def action_search(self) -> None:
        """Go to the search box with its text selected, so that typing replaces it, as in the find bar."""
        self.set_focus(self.bar.query_input)
        self.bar.query_input.select_all()
