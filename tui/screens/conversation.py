"""The conversation that is chosen, beside the record of whatever is selected in it.

Not a screen by itself, but it stands with them: it owns the workers that read the store for its two panes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.getters import query_one

from store.conversations.timeline import Outlines
from store.database.cancel import until_stale
from store.errors import NotFound
from store.model.entry import Entry, Turn
from store.model.session import Session
from store.model.timeline import Outline, Place
from store.search.query import Query
from tui.messages import Told
from tui.widgets.json.json_view import JsonPane
from tui.widgets.timeline.timeline_pane import TimelinePane
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store
    from tui.app import Backscroll
    from tui.render.tool_call_details import CallLine
    from tui.screens.fork import Place as Turning

_FORK = "Go another way from this turn on, in a new session"
_FACT = "Make this a fact that all agents may know"
NO_RECORD = "This entry was made by the library and has no record of another program."


class Reading(Horizontal):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "calls", "All calls", show=False, id="timeline.calls", tooltip="All tool calls, to filter"),
        Binding("F", "fork", "Fork here", show=False, id="timeline.fork", tooltip=_FORK),
        Binding("plus", "make_fact", "Fact", show=False, key_display="+", id="timeline.make_fact", tooltip=_FACT),
    ]

    app: Backscroll
    timeline = query_one(TimelinePane)
    record = query_one(JsonPane)

    class Outlined(Told):
        """A conversation as far as it must be known to be shown; `at` is the entry to open it at."""

        generation: int
        session: Session
        outline: Outline
        at: str | None
        marks: re.Pattern[str] | None
        follow: bool

    class Read(Told):
        wanted: TimelinePane.Wanted
        turns: Sequence[Turn]

    class Found(Told):
        wanted: TimelinePane.FindWanted
        hits: Sequence[Place]

    class Recorded(Told):
        entry: int
        data: bytes | None

    class Called(Told):
        """All tool calls of the conversation, in order."""

        calls: Sequence[CallLine]

    class Moved(Told):
        """Another turn of the conversation is selected, or another conversation."""

        session: Session
        turn: int | None

    class Forked(Told):
        """A new session shares the past of the one that is read."""

        session: Session
        is_native: bool

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        super().__init__()
        self._store = store
        self._outlines = Outlines(store)
        self._clock = clock
        self._generation = 0
        self._finding = 0
        self.session: Session | None = None
        self._wanted: int | None = None
        self._looked_for: Query | None = None
        self._at: str | None = None
        self._is_opening = False
        self._entry: Entry | None = None

    def compose(self) -> ComposeResult:
        yield TimelinePane(self._clock)
        yield JsonPane()

    # ── what is handed down ───────────────────────────────────────────────────────────────────────

    def open(self, session: Session, *, looked_for: Query | None = None, at: str | None = None) -> None:
        """At that entry, else at the first with what was looked for, else at the end."""
        self._wanted, self._looked_for, self._at = session.key, looked_for, at
        self._is_opening = True
        self.hold_keys()
        if session.depth == "text":
            self._store.hurried.add(session.native_id)
        self._outline(session.key, self._next(), looked_for, at, follow=False)

    def hold_keys(self) -> None:
        """Those that come now are meant for the conversation that is about to be shown."""
        self.timeline.timeline.hold_keys()

    def follow(self) -> None:
        """The store has changed; the conversation may have grown."""
        # One that is only being opened is read as it is now, anyway.
        if self._wanted is not None and self.session is not None and self.session.key == self._wanted:
            # What is not shown yet, or was not read when it was opened, has yet to open where it should.
            is_due = self._is_opening or self.session.depth == "text"
            where = (self._looked_for, self._at) if is_due else (None, None)
            self._outline(self._wanted, self._next(), *where, follow=not is_due)

    def is_open(self, key: int, looked_for: Query | None = None) -> bool:
        """At what was looked for, where something was."""
        return self._wanted == key and (not looked_for or self._looked_for == looked_for)

    def _next(self) -> int:
        self._generation += 1
        return self._generation

    # ── what the store says ───────────────────────────────────────────────────────────────────────

    @threaded(exclusive=True, group="outline")
    def _outline(self, key: int, generation: int, looked_for: Query | None, at: str | None, follow: bool) -> None:
        with until_stale(self._store, lambda: generation != self._generation):
            try:
                session = self._store.sessions.by_key(key)
            except NotFound:
                return  # purged meanwhile; the list will tell
            if self.session == session and (follow or session.depth == "text"):
                return
            marks = looked_for.pattern(accents=True) if looked_for else None
            if at is None and looked_for:
                at = self._store.search.first_hit(key, looked_for)
            outline = self._outlines.outline(key)
            self.post_message(self.Outlined(generation, session, outline, at, marks, follow))

    @threaded(group="turns")
    def _read(self, key: int, wanted: TimelinePane.Wanted) -> None:
        self.post_message(self.Read(wanted, self._outlines.turns(key, wanted.turns)))

    @threaded(exclusive=True, group="find")
    def _find(self, key: int, wanted: TimelinePane.FindWanted) -> None:
        hits = self._outlines.find(key, wanted.words, lambda: wanted.generation != self._finding)
        self.post_message(self.Found(wanted, hits))

    @threaded(exclusive=True, group="record")
    def _read_record(self, entry: Entry) -> None:
        data = self._store.records.get(entry.record) if entry.record is not None else None
        self.post_message(self.Recorded(entry.key, data))

    # ── what goes down ────────────────────────────────────────────────────────────────────────────

    @on(Outlined)
    def _show(self, outlined: Outlined) -> None:
        if outlined.generation != self._generation:
            return
        self.session = outlined.session
        self._is_opening = False
        self.timeline.show(
            outlined.session, outlined.outline, at=outlined.at, marks=outlined.marks, follow=outlined.follow
        )
        self.post_message(self.Moved(outlined.session, None))

    @on(Read)
    def _supply(self, read: Read) -> None:
        self.timeline.supply(read.wanted, read.turns)

    @on(Found)
    def _show_hits(self, found: Found) -> None:
        self.timeline.found(found.wanted.generation, found.hits)

    @on(Recorded)
    def _show_record(self, recorded: Recorded) -> None:
        if self._entry is not None and recorded.entry == self._entry.key:
            self.record.show(recorded.data, NO_RECORD)

    # ── what comes up ─────────────────────────────────────────────────────────────────────────────

    @on(TimelinePane.Wanted)
    def _read_turns(self, wanted: TimelinePane.Wanted) -> None:
        wanted.stop()
        if self.session is not None:
            self._read(self.session.key, wanted)

    @on(TimelinePane.FindWanted)
    def _find_words(self, wanted: TimelinePane.FindWanted) -> None:
        wanted.stop()
        self._finding = wanted.generation
        if self.session is not None:
            self._find(self.session.key, wanted)

    @on(TimelinePane.Selected)
    def _select(self, selected: TimelinePane.Selected) -> None:
        selected.stop()
        entry = selected.entry
        if self.session is not None:
            self.post_message(self.Moved(self.session, entry.turn if entry else None))
        if entry is None or (self._entry is not None and entry.key == self._entry.key):
            return
        self._entry = entry
        if self.record.display:
            self._read_record(entry)

    # ── forks ─────────────────────────────────────────────────────────────────────────────────────

    def action_fork(self) -> None:
        timeline = self.timeline.timeline
        if self.session is not None and len(timeline.cards):
            self._look_at_turn(self.session, timeline.cards.outline_of(timeline.cursor.turn).n)

    @threaded(exclusive=True, group="fork")
    def _look_at_turn(self, session: Session, turn: int) -> None:
        from tui.screens.fork import place_of

        self.app.call_from_thread(self._ask_for_fork, place_of(self._store, session, turn))

    def _ask_for_fork(self, place: Turning) -> None:
        from tui.screens.fork import ForkScreen

        def tell(prompt: str | None) -> None:
            if (made := asking.made) is not None:
                self.post_message(self.Forked(made.session, made.is_native))

        asking = ForkScreen(self._store, place)
        self.app.push_screen(asking, tell)

    # ── facts ─────────────────────────────────────────────────────────────────────────────────────

    def action_make_fact(self) -> None:
        from tui.screens.fact_edits import make_fact

        block = self.timeline.timeline.block
        if self.session is not None and block is not None:
            make_fact(self.screen, self._store, self.session, block.entry.seq, block.text)

    # ── tool calls ────────────────────────────────────────────────────────────────────────────────

    @on(TimelinePane.Inspect)
    def _inspect(self, asked: TimelinePane.Inspect) -> None:
        asked.stop()
        self._look_at(asked.call_key)

    @on(TimelinePane.Look)
    def _look_at_picture(self, asked: TimelinePane.Look) -> None:
        from tui.screens.picture import PictureScreen

        asked.stop()
        self.app.push_screen(PictureScreen(self._store, asked.entry, asked.part))

    def _look_at(self, call: int) -> None:
        from tui.screens.inspector import InspectorScreen

        if self.session is not None:
            self.app.push_screen(InspectorScreen(self._store, self.session, call), self._read_on_at)

    def _read_on_at(self, entry: str | None) -> None:
        if entry is not None and self.session is not None:
            self.open(self.session, at=entry)

    def action_calls(self) -> None:
        if self.session is not None:
            self._list_calls(self.session)

    @threaded(exclusive=True, group="calls")
    def _list_calls(self, session: Session) -> None:
        from store.conversations import tool_calls
        from tui.render.tool_call_details import call_line

        found = tool_calls.of_session(self._store, session.key)
        self.post_message(self.Called([call_line(call, session.cwd) for call in found]))

    @on(Called)
    async def _choose_call(self, called: Called) -> None:
        from tui.dialogs.tool_call_picker import CallsScreen

        if not called.calls:
            self.notify("No tool was called in this conversation.", timeout=3)
            return
        await self.app.push_screen(CallsScreen(called.calls, called.calls[-1].key), self._take_call)

    def _take_call(self, call: int | None) -> None:
        if call is not None:
            self._look_at(call)

    def show_record(self) -> None:
        """The record's pane has come into view."""
        if self._entry is not None:
            self._read_record(self._entry)
