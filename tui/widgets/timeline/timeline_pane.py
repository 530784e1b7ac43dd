"""The pane in the middle: what the conversation is, its turns, and a line to find words in them."""

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
from store.model.timeline import Outline, Place
from tui.messages import Told
from tui.render.timeline_card import coverage, heading
from tui.widgets.find_bar import FindBar
from tui.widgets.timeline.timeline_view import Timeline
from tui.workers import surely, threaded

IDLE = 0.5
"""Seconds after which the program has started and may load what the first conversation needs."""


class TimelinePane(Vertical):
    DEFAULT_CSS = """
    TimelinePane {
        #about {
            height: auto;
            max-height: 4;
            padding: 0 1 1 2;
        }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "slash", "find", "Find", key_display="/", id="timeline.find", tooltip="Find words in this conversation"
        ),
        Binding(
            "escape", "drop_hits", "No hits", id="timeline.drop_hits", show=False, tooltip="Take the marks away again"
        ),
    ]

    Wanted: TypeAlias = Timeline.Wanted
    Selected: TypeAlias = Timeline.Selected
    Inspect: TypeAlias = Timeline.Inspect
    Look: TypeAlias = Timeline.Look

    class FindWanted(Told):
        """Where in the conversation do these words stand? `found` takes the answer."""

        generation: int
        text: str
        words: re.Pattern[str]

    class Warm(Message):
        """What paints conversations is loaded."""

    about = query_one("#about", Static)
    timeline = query_one(Timeline)
    bar = query_one(FindBar)

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC), *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._clock = clock
        self._session: Session | None = None
        self._finding = 0
        self._goes = False
        self._warming = self._warm = False
        self._about_height = -1
        self._waiting: list[tuple[Timeline.Wanted, Sequence[Turn]]] = []

    def compose(self) -> ComposeResult:
        yield Static(id="about")
        yield Timeline()
        yield FindBar()

    def on_mount(self) -> None:
        surely(self.set_timer(IDLE, self._warm_up))

    def _warm_up(self) -> None:
        if not self._warming:
            self._warming = True
            self._load()

    @threaded(group="warm up")
    def _load(self) -> None:
        from tui.render.markdown import warm_up

        warm_up()
        self.post_message(self.Warm())

    @on(Warm)
    def _go_on(self, warm: Warm) -> None:
        warm.stop()
        self._warm = True
        waiting, self._waiting = self._waiting, []
        for wanted, turns in waiting:
            self.timeline.supply(wanted, turns)

    # ── what is handed down ───────────────────────────────────────────────────────────────────────

    @property
    def outline(self) -> Outline:
        return self.timeline.cards.outline

    def show(
        self,
        session: Session,
        outline: Outline,
        *,
        at: str | None = None,
        marks: re.Pattern[str] | None = None,
        follow: bool = False,
    ) -> None:
        """A conversation, open at an entry (its public id) or at the end. Follow: the one that is shown has grown."""
        self._warm_up()
        follow = follow and self._session is not None and self._session.id == session.id
        self._session = session
        if follow:
            self.timeline.grow(outline)
        else:
            self.timeline.show(session, outline, at=_seq(at), marks=marks)
            self.bar.close()
            self._find("", marks, goes=False)
        self.tell_heading()

    def supply(self, wanted: Timeline.Wanted, turns: Sequence[Turn]) -> None:
        """The answer to Wanted; held back while what paints it is being loaded, so that nothing waits for that."""
        if self._warm:
            self.timeline.supply(wanted, turns)
        else:
            self._waiting.append((wanted, turns))

    def found(self, generation: int, hits: Sequence[Place]) -> None:
        if generation == self._finding:
            self.timeline.set_hits(hits, go=self._goes)

    def tell_heading(self) -> None:
        if self._session is None:
            return
        width = max(self.size.width - 3, 10)
        told = heading(self._session, width, self._clock())
        covers = coverage(self.outline, width)
        lines = Content("\n").join([told, covers]) if covers else told
        height = lines.plain.count("\n")
        self.about.update(lines, layout=height != self._about_height)
        self._about_height = height

    def on_resize(self) -> None:
        self.tell_heading()

    # ── finding ───────────────────────────────────────────────────────────────────────────────────

    def action_find(self) -> None:
        self.timeline.begin_finding()
        self.bar.open()

    def action_drop_hits(self) -> None:
        self.bar.close()
        self._forget_hits()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "drop_hits":
            return self.timeline.cards.marks is not None
        if action == "find":
            return not self.bar.words.has_focus
        return super().check_action(action, parameters)

    @on(FindBar.Asked)
    def _ask(self, asked: FindBar.Asked) -> None:
        asked.stop()
        words = re.compile(re.escape(asked.text), re.IGNORECASE) if asked.text.strip() else None
        self.timeline.mark(words)
        self._find(asked.text, words, goes=True)

    def _find(self, text: str, words: re.Pattern[str] | None, *, goes: bool) -> None:
        self._finding += 1
        self._goes = goes
        if words is None:
            self.timeline.set_hits((), go=False)
        else:
            self.post_message(self.FindWanted(self._finding, text, words))
        self.refresh_bindings()

    @on(FindBar.Left)
    def _leave_bar(self, left: FindBar.Left) -> None:
        left.stop()
        self.timeline.end_finding()
        if not left.kept:
            self._forget_hits()
        self.timeline.focus()

    @on(Timeline.AtHit)
    def _tell_hit(self, told: Timeline.AtHit) -> None:
        told.stop()
        self.bar.tell(told.at, told.of)

    def _forget_hits(self) -> None:
        self.timeline.mark(None)
        self._find("", None, goes=False)


def _seq(entry: str | None) -> int | None:
    """Of an entry's public id, `<session>#<seq>`."""
    try:
        return int(entry.rpartition("#")[2]) if entry else None
    except ValueError:
        return None
