"""The summary beside the turns it sums up: written, stretched to a chosen turn, compared with what it said before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Footer, Static, TextArea

from store.conversations.timeline import Outlines
from store.errors import ChangedMeanwhile, StoreError
from store.model.knowledge import Summary
from store.model.session import Session
from store.model.timeline import TurnOutline
from store.text.sanitize import clean
from tui.messages import Told
from tui.render.styles import ERROR, STAR, age
from tui.render.summary_lines import both, compared, coverage, heading
from tui.screens.store_screen import Clock
from tui.widgets.tables.summary_tables import TurnsView, VersionsView
from tui.widgets.text_view import TextView
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store
    from tui.app import Backscroll

_CSS = """
SummaryScreen {
    #heading, #coverage, #told {
        height: 1;
        padding: 0 1;
    }

    #told {
        height: auto;
        max-height: 4;
    }

    #beside {
        height: 1fr;
        margin-top: 1;
    }

    TurnsView {
        width: 2fr;
        height: 1fr;
        border-right: solid $foreground 15%;
    }

    #text {
        width: 3fr;
        height: 1fr;
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

    #versions {
        height: 6;
        border-top: solid $foreground 15%;
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
        Binding("f4", "editor", "Your editor", id="summary.editor", tooltip="Write in $EDITOR, then come back"),
        # Priority: the text area would select a line.
        Binding("f6", "tidy", "Take them out", priority=True, id="summary.tidy", tooltip="No control characters"),
        Binding("tab", "app.focus_next", "Next part", id="summary.next", tooltip="Text, versions, turns"),
        Binding("shift+tab", "app.focus_previous", "Part before", show=False, id="summary.previous", tooltip="Back"),
        Binding("escape,q", "leave", "Back", id="summary.leave", tooltip="Back to the session"),
    ]

    app: Backscroll
    turns = query_one(TurnsView)
    versions = query_one(VersionsView)
    area = query_one(TextArea)
    comparison = query_one(TextView)

    class Read(Told):
        """The summary as the store has it; when it is asked for, in place of what is written."""

        current: Summary | None
        versions: Sequence[Summary]
        newer: Summary | None
        into_editor: bool

    class Outlined(Told):
        turns: Sequence[TurnOutline]

    class Conflict(Told):
        theirs: Summary | None

    class Refused(Told):
        reason: str

    class Saved(Told):
        leave: bool

    def __init__(self, store: Store, session: Session, clock: Clock) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._clock = clock
        self._seen: Summary | None = None
        self._loaded = ""
        self._end: int | None = None
        self._is_known = False
        self._is_busy = False
        self._leaving = False

    def compose(self) -> ComposeResult:
        yield Static(heading(self._session, 200), id="heading")
        yield Static(id="coverage")
        with Horizontal(id="beside"):
            yield TurnsView()
            with Vertical(id="text"):
                yield TextArea(soft_wrap=True, show_line_numbers=False, tab_behavior="focus")
                yield TextView()
        yield Static(id="told")
        with Vertical(id="versions"):
            yield VersionsView()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.versions.now = self._clock()
        self._read(into_editor=True)
        self._outline()

    # ── what the store says ───────────────────────────────────────────────────────────────────────

    @threaded(group="read")
    def _read(self, into_editor: bool) -> None:
        shelf = self._store.summaries
        try:
            session = self._store.sessions.by_key(self._session.key)
            current, versions, newer = shelf.current(session), shelf.history(session), shelf.newer_from_source(session)
        except StoreError as reason:
            self.post_message(self.Refused(str(reason)))
        else:
            self.post_message(self.Read(current, versions, newer, into_editor))

    @threaded(group="outline")
    def _outline(self) -> None:
        outline = Outlines(self._store).outline(self._session.key)
        self.post_message(self.Outlined([turn for turn in outline.turns if turn.n]))

    @on(Read)
    def _show(self, read: Read) -> None:
        self._seen = read.current
        if read.into_editor:
            self._write(read.current.text if read.current else "", first=not self._is_known)
            self._loaded = self.area.text
            self._end = read.current.up_to_turn if read.current else None
            self.turns.seek(self._end)
        self._is_known = True
        self.versions.show(read.versions)
        if read.newer:
            when = age(read.newer.created_at, self._clock())
            self._say(f"Its agent has summed it up anew ({when}); that version is below.", STAR)
        self._tell()

    def _write(self, text: str, *, first: bool = False) -> None:
        """So that ctrl+z brings back what stood there before, if anybody wrote it."""
        if first:
            self.area.load_text(text)
        else:
            self.area.replace(text, self.area.document.start, self.area.document.end)

    @on(Outlined)
    def _show_turns(self, outlined: Outlined) -> None:
        self.turns.show(outlined.turns)
        self.turns.seek(self._end)
        self._tell()

    def _tell(self) -> None:
        saved = self._seen.up_to_turn if self._seen else None
        self.turns.cover(saved, self._end)
        last = self.turns.last or self._session.turns
        self.query_one("#coverage", Static).update(coverage(saved, self._end, last, self.is_unsaved))
        self.refresh_bindings()

    def _say(self, text: str, style: str = ERROR) -> None:
        self.query_one("#told", Static).update(Content.styled(clean(text), style))

    # ── what is written ───────────────────────────────────────────────────────────────────────────

    @property
    def is_unsaved(self) -> bool:
        saved = self._seen.up_to_turn if self._seen else None
        return self._is_known and (self.area.text != self._loaded or self._end != saved)

    @property
    def _is_rewritten(self) -> bool:
        return self._seen is None or self.area.text != self._loaded

    @on(TextArea.Changed)
    def _changed(self) -> None:
        self._tell()

    @on(TurnsView.EndChosen)
    def _end_at(self, chosen: TurnsView.EndChosen) -> None:
        self._end = chosen.turn
        self._tell()

    def action_editor(self) -> None:
        from tui.dialogs.text import edited

        try:
            with self.app.suspend():
                text = edited(self.area.text)
        except StoreError as reason:
            self._say(str(reason))
        except SuspendNotSupported:
            self._say("This terminal cannot be lent to an editor.")
        else:
            self._write(text)

    def action_tidy(self) -> None:
        from tui.dialogs.text import CONTROLS

        self._write(CONTROLS.sub("", self.area.text))
        self._say("")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "tidy":
            from tui.dialogs.text import CONTROLS

            return self._is_known and self._is_rewritten and CONTROLS.search(self.area.text) is not None
        return super().check_action(action, parameters)

    # ── saving ────────────────────────────────────────────────────────────────────────────────────

    def action_save(self) -> None:
        self._save_it(leave=False)

    def _save_it(self, *, leave: bool) -> None:
        from tui.dialogs.text import CONTROLS

        if self._is_busy or not self._is_known:
            return
        # Exactly as it was read where nobody touched it: the editor has one kind of line break.
        text = self._seen.text if self._seen and not self._is_rewritten else self.area.text
        if self._is_rewritten and CONTROLS.search(text):
            self._say("It holds control characters; F6 takes them out.")
        elif not text.strip() and self._seen is None:
            self._say("There is no text yet, so there is nothing to save.")
        else:
            self._say("")
            self._is_busy = True
            self._leaving = leave
            self._save(text, self._end if text.strip() else None)

    @threaded(group="save")
    def _save(self, text: str, end: int | None) -> None:
        try:
            self._store.summaries.set(self._session, text, up_to_turn=end, seen=self._seen)
        except ChangedMeanwhile as meanwhile:
            theirs = meanwhile.current
            self.post_message(self.Conflict(theirs if isinstance(theirs, Summary) else None))
        except StoreError as reason:
            self.post_message(self.Refused(str(reason)))
        else:
            self.post_message(self.Saved(self._leaving))

    @on(Refused)
    def _refuse(self, refused: Refused) -> None:
        """What was written stays."""
        self._is_busy = False
        self._say(refused.reason)

    @on(Saved)
    def _go_on(self, saved: Saved) -> None:
        self._is_busy = False
        self.app.notify("Saved the summary; undo takes it back.", timeout=3, markup=False)
        if saved.leave:
            self.dismiss(None)
        else:
            self._loaded = self.area.text
            self._read(into_editor=not self.area.text.strip())

    @on(Conflict)
    async def _choose(self, conflict: Conflict) -> None:
        from tui.dialogs.choice import BothScreen

        self._is_busy = False
        told = "Somebody saved another summary while you wrote. Whichever you keep, the other can be put back."
        screen = BothScreen("Changed meanwhile", told, both(conflict.theirs, self.area.text, self._end))

        def decide(choice: str | None) -> None:
            if choice is None:
                self._say("The summary was changed meanwhile; yours is not saved.")
                return
            self._seen = conflict.theirs
            if choice == "yours":
                self._save_it(leave=self._leaving)
            else:
                self._read(into_editor=True)

        await self.app.push_screen(screen, decide)

    # ── versions ──────────────────────────────────────────────────────────────────────────────────

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if event.widget is not self.comparison:
            self.set_class(event.widget is self.versions, "-comparing")

    @on(VersionsView.Chosen)
    def _compare(self) -> None:
        version = self.versions.selected
        self.comparison.show(compared(version, self._seen) if version else "")

    @on(VersionsView.PutBack)
    def _put_back(self, asked: VersionsView.PutBack) -> None:
        if self.is_unsaved:
            self._say("Your text is not saved; save it first (ctrl+s), then put the other back.")
        elif not self._is_busy and not asked.version.current:
            self._is_busy = True
            self._restore(asked.version.key)

    @threaded(group="save")
    def _restore(self, key: int) -> None:
        try:
            self._store.summaries.put_back(self._session, key, seen=self._seen)
        except ChangedMeanwhile:
            self.app.call_from_thread(self._read, into_editor=True)
            self.post_message(self.Refused("The summary was changed meanwhile; here is what it says now."))
        except StoreError as reason:
            self.post_message(self.Refused(str(reason)))
        else:
            self.app.call_from_thread(self._restored)

    def _restored(self) -> None:
        self._is_busy = False
        self.app.notify("Put back; undo takes it back.", timeout=3, markup=False)
        self._read(into_editor=True)

    # ── away from here ────────────────────────────────────────────────────────────────────────────

    async def action_leave(self) -> None:
        from tui.dialogs.choice import LeaveScreen

        if not self.is_unsaved:
            self.dismiss(None)
            return

        def decide(choice: str | None) -> None:
            if choice == "save":
                self._save_it(leave=True)
            elif choice == "drop":
                self.dismiss(None)

        await self.app.push_screen(LeaveScreen("The summary is not saved", "What becomes of it?"), decide)
