"""This module has an application with nothing but the timeline, on a real store."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from browser_driver import add_session, answer_entry, fixed_clock, prompt_entry, time_ago, wait_until
from textual import on, work
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import Button

from store.conversations.timeline import Timelines
from store.model.entry import NewEntry, Opaque, Text, Thinking, Tokens, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store
from tui.messages import Copy
from tui.widgets.timeline.timeline_pane import TimelinePane
from tui.widgets.timeline.timeline_view import TimelineView


class TimelineApp(App[None]):
    CSS_PATH = Path(__file__).parents[2] / "tui" / "app.tcss"

    def __init__(self, store: Store, session: Session, **show_options: Any) -> None:
        super().__init__()
        self.store = store
        self.session = session
        self.show_options = show_options
        self.posted_messages: list[Message] = []
        self.requested_turns: list[Sequence[int]] = []
        self.is_paused = False
        "Requested turns are held back while this is set."
        self.pending_requests: list[TimelinePane.TurnsRequested] = []

    def compose(self) -> ComposeResult:
        yield Button("elsewhere")
        yield TimelinePane(fixed_clock)

    def on_mount(self) -> None:
        self.query_one(TimelineView).focus()
        self.open_session(**self.show_options)

    def open_session(self, **show_options: Any) -> None:
        outline = Timelines(self.store).load_outline(self.session.key)
        self.query_one(TimelinePane).show(self.session, outline, **show_options)

    @on(TimelinePane.TurnsRequested)
    @work(thread=True)
    async def supply_turns(self, request: TimelinePane.TurnsRequested) -> None:
        self.requested_turns.append(request.turns)
        if self.is_paused:
            self.pending_requests.append(request)
        else:
            turns = Timelines(self.store).load_turns(self.session.key, request.turns)
            self.call_from_thread(self.query_one(TimelinePane).receive_turns, request, turns)

    def unpause(self) -> None:
        self.is_paused = False
        for request in self.pending_requests:
            turns = Timelines(self.store).load_turns(self.session.key, request.turns)
            self.query_one(TimelinePane).receive_turns(request, turns)

    @on(TimelinePane.FindRequested)
    @work(thread=True)
    async def find_text(self, request: TimelinePane.FindRequested) -> None:
        hits = Timelines(self.store).find_text(self.session.key, request.words)
        self.call_from_thread(self.query_one(TimelinePane).show_hits, request.generation, hits)

    @on(TimelinePane.Selected)
    @on(TimelinePane.InspectRequested)
    @on(Copy)
    def remember_message(self, message: Message) -> None:
        self.posted_messages.append(message)


def timeline(pilot: Pilot[Any]) -> TimelineView:
    return pilot.app.query_one(TimelineView)


def cursor_position(pilot: Pilot[Any]) -> tuple[int, str]:
    """Return the turn of the cursor and the kind of item under it."""
    view = timeline(pilot)
    turn = view.cards.turn_outline(view.cursor.turn).n
    if view.cards.is_folded(view.cursor.turn):
        return turn, "folded"
    return turn, view.current_item.kind if view.current_item else "absent"


def screen_row_of(pilot: Pilot[Any], text: str) -> int:
    """Return the row of the screen that shows the text."""
    strips = pilot.app.screen._compositor.render_strips()
    return next(row for row, strip in enumerate(strips) if text in strip.text)


async def wait_for_cursor(pilot: Pilot[Any], *position: object) -> None:
    try:
        await wait_until(pilot, lambda: cursor_position(pilot) == position)
    except TimeoutError:
        raise AssertionError(f"the cursor is at {cursor_position(pilot)}, not at {position}") from None


def messages_of_type(pilot: Pilot[Any], kind: type[Any]) -> list[Any]:
    app: Any = pilot.app
    return [message for message in app.posted_messages if isinstance(message, kind)]


def add_long_session(store: Store, turns: int = 60) -> Session:
    """Add a session whose turns think, call a tool and answer. Every tenth call fails; the sixth answer is long."""
    entries: list[NewEntry] = []
    for n in range(1, turns + 1):
        at = time_ago(minutes=turns - n)
        call = ToolCall(f"c{n}", "Bash", {"command": f"make step{n}"})
        entries += [
            prompt_entry(f"Question {n}?", at),
            NewEntry(
                role="assistant",
                parts=(Thinking(f"Thought {n}.\nAnd more."), call),
                tokens=Tokens(100 * n, n),
                created_at=at,
            ),
            NewEntry(role="tool", parts=(ToolResult(f"c{n}", f"output {n}", is_error=n % 10 == 0),), created_at=at),
            answer_entry(f"Answer **{n}**.\n\n```sh\nrun {n}\n```" + "\n\nand on it goes" * (60 if n == 6 else 0), at),
        ]
    stopped = NewEntry(kind="event", text="aborted: by hand", parts=(Opaque("stop", {}),), created_at=time_ago())
    return add_session(store, "claude:long", time_ago(), *entries, stopped, source="claude", agent_title="A long one")


def text_pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text), re.IGNORECASE)


def text_entry(text: str) -> NewEntry:
    return NewEntry(role="assistant", parts=(Text(text),), created_at=time_ago())
