"""The first screen: sessions on the left, the chosen conversation in the middle, its records on the right.

Where the terminal has no room for all three, it shows those that are worked in; the keys stay the same.
"""

from __future__ import annotations

import asyncio
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.getters import query_one
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from store.model.session import Session
from store.search.list_rows import Listing
from tui.messages import Copy
from tui.render.browser_notices import whereabouts
from tui.screens.browser.live_sync import FillingScreen
from tui.screens.browser.session_list import ListingScreen
from tui.screens.store_screen import Clock
from tui.widgets.key_hints import KeysLine
from tui.widgets.session_list_view import SessionList
from tui.widgets.top_bar import TopBar
from tui.workers import surely, threaded

if TYPE_CHECKING:
    from store.store import Store
    from tui.screens.conversation import Reading

REST_SECONDS = 0.3
"""The cursor of the list rests so long on a session before it is opened beside it: scrolling past reads nothing."""

READING_CSS = Path(__file__).parents[1] / "conversation.tcss"


def _pane(keys: str, action: str, name: str, told: str, tooltip: str) -> Binding:
    return Binding(keys, action, told, id=f"panes.{name}", tooltip=tooltip, show=False)


def _session(keys: str, action: str, told: str, tooltip: str, *, show: bool = False) -> Binding:
    return Binding(keys, action, told, id=f"session.{action}", tooltip=tooltip, show=show)


