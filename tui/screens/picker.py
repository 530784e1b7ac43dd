"""This module holds the compact list of `backscroll resume`: a person finds a session, and Enter resumes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.getters import query_one
from textual.widgets import Static

from store.model.session import Session
from store.search.list_rows import SessionListLayout
from tui.render.browser_notices import render_empty_list
from tui.screens.session_list_screen import SessionListScreen
from tui.screens.store_screen import Clock
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.session_list_view import SessionListView
from tui.widgets.top_bar import TopBar

if TYPE_CHECKING:
    from store.resume.command import ResumePlan
    from store.store import Store


_RESUME_TOOLTIP = "Resume the session in its agent"
_LEAVE_TOOLTIP = "Clear the search, then leave without resuming"


class PickerScreen(SessionListScreen["ResumePlan | None"]):
    """Returns the plan of the session to resume, or None. The query line has the focus from the start.

    If a session cannot be resumed, or its agent would act without asking, the resume card explains it first.
    """

    AUTO_FOCUS = "QueryInput"
    BINDINGS: ClassVar[list[BindingType]] = [
        # Priority, because the query line and the list also have this key and describe it as in the browser.
        Binding("enter", "resume", "Resume", priority=True, id="picker.resume", tooltip=_RESUME_TOOLTIP),
        Binding("escape", "leave", "Leave", id="picker.leave", tooltip=_LEAVE_TOOLTIP),
    ]

    empty_message = query_one("#empty", Static)

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store, clock)
        self._is_enter_pending = False
        "Is true from an Enter until the session that it means is known."

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
            self.empty_message.update(render_empty_list(shown))
        self._resume_if_enter_pending()

    @on(SessionListView.Opened)
    def _resume_opened(self, opened: SessionListView.Opened) -> None:
        self._resume_session(opened.session)

    @on(TopBar.QueryChanged)
    def _cancel_pending_enter(self) -> None:
        self._is_enter_pending = False

    @on(TopBar.Exited)
    def _handle_enter(self, exited: TopBar.Exited) -> None:
        self._is_enter_pending = exited.entered
        self._resume_if_enter_pending()

    def handle_rows_loaded(self, keys: Sequence[int]) -> None:
        self._resume_if_enter_pending()

    def _resume_if_enter_pending(self) -> None:
        """Resume the session for which Enter was pressed, once the list of the whole query and its rows are there."""
        if (
            self._is_enter_pending
            and self.sessions.listing.options == self.session_list.options
            and (session := self.sessions.selected)
        ):
            self._is_enter_pending = False
            self._resume_session(session)

    def _resume_session(self, session: Session) -> None:
        from tui.screens.resume import ResumeScreen

        card = ResumeScreen(self._store, session, self.app.settings)
        if card.plan.can_run and not card.plan.skips_permissions:
            self.dismiss(card.plan)
        else:
            self.app.push_screen(card, self._dismiss_with_plan)

    def _dismiss_with_plan(self, plan: ResumePlan | None) -> None:
        if plan is not None:
            self.dismiss(plan)

    def action_resume(self) -> None:
        if self.bar.query_input.has_focus:
            self.bar.query_input.action_leave()
        else:
            self.sessions.action_open()

    def action_leave(self) -> None:
        if self.bar.query_input.value or self.session_list.options.folder:
            self.action_clear()
            self.set_focus(self.bar.query_input)
        else:
            self.dismiss(None)
