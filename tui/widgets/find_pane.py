"""This module is the base of panes with a find bar: its keys, its hits and the thread that searches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, ClassVar, Protocol

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.getters import query_one
from textual.worker import get_current_worker

from tui.messages import DataMessage
from tui.widgets.find_bar import FindBar
from tui.workers import threaded

MAX_HITS = 10_000

FindHit = Any
"""Locates a hit. Only the view that found it knows its type."""

FindSearch = Callable[[Callable[[], bool]], Iterable[FindHit]]
"""Is a search that runs in a thread. It takes a function that returns whether the search was cancelled."""


class Findable(Protocol):
    def make_search(self, words: str) -> FindSearch: ...

    def reveal(self, hit: FindHit) -> None: ...

    def highlight_words(self, words: str) -> None:
        """Highlight the words. An empty string removes the highlights."""

    def focus(self, scroll_visible: bool = True) -> Any: ...


class FindPane(Vertical):
    """Is a pane in which words can be found. Subclasses compose a FindBar and a view."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash,ctrl+f", "find", "Find", key_display="/", id="find.open", tooltip="Find in this pane"),
        Binding("n", "hit(1)", "Next match", show=False, id="find.next", tooltip="Next match"),
        Binding("N", "hit(-1)", "Previous match", show=False, id="find.previous", tooltip="Previous match"),
        Binding("escape", "forget_hits", "Done", show=False, id="find.forget", tooltip="Close the find bar"),
    ]

    find_bar = query_one(FindBar)

    class SearchFinished(DataMessage):
        generation: int
        hits: Sequence[FindHit]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self._hits: Sequence[FindHit] = ()
        self._hit_index = 0
        self._search_generation = 0

    @property
    def view(self) -> Findable:
        """The view that is searched."""
        raise NotImplementedError

    # ── searching ─────────────────────────────────────────────────────────────────────────────────

    @on(FindBar.TextChanged)
    def _start_search(self, message: FindBar.TextChanged) -> None:
        message.stop()
        self.view.highlight_words(message.text)
        self._hits = ()
        self._search_generation += 1
        if message.text:
            self._run_search(self.view.make_search(message.text), self._search_generation)
        else:
            self.find_bar.show_position(0, 0)

    @threaded(exclusive=True, group="find")
    def _run_search(self, search: FindSearch, generation: int) -> None:
        worker = get_current_worker()
        hits = list(islice(search(lambda: worker.is_cancelled), MAX_HITS + 1))
        if not worker.is_cancelled:
            self.post_message(self.SearchFinished(generation, hits))

    @on(SearchFinished)
    def _show_hits(self, message: SearchFinished) -> None:
        message.stop()
        if message.generation == self._search_generation:
            self._hits = message.hits
            self._go_to_hit(0)

    def search_again(self) -> None:
        """Search again after the content changed, because the old hits are no longer valid."""
        if self.find_bar.display and self.find_bar.text:
            self._start_search(FindBar.TextChanged(self.find_bar.text))

    def _go_to_hit(self, index: int) -> None:
        count = min(len(self._hits), MAX_HITS)
        if count:
            self._hit_index = index % count
            self.view.reveal(self._hits[self._hit_index])
        self.find_bar.show_position(self._hit_index + 1, count, more=len(self._hits) > count)

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    @on(FindBar.Exited)
    def _handle_bar_exited(self, message: FindBar.Exited) -> None:
        message.stop()
        if not message.kept:
            self._clear_hits()
        self.view.focus()

    def _clear_hits(self) -> None:
        self._hits = ()
        self._search_generation += 1
        self.view.highlight_words("")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("hit", "forget_hits"):
            return self.find_bar.display
        if action == "find":
            return not self.find_bar.input.has_focus
        return super().check_action(action, parameters)

    def action_find(self) -> None:
        self.find_bar.open()

    def action_hit(self, by: int) -> None:
        if self._hits:
            self._go_to_hit(self._hit_index + by)

    def action_forget_hits(self) -> None:
        self.find_bar.close()
        self._clear_hits()
        self.view.focus()