class BrowserScreen(FillingScreen[None]):
    DEFAULT_CLASSES = "-pane-0"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-medium"), (140, "-wide")]  # noqa: RUF012 (declared so by Textual)
    BINDINGS: ClassVar[list[BindingType]] = [
        _session("r", "resume", "Resume", "Continue this conversation in its agent", show=True),
        _session("c", "copy_command", "Copy command", "Copy the command that continues this conversation"),
        _session("C", "copy_id", "Copy id", "Copy the session's id"),
        _pane("tab", "next_pane(1)", "next", "Next pane", "To the pane on the right"),
        _pane("shift+tab", "next_pane(-1)", "previous", "Pane before", "To the pane on the left"),
        _pane("1", "pane(0)", "sessions", "Sessions", "To the list of sessions"),
        _pane("2", "pane(1)", "timeline", "Conversation", "To the conversation"),
        _pane("3", "pane(2)", "record", "Record", "To the record as its agent wrote it"),
        _pane("z", "zoom", "zoom", "Zoom", "This pane alone, and back"),
        Binding("escape", "clear", "All sessions", id="list.clear", tooltip="Without words; then, everywhere"),
        _pane("escape,backspace", "back", "back", "Back", "One step back"),
    ]

    place = query_one("#place", Static)
    reading: Reading
    "There once the list has been painted: what shows conversations is loaded after that."

    def __init__(
        self, store: Store, clock: Clock, title: str = "backscroll", *, follow: bool = False, is_new: bool = False
    ) -> None:
        super().__init__(store, clock, follow=follow, is_new=is_new)
        self._shown_title = title
        self._has_reading = False
        self._pane = 0
        self._rest: Timer | None = None
        self._moved_at = 0.0
        self._turn: int | None = None
        self._awaited: int | None = None
        "The session that the list goes to when it is listed."
        self._hurried = False
        "Enter was pressed before the list of the words as they stand was there."

    def compose(self) -> ComposeResult:
        yield TopBar(self._shown_title)
        yield Static(id="place")
        yield Static(id="banner")
        with Horizontal(id="panes"):
            yield SessionList()
        yield Static(id="empty")
        yield KeysLine()

    def on_mount(self) -> None:
        self.watch(self.sessions, "cursor", self._rest_on_session, init=False)
        self.call_after_refresh(self._add_reading)

    async def _add_reading(self) -> None:
        """Messages to the screen wait for it; the list scrolls meanwhile, and an empty one begins to fill."""
        is_empty = not self.sessions.keys
        if is_empty:
            self.begin_to_fill()
        module = await asyncio.to_thread(import_module, "tui.screens.conversation")
        self.app.stylesheet.read(READING_CSS)
        self.app.stylesheet.parse()
        reading: Reading = module.Reading(self._store, self._clock)
        await self.query_one("#panes").mount(reading)
        self.reading = reading
        self._has_reading = True
        self.app.keep_what_is()
        self._rest_on_known()
        if not is_empty:
            self.begin_to_fill()

    @property
    def keeps_place(self) -> bool:
        return super().keeps_place or bool(self._pane)

    def changed(self) -> None:
        super().changed()
        if self._has_reading:
            self.reading.follow()

    def tell_time(self) -> None:
        super().tell_time()
        if self._has_reading:
            self.reading.timeline.tell_heading()

    # ── the session under the cursor ──────────────────────────────────────────────────────────────

    def _rest_on_session(self) -> None:
        """Often, and a timer costs more than a look at the clock."""
        self._moved_at = time.monotonic()
        if self._rest is None:
            self._rest = surely(self.set_timer(REST_SECONDS, self._rested))

    def _rested(self) -> None:
        left = self._moved_at + REST_SECONDS - time.monotonic()
        self._rest = surely(self.set_timer(left, self._rested)) if left > 0 else None
        if self._rest is None:
            self._open_beside()

    @on(ListingScreen.Read)
    def _await_rows(self, read: ListingScreen.Read) -> None:
        """What the cursor stands on may be known only now; once the list has it, too."""
        if self.sessions.selected_key in read.wanted.keys:
            self.call_later(self._rest_on_known)

    def _rest_on_known(self) -> None:
        selected = self.sessions.selected
        if self._has_reading and selected is not None and not self.reading.is_open(selected.key):
            if self.looked_for and self._rest is None:
                self._open_beside()  # whoever has stopped typing waited long enough
            else:
                self._rest_on_session()
            self.refresh_bindings()

    def _open_beside(self) -> None:
        """Where nobody sees it, it need not be read yet."""
        selected = self.sessions.selected
        if selected is None or not self._has_reading or not self.reading.is_on_screen:
            return
        if not self.reading.is_open(selected.key):
            self.reading.open(selected, looked_for=self.looked_for)

    @on(SessionList.Opened)
    def _open(self, opened: SessionList.Opened) -> None:
        if not self._has_reading:
            self.call_after_refresh(self._open, opened)
            return
        self._hurried = self.sessions.listing.wanted.query != self._wanted.query
        if self._hurried:
            return
        # What stands open beside the list is not opened once more.
        is_open = self.reading.is_open(opened.session.key, self.looked_for)
        if not is_open:
            self.reading.hold_keys()
        self.action_pane(1)
        if not is_open:
            # Once it is laid out: a pane without a size cannot be opened at an entry.
            self.call_after_refresh(self.reading.open, opened.session, looked_for=self.looked_for)

    @on(ListingScreen.Listed)
    def _await_list(self) -> None:
        self.call_later(self._open_if_hurried)

    def _open_if_hurried(self) -> None:
        if self._hurried and (selected := self.sessions.selected):
            self._open(SessionList.Opened(selected))

    def on_reading_moved(self, moved: Reading.Moved) -> None:
        self._turn = moved.turn
        self.place.update(whereabouts(moved.session, moved.turn, self._pane), layout=False)

    def on_reading_forked(self, forked: Reading.Forked) -> None:
        """The list goes to it, under its parent; what its agent can go on with is offered to go on with."""
        parent = self.reading.session
        self._awaited = forked.session.key
        self.reading.open(forked.session)
        self.want(follow=True, unfolded=self._wanted.unfolded | ({parent.key} if parent else set()))
        if forked.is_native:
            self._offer_to_resume(forked.session)
        else:
            self.notify("Forked; u undoes it.", timeout=3, markup=False)

    def listed(self, shown: Listing) -> None:
        super().listed(shown)
        awaited, self._awaited = self._awaited, None
        if awaited is not None and (at := shown.index(awaited)) is not None:
            self.sessions.cursor = at

    @property
    def chosen(self) -> Session | None:
        """The session that is read, or the one under the list's cursor, whichever is worked in."""
        return self.reading.session if self._pane else self.sessions.selected

    def go_to(self, entry: str | None) -> None:
        if entry is not None:
            self._find_session(entry)

    @threaded(exclusive=True, group="go to")
    def _find_session(self, entry: str) -> None:
        session = self._store.sessions.get(entry.rpartition("#")[0])
        self.app.call_from_thread(self._read_on_at, session, entry)

    def _read_on_at(self, session: Session, entry: str) -> None:
        self.reading.open(session, at=entry)
        self.action_pane(1)

    # ── panes ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def _panes(self) -> tuple[Widget, Widget, Widget]:
        return self.sessions, self.reading.timeline.timeline, self.reading.record.json

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        ancestors = set(event.widget.ancestors_with_self)
        if event.widget in (self.sessions, self.bar.words):
            self._work_in(0)
        elif self._has_reading and self.reading.record in ancestors:
            self._work_in(2)
        elif self._has_reading and self.reading.timeline in ancestors:
            self._work_in(1)

    def _work_in(self, pane: int) -> None:
        if pane == self._pane:
            return
        self.remove_class(f"-pane-{self._pane}")
        self._pane = pane
        self.add_class(f"-pane-{pane}")
        if self.reading.session is not None:
            self.place.update(whereabouts(self.reading.session, self._turn, pane), layout=False)
        self.call_after_refresh(self._read_what_came_into_view)

    def _read_what_came_into_view(self) -> None:
        self._open_beside()
        # What waited while another screen was in front may be called when all of them are closed.
        if self._has_reading and self.reading.is_running and self.reading.record.is_on_screen:
            self.reading.show_record()

    def on_resize(self) -> None:
        self.call_after_refresh(self._read_what_came_into_view)

    def action_pane(self, pane: int) -> None:
        # Before the focus: what is not displayed cannot have it.
        self._work_in(pane)
        self.set_focus(self._panes[pane])

    def action_next_pane(self, by: int) -> None:
        self.action_pane((self._pane + by) % len(self._panes))

    def action_zoom(self) -> None:
        self.toggle_class("-zoom")
        self.call_after_refresh(self._read_what_came_into_view)

    def action_back(self) -> None:
        if self.hide_banner():
            return
        if self.has_class("-zoom"):
            self.action_zoom()
        elif self._pane:
            self.action_pane(self._pane - 1)
        else:
            self.action_clear()

    # ── what can be done with a session ───────────────────────────────────────────────────────────

    def action_resume(self) -> None:
        if (session := self.chosen) is not None:
            self._offer_to_resume(session)

    def _offer_to_resume(self, session: Session) -> None:
        from tui.screens.resume import ResumeScreen

        self.app.push_screen(ResumeScreen(self._store, session, self.app.settings), self.app.hand_over)

    def action_copy_command(self) -> None:
        from store.resume.command import resumption

        if (session := self.chosen) is not None:
            found = resumption(session)
            self.post_message(Copy(found.command or found.hint, "the command" if found.command else "how it goes on"))

    def action_copy_id(self) -> None:
        if (session := self.chosen) is not None:
            self.post_message(Copy(session.id, "the id"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "search":
                return not self._is_empty and self.focused in (None, self.sessions)
            case "clear":
                is_narrowed = bool(self._wanted.query or self._wanted.folder)
                return self.bar.words.has_focus or (is_narrowed and not self._pane)
            case "pane" | "next_pane" | "zoom" if not self._has_reading:
                return False
            case "tags" | "pin" | "archive" | "trash" if self._pane:
                return False  # while one reads, a slip of the finger should move nothing
            case "resume" | "copy_command" | "copy_id" | "pane" | "next_pane" | "zoom":
                return not self._is_empty and self.chosen is not None
        return super().check_action(action, parameters)
