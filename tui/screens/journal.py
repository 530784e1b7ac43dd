"""This screen lists every edit with its changes, newest first, and can undo any of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from store.database.cancel import cancel_when
from store.edits.labels import label_edit, label_edits
from store.edits.wording import describe_edit, report_undo
from store.errors import NothingToUndo
from store.model.knowledge import Edit
from store.model.session import entry_id
from tui.messages import DataMessage
from tui.render.journal_lines import (
    EditRow,
    build_edit_row,
    describe_later_edits,
    render_edit_page,
    render_journal_heading,
)
from tui.render.styles import MUTED
from tui.render.viewport import RenderedLine
from tui.screens.store_screen import Clock
from tui.screens.table_screen import FilteredTableScreen
from tui.widgets.filter_line import FilterLine
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.pane_row import PaneRow, make_pane
from tui.widgets.tables.edit_table import EditColumns, EditTable
from tui.widgets.text_view import TextView
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store

PAGE_SIZE = 500
"""Edits are read in pages of this size; a filter reads all of them."""

MAX_NAMED_EDITS = 8
"""Limits the edits that are listed before they are undone together."""

NOTHING_TO_UNDO = "There is nothing to undo."


def undo_newest(store: Store) -> str:
    """Undo the newest edit, and return a sentence about it. Call this in a thread."""
    try:
        edit = store.journal.undo()
    except NothingToUndo:
        return NOTHING_TO_UNDO
    return report_undo(edit, label_edits(store, [edit]))


WIDE_WIDTH = 120
"""The width from which the change stands beside the edits, not below them."""


class JournalScreen(FilteredTableScreen):
    AUTO_FOCUS = "EditTable"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE_WIDTH, "-wide")]  # noqa: RUF012 (declared so by Textual)
    DEFAULT_CSS = """
    JournalScreen {
        EditTable {
            height: 1fr;
        }

        &.-nothing PaneRow {
            display: none;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "undo", "Undo this", id="journal.undo", tooltip="Undo this edit"),
        Binding("g", "go", "Go to session", id="journal.go", tooltip="Go to the session that was edited"),
        Binding(
            "D", "compare", "Compare", show=False, id="journal.compare", tooltip="Compare before and after this edit"
        ),
        Binding("slash", "filter", "Filter", key_display="/", id="journal.filter", tooltip="Filter the edits"),
        Binding("tab", "side", "Switch pane", show=False, id="journal.side", tooltip="Go to the changes, or back"),
        Binding("escape,q,U", "leave", "Back", id="journal.back", tooltip="Back to the browser"),
    ]

    table = query_one(EditTable)
    diff_view = query_one(TextView)
    empty_message = query_one("#none", Static)

    class EditsLoaded(DataMessage):
        generation: int
        lines: Sequence[EditRow]
        has_more: bool

    class EditLoaded(DataMessage):
        """Holds an edit, ready to be shown."""

        generation: int
        page: list[RenderedLine]

    class UndoBlocked(DataMessage):
        """Says that later edits must be undone first."""

        edit: Edit
        name: str
        later: list[Edit]
        text: str

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store, clock)
        self._requested_count = PAGE_SIZE
        self._lines: Sequence[EditRow] = ()
        self._has_more = False
        self._edit_generation = 0
        self._selected_line: EditRow | None = None
        self._shown_page: list[RenderedLine] = []

    def compose(self) -> ComposeResult:
        yield FilterLine("filter by words, session, number or undone…")
        table = EditTable(self._clock())
        with PaneRow(id="journal", sizes=self.app.settings.pane_sizes):
            yield make_pane("Edits", EditColumns(table), table, id="edits")
            yield make_pane("Change", TextView(), id="change", classes="-below")
        yield Static(id="none")
        yield KeyHintBar()

    def on_resize(self) -> None:
        is_wide = self.app.size.width >= WIDE_WIDTH
        self.query_one(PaneRow).split("#edits", 11 / 20 if is_wide else 9 / 20, is_vertical=not is_wide)

    def refresh_ages(self) -> None:
        self.table.now = self._clock()
        self.table.invalidate_strips()

    # ── reading the store ─────────────────────────────────────────────────────────────────────────

    def load(self) -> None:
        self._generation += 1
        self._load_edits(self._generation, self._requested_count)

    @threaded(exclusive=True, group="list")
    def _load_edits(self, generation: int, wanted: int) -> None:
        """Read the edits page by page, because their changes are not kept in memory."""
        lines: list[EditRow] = []
        with cancel_when(self._store, lambda: generation != self._generation):
            while not wanted or len(lines) < wanted:
                edits = self._store.journal.list_edits(limit=PAGE_SIZE, before=lines[-1].id if lines else None)
                names = label_edits(self._store, edits)
                lines += [build_edit_row(edit, names) for edit in edits]
                if len(edits) < PAGE_SIZE:
                    self.post_message(self.EditsLoaded(generation, lines, has_more=False))
                    return
            self.post_message(self.EditsLoaded(generation, lines, has_more=True))

    @on(EditsLoaded)
    def _accept_edits(self, listed: EditsLoaded) -> None:
        if listed.generation == self._generation:
            self._lines, self._has_more = listed.lines, listed.has_more
            self._show_edits()

    def _show_edits(self) -> None:
        words = self.bar.filter_words
        found = [line for line in self._lines if line.matches(words)] if words else self._lines
        self.bar.show_heading(render_journal_heading(len(found), len(self._lines), self._has_more))
        self.show_empty_state(not found, self.table, self.bar.input)
        text = "No edits match." if words else "No edits yet."
        self.empty_message.update(Content.styled(text, MUTED))
        self.table.show(found)
        self.query_one(EditColumns).refresh()

    @on(EditTable.Highlighted)
    def _select_edit(self, chosen: EditTable.Highlighted) -> None:
        self._edit_generation += 1
        self._selected_line = chosen.row
        self.refresh_bindings()
        if chosen.row is not None:
            self._load_edit(chosen.row.id, self._edit_generation)
        if chosen.is_near_end and self._has_more:
            self._request_edits(self._requested_count and len(self._lines) + PAGE_SIZE)

    def _request_edits(self, edits: int) -> None:
        """Read this many edits, or all of them."""
        if edits != self._requested_count:
            self._requested_count = edits
            self.load()

    @threaded(exclusive=True, group="read")
    def _load_edit(self, number: int, looked: int) -> None:
        with cancel_when(self._store, lambda: looked != self._edit_generation):
            edit = self._store.journal.get(number)
            later = [] if edit.undone_by is not None else self._store.journal.list_dependent_edits(number)
            shown = render_edit_page(edit, label_edit(self._store, edit), later, self._clock())
            self.post_message(self.EditLoaded(looked, shown))

    @on(EditLoaded)
    def _show_edit(self, read: EditLoaded) -> None:
        """Show an edit. The scroll position stays if the same edit is shown again."""
        if read.generation == self._edit_generation and read.page != self._shown_page:
            self._shown_page = read.page
            self.diff_view.show(read.page)

    # ── undo ──────────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "undo" | "compare":
                return self._selected_line is not None
            case "go":
                return self._selected_line is not None and bool(self._selected_line.sessions)
        return super().check_action(action, parameters)

    @on(EditTable.DoubleClicked)
    def action_undo(self) -> None:
        if (line := self._selected_line) is None:
            return
        if line.undone_by is not None:
            text = f"Edit {line.id} is already undone. Undo edit {line.undone_by} to do it again."
            self.notify(text, timeout=4, markup=False)
        else:
            self._undo_in_thread(line.id)

    @threaded(group="undo")
    def _undo_in_thread(self, number: int) -> None:
        """Undo an edit. If later edits depend on it, list them first."""
        journal = self._store.journal
        if later := journal.list_dependent_edits(number):
            edits = [*later, journal.get(number)]
            names = label_edits(self._store, edits)
            text = "\n".join(f"{edit.id}  {describe_edit(edit, names)}" for edit in edits[-MAX_NAMED_EDITS:])
            text = f"{len(edits) - MAX_NAMED_EDITS:,} more, then\n{text}" if len(edits) > MAX_NAMED_EDITS else text
            self.post_message(self.UndoBlocked(edits[-1], describe_edit(edits[-1], names), later, text))
        else:
            self._notify_undone([journal.undo(number)])

    @on(UndoBlocked)
    def _confirm_undo_all(self, refused: UndoBlocked) -> None:
        from tui.dialogs.confirm import ConfirmDialog

        numbers = [refused.edit.id, *(edit.id for edit in refused.later)]
        text = f"{describe_later_edits(refused.later)} Undo all of these, newest first?\n\n{refused.text}"
        title = f"Undo edit {refused.edit.id}: {refused.name}"

        def go_on(sure: bool | None) -> None:
            if sure:
                self._undo_all(numbers)

        self.app.push_screen(ConfirmDialog(title, text), go_on)

    @threaded(group="undo")
    def _undo_all(self, numbers: Sequence[int]) -> None:
        self._notify_undone(self._store.journal.undo_all(numbers))

    def _notify_undone(self, undone: Sequence[Edit]) -> None:
        names = label_edits(self._store, undone)
        text = "\n".join(report_undo(edit, names) for edit in undone[-3:])
        more = f"\nAnd {len(undone) - 3:,} more." if len(undone) > 3 else ""
        self.app.call_from_thread(self.notify, text + more, timeout=4, markup=False)
        self.app.call_from_thread(self.load)

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    @on(FilterLine.WordsChanged)
    def _filter(self, asked: FilterLine.WordsChanged) -> None:
        self._show_edits()
        if asked.words and self._has_more:
            self._request_edits(0)

    def action_compare(self) -> None:
        from tui.screens.comparison import ComparisonScreen

        if (line := self._selected_line) is not None:
            sides = (f"edit:{line.id}:{side}" for side in ("before", "after"))
            self.app.push_screen(ComparisonScreen(self._store, *sides))

    def action_side(self) -> None:
        self.set_focus(self.diff_view if self.table.has_focus else self.table)

    def action_go(self) -> None:
        if self._selected_line is not None and self._selected_line.sessions:
            self.dismiss(entry_id(self._selected_line.sessions[0], 0))
