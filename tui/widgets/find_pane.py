"""The base of panes in which one can find: the keys, the bar, which hit of how many, and the thread that looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, ClassVar, Protocol

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.getters import query_one
from textual.worker import get_current_worker

from tui.messages import Told
from tui.widgets.find_bar import FindBar
from tui.workers import threaded

HITS_AT_MOST = 10_000

Hit = Any
"""Where a hit is; only what found it needs to know how to go there."""

Search = Callable[[Callable[[], bool]], Iterable[Hit]]
"""Runs in a thread, and may ask whether anybody still wants to know."""


class Findable(Protocol):
    def search_for(self, words: str) -> Search: ...

    def reveal(self, hit: Hit) -> None: ...

    def set_off(self, words: str) -> None:
        """Show where the words stand; no words, nothing to show."""

    def focus(self, scroll_visible: bool = True) -> Any: ...


class FindPane(Vertical):
    """Subclasses compose a FindBar and what is looked through."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash,ctrl+f", "find", "Find", key_display="/", id="find.open", tooltip="Find in this pane"),
        Binding("n", "hit(1)", "Next", show=False, id="find.next", tooltip="The next hit"),
        Binding("N", "hit(-1)", "Previous", show=False, id="find.previous", tooltip="The hit before"),
        Binding("escape", "forget_hits", "Done", show=False, id="find.forget", tooltip="Stop finding"),
    ]

    find_bar = query_one(FindBar)

    class Found(Told):
        generation: int
        hits: Sequence[Hit]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 (Textual calls it so)
        super().__init__(id=id)
        self._hits: Sequence[Hit] = ()
        self._at = 0
        self._looked = 0

    @property
    def view(self) -> Findable:
        """What is looked through."""
        raise NotImplementedError

    # ── looking ───────────────────────────────────────────────────────────────────────────────────

    @on(FindBar.Asked)
    def _ask(self, asked: FindBar.Asked) -> None:
        asked.stop()
        self.view.set_off(asked.text)
        self._hits = ()
        self._looked += 1
        if asked.text:
            self._look(self.view.search_for(asked.text), self._looked)
        else:
            self.find_bar.tell(0, 0)

    @threaded(exclusive=True, group="find")
    def _look(self, search: Search, generation: int) -> None:
        worker = get_current_worker()
        hits = list(islice(search(lambda: worker.is_cancelled), HITS_AT_MOST + 1))
        if not worker.is_cancelled:
            self.post_message(self.Found(generation, hits))

    @on(Found)
    def _show_hits(self, found: Found) -> None:
        found.stop()
        if found.generation == self._looked:
            self._hits = found.hits
            self._go(0)

    def look_again(self) -> None:
        """What is shown is another: hits in what was there before mean nothing now."""
        if self.find_bar.display and self.find_bar.text:
            self._ask(FindBar.Asked(self.find_bar.text))

    def _go(self, at: int) -> None:
        count = min(len(self._hits), HITS_AT_MOST)
        if count:
            self._at = at % count
            self.view.reveal(self._hits[self._at])
        self.find_bar.tell(self._at + 1, count, more=len(self._hits) > count)

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    @on(FindBar.Left)
    def _leave(self, left: FindBar.Left) -> None:
        left.stop()
        if not left.kept:
            self._forget()
        self.view.focus()

    def _forget(self) -> None:
        self._hits = ()
        self._looked += 1
        self.view.set_off("")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("hit", "forget_hits"):
            return self.find_bar.display
        if action == "find":
            return not self.find_bar.words.has_focus
        return super().check_action(action, parameters)

    def action_find(self) -> None:
        self.find_bar.open()

    def action_hit(self, by: int) -> None:
        if self._hits:
            self._go(self._at + by)

    def action_forget_hits(self) -> None:
        self.find_bar.close()
        self._forget()
        self.view.focus()
