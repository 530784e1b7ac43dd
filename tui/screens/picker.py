"""The compact list of `backscroll resume`: find a session, and Enter chooses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.getters import query_one
from textual.widgets import Static

from store.model.session import Session
from store.search.list_rows import Listing
from tui.render.browser_notices import nothing_found
from tui.screens.browser.session_list import ListingScreen
from tui.screens.store_screen import Clock
from tui.widgets.key_hints import KeysLine
from tui.widgets.session_list_view import SessionList
from tui.widgets.top_bar import TopBar

if TYPE_CHECKING:
    from store.resume.command import Resumption
    from store.store import Store


class PickerScreen(ListingScreen["Resumption | None"]):
    """Gives what to hand the terminal over to, or None. One types at once: whoever comes here knows what they look for.

    Where something stands in the way, or the agent would act without asking, the card comes up and says so.
    """

    AUTO_FOCUS = "Words"
    BINDINGS: ClassVar[list[BindingType]] = [
        # Priority: the words and the list have this key, too, and say of it what it does in the browser.
        Binding("enter", "resume", "Resume", priority=True, id="picker.resume", tooltip="Go on with it in its agent"),
        Binding("escape", "leave", "Leave", id="picker.leave", tooltip="Without words; then, resume none of them"),
    ]

    empty = query_one("#empty", Static)

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store, clock)
        self._hurried = False
        "Enter was pressed before what it means was there."

    def compose(self) -> ComposeResult:
        yield TopBar("backscroll resume")
        yield SessionList()
        yield Static(id="empty")
        yield KeysLine()

    def listed(self, shown: Listing) -> None:
        self.sessions.display = bool(shown.keys)
        self.empty.display = not shown.keys
        if not shown.keys:
            self._hurried = False
            self.set_focus(self.bar.words)
            self.empty.update(nothing_found(shown.wanted))
        self._choose_if_hurried()

    @on(SessionList.Opened)
    def _choose(self, opened: SessionList.Opened) -> None:
        self._take(opened.session)

    @on(TopBar.Asked)
    def _type_on(self) -> None:
        """Whoever does wants none of what the words before found."""
        self._hurried = False

    @on(TopBar.Left)
    def _hurry(self, left: TopBar.Left) -> None:
        self._hurried = left.entered
        self._choose_if_hurried()

    @on(ListingScreen.Read)
    def _choose_if_hurried(self) -> None:
        """Once the list is that of the words as they stand, and its first row is known."""
        if self._hurried and self.sessions.listing.wanted == self._wanted and (found := self.sessions.selected):
            self._hurried = False
            self._take(found)

    def _take(self, session: Session) -> None:
        from tui.screens.resume import ResumeScreen

        card = ResumeScreen(self._store, session, self.app.settings)
        if card.found.is_clear and not card.found.skips:
            self.dismiss(card.found)
        else:
            self.app.push_screen(card, self._hand_over)

    def _hand_over(self, found: Resumption | None) -> None:
        if found is not None:
            self.dismiss(found)

    def action_resume(self) -> None:
        if self.bar.words.has_focus:
            self.bar.words.action_leave()
        else:
            self.sessions.action_open()

    def action_leave(self) -> None:
        if self.bar.words.value or self._wanted.folder:
            self.action_clear()
            self.set_focus(self.bar.words)
        else:
            self.dismiss(None)
