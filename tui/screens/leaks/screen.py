"""This screen lists the leaks of the store with their places, scans for more, and notes what a person decides."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static
from textual.worker import get_current_worker

from store.database.cancel import cancel_when
from store.edits.labels import find_titles
from store.model.leak import Leak
from tui.messages import Copy, DataMessage
from tui.render.leak_lines import (
    LeakRow,
    PlaceRow,
    ScanState,
    render_leak_detail,
    render_leaks_heading,
    render_not_scanned,
    render_scan_progress,
    render_scan_state,
)
from tui.render.styles import MUTED, format_count
from tui.screens.leaks.place_opener import PlaceOpener
from tui.screens.store_screen import Clock
from tui.screens.table_screen import FilteredTableScreen
from tui.widgets.filter_line import FilterLine
from tui.widgets.key_hints import HintChange, KeyHintBar
from tui.widgets.pane_row import PaneRow, make_pane
from tui.widgets.tables.leak_table import LeakColumns, LeakPlaceTable, LeakTable
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store

PROGRESS_SECONDS = 0.25
"""How often the screen says how far a scan is."""

NO_LEAKS = "No leaks found."
NOT_SCANNED = "No leaks found so far. Press s to scan what is left."


def _leak_binding(keys: str, action: str, label: str, tooltip: str, *, show: bool = True) -> Binding:
    return Binding(keys, action, label, id=f"leaks.{action}", tooltip=tooltip, show=show)


class LeaksScreen(FilteredTableScreen):
    AUTO_FOCUS = "LeakTable"
    DEFAULT_CSS = """
    LeaksScreen {
        #scan, #detail {
            height: auto;
            padding: 0 1;
        }

        #scan {
            max-height: 4;
        }

        LeakTable, LeakPlaceTable {
            height: 1fr;
        }

        &.-nothing PaneRow {
            display: none;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        _leak_binding("enter", "open", "Open turn", "Go to the turn, with leaks hidden, or open the file"),
        _leak_binding("r", "rotate", "Rotated", "You replaced the value at its vendor. Again: it is still valid"),
        _leak_binding("i", "ignore", "Ignore", "It does not matter. You are asked why. Again: it matters after all"),
        _leak_binding(
            "x", "redact", "Redact", "Remove the value from every place, after a preview. This can be undone"
        ),
        _leak_binding("X", "redact_certain", "Redact certain", "Remove all open leaks that are certain", show=False),
        _leak_binding("D", "redactions", "Redactions", "Undo what was redacted, or forget it for good", show=False),
        _leak_binding("s", "scan", "Scan", "Scan what is not scanned yet. Again: stop"),
        _leak_binding("n", "not_scanned", "Not scanned", "List what was not looked into, and why", show=False),
        _leak_binding("y", "copy", "Copy", "Copy the fingerprint, or the path of the place", show=False),
        _leak_binding("u", "undo", "Undo", "Undo the newest edit", show=False),
        Binding("tab", "side", "Switch pane", show=False, id="leaks.side", tooltip="Go to the places, or back"),
        Binding("slash", "filter", "Filter", key_display="/", id="leaks.filter", tooltip="Filter the leaks"),
        _leak_binding("escape,q,exclamation_mark", "leave", "Back", "Stop a scan, clear the filter, or go back"),
    ]

    table = query_one(LeakTable)
    places = query_one(LeakPlaceTable)
    empty_message = query_one("#none", Static)

    class LeaksLoaded(DataMessage):
        generation: int
        rows: Sequence[LeakRow]
        state: ScanState

    class ScanAdvanced(DataMessage):
        """Says how far a scan is, or how it ended."""

        progress: Content
        is_running: bool

    def __init__(self, store: Store, clock: Clock, fingerprint: str = "") -> None:
        super().__init__(store, clock)
        self.fingerprint = fingerprint
        "Names the leak on which the cursor begins, and then the one that was opened."
        self._rows: Sequence[LeakRow] = ()
        self._state: ScanState | None = None
        self._is_scanning = False
        self._place_opener = PlaceOpener(self, store, clock)
        self._masked_titles: dict[tuple[str, str], str] = {}
        "Holds the titles that have leaks, by the id of the session and the title."

    def compose(self) -> ComposeResult:
        yield FilterLine("filter by kind, tier or place…")
        yield Static(id="scan")
        table = LeakTable(self._clock())
        table.pending_fingerprint = self.fingerprint
        with PaneRow(id="leaks", sizes=self.app.settings.pane_sizes):
            yield make_pane("Leaks", LeakColumns(table), table, id="found")
            yield make_pane("Places", Static(id="detail"), LeakPlaceTable(), id="places", classes="-below")
        yield Static(id="none")
        yield KeyHintBar()

    def on_resize(self) -> None:
        self.query_one(PaneRow).split("#found", 3 / 5, is_vertical=True)

    def refresh_ages(self) -> None:
        self.table.now = self._clock()
        self.table.invalidate_strips()

    # ── reading the store ─────────────────────────────────────────────────────────────────────────

    def handle_store_change(self) -> None:
        if not self._is_scanning:  # a scan writes all the time, and says itself when the list is to be read again
            self.load()

    def load(self) -> None:
        self._generation += 1
        self._load_leaks(self._generation, self._state.pending_files if self._state else None)

    @threaded(exclusive=True, group="list")
    def _load_leaks(self, generation: int, pending_files: int | None) -> None:
        """Load the leaks. The files of agents are counted only if that is not known: there may be very many."""
        from store.leaks.store_scan import list_not_scanned

        with cancel_when(self._store, lambda: generation != self._generation):
            leaks = self._store.leaks.list_leaks()
            turns = self._store.leaks.list_turns()
            titles = self._read_titles(leaks, turns)
            rows = [LeakRow(leak, _build_places(leak, titles, turns)) for leak in leaks]
            scan = self._store.leaks.begin_scan()
            pending_files = scan.count_pending_files() if pending_files is None else pending_files
            state = ScanState(scan.count_pending(), pending_files, list_not_scanned(self._store), scan.limits)
            self.post_message(self.LeaksLoaded(generation, rows, state))

    def _read_titles(self, leaks: Sequence[Leak], turns: Mapping[str, int]) -> dict[str, str]:
        """Return the titles of the sessions, without the leaks in them: a title is often the first prompt."""
        titles = find_titles(self._store, {name for leak in leaks for name in leak.session_ids})
        places = [place for leak in leaks for place in leak.places if place.session_id in titles]
        in_title = [place for place in places if place.field == "title" or turns.get(place.entry or "") == 1]
        for name in {place.session_id for place in in_title if place.session_id}:
            title = titles[name]
            if (name, title) not in self._masked_titles:
                key = self._store.sessions.get(name).key
                self._masked_titles[name, title] = self._store.leaks.read_mask(key).mask_beginning(title)
            titles[name] = self._masked_titles[name, title]
        return titles

    @on(LeaksLoaded)
    def _accept_leaks(self, loaded: LeaksLoaded) -> None:
        if loaded.generation == self._generation:
            self._rows, self._state = loaded.rows, loaded.state
            if not self._is_scanning:
                self._show_scan(render_scan_state(loaded.state))
            self._show_leaks()

    @on(FilterLine.WordsChanged)
    def _show_leaks(self) -> None:
        words = self.bar.filter_words
        found = [row for row in self._rows if row.matches(words)] if words else self._rows
        self.bar.show_heading(render_leaks_heading(found, self._rows))
        self.show_empty_state(not found, self.table, self.bar.input)
        self.empty_message.update(Content.styled("No leaks match." if words else self._empty_text, MUTED))
        self.table.show(found)

    @property
    def _empty_text(self) -> str:
        return NOT_SCANNED if self._state is not None and self._state.pending else NO_LEAKS

    def _show_scan(self, content: Content) -> None:
        scan = self.query_one("#scan", Static)
        scan.display = bool(content.plain)
        scan.update(content)

    @on(LeakTable.Highlighted)
    def _show_selected(self) -> None:
        row = self.table.selected
        self.query_one("#detail", Static).update(render_leak_detail(row, self._clock()) if row else "")
        self.places.show(row.places if row else ())
        self.refresh_bindings()

    # ── scanning ──────────────────────────────────────────────────────────────────────────────────

    def action_scan(self) -> None:
        if self._is_scanning:
            self.workers.cancel_group(self, "scan")
        elif self.app.can_edit(self._store):
            self._is_scanning = True
            self._show_scan(render_scan_progress(0, 0, 0, 0))
            self._scan_in_thread()

    @threaded(exclusive=True, group="scan")
    def _scan_in_thread(self) -> None:
        worker = get_current_worker()
        scan = self._store.leaks.begin_scan()
        said_at, total = time.monotonic(), scan.count_pending()
        try:
            for _ in scan.steps():
                if worker.is_cancelled:
                    break
                if time.monotonic() - said_at > PROGRESS_SECONDS:
                    said_at = time.monotonic()
                    progress = render_scan_progress(scan.sessions, total, scan.files, scan.bytes)
                    self.post_message(self.ScanAdvanced(progress, is_running=True))
        finally:
            self.post_message(self.ScanAdvanced(Content(""), is_running=False))
        if not worker.is_cancelled:
            counts = filter(None, [format_count(scan.sessions, "session"), format_count(scan.files, "file")])
            self.notify(f"Scanned {' and '.join(counts) or 'nothing new'}.", timeout=4, markup=False)

    @on(ScanAdvanced)
    def _show_progress(self, advanced: ScanAdvanced) -> None:
        self._is_scanning = advanced.is_running
        if advanced.is_running:
            self._show_scan(advanced.progress)
        else:
            self._state = None  # count the files again
        self.load()

    def action_not_scanned(self) -> None:
        from tui.dialogs.explanation import ExplanationDialog

        if self._state is not None:
            self.app.push_screen(ExplanationDialog("Not scanned", partial(render_not_scanned, self._state)))

    # ── redacting ─────────────────────────────────────────────────────────────────────────────────

    def action_redact(self) -> None:
        if (row := self.table.selected) is not None:
            self._open_redaction(f"Redact {row.leak.rule} {row.leak.masked}?", [row.leak.fingerprint])

    def action_redact_certain(self) -> None:
        leaks = [row.leak for row in self._rows if row.leak.is_open and row.leak.tier == "certain" and row.places]
        if leaks:
            title = f"Redact {format_count(len(leaks), 'certain leak')}?"
            self._open_redaction(title, [leak.fingerprint for leak in leaks])
        else:
            self.notify("No open leak is certain.", timeout=3, markup=False)

    def _open_redaction(self, title: str, fingerprints: Sequence[str]) -> None:
        from tui.dialogs.redaction import RedactionDialog
        from tui.render.redaction_lines import render_redaction_preview

        redactions = self._store.leaks.redactions

        def load_places() -> tuple[Sequence[Content], bool]:
            preview = redactions.preview(fingerprints)
            return render_redaction_preview(preview), preview.count > 0

        def finish(has_run: bool | None) -> None:
            if has_run:
                self._state = None
                self.load()

        if self.app.can_edit(self._store) and not self._is_scanning:
            dialog = RedactionDialog(self._store, title, load_places, lambda: redactions.begin(fingerprints))
            self.app.push_screen(dialog, finish)

    def action_redactions(self) -> None:
        from tui.screens.leaks.redactions import RedactionsScreen

        self.app.push_screen(RedactionsScreen(self._store, self._clock), lambda _: self.load())

    # ── what a person says ────────────────────────────────────────────────────────────────────────

    def action_ignore(self) -> None:
        from tui.dialogs.text import SingleLineDialog

        if (row := self.table.selected) is None or not self.app.can_edit(self._store):
            return
        leak = row.leak
        if leak.ignored:
            self._reopen(leak)
            return

        def finish(reason: str | None) -> None:
            if reason is not None:
                self._finish_edit(f"Ignored {leak.rule}. Press u to undo.")

        title = f"Ignore {leak.rule} {leak.masked}"
        save = partial(self._store.leaks.ignore, leak.fingerprint)
        note = "Say why it does not matter."
        self.app.push_screen(SingleLineDialog(title, "", save, note=note), finish)

    @threaded(group="edit")
    def action_rotate(self) -> None:
        if (row := self.table.selected) is None:
            return
        if row.leak.rotated:
            self._reopen(row.leak)
        else:
            self._store.leaks.set_rotated(row.leak.fingerprint)
            self.app.call_from_thread(self._finish_edit, f"Noted that {row.leak.rule} was rotated. Press u to undo.")

    @threaded(group="edit")
    def _reopen(self, leak: Leak) -> None:
        self._store.leaks.reopen(leak.fingerprint)
        self.app.call_from_thread(self._finish_edit, f"{leak.rule} is open again. Press u to undo.")

    @threaded(group="edit")
    def action_undo(self) -> None:
        from tui.screens.journal import undo_newest

        self.app.call_from_thread(self._finish_edit, undo_newest(self._store))

    def _finish_edit(self, notice: str) -> None:
        self.load()
        self.notify(notice, timeout=4, markup=False)

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        row = self.table.selected if self.is_mounted else None
        if action in ("open", "redact"):
            return row is not None and bool(row.places)
        if action in ("ignore", "rotate", "copy", "side"):
            return row is not None
        return super().check_action(action, parameters)

    def change_hint(self, binding: Binding) -> HintChange | None:
        row = self.table.selected
        match binding.id:
            case "leaks.scan" if self._is_scanning:
                return HintChange("Stop", "first")
            case "leaks.ignore" if row is not None and row.leak.ignored:
                return HintChange("Open again", "main")
            case "leaks.rotate" if row is not None and row.leak.rotated:
                return HintChange("Still valid", "main")
        return None

    def action_side(self) -> None:
        self.set_focus(self.places if self.table.has_focus else self.table)

    @on(LeakTable.DoubleClicked)
    @on(LeakPlaceTable.DoubleClicked)
    def action_open(self) -> None:
        """Go to the place under the cursor, or to the first one."""
        row = self.table.selected
        if row is None:
            return
        chosen = self.places.selected if self.places.has_focus else next(iter(row.places), None)
        if chosen is not None:
            self.fingerprint = row.leak.fingerprint
            self._place_opener.open(row.leak.fingerprint, chosen.place)

    def action_copy(self) -> None:
        row, place = self.table.selected, self.places.selected
        if place is not None and place.place.path and (self.places.has_focus or row is None):
            self.post_message(Copy(place.place.path, "the path"))
        elif row is not None:
            self.post_message(Copy(row.leak.fingerprint, "the fingerprint"))

    def action_leave(self) -> None:
        if self._is_scanning:
            self.workers.cancel_group(self, "scan")
        else:
            super().action_leave()


def _build_places(leak: Leak, titles: Mapping[str, str], turns: Mapping[str, int]) -> list[PlaceRow]:
    """Return the places of a leak: those in sessions first, the newest on top, then other facts, then files."""
    in_store = [place for place in leak.places[::-1] if not place.path]
    in_sessions = [place for place in in_store if place.session_id]
    in_facts = [place for place in in_store if not place.session_id]
    in_files = [place for place in leak.places if place.path]
    places = [*in_sessions, *in_facts, *in_files]
    return [PlaceRow(place, titles.get(place.session_id or "", ""), turns.get(place.entry or "")) for place in places]
