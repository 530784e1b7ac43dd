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

from store.conversations.timeline import Timelines
from store.database.cancel import cancel_when
from store.errors import NotFound
from store.model.entry import Entry, Turn
from store.model.session import Session
from store.model.timeline import EntryPosition, TimelineOutline
from store.search.query import Query
from tui.messages import DataMessage
from tui.widgets.json.json_view import JsonPane
from tui.widgets.timeline.timeline_pane import TimelinePane
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store
    from tui.app import Backscroll
    from tui.render.tool_call_details import ToolCallRow
    from tui.screens.fork import ForkPoint as Turning

_FORK_TOOLTIP = "Go another way from this turn on, in a new session"
_FACT_TOOLTIP = "Make this a fact that all agents may know"
NO_RECORD = "This entry was made by the library and has no record of another program."


class ConversationPane(Horizontal):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "calls", "All calls", show=False, id="timeline.calls", tooltip="All tool calls, to filter"),
        Binding("F", "fork", "Fork here", show=False, id="timeline.fork", tooltip=_FORK_TOOLTIP),
        Binding(
            "plus", "make_fact", "Fact", show=False, key_display="+", id="timeline.make_fact", tooltip=_FACT_TOOLTIP
        ),
    ]

    app: Backscroll
    timeline_pane = query_one(TimelinePane)
    record_pane = query_one(JsonPane)

    class ConversationLoaded(DataMessage):
        """A conversation as far as it must be known to be shown; `at` is the entry to open it at."""

        generation: int
        session: Session
        timeline: TimelineOutline
        at_entry: str | None
        highlight_pattern: re.Pattern[str] | None
        is_update: bool

    class ReadRequested(DataMessage):
        """The session that was opened is not read yet: it should be read next."""

        native_id: str

    class TurnsLoaded(DataMessage):
        request: TimelinePane.TurnsRequested
        turns: Sequence[Turn]

    class FindFinished(DataMessage):
        request: TimelinePane.FindRequested
        hits: Sequence[EntryPosition]

    class RecordLoaded(DataMessage):
        entry_key: int
        data: bytes | None

    class CallListLoaded(DataMessage):
        """All tool calls of the conversation, in order."""

        calls: Sequence[ToolCallRow]

    class TurnSelected(DataMessage):
        """Another turn of the conversation is selected, or another conversation."""

        session: Session
        turn: int | None

    class SessionForked(DataMessage):
        """A new session shares the past of the one that is read."""

        session: Session
        is_native: bool

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        super().__init__()
        self._store = store
        self._timelines = Timelines(store)
        self._clock = clock
        self._generation = 0
        self._find_generation = 0
        self.session: Session | None = None
        self._session_key: int | None = None
        self._search_query: Query | None = None
        self._initial_entry: str | None = None
        self._is_opening = False
        self._selected_entry: Entry | None = None

    def compose(self) -> ComposeResult:
        yield TimelinePane(self._clock)
        yield JsonPane()

    # ── what is handed down ───────────────────────────────────────────────────────────────────────

    def open(self, session: Session, *, query: Query | None = None, at_entry: str | None = None) -> None:
        """Open a session at this entry, else at the first hit of the query, else at its end."""
        self.prepare(session, query=query, at_entry=at_entry)
        if session.depth == "text":
            self.post_message(self.ReadRequested(session.native_id))
        self._load_conversation(session.key, self._generation, query, at_entry, is_update=False)

    def prepare(self, session: Session, *, query: Query | None = None, at_entry: str | None = None) -> None:
        """Expect a session that is about to be opened: a session that is still loading is dropped, and keys wait."""
        self._session_key, self._search_query, self._initial_entry = session.key, query, at_entry
        self._is_opening = True
        self._next_generation()
        self.timeline_pane.timeline_view.defer_keys()

    def handle_store_change(self) -> None:
        """The store has changed; the conversation may have grown."""
        # One that is only being opened is read as it is now, anyway.
        if self._session_key is not None and self.session is not None and self.session.key == self._session_key:
            # What is not shown yet, or was not read when it was opened, has yet to open where it should.
            is_due = self._is_opening or self.session.depth == "text"
            where = (self._search_query, self._initial_entry) if is_due else (None, None)
            self._load_conversation(self._session_key, self._next_generation(), *where, is_update=not is_due)

    def is_open(self, key: int, query: Query | None = None) -> bool:
        """At what was looked for, where something was."""
        return self._session_key == key and (not query or self._search_query == query)

    def _next_generation(self) -> int:
        self._generation += 1
        return self._generation

    # ── what the store says ───────────────────────────────────────────────────────────────────────

    @threaded(exclusive=True, group="outline")
    def _load_conversation(
        self, key: int, generation: int, query: Query | None, at_entry: str | None, is_update: bool
    ) -> None:
        loaded = None
        try:
            with cancel_when(self._store, lambda: generation != self._generation):
                loaded = self._read_conversation(key, generation, query, at_entry, is_update)
        finally:
            if loaded is not None:
                self.post_message(loaded)
            else:
                self.call_later(self._stop_opening, generation)

    def _read_conversation(
        self, key: int, generation: int, query: Query | None, at_entry: str | None, is_update: bool
    ) -> ConversationLoaded | None:
        """Read a session as far as it must be known to be shown. Return None if there is nothing new to show."""
        try:
            session = self._store.sessions.by_key(key)
        except NotFound:
            return None  # it was deleted meanwhile; the list shows that
        if self.session == session and (is_update or session.depth == "text"):
            return None
        highlight = query.pattern(ignore_accents=True) if query else None
        if at_entry is None and query:
            at_entry = self._store.search.find_newest_hit_entry(key, query)
        outline = self._timelines.load_outline(key)
        return self.ConversationLoaded(generation, session, outline, at_entry, highlight, is_update)

    @threaded(group="turns")
    def _load_turns(self, key: int, wanted: TimelinePane.TurnsRequested) -> None:
        self.post_message(self.TurnsLoaded(wanted, self._timelines.load_turns(key, wanted.turns)))

    @threaded(exclusive=True, group="find")
    def _find_in_thread(self, key: int, wanted: TimelinePane.FindRequested) -> None:
        hits = self._timelines.find_text(key, wanted.words, lambda: wanted.generation != self._find_generation)
        self.post_message(self.FindFinished(wanted, hits))

    @threaded(exclusive=True, group="record")
    def _load_record(self, entry: Entry) -> None:
        data = self._store.records.get(entry.record) if entry.record is not None else None
        self.post_message(self.RecordLoaded(entry.key, data))

    def _stop_opening(self, generation: int) -> None:
        """Hand out the keys that wait for a session that is not shown after all."""
        if generation == self._generation:
            self.timeline_pane.timeline_view.release_keys()

    # ── what goes down ────────────────────────────────────────────────────────────────────────────

    @on(ConversationLoaded)
    def _show_conversation(self, outlined: ConversationLoaded) -> None:
        if outlined.generation != self._generation:
            return
        self.session = outlined.session
        self._is_opening = False
        self.timeline_pane.show(
            outlined.session,
            outlined.timeline,
            at=outlined.at_entry,
            highlight=outlined.highlight_pattern,
            follow=outlined.is_update,
        )
        self.post_message(self.TurnSelected(outlined.session, None))

    @on(TurnsLoaded)
    def _show_turns(self, read: TurnsLoaded) -> None:
        self.timeline_pane.receive_turns(read.request, read.turns)

    @on(FindFinished)
    def _show_hits(self, found: FindFinished) -> None:
        self.timeline_pane.show_hits(found.request.generation, found.hits)

    @on(RecordLoaded)
    def _show_record(self, recorded: RecordLoaded) -> None:
        if self._selected_entry is not None and recorded.entry_key == self._selected_entry.key:
            self.record_pane.show(recorded.data, NO_RECORD)

    # ── what comes up ─────────────────────────────────────────────────────────────────────────────

    @on(TimelinePane.TurnsRequested)
    def _fetch_turns(self, wanted: TimelinePane.TurnsRequested) -> None:
        wanted.stop()
        if self.session is not None:
            self._load_turns(self.session.key, wanted)

    @on(TimelinePane.FindRequested)
    def _start_find(self, wanted: TimelinePane.FindRequested) -> None:
        wanted.stop()
        self._find_generation = wanted.generation
        if self.session is not None:
            self._find_in_thread(self.session.key, wanted)

    @on(TimelinePane.Selected)
    def _select_entry(self, selected: TimelinePane.Selected) -> None:
        selected.stop()
        entry = selected.entry
        if self.session is not None:
            self.post_message(self.TurnSelected(self.session, entry.turn if entry else None))
        if entry is None or (self._selected_entry is not None and entry.key == self._selected_entry.key):
            return
        self._selected_entry = entry
        if self.record_pane.display:
            self._load_record(entry)

    # ── forks ─────────────────────────────────────────────────────────────────────────────────────

    def action_fork(self) -> None:
        timeline = self.timeline_pane.timeline_view
        if self.session is not None and len(timeline.cards):
            self._load_fork_point(self.session, timeline.cards.turn_outline(timeline.cursor.turn).n)

    @threaded(exclusive=True, group="fork")
    def _load_fork_point(self, session: Session, turn: int) -> None:
        from tui.screens.fork import read_fork_point

        self.app.call_from_thread(self._open_fork_screen, read_fork_point(self._store, session, turn))

    def _open_fork_screen(self, place: Turning) -> None:
        from tui.screens.fork import ForkScreen

        def tell(prompt: str | None) -> None:
            if (made := asking.fork_result) is not None:
                self.post_message(self.SessionForked(made.session, made.is_native))

        asking = ForkScreen(self._store, place)
        self.app.push_screen(asking, tell)

    # ── facts ─────────────────────────────────────────────────────────────────────────────────────

    def action_make_fact(self) -> None:
        from tui.screens.fact_edits import open_fact_dialog

        block = self.timeline_pane.timeline_view.current_item
        if self.session is not None and block is not None:
            open_fact_dialog(self.screen, self._store, self.session, block.entry.seq, block.text)

    # ── tool calls ────────────────────────────────────────────────────────────────────────────────

    @on(TimelinePane.InspectRequested)
    def _inspect(self, asked: TimelinePane.InspectRequested) -> None:
        asked.stop()
        self._open_call(asked.call_key)

    @on(TimelinePane.PictureRequested)
    def _open_picture(self, asked: TimelinePane.PictureRequested) -> None:
        from tui.screens.picture import PictureScreen

        asked.stop()
        self.app.push_screen(PictureScreen(self._store, asked.entry, asked.part))

    def _open_call(self, call: int) -> None:
        from tui.screens.inspector import InspectorScreen

        if self.session is not None:
            self.app.push_screen(InspectorScreen(self._store, self.session, call), self._open_at_entry)

    def _open_at_entry(self, entry: str | None) -> None:
        if entry is not None and self.session is not None:
            self.open(self.session, at_entry=entry)

    def action_calls(self) -> None:
        if self.session is not None:
            self._load_calls(self.session)

    @threaded(exclusive=True, group="calls")
    def _load_calls(self, session: Session) -> None:
        from store.conversations import tool_calls
        from tui.render.tool_call_details import build_call_row

        found = tool_calls.iter_session_calls(self._store, session.key)
        self.post_message(self.CallListLoaded([build_call_row(call, session.cwd) for call in found]))

    @on(CallListLoaded)
    async def _open_call_picker(self, called: CallListLoaded) -> None:
        from tui.dialogs.tool_call_picker import ToolCallPickerDialog

        if not called.calls:
            self.notify("No tool was called in this conversation.", timeout=3)
            return
        await self.app.push_screen(ToolCallPickerDialog(called.calls, called.calls[-1].key), self._open_chosen_call)

    def _open_chosen_call(self, call: int | None) -> None:
        if call is not None:
            self._open_call(call)

    def load_selected_record(self) -> None:
        """The record's pane has come into view."""
        if self._selected_entry is not None:
            self._load_record(self._selected_entry)
