"""An application that holds nothing but the timeline, over a real store."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from browser_driver import add, answer, before, clock, prompt, until
from textual import on, work
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import Button

from store.conversations.timeline import Outlines
from store.model.entry import NewEntry, Opaque, Text, Thinking, Tokens, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store
from tui.messages import Copy
from tui.widgets.timeline.timeline_pane import TimelinePane
from tui.widgets.timeline.timeline_view import Timeline


class Reader(App[None]):
    CSS_PATH = Path(__file__).parents[2] / "tui" / "app.tcss"

    def __init__(self, store: Store, session: Session, **how: Any) -> None:
        super().__init__()
        self.store = store
        self.session = session
        self.how = how
        self.told: list[Message] = []
        self.asked: list[Sequence[int]] = []
        self.held = False
        "Turns are asked for and do not come, until they are let go."
        self.waiting: list[TimelinePane.Wanted] = []

    def compose(self) -> ComposeResult:
        yield Button("elsewhere")
        yield TimelinePane(clock)

    def on_mount(self) -> None:
        self.query_one(Timeline).focus()
        self.open(**self.how)

    def open(self, **how: Any) -> None:
        outline = Outlines(self.store).outline(self.session.key)
        self.query_one(TimelinePane).show(self.session, outline, **how)

    @on(TimelinePane.Wanted)
    @work(thread=True)
    async def read(self, wanted: TimelinePane.Wanted) -> None:
        self.asked.append(wanted.turns)
        if self.held:
            self.waiting.append(wanted)
        else:
            turns = Outlines(self.store).turns(self.session.key, wanted.turns)
            self.call_from_thread(self.query_one(TimelinePane).supply, wanted, turns)

    def let_go(self) -> None:
        self.held = False
        for wanted in self.waiting:
            turns = Outlines(self.store).turns(self.session.key, wanted.turns)
            self.query_one(TimelinePane).supply(wanted, turns)

    @on(TimelinePane.FindWanted)
    @work(thread=True)
    async def find(self, wanted: TimelinePane.FindWanted) -> None:
        hits = Outlines(self.store).find(self.session.key, wanted.words)
        self.call_from_thread(self.query_one(TimelinePane).found, wanted.generation, hits)

    @on(TimelinePane.Selected)
    @on(TimelinePane.Inspect)
    @on(Copy)
    def remember(self, message: Message) -> None:
        self.told.append(message)


def timeline(pilot: Pilot[Any]) -> Timeline:
    return pilot.app.query_one(Timeline)


def cursor(pilot: Pilot[Any]) -> tuple[int, str]:
    """The turn and the kind of block on which the cursor rests."""
    view = timeline(pilot)
    turn = view.cards.outline_of(view.cursor.turn).n
    if view.cards.is_folded(view.cursor.turn):
        return turn, "folded"
    return turn, view.block.kind if view.block else "absent"


def row_of(pilot: Pilot[Any], text: str) -> int:
    """The line of the screen on which the text stands."""
    strips = pilot.app.screen._compositor.render_strips()
    return next(row for row, strip in enumerate(strips) if text in strip.text)


async def until_at(pilot: Pilot[Any], *place: object) -> None:
    try:
        await until(pilot, lambda: cursor(pilot) == place)
    except TimeoutError:
        raise AssertionError(f"the cursor is at {cursor(pilot)}, not at {place}") from None


def messages(pilot: Pilot[Any], kind: type[Any]) -> list[Any]:
    app: Any = pilot.app
    return [message for message in app.told if isinstance(message, kind)]


def a_long_one(store: Store, turns: int = 60) -> Session:
    """Every turn thinks, calls and answers; every tenth call fails; the sixth answer is very long."""
    entries: list[NewEntry] = []
    for n in range(1, turns + 1):
        at = before(minutes=turns - n)
        call = ToolCall(f"c{n}", "Bash", {"command": f"make step{n}"})
        entries += [
            prompt(f"Question {n}?", at),
            NewEntry(
                role="assistant",
                parts=(Thinking(f"Thought {n}.\nAnd more."), call),
                tokens=Tokens(100 * n, n),
                created_at=at,
            ),
            NewEntry(role="tool", parts=(ToolResult(f"c{n}", f"output {n}", is_error=n % 10 == 0),), created_at=at),
            answer(f"Answer **{n}**.\n\n```sh\nrun {n}\n```" + "\n\nand on it goes" * (60 if n == 6 else 0), at),
        ]
    stopped = NewEntry(kind="event", text="aborted: by hand", parts=(Opaque("stop", {}),), created_at=before())
    return add(store, "claude:long", before(), *entries, stopped, source="claude", agent_title="A long one")


def words(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text), re.IGNORECASE)


def a_text(text: str) -> NewEntry:
    return NewEntry(role="assistant", parts=(Text(text),), created_at=before())
