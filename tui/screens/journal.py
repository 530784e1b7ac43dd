"""The journal: every edit, newest first, with what there was before and after; and undo, of any of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Footer, Static

from store.database.cancel import until_stale
from store.edits.labels import of_edit, of_edits
from store.errors import NothingToUndo
from store.model.knowledge import Edit
from store.model.session import entry_id
from tui.messages import Told
from tui.render.journal_lines import EditLine, build_on, done, edit_line, heading, page, sentence
from tui.render.styles import MUTED
from tui.screens.store_screen import Clock
from tui.screens.table_screen import WatchingScreen
from tui.widgets.filter_line import FilterLine, FilterWords
from tui.widgets.tables.edit_table import EditsTable
from tui.widgets.text_view import TextView
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store

PAGE = 500
"""Edits that are read at once; more when somebody scrolls there, all when somebody looks for words."""

SHOWN = 8
"""Edits that are named before they are undone together."""

NOTHING = "There is nothing to undo."


def undo_newest(store: Store) -> str:
    """What was undone, in a sentence. In a thread."""
    try:
        edit = store.journal.undo()
    except NothingToUndo:
        return NOTHING
    return f"Undone: {sentence(edit, of_edits(store, [edit]))}."


class JournalScreen(WatchingScreen):
    AUTO_FOCUS = "EditsTable"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 (declared so by Textual)
    DEFAULT_CSS = """
    JournalScreen {
        #sides {
            height: 1fr;
        }

        EditsTable {
            height: 1fr;
        }

        TextView {
            height: 1fr;
            border-top: solid $foreground 15%;
        }

        #none {
            display: none;
            height: 1fr;
            content-align: center middle;
        }

        &.-nothing {
            #none {
                display: block;
            }

            #sides {
                display: none;
            }
        }

        &.-wide {
            #sides {
                layout: horizontal;
            }

            EditsTable {
                width: 11fr;
            }

            TextView {
                width: 9fr;
                border-top: none;
                border-left: solid $foreground 15%;
            }
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u,enter", "undo", "Undo this", id="journal.undo", tooltip="Take this edit back"),
        Binding("g", "go", "Go there", id="journal.go", tooltip="To the conversation that was edited"),
        Binding(
            "slash", "filter", "Filter", key_display="/", id="journal.filter", tooltip="Only edits with these words"
        ),
        Binding("tab", "side", "Other side", show=False, id="journal.side", tooltip="To the difference, and back"),
        Binding("escape,q,U", "leave", "Back", id="journal.back", tooltip="Back to the browser"),
    ]

    bar = query_one(FilterLine)
    table = query_one(EditsTable)
    difference = query_one(TextView)
    none = query_one("#none", Static)

    class Listed(Told):
        generation: int
        lines: Sequence[EditLine]
        more: bool

    class Read(Told):
        """One edit, ready to be shown."""

        looked: int
        page: list[Content]

    class Refused(Told):
        """Others build on it; they would have to go first."""

        edit: Edit
        later: list[Edit]
        told: str

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store, clock)
        self._wanted = PAGE
        self._lines: Sequence[EditLine] = ()
        self._more = False
        self._looked = 0
        self._line: EditLine | None = None
        self._shown: list[Content] = []

    def compose(self) -> ComposeResult:
        yield FilterLine("filter by what, where, number, undone …")
        with Container(id="sides"):
            yield EditsTable(self._clock())
            yield TextView()
        yield Static(id="none")
        yield Footer(show_command_palette=False)

    def tell_time(self) -> None:
        self.table.now = self._clock()
        self.table.forget_strips()

    # ── what the store says ───────────────────────────────────────────────────────────────────────

    def load(self) -> None:
        self._generation += 1
        self._list(self._generation, self._wanted)

    @threaded(exclusive=True, group="list")
    def _list(self, generation: int, wanted: int) -> None:
        """Page by page: what the rows said before and after is not kept."""
        lines: list[EditLine] = []
        with until_stale(self._store, lambda: generation != self._generation):
            while not wanted or len(lines) < wanted:
                edits = self._store.journal.newest(limit=PAGE, before=lines[-1].id if lines else None)
                names = of_edits(self._store, edits)
                lines += [edit_line(edit, names) for edit in edits]
                if len(edits) < PAGE:
                    self.post_message(self.Listed(generation, lines, more=False))
                    return
            self.post_message(self.Listed(generation, lines, more=True))

    @on(Listed)
    def _take_list(self, listed: Listed) -> None:
        if listed.generation == self._generation:
            self._lines, self._more = listed.lines, listed.more
            self._show()

    def _show(self) -> None:
        words = self.bar.asked
        found = [line for line in self._lines if line.holds(words)] if words else self._lines
        self.bar.tell(heading(len(found), len(self._lines), self._more))
        self.show_nothing(not found, self.table, self.bar.words)
        told = "No edit has these words." if words else "Nothing was edited yet."
        self.none.update(Content.styled(told, MUTED))
        self.table.show(found)

    @on(EditsTable.Chosen)
    def _look_at(self, chosen: EditsTable.Chosen) -> None:
        self._looked += 1
        self._line = chosen.line
        self.refresh_bindings()
        if chosen.line is not None:
            self._read(chosen.line.id, self._looked)
        if chosen.is_near_end and self._more:
            self._want(self._wanted and len(self._lines) + PAGE)

    def _want(self, edits: int) -> None:
        """So many of them; none means all."""
        if edits != self._wanted:
            self._wanted = edits
            self.load()

    @threaded(exclusive=True, group="read")
    def _read(self, number: int, looked: int) -> None:
        with until_stale(self._store, lambda: looked != self._looked):
            edit = self._store.journal.get(number)
            later = [] if edit.undone_by is not None else self._store.journal.building_on(number)
            shown = page(edit, of_edit(self._store, edit), later, self._clock())
            self.post_message(self.Read(looked, shown))

    @on(Read)
    def _show_edit(self, read: Read) -> None:
        """What is being read stays where it was scrolled to, as long as it says the same."""
        if read.looked == self._looked and read.page != self._shown:
            self._shown = read.page
            self.difference.show(read.page)

    # ── undo ──────────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "undo":
                return self._line is not None
            case "go":
                return self._line is not None and bool(self._line.sessions)
        return super().check_action(action, parameters)

    @on(EditsTable.Pressed)
    def action_undo(self) -> None:
        if (line := self._line) is None:
            return
        if line.undone_by is not None:
            told = f"Edit {line.id} is undone already; undo edit {line.undone_by} to have it again."
            self.notify(told, timeout=4, markup=False)
        else:
            self._undo(line.id)

    @threaded(group="undo")
    def _undo(self, number: int) -> None:
        """Unless other edits build on it: then they are told first."""
        journal = self._store.journal
        if later := journal.building_on(number):
            edits = [*later, journal.get(number)]
            names = of_edits(self._store, edits)
            told = "\n".join(f"{edit.id}  {sentence(edit, names)}" for edit in edits[-SHOWN:])
            told = f"{len(edits) - SHOWN:,} more, then\n{told}" if len(edits) > SHOWN else told
            self.post_message(self.Refused(edits[-1], later, told))
        else:
            self._tell_undone([journal.undo(number)])

    @on(Refused)
    def _ask(self, refused: Refused) -> None:
        from tui.dialogs.text import ConfirmScreen

        numbers = [refused.edit.id, *(edit.id for edit in refused.later)]
        told = f"{build_on(refused.later)} Undo all of these, newest first?\n\n{refused.told}"
        title = f"Undo edit {refused.edit.id}, {done(refused.edit)}"

        def go_on(sure: bool | None) -> None:
            if sure:
                self._undo_all(numbers)

        self.app.push_screen(ConfirmScreen(title, told), go_on)

    @threaded(group="undo")
    def _undo_all(self, numbers: Sequence[int]) -> None:
        self._tell_undone(self._store.journal.undo_together(numbers))

    def _tell_undone(self, undone: Sequence[Edit]) -> None:
        names = of_edits(self._store, undone)
        told = "Undone: " + "; ".join(sentence(edit, names) for edit in undone[-3:]) + "."
        more = f" And {len(undone) - 3:,} that built on it." if len(undone) > 3 else ""
        self.app.call_from_thread(self.notify, told + more, timeout=4, markup=False)
        self.app.call_from_thread(self.load)

    # ── around ────────────────────────────────────────────────────────────────────────────────────

    @on(FilterLine.Asked)
    def _filter(self, asked: FilterLine.Asked) -> None:
        self._show()
        if asked.words and self._more:
            self._want(0)

    @on(FilterWords.Left)
    def _to_list(self) -> None:
        self.set_focus(self.table)

    def action_filter(self) -> None:
        self.set_focus(self.bar.words)

    def action_side(self) -> None:
        self.set_focus(self.difference if self.table.has_focus else self.table)

    def action_go(self) -> None:
        if self._line is not None and self._line.sessions:
            self.dismiss(entry_id(self._line.sessions[0], 0))

    def action_leave(self) -> None:
        """The words first."""
        if self.bar.words.value:
            self.bar.words.value = ""
        else:
            self.dismiss(None)
