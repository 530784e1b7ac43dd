"""This screen edits the summary of a session and the range of turns that it covers, and lists its versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Static, TextArea

from store.conversations.timeline import Timelines
from store.errors import ChangedMeanwhile, StoreError
from store.model.knowledge import Summary
from store.model.session import Session
from store.model.timeline import TurnOutline
from tui.messages import DataMessage
from tui.render.styles import ERROR, WARNING, format_age, render_message
from tui.render.summary_lines import render_conflict, render_coverage, render_summary_heading, render_version_diff
from tui.render.viewport import RenderedLine
from tui.screens.store_screen import Clock
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.pane_row import PaneRow, make_pane
from tui.widgets.tables.summary_tables import SummaryTurnTable, SummaryVersionTable
from tui.widgets.text_editor import TextEditor
from tui.widgets.text_view import MAX_SYNC_CHARACTERS, TextView
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store
    from tui.app import Backscroll

_CSS = """
SummaryScreen {
    #heading, #coverage, #status {
        height: 1;
        padding: 0 1;
    }

    #status {
        height: auto;
        max-height: 4;
    }

    #columns {
        margin-top: 1;
    }

    TextArea {
        height: 1fr;
        border: none;
        background: $background;

        &:focus {
            border: none;
        }
    }

    TextView {
        height: 1fr;
        display: none;
    }

    #version-row {
        height: 6;

        &.-framed {
            height: 7;
        }
    }

    &.-comparing {
        TextArea {
            display: none;
        }

        TextView {
            display: block;
        }
    }
}
"""


class SummaryScreen(Screen[str | None]):
    AUTO_FOCUS = "TextArea"
    DEFAULT_CSS = _CSS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Save", id="summary.save", tooltip="Save text and coverage"),
        Binding("f4", "editor", "Your editor", id="summary.editor", tooltip="Edit the text in $EDITOR"),
        # Priority, because F6 selects a line in a text area.
        Binding("f6", "tidy", "Remove them", priority=True, id="summary.tidy", tooltip="Remove the control characters"),
        Binding("tab", "app.focus_next", "Next pane", id="summary.next", tooltip="Go to the next pane"),
        Binding(
            "shift+tab",
            "app.focus_previous",
            "Previous pane",
            show=False,
            id="summary.previous",
            tooltip="Go to the previous pane",
        ),
        Binding(
            "D",
            "compare",
            "Compare",
            show=False,
            id="summary.compare",
            tooltip="Compare this version with the current one",
        ),
        Binding("escape,q", "leave", "Back", id="summary.leave", tooltip="Back to the session"),
    ]

    app: Backscroll
    turns = query_one(SummaryTurnTable)
    versions = query_one(SummaryVersionTable)
    area = query_one(TextEditor)
    comparison = query_one(TextView)

    class SummaryLoaded(DataMessage):
        """Holds the stored summary. It replaces the written text if that was requested."""

        current: Summary | None
        versions: Sequence[Summary]
        newer_from_agent: Summary | None
        into_editor: bool

    class TurnOutlinesLoaded(DataMessage):
        turns: Sequence[TurnOutline]

    class VersionCompared(DataMessage):
        version: Summary
        lines: Sequence[RenderedLine]

    class ConflictFound(DataMessage):
        theirs: Summary | None

    class SaveFailed(DataMessage):
        reason: str

    class Saved(DataMessage):
        leave: bool

    def __init__(self, store: Store, session: Session, clock: Clock) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._clock = clock
        self._seen_summary: Summary | None = None
        self._loaded_text = ""
        self._end_turn: int | None = None
        self._is_loaded = False
        self._is_busy = False
        self._leave_after_save = False

    def compose(self) -> ComposeResult:
        yield Static(render_summary_heading(self._session, 200), id="heading")
        yield Static(id="coverage")
        is_read_only = bool(self._store.refusal)
        area = TextEditor(read_only=is_read_only)
        with PaneRow(id="columns", sizes=self.app.settings.pane_sizes):
            yield make_pane("Turns covered", SummaryTurnTable(), id="turns")
            yield make_pane("Text", area, TextView(), id="text", classes="-right")
        yield Static(id="status")
        with PaneRow(id="version-row", sizes={}):
            yield make_pane("Versions", SummaryVersionTable(), id="versions", classes="-below")
        yield KeyHintBar()

    def on_resize(self) -> None:
        self.query_one("#columns", PaneRow).split("#turns", 2 / 5, is_vertical=False)
        self.query_one("#version-row", PaneRow).set_sized_panes("alone", [], self.app.size.width)

    def on_mount(self) -> None:
        self.versions.now = self._clock()
        self._show_status(self._store.refusal)
        self._load_summary(into_editor=True)
        self._load_turns()

    # ── reading the store ─────────────────────────────────────────────────────────────────────────

    @threaded(group="read")
    def _load_summary(self, into_editor: bool) -> None:
        shelf = self._store.summaries
        try:
            session = self._store.sessions.by_key(self._session.key)
            current, versions, newer = shelf.current(session), shelf.history(session), shelf.newer_from_source(session)
        except StoreError as reason:
            self.post_message(self.SaveFailed(str(reason)))
        else:
            self.post_message(self.SummaryLoaded(current, versions, newer, into_editor))

    @threaded(group="outline")
    def _load_turns(self) -> None:
        outline = Timelines(self._store).load_outline(self._session.key)
        self.post_message(self.TurnOutlinesLoaded([turn for turn in outline.turns if turn.n]))

    @on(SummaryLoaded)
    def _show_summary(self, read: SummaryLoaded) -> None:
        self._seen_summary = read.current
        if read.into_editor:
            self._set_text(read.current.text if read.current else "", first=not self._is_loaded)
            self._loaded_text = self.area.text
            self._end_turn = read.current.up_to_turn if read.current else None
            self.turns.move_to_turn(self._end_turn)
        self._is_loaded = True
        self.versions.show(read.versions)
        if read.newer_from_agent:
            when = format_age(read.newer_from_agent.created_at, self._clock())
            self._show_status(f"The agent has written a new summary ({when}). See the versions below.", WARNING)
        self._update_coverage()

    def _set_text(self, text: str, *, first: bool = False) -> None:
        """Replace the text in a way that Ctrl+Z can undo."""
        if first:
            self.area.load_text(text)
        else:
            self.area.replace_all(text)

    @on(TurnOutlinesLoaded)
    def _show_turns(self, outlined: TurnOutlinesLoaded) -> None:
        self.turns.show(outlined.turns)
        self.turns.move_to_turn(self._end_turn)
        self._update_coverage()

    def _update_coverage(self) -> None:
        saved = self._seen_summary.up_to_turn if self._seen_summary else None
        self.turns.set_coverage(saved, self._end_turn)
        last = self.turns.last_turn or self._session.turns
        has_summary = self._seen_summary is not None
        coverage = render_coverage(saved, self._end_turn, last, self.is_unsaved, has_summary=has_summary)
        self.query_one("#coverage", Static).update(coverage)
        self.refresh_bindings()

    def _show_status(self, text: str, style: str = ERROR) -> None:
        self.query_one("#status", Static).update(render_message(text, style))

    # ── the text ──────────────────────────────────────────────────────────────────────────────────

    @property
    def is_unsaved(self) -> bool:
        saved = self._seen_summary.up_to_turn if self._seen_summary else None
        return self._is_loaded and (self.area.text != self._loaded_text or self._end_turn != saved)

    @property
    def _is_text_changed(self) -> bool:
        return self._seen_summary is None or self.area.text != self._loaded_text

    @on(TextArea.Changed)
    def _handle_text_change(self) -> None:
        self._update_coverage()

    @on(SummaryTurnTable.EndChosen)
    def _set_end_turn(self, chosen: SummaryTurnTable.EndChosen) -> None:
        self._end_turn = chosen.turn
        self._update_coverage()

    def action_editor(self) -> None:
        from tui.dialogs.external_editor import edit_in_external_editor

        try:
            self._set_text(edit_in_external_editor(self.app, self.area.text))
        except StoreError as reason:
            self._show_status(str(reason))

    def action_tidy(self) -> None:
        from tui.dialogs.text import CONTROL_CHARACTERS

        self._set_text(CONTROL_CHARACTERS.sub("", self.area.text))
        self._show_status("")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "tidy":
            from tui.dialogs.text import CONTROL_CHARACTERS

            return self._is_loaded and self._is_text_changed and CONTROL_CHARACTERS.search(self.area.text) is not None
        if action == "compare":
            version = self.versions.selected
            return self.versions.has_focus and version is not None and not version.current
        return super().check_action(action, parameters)

    # ── saving ────────────────────────────────────────────────────────────────────────────────────

    def action_save(self) -> None:
        self._start_save(leave=False)

    def _start_save(self, *, leave: bool) -> None:
        from tui.dialogs.text import CONTROL_CHARACTERS

        if self._is_busy or not self._is_loaded:
            return
        # An unchanged text is saved as it was read, because the editor changes its line breaks.
        if not self.app.can_edit(self._store):
            return
        text = self._seen_summary.text if self._seen_summary and not self._is_text_changed else self.area.text
        if self._is_text_changed and CONTROL_CHARACTERS.search(text):
            self._show_status("The text contains control characters. Press F6 to remove them.")
        elif not text.strip() and self._seen_summary is None:
            self._show_status("The summary is empty. Enter a text to save.")
        else:
            self._show_status("")
            self._is_busy = True
            self._leave_after_save = leave
            self._save_in_thread(text, self._end_turn if text.strip() else None)

    @threaded(group="save")
    def _save_in_thread(self, text: str, end: int | None) -> None:
        try:
            self._store.summaries.set(self._session, text, up_to_turn=end, seen=self._seen_summary)
        except ChangedMeanwhile as conflict:
            theirs = conflict.current
            self.post_message(self.ConflictFound(theirs if isinstance(theirs, Summary) else None))
        except StoreError as reason:
            self.post_message(self.SaveFailed(str(reason)))
        else:
            self.post_message(self.Saved(self._leave_after_save))

    @on(SaveFailed)
    def _show_save_error(self, refused: SaveFailed) -> None:
        """Show why the summary was not saved. The text stays."""
        self._is_busy = False
        self._show_status(refused.reason)

    @on(Saved)
    def _finish_save(self, saved: Saved) -> None:
        self._is_busy = False
        self.app.notify("Saved the summary. Press u in the browser to undo.", timeout=3, markup=False)
        if saved.leave:
            self.dismiss(None)
        else:
            self._loaded_text = self.area.text
            self._load_summary(into_editor=not self.area.text.strip())

    @on(ConflictFound)
    async def _resolve_conflict(self, conflict: ConflictFound) -> None:
        from tui.dialogs.choice import ConflictDialog

        self._is_busy = False
        text = (
            "Another summary was saved while you were editing. Choose which one to keep. "
            "If you save yours, the other stays in the versions."
        )
        lines = render_conflict(conflict.theirs, self.area.text, self._end_turn)
        screen = ConflictDialog("The summary was changed elsewhere", text, lines)

        def decide(choice: str | None) -> None:
            if choice is None:
                self._show_status("Your changes are not saved. The summary was changed elsewhere.")
                return
            self._seen_summary = conflict.theirs
            if choice == "yours":
                self._start_save(leave=self._leave_after_save)
            else:
                self._load_summary(into_editor=True)

        await self.app.push_screen(screen, decide)

    # ── versions ──────────────────────────────────────────────────────────────────────────────────

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if event.widget is not self.comparison:
            self.set_class(event.widget is self.versions, "-comparing")

    @on(SummaryVersionTable.Highlighted)
    def _compare(self) -> None:
        version, current = self.versions.selected, self._seen_summary
        if version is None:
            self.comparison.show("")
        elif len(version.text) + len(current.text if current else "") <= MAX_SYNC_CHARACTERS:
            self.comparison.show(render_version_diff(version, current))
        else:
            self._compare_in_thread(version, current)
        self.refresh_bindings()

    @threaded(exclusive=True, group="compare")
    def _compare_in_thread(self, version: Summary, current: Summary | None) -> None:
        self.post_message(self.VersionCompared(version, render_version_diff(version, current)))

    @on(VersionCompared)
    def _show_comparison(self, compared: VersionCompared) -> None:
        if self.versions.selected == compared.version:
            self.comparison.show(compared.lines)

    def action_compare(self) -> None:
        from tui.screens.comparison import ComparisonScreen

        version, current = self.versions.selected, self._seen_summary
        if version is not None and current is not None:
            sides = (f"{self._session.id}#s{side.key}" for side in (version, current))
            self.app.push_screen(ComparisonScreen(self._store, *sides))

    @on(SummaryVersionTable.RestoreRequested)
    def _start_restore(self, asked: SummaryVersionTable.RestoreRequested) -> None:
        if self.is_unsaved:
            self._show_status("Your changes are not saved. Press Ctrl+S to save them, then restore the version.")
        elif not self._is_busy and not asked.version.current:
            self._is_busy = True
            self._restore_in_thread(asked.version.key)

    @threaded(group="save")
    def _restore_in_thread(self, key: int) -> None:
        try:
            self._store.summaries.restore_version(self._session, key, seen=self._seen_summary)
        except ChangedMeanwhile:
            self.app.call_from_thread(self._load_summary, into_editor=True)
            reason = "Not restored. The summary was changed elsewhere. The current text is shown."
            self.post_message(self.SaveFailed(reason))
        except StoreError as error:
            self.post_message(self.SaveFailed(str(error)))
        else:
            self.app.call_from_thread(self._finish_restore)

    def _finish_restore(self) -> None:
        self._is_busy = False
        self.app.notify("Restored the version. Press u in the browser to undo.", timeout=3, markup=False)
        self._load_summary(into_editor=True)

    # ── leaving ───────────────────────────────────────────────────────────────────────────────────

    async def action_leave(self) -> None:
        from tui.dialogs.choice import UnsavedDialog

        if not self.is_unsaved:
            self.dismiss(None)
            return

        def decide(choice: str | None) -> None:
            if choice == "save":
                self._start_save(leave=True)
            elif choice == "drop":
                self.dismiss(None)

        await self.app.push_screen(UnsavedDialog(), decide)
