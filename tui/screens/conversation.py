"""This module holds the conversation pane: the timeline of a session, and the record of the selected entry next to it.

It is a widget, but it is kept with the screens because it owns the threads that read the store for its two panes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.getters import query_one

from store.conversations.timeline import Timelines
from store.database.cancel import cancel_when
from store.errors import NotFound
from store.model.entry import Entry, Turn
from store.model.knowledge import Note
from store.model.session import Session
from store.model.statistics import SessionCost, TurnCost
from store.model.timeline import EntryPosition, TimelineOutline
from store.search.query import Query
from tui.messages import DataMessage
from tui.render.timeline_card import describe_place
from tui.render_process import RenderProcess
from tui.widgets.json.json_view import JsonPane
from tui.widgets.pane_row import pane_title
from tui.widgets.timeline.card_layout import TimelineOptions
from tui.widgets.timeline.timeline_pane import TimelinePane
from tui.workers import run_in_thread, threaded

if TYPE_CHECKING:
    from store.leaks.masking import LeakMask
    from store.store import Store
    from tui.app import Backscroll
    from tui.dialogs.fork import ForkPoint
    from tui.render.inspection.tool_call_details import ToolCallRow

_FORK_TOOLTIP = "Fork from this turn"
_FACT_TOOLTIP = "Save this as a fact that agents share"
_LINKS_TOOLTIP = "Open a path of this item in your editor, or an address"
NO_ENTRY = "No entry is selected."
NO_RECORD = "This entry was added with the Python library, so there is no record of an agent."


class _Opening(NamedTuple):
    """Says which session is read, and where it is shown."""

    key: int
    generation: int
    query: Query | None
    at_entry: str | None
    is_update: bool = False
    is_masked: bool = False


class ConversationPane(Horizontal):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "a", "calls", "All calls", show=False, id="timeline.calls", tooltip="Show all tool calls of the session"
        ),
        Binding(
            "V",
            "changes",
            "Changes",
            show=False,
            id="timeline.changes",
            tooltip="Show the files that the session changed",
        ),
        Binding("F", "fork", "Fork here", show=False, id="timeline.fork", tooltip=_FORK_TOOLTIP),
        Binding(
            "plus", "make_fact", "Fact", show=False, key_display="+", id="timeline.make_fact", tooltip=_FACT_TOOLTIP
        ),
        Binding("O", "open_links", "Open link", show=False, id="timeline.open_links", tooltip=_LINKS_TOOLTIP),
    ]

    app: Backscroll
    timeline_pane = query_one(TimelinePane)
    record_pane = query_one(JsonPane)

    class ConversationLoaded(DataMessage):
        """Holds a session as far as it must be known to be shown, and the entry at which it opens."""

        generation: int
        session: Session
        timeline: TimelineOutline
        at_entry: str | None
        highlight_pattern: re.Pattern[str] | None
        is_update: bool
        cost: SessionCost | None
        "Is what the session cost with its sub-agents. The heading has it from the start, so that nothing moves."
        mask: LeakMask | None
        "Hides the leaks in the session, if it was opened from the list of leaks."

    class ReadRequested(DataMessage):
        """The session that was opened is not read yet: it should be read next."""

        native_id: str

    class TurnsLoaded(DataMessage):
        request: TimelinePane.TurnsRequested
        turns: Sequence[Turn]

    class ItemRendered(DataMessage):
        request: TimelinePane.RenderingRequested
        lines: list[Content]

    class FindFinished(DataMessage):
        request: TimelinePane.FindRequested
        hits: Sequence[EntryPosition]

    class CostsLoaded(DataMessage):
        """Holds what each turn of the session cost."""

        session_key: int
        turns: Sequence[TurnCost]

    class RecordLoaded(DataMessage):
        entry_key: int
        data: bytes | None

    class CallListLoaded(DataMessage):
        """Holds all tool calls of the session, in order."""

        calls: Sequence[ToolCallRow]

    class TurnSelected(DataMessage):
        """Says that another turn or another session is selected."""

        session: Session
        turn: int | None

    class EntryRequested(DataMessage):
        """Asks to go to an entry of any session."""

        entry: str
        is_masked: bool

    class SessionForked(DataMessage):
        """Says that the session was forked."""

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
        self.is_masked = False
        "Is true while the session that is open, or is being opened, shows no leaks."
        self._mask: LeakMask | None = None
        self._is_opening = False
        self._selected_entry: Entry | None = None
        self.render_process = RenderProcess()
        self._shown_notes: tuple[Note, ...] = ()
        self._written_note: Note | None = None
        "Is the note to which the cursor moves when it is shown."

    def on_unmount(self) -> None:
        self.render_process.close()

    def compose(self) -> ComposeResult:
        for pane, title in ((TimelinePane(self._clock), "Conversation"), (JsonPane(), "Record")):
            pane.add_class("pane")
            pane.border_title = pane_title(title, "2" if isinstance(pane, TimelinePane) else "3")
            yield pane

    def on_mount(self) -> None:
        self.timeline_pane.timeline_view.hyperlinks = self.app.settings.hyperlinks
        self.timeline_pane.timeline_view.options = TimelineOptions(**self.app.settings.timeline_options)

    # ── opening ───────────────────────────────────────────────────────────────────────────────────

    def open(
        self,
        session: Session,
        *,
        query: Query | None = None,
        at_entry: str | None = None,
        is_masked: bool = False,
    ) -> None:
        """Open a session at this entry, else at the first hit of the query, else at its end.

        With `is_masked`, the leaks in it are hidden.
        """
        self.prepare(session, query=query, at_entry=at_entry)
        self.is_masked = is_masked
        if session.depth == "text":
            self.post_message(self.ReadRequested(session.native_id))
        self._load_conversation(_Opening(session.key, self._generation, query, at_entry, is_masked=is_masked))

    def prepare(self, session: Session, *, query: Query | None = None, at_entry: str | None = None) -> None:
        """Expect a session that is about to be opened: a session that is still loading is dropped, and keys wait."""
        self._session_key, self._search_query, self._initial_entry = session.key, query, at_entry
        self._is_opening, self.is_masked = True, False
        self._next_generation()
        self.timeline_pane.timeline_view.defer_keys()

    def cancel_opening(self) -> None:
        """Drop a session that is still being read. The one that is shown stays."""
        if self._is_opening:
            self._is_opening = False
            self._session_key, self._search_query = self.session.key if self.session else None, None
            self._next_generation()
            self.timeline_pane.timeline_view.release_keys()

    def handle_store_change(self) -> None:
        """Read the session again, because it may have grown. One that is being opened is read anyway."""
        if self._session_key is not None and self.session is not None and self.session.key == self._session_key:
            # A session that is not shown yet, or was not read when it was opened, still opens at its entry.
            is_due = self._is_opening or self.session.depth == "text"
            query, entry = (self._search_query, self._initial_entry) if is_due else (None, None)
            generation = self._next_generation()
            opening = _Opening(self._session_key, generation, query, entry, not is_due, self.is_masked)
            self._load_conversation(opening)

    @property
    def shown_session(self) -> Session | None:
        """The session as its heading shows it: without leaks if they are hidden."""
        return self._mask.mask(self.session) if self._mask else self.session

    def is_open(self, key: int, query: Query | None = None) -> bool:
        """Whether this session is open, at the hits of the query if there is one."""
        return self._session_key == key and (not query or self._search_query == query)

    def _next_generation(self) -> int:
        self._generation += 1
        return self._generation

    # ── reading the store ─────────────────────────────────────────────────────────────────────────

    @threaded(exclusive=True, group="outline")
    def _load_conversation(self, opening: _Opening) -> None:
        loaded = None
        try:
            with cancel_when(self._store, lambda: opening.generation != self._generation):
                loaded = self._read_conversation(opening)
        finally:
            if loaded is not None:
                self.post_message(loaded)
            else:
                self.call_later(self._stop_opening, opening.generation)

    def _read_conversation(self, opening: _Opening) -> ConversationLoaded | None:
        """Read a session as far as it must be known to be shown. Return None if there is nothing new to show."""
        key, query, at_entry = opening.key, opening.query, opening.at_entry
        try:
            session = self._store.sessions.by_key(key)
        except NotFound:
            return None  # it was deleted; the list shows that
        is_shown = self.session == session and self._shown_notes == tuple(self._store.notes.notes(session))
        if is_shown and (opening.is_update or session.depth == "text"):
            return None
        highlight = query.pattern(ignore_accents=True) if query else None
        if at_entry is None and query:
            at_entry = self._store.search.find_newest_hit_entry(key, query)
        outline = self._timelines.load_outline(key)
        cost = self._store.usage.session_costs([key]).get(key)
        mask = self._store.leaks.read_mask(key) if opening.is_masked else None
        return self.ConversationLoaded(
            opening.generation, session, outline, at_entry, highlight, opening.is_update, cost, mask
        )

    @threaded(exclusive=True, group="costs")
    def _load_costs(self, session: Session) -> None:
        with cancel_when(self._store, lambda: self._session_key != session.key):
            self.post_message(self.CostsLoaded(session.key, self._store.usage.of_session(session).turn_costs()))

    @threaded(group="turns")
    def _load_turns(self, key: int, request: TimelinePane.TurnsRequested, mask: LeakMask | None) -> None:
        turns = self._timelines.load_turns(key, request.turns)
        self.post_message(self.TurnsLoaded(request, mask.mask(turns) if mask else turns))

    @threaded(group="render")
    def _render_item(self, request: TimelinePane.RenderingRequested) -> None:
        if (lines := self.render_process.render(request.rendering)) is not None:
            self.post_message(self.ItemRendered(request, lines))

    @threaded(exclusive=True, group="find")
    def _find_in_thread(self, key: int, request: TimelinePane.FindRequested, mask: LeakMask | None) -> None:
        words = mask.find_hidden(request.words) if mask else request.words
        hits = self._timelines.find_text(key, words, lambda: request.generation != self._find_generation)
        self.post_message(self.FindFinished(request, hits))

    @threaded(exclusive=True, group="record")
    def _load_record(self, entry: Entry, mask: LeakMask | None) -> None:
        data = self._store.records.get(entry.record) if entry.record is not None else None
        self.post_message(self.RecordLoaded(entry.key, mask.mask_record(data) if mask and data else data))

    def _stop_opening(self, generation: int) -> None:
        """Hand out the keys that wait for a session that is not shown after all."""
        if generation == self._generation:
            self.timeline_pane.timeline_view.release_keys()

    # ── showing what was read ─────────────────────────────────────────────────────────────────────

    @on(ConversationLoaded)
    def _show_conversation(self, loaded: ConversationLoaded) -> None:
        if loaded.generation != self._generation:
            return
        self.session = loaded.session
        self._shown_notes = loaded.timeline.notes
        self._is_opening = False
        mask = loaded.mask
        if bool(mask) != bool(self._mask):
            self._selected_entry = None  # its record is read again, to hide or to show leaks
        self._mask = mask
        self.timeline_pane.show(
            self.shown_session or loaded.session,
            mask.mask(loaded.timeline) if mask else loaded.timeline,
            at=loaded.at_entry,
            highlight=mask.pattern if mask else loaded.highlight_pattern,
            follow=loaded.is_update,
            cost=loaded.cost,
        )
        if loaded.cost is not None:
            self._load_costs(loaded.session)
        selected = self._selected_entry if loaded.is_update else None
        self.post_message(self.TurnSelected(self.shown_session or loaded.session, selected.turn if selected else None))
        self._go_to_written_note()

    @on(CostsLoaded)
    def _show_costs(self, loaded: CostsLoaded) -> None:
        if self.session is not None and loaded.session_key == self.session.key:
            self.timeline_pane.show_turn_costs(loaded.turns)

    @on(TurnsLoaded)
    def _show_turns(self, loaded: TurnsLoaded) -> None:
        self.timeline_pane.receive_turns(loaded.request, loaded.turns)

    @on(ItemRendered)
    def _show_rendered_item(self, rendered: ItemRendered) -> None:
        self.timeline_pane.timeline_view.receive_lines(rendered.request, rendered.lines)

    @on(FindFinished)
    def _show_hits(self, found: FindFinished) -> None:
        self.timeline_pane.show_hits(found.request.generation, found.hits)

    @on(RecordLoaded)
    def _show_record(self, loaded: RecordLoaded) -> None:
        if self._selected_entry is not None and loaded.entry_key == self._selected_entry.key:
            self.record_pane.show(loaded.data, NO_RECORD)

    # ── messages of the panes ─────────────────────────────────────────────────────────────────────

    @on(TimelinePane.TurnsRequested)
    def _fetch_turns(self, request: TimelinePane.TurnsRequested) -> None:
        request.stop()
        if self.session is not None:
            self._load_turns(self.session.key, request, self._mask)

    @on(TimelinePane.RenderingRequested)
    def _request_rendering(self, request: TimelinePane.RenderingRequested) -> None:
        request.stop()
        self._render_item(request)

    @on(TimelinePane.FindRequested)
    def _start_find(self, request: TimelinePane.FindRequested) -> None:
        request.stop()
        self._find_generation = request.generation
        if self.session is not None:
            self._find_in_thread(self.session.key, request, self._mask)

    @on(TimelinePane.Selected)
    def _select_entry(self, selected: TimelinePane.Selected) -> None:
        selected.stop()
        entry = selected.entry
        if (session := self.shown_session) is not None:
            self.post_message(self.TurnSelected(session, entry.turn if entry else None))
        self._show_position(entry.turn if entry else 0)
        previous, self._selected_entry = self._selected_entry, entry
        if entry is None:
            self.record_pane.show(None, NO_ENTRY)  # an empty session: the record of another one must not stay
        elif (previous is None or entry.key != previous.key) and self.record_pane.display:
            self._load_record(entry, self._mask)

    def _show_position(self, turn: int) -> None:
        """Show in the edge of the pane which turn it is, of how many. Each change paints the whole pane again."""
        turns = self.timeline_pane.outline.turns
        pieces = [f"turn {turn:,} of {turns[-1].n:,}"] if turn else []
        position = " · ".join([*pieces, "leaks hidden"] if self._mask else pieces)
        if position != self.timeline_pane.border_subtitle:
            self.timeline_pane.border_subtitle = position

    # ── forks ─────────────────────────────────────────────────────────────────────────────────────

    def action_fork(self) -> None:
        timeline = self.timeline_pane.timeline_view
        if self.session is not None and len(timeline.cards) and self.app.can_edit(self._store):
            self._load_fork_point(self.session, timeline.cards.turn_outline(timeline.cursor.turn).n)

    @threaded(exclusive=True, group="fork")
    def _load_fork_point(self, session: Session, turn: int) -> None:
        from tui.dialogs.fork import read_fork_point

        self.app.call_from_thread(self._open_fork_screen, read_fork_point(self._store, session, turn))

    def _open_fork_screen(self, point: ForkPoint) -> None:
        from tui.dialogs.fork import ForkDialog

        def report(prompt: str | None) -> None:
            if (result := dialog.fork_result) is not None:
                self.post_message(self.SessionForked(result.session, result.is_native))

        dialog = ForkDialog(self._store, point)
        self.app.push_screen(dialog, report)

    # ── facts ─────────────────────────────────────────────────────────────────────────────────────

    def action_make_fact(self) -> None:
        from tui.screens.fact_edits import open_fact_dialog

        item = self.timeline_pane.timeline_view.current_item
        if self.session is not None and item is not None and self.app.can_edit(self._store):
            open_fact_dialog(self.screen, self._store, self.session, item.entry.seq, item.text)

    # ── links ─────────────────────────────────────────────────────────────────────────────────────

    def action_open_links(self) -> None:
        self.timeline_pane.timeline_view.run_when_loaded(self._offer_links)

    def _offer_links(self) -> None:
        from tui.links.opener import LinkOpener
        from tui.links.targets import find_item_links

        item = self.timeline_pane.timeline_view.current_item
        if self.session is not None and item is not None:
            LinkOpener(self, self.app, self.session.cwd).offer(lambda: find_item_links(item))

    # ── notes ─────────────────────────────────────────────────────────────────────────────────────

    def edit_note(self) -> None:
        """Edit the newest note on the selected entry, or add one."""
        self.timeline_pane.timeline_view.run_when_loaded(self._open_note_dialog)

    def edit_comment(self) -> None:
        """Edit the newest own comment on the selected entry, or add one, if the session is shared."""

        def check(session: Session) -> None:
            self._store.team.check_commentable(session)
            self.app.call_from_thread(open_dialog)

        def open_dialog() -> None:
            self.timeline_pane.timeline_view.run_when_loaded(lambda: self._open_note_dialog(is_comment=True))

        if (session := self.session) is not None:
            run_in_thread(self, lambda: check(session), group="gather")

    def _open_note_dialog(self, *, is_comment: bool = False) -> None:
        from tui.dialogs.note import list_editable, open_note_dialog

        item = self.timeline_pane.timeline_view.current_item
        if self.session is None or item is None:
            return
        shown = [note for note in self._shown_notes if item.note and note.id == item.note.id]  # its text may be masked
        notes = [note for note in self._shown_notes if note.entry_seq in item.entry_seqs]
        open_note_dialog(
            self.screen,
            self._store,
            self.session,
            list_editable(shown or notes, is_comment=is_comment),
            entry_seq=item.entry.seq,
            place=describe_place(item),
            is_comment=is_comment,
            show=self._await_note,
        )

    def _await_note(self, note: Note) -> None:
        self._written_note = note
        self._go_to_written_note()

    def _go_to_written_note(self) -> None:
        """Move the cursor to the note that was just written, once it is shown, so that a person sees it."""
        note = self._written_note
        if note is not None and any(shown.id == note.id for shown in self._shown_notes):
            self._written_note = None
            self.timeline_pane.timeline_view.go_to_note(note)

    # ── tool calls ────────────────────────────────────────────────────────────────────────────────

    @on(TimelinePane.InspectRequested)
    def _inspect(self, request: TimelinePane.InspectRequested) -> None:
        request.stop()
        self._open_call(request.call_key)

    @on(TimelinePane.CompactionRequested)
    def _inspect_compaction(self, request: TimelinePane.CompactionRequested) -> None:
        request.stop()
        self.open_compactions(request.seq)

    def open_compactions(self, seq: int | None = None) -> None:
        """Show what the compaction with that seq dropped, or else the last one."""
        from tui.screens.compaction import CompactionScreen

        if self.session is not None:
            screen = CompactionScreen(self._store, self.session, seq, self._mask)
            self.app.push_screen(screen, self._leave_compactions)

    def _leave_compactions(self, result: Session | str | None) -> None:
        if isinstance(result, Session):
            self.post_message(self.SessionForked(result, is_native=False))
        else:
            self._open_at_entry(result)

    @on(TimelinePane.OptionsChanged)
    def _remember_options(self, changed: TimelinePane.OptionsChanged) -> None:
        changed.stop()
        self.app.settings.save_timeline_options(asdict(changed.options))

    @on(TimelinePane.CopyRequested)
    def _copy_from_call(self, request: TimelinePane.CopyRequested) -> None:
        request.stop()
        if self.session is not None:
            self._copy_call_part(self.session, request, self._mask)

    @threaded(group="copy")
    def _copy_call_part(self, session: Session, request: TimelinePane.CopyRequested, mask: LeakMask | None) -> None:
        from tui.screens.call_copies import copy_call_part

        copy_call_part(self, self._store, session, request.call, request.part, mask)

    @on(TimelinePane.PictureRequested)
    def _open_picture(self, request: TimelinePane.PictureRequested) -> None:
        from tui.screens.picture import PictureScreen

        request.stop()
        self.app.push_screen(PictureScreen(self._store, request.entry, request.part))

    def _open_call(self, call: int) -> None:
        from tui.screens.inspector import InspectorScreen

        if self.session is not None:
            screen = InspectorScreen(self._store, self.session, call, self.app.settings.pane_sizes, self._mask)
            self.app.push_screen(screen, self._open_at_entry)

    def _open_at_entry(self, entry: str | None) -> None:
        if entry is not None and self.session is not None:
            self.open(self.session, at_entry=entry, is_masked=self.is_masked)

    def action_calls(self) -> None:
        if self.session is not None:
            self._load_calls(self.session, self._mask)

    @threaded(exclusive=True, group="calls")
    def _load_calls(self, session: Session, mask: LeakMask | None) -> None:
        from store.conversations import tool_calls
        from tui.render.inspection.tool_call_details import build_call_rows

        calls = tool_calls.iter_session_calls(self._store, session.key)
        shown = map(mask.mask, calls) if mask else calls
        self.post_message(self.CallListLoaded(build_call_rows(shown, session.cwd)))

    @on(CallListLoaded)
    async def _open_call_picker(self, loaded: CallListLoaded) -> None:
        from tui.dialogs.tool_call_picker import ToolCallPickerDialog

        if not loaded.calls:
            self.notify("No tool calls in this session.", timeout=3)
            return
        await self.app.push_screen(ToolCallPickerDialog(loaded.calls, loaded.calls[-1].key), self._open_chosen_call)

    def _open_chosen_call(self, call: int | None) -> None:
        if call is not None:
            self._open_call(call)

    # ── changed files ─────────────────────────────────────────────────────────────────────────────

    def action_changes(self) -> None:
        from tui.screens.changes import ChangesScreen

        if self.session is not None:
            screen = ChangesScreen(self._store, self.session, is_masked=self.is_masked)
            self.app.push_screen(screen, self._go_to_entry)

    def _go_to_entry(self, entry: str | None) -> None:
        """Go to an entry of this session, or of one of its sub-agents."""
        if entry is not None:
            self.post_message(self.EntryRequested(entry, self.is_masked))

    @property
    def selected_seq(self) -> int | None:
        """The sequence number of the selected entry."""
        return self._selected_entry.seq if self._selected_entry is not None else None

    def load_selected_record(self) -> None:
        """Load the record of the selected entry, because its pane became visible."""
        if self._selected_entry is not None:
            self._load_record(self._selected_entry, self._mask)
