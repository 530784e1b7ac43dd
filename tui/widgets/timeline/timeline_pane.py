"""This module is the middle pane: the heading of a session, its timeline, and a bar to find words in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import ClassVar, TypeAlias

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.widgets import Static

from store.model.entry import Turn
from store.model.session import Session
from store.model.statistics import SessionCost, TurnCost
from store.model.timeline import EntryPosition, TimelineOutline
from tui.messages import DataMessage
from tui.render.timeline_card import render_session_heading, render_session_notes, render_summary_coverage
from tui.textual_compat import reliable_timer
from tui.widgets.find_bar import FindBar
from tui.widgets.timeline.timeline_view import TimelineView
from tui.workers import threaded

PRELOAD_DELAY = 0.5
"""Seconds to wait after the start before the renderers are loaded."""


class TimelinePane(Vertical):
    DEFAULT_CSS = """
    TimelinePane {
        #about {
            height: auto;
            max-height: 11;
            padding: 0 1 1 2;
        }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "find", "Find", key_display="/", id="timeline.find", tooltip="Find words in this session"),
        Binding("escape", "drop_hits", "Clear", id="timeline.drop_hits", tooltip="Clear the highlight"),
    ]

    TurnsRequested: TypeAlias = TimelineView.TurnsRequested
    RenderingRequested: TypeAlias = TimelineView.RenderingRequested
    Selected: TypeAlias = TimelineView.Selected
    InspectRequested: TypeAlias = TimelineView.InspectRequested
    OptionsChanged: TypeAlias = TimelineView.OptionsChanged
    CompactionRequested: TypeAlias = TimelineView.CompactionRequested
    CopyRequested: TypeAlias = TimelineView.CopyRequested
    PictureRequested: TypeAlias = TimelineView.PictureRequested

    class FindRequested(DataMessage):
        """Asks where in the session these words are. The answer goes to `show_hits`."""

        generation: int
        text: str
        words: re.Pattern[str]

    class RenderersLoaded(Message):
        """Says that the modules that render a session are loaded."""

    about = query_one("#about", Static)
    timeline_view = query_one(TimelineView)
    find_bar = query_one(FindBar)

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC), *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._clock = clock
        self._session: Session | None = None
        self._cost: SessionCost | None = None
        self._find_generation = 0
        self._moves_to_hit = False
        self._is_preloading = self._is_preloaded = False
        self._about_height = -1
        self._waiting_turns: list[tuple[TimelineView.TurnsRequested, Sequence[Turn]]] = []

    def compose(self) -> ComposeResult:
        yield Static(id="about")
        yield TimelineView()
        yield FindBar()

    def on_mount(self) -> None:
        reliable_timer(self.set_timer(PRELOAD_DELAY, self._preload))

    def _preload(self) -> None:
        if not self._is_preloading:
            self._is_preloading = True
            self._load_renderers()

    @threaded(group="warm up")
    def _load_renderers(self) -> None:
        from tui.render.markdown import preload_parsers

        preload_parsers()
        self.post_message(self.RenderersLoaded())

    @on(RenderersLoaded)
    def _release_waiting_turns(self, message: RenderersLoaded) -> None:
        message.stop()
        self._is_preloaded = True
        waiting, self._waiting_turns = self._waiting_turns, []
        for request, turns in waiting:
            self.timeline_view.receive_turns(request, turns)

    # ── content ───────────────────────────────────────────────────────────────────────────────────

    @property
    def outline(self) -> TimelineOutline:
        return self.timeline_view.cards.outline

    def show(
        self,
        session: Session,
        outline: TimelineOutline,
        *,
        at: str | None = None,
        highlight: re.Pattern[str] | None = None,
        follow: bool = False,
        cost: SessionCost | None = None,
    ) -> None:
        """Show a session, opened at an entry (its public id) or at the end. With `follow`, it is the same, but longer.

        The position then stays.
        """
        self._preload()
        follow = follow and self._session is not None and self._session.id == session.id
        self._session = session
        self._cost = cost
        if follow:
            self.timeline_view.update_outline(outline)
        else:
            self.timeline_view.show(session, outline, entry_seq=_parse_seq(at), highlight=highlight)
            self.find_bar.close()
            self._request_find("", highlight, move_to_hit=False)
        self.update_heading()

    def receive_turns(self, request: TimelineView.TurnsRequested, turns: Sequence[Turn]) -> None:
        """Take the answer to `TurnsRequested`. It is held back until the renderers are loaded."""
        if self._is_preloaded:
            self.timeline_view.receive_turns(request, turns)
        else:
            self._waiting_turns.append((request, turns))

    @property
    def has_waiting_turns(self) -> bool:
        """Is true while turns are held back until the renderers are loaded."""
        return bool(self._waiting_turns)

    def show_hits(self, generation: int, hits: Sequence[EntryPosition]) -> None:
        if generation == self._find_generation:
            self.timeline_view.set_hits(hits, move_to_hit=self._moves_to_hit)

    def show_turn_costs(self, turns: Sequence[TurnCost]) -> None:
        self.timeline_view.show_costs({turn.turn: turn for turn in turns})

    def update_heading(self) -> None:
        if self._session is None:
            return
        # Before the first layout, the width of the terminal gives about the right height.
        width = max((self.size.width or self.app.size.width) - 3, 10)
        hidden = 0 if self.timeline_view.options.show_events else self.outline.bookkeeping_events
        parts = (
            render_session_heading(self._session, width, self._clock(), hidden_events=hidden, cost=self._cost),
            render_session_notes(self.outline.session_notes, width),
            render_summary_coverage(self.outline, width),
        )
        content = Content("\n").join([part for part in parts if part])
        height = content.plain.count("\n")
        self.about.update(content, layout=height != self._about_height)
        self._about_height = height

    @on(TimelineView.OptionsChanged)
    def _update_hidden_count(self) -> None:
        self.update_heading()

    def on_resize(self) -> None:
        self.update_heading()

    # ── finding ───────────────────────────────────────────────────────────────────────────────────

    def action_find(self) -> None:
        self.timeline_view.begin_find()
        self.find_bar.open()

    def action_drop_hits(self) -> None:
        self.find_bar.close()
        self._clear_hits()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "drop_hits":
            return self.timeline_view.cards.highlight is not None
        if action == "find":
            return not self.find_bar.input.has_focus
        return super().check_action(action, parameters)

    @on(FindBar.TextChanged)
    def _find_typed_text(self, message: FindBar.TextChanged) -> None:
        message.stop()
        words = re.compile(re.escape(message.text), re.IGNORECASE) if message.text.strip() else None
        self.timeline_view.set_highlight(words)
        self._request_find(message.text, words, move_to_hit=True)

    def _request_find(self, text: str, words: re.Pattern[str] | None, *, move_to_hit: bool) -> None:
        self._find_generation += 1
        self._moves_to_hit = move_to_hit
        if words is None:
            self.timeline_view.set_hits((), move_to_hit=False)
        else:
            self.post_message(self.FindRequested(self._find_generation, text, words))
        self.refresh_bindings()

    @on(FindBar.Exited)
    def _handle_bar_exited(self, message: FindBar.Exited) -> None:
        message.stop()
        self.timeline_view.end_find()
        if not message.kept:
            self._clear_hits()
        self.timeline_view.focus()

    @on(TimelineView.HitSelected)
    def _show_hit_position(self, message: TimelineView.HitSelected) -> None:
        message.stop()
        self.find_bar.show_position(message.number, message.total)

    def _clear_hits(self) -> None:
        self.timeline_view.set_highlight(None)
        self._request_find("", None, move_to_hit=False)


def _parse_seq(entry: str | None) -> int | None:
    """Return the sequence number from the public id of an entry, `<session>#<seq>`."""
    try:
        return int(entry.rpartition("#")[2]) if entry else None
    except ValueError:
        return None
