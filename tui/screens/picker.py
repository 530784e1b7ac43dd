"""The compact list of `backscroll resume`: find a session, and Enter chooses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.getters import query_one
from textual.widgets import Static

from store.model.session import Session
from store.search.list_rows import SessionListLayout
from tui.render.browser_notices import render_empty_list
from tui.screens.browser.session_list import SessionListScreen
from tui.screens.store_screen import Clock
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.session_list_view import SessionListView
from tui.widgets.top_bar import TopBar

if TYPE_CHECKING:
    from store.resume.command import ResumePlan
    from store.store import Store


class PickerScreen(SessionListScreen["ResumePlan | None"]):
    """Gives what to hand the terminal over to, or None. One types at once: whoever comes here knows what they look for.

    Where something stands in the way, or the agent would act without asking, the card comes up and says so.
    """

    AUTO_FOCUS = "QueryInput"
    BINDINGS: ClassVar[list[BindingType]] = [
        # Priority: the words and the list have this key, too, and say of it what it does in the browser.
        Binding("enter", "resume", "Resume", priority=True, id="picker.resume", tooltip="Go on with it in its agent"),
        Binding("escape", "leave", "Leave", id="picker.leave", tooltip="Without words; then, resume none of them"),
    ]

    empty_message = query_one("#empty", Static)

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store, clock)
        self._is_enter_pending = False
        "Enter was pressed before what it means was there."

    def compose(self) -> ComposeResult:
        yield TopBar("backscroll resume")
        yield SessionListView()
        yield Static(id="empty")
        yield KeyHintBar()

    def handle_list_shown(self, shown: SessionListLayout) -> None:
        self.sessions.display = bool(shown.keys)
        self.empty_message.display = not shown.keys
        if not shown.keys:
            self._is_enter_pending = False
            self.set_focus(self.bar.query_input)
            self.empty_message.update(render_empty_list(shown.options))
        self._resume_if_enter_pending()

    @on(SessionListView.Opened)
    def _resume_opened(self, opened: SessionListView.Opened) -> None:
        self._resume_session(opened.session)

    @on(TopBar.QueryChanged)
    def _cancel_pending_enter(self) -> None:
        """Whoever does wants none of what the words before found."""
        self._is_enter_pending = False

    @on(TopBar.Exited)
    def _handle_enter(self, left: TopBar.Exited) -> None:
        self._is_enter_pending = left.entered
        self._resume_if_enter_pending()

    @on(SessionListScreen.RowsLoaded)
    def _resume_if_enter_pending(self) -> None:
        """Once the list is that of the words as they stand, and its first row is known."""
        if (
            self._is_enter_pending
            and self.sessions.listing.options == self._list_options
            and (found := self.sessions.selected)
        ):
            self._is_enter_pending = False
            self._resume_session(found)

    def _resume_session(self, session: Session) -> None:
        from tui.screens.resume import ResumeScreen

        card = ResumeScreen(self._store, session, self.app.settings)
        if card.plan.can_run and not card.plan.skips_permissions:
            self.dismiss(card.plan)
        else:
            self.app.push_screen(card, self._dismiss_with_plan)

    def _dismiss_with_plan(self, found: ResumePlan | None) -> None:
        if found is not None:
            self.dismiss(found)

    def action_resume(self) -> None:
        if self.bar.query_input.has_focus:
            self.bar.query_input.action_leave()
        else:
            self.sessions.action_open()

    def action_leave(self) -> None:
        if self.bar.query_input.value or self._list_options.folder:
            self.action_clear()
            self.set_focus(self.bar.query_input)
        else:
            self.dismiss(None)
