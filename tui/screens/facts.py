"""All that agents know beyond one conversation: to read, to narrow, to correct, and to see where it came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from store.database.cancel import until_stale
from store.edits.facts import LINE_LIMIT, line_limit
from store.edits.labels import of_facts
from store.errors import StoreError
from store.model.knowledge import Edit
from store.model.session import GLOBAL, entry_id
from tui.messages import Told
from tui.render.fact_lines import EVERY_SCOPE, FactLine, heading
from tui.render.styles import MUTED
from tui.screens.fact_edits import FactEdits, make_fact
from tui.screens.store_screen import Clock
from tui.widgets.filter_line import FilterLine, FilterWords
from tui.widgets.key_hints import KeysLine
from tui.widgets.tables.fact_table import FactHistory, FactsTable
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store

__all__ = ["FactsScreen", "make_fact"]


class FactsScreen(FactEdits):
    AUTO_FOCUS = "FactsTable"
    DEFAULT_CSS = """
    FactsScreen {
        #facts {
            height: 1fr;
        }

        FactsTable {
            height: 3fr;
        }

        FactHistory {
            height: 2fr;
            min-height: 6;
            border-top: solid $foreground 15%;
        }

        #none {
            display: none;
            height: 1fr;
            content-align: center middle;
            text-align: center;
        }

        &.-nothing {
            #none {
                display: block;
            }

            #facts {
                display: none;
            }
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "go", "Go there", id="facts.go", tooltip="To the very turn that the fact was learnt from"),
        Binding("slash", "filter", "Filter", key_display="/", id="facts.filter", tooltip="Only facts with these words"),
        Binding("s", "scope", "Scope", id="facts.scope", tooltip="Only what is of the next scope: who may know it"),
        Binding("R", "retired", "Retired", show=False, id="facts.retired", tooltip="Also those that stand no longer"),
        Binding("tab", "side", "History", show=False, id="facts.side", tooltip="To the history of the fact, and back"),
        Binding("escape,q,f", "leave", "Back", id="facts.back", tooltip="Back to the browser"),
    ]

    bar = query_one(FilterLine)
    table = query_one(FactsTable)
    history = query_one(FactHistory)
    none = query_one("#none", Static)

    class Listed(Told):
        generation: int
        lines: Sequence[FactLine]
        scopes: Sequence[str]
        own: int
        limit: int

    class Read(Told):
        looked: int
        line: FactLine
        edits: Sequence[Edit]

    def __init__(self, store: Store, clock: Clock, *, focus: int | None = None) -> None:
        super().__init__(store, clock)
        self.scope = EVERY_SCOPE
        self._focus_on = focus
        self._with_retired = False
        self._listed = self.Listed(0, (), (GLOBAL,), 0, LINE_LIMIT)
        self._limit: int | None = None
        self._looked = 0
        self._current: FactLine | None = None
        self._meant: Sequence[FactLine] = ()

    def compose(self) -> ComposeResult:
        now = self._clock()
        yield FilterLine("filter by words, category, where from …")
        with Vertical(id="facts"):
            yield FactsTable(now)
            yield FactHistory(now)
        yield Static(id="none")
        yield KeysLine()

    def tell_time(self) -> None:
        self.table.now = self.history.now = self._clock()
        self.table.forget_strips()

    @property
    def meant(self) -> Sequence[FactLine]:
        return self._meant

    @property
    def under_cursor(self) -> FactLine | None:
        return self._current

    # ── what the store says ───────────────────────────────────────────────────────────────────────

    def load(self) -> None:
        self._generation += 1
        self._list(self._generation, self.scope, self._with_retired)

    @threaded(exclusive=True, group="list")
    def _list(self, generation: int, scope: str, retired: bool) -> None:
        facts = self._store.facts
        with until_stale(self._store, lambda: generation != self._generation):
            found = facts.current([scope] if scope else None, retired=retired)
            origins = of_facts(self._store, found)
            # What everybody may know first; within a scope, as they were learnt.
            found.sort(key=lambda fact: (fact.scope != GLOBAL, fact.scope, fact.id))
            lines = [FactLine(fact, origins[fact.id]) for fact in found]
            scopes = [name for name, _ in facts.scopes()]
            own = len(facts.blob(scope or GLOBAL).splitlines())
            self.post_message(self.Listed(generation, lines, scopes, own, self._lines_allowed()))

    def _lines_allowed(self) -> int:
        """What is wrong with the config file is told once."""
        if self._limit is None:
            try:
                self._limit = line_limit()
            except StoreError as reason:
                self._limit = LINE_LIMIT
                self.app.call_from_thread(self.app.show_error, reason)
        return self._limit

    @on(Listed)
    def _take_list(self, listed: Listed) -> None:
        if listed.generation == self._generation:
            self._listed = listed
            self._show()

    def _show(self) -> None:
        words, lines = self.bar.asked, self._listed.lines
        found = [line for line in lines if line.holds(words)] if words else lines
        told = heading(self._listed.own, self._listed.limit, self.scope, len(found), len(lines), self._with_retired)
        self.bar.tell(told)
        self.show_nothing(not found, self.table, self.bar.words)
        self.none.update(Content.styled("No fact has these words." if words else _NO_FACTS, MUTED))
        self.table.show(found, with_scope=self.scope == EVERY_SCOPE, focus=self._focus_on)
        self._focus_on = None

    @on(FactsTable.Chosen)
    def _look_at(self) -> None:
        self._looked += 1
        self._current, self._meant = self.table.selected, self.table.meant
        self.refresh_bindings()
        if self._current is not None:
            self._read(self._current, self._looked)
        else:
            self.history.show(None)

    @threaded(exclusive=True, group="read")
    def _read(self, line: FactLine, looked: int) -> None:
        with until_stale(self._store, lambda: looked != self._looked):
            edits = self._store.journal.touching("facts", line.fact.id)
            self.post_message(self.Read(looked, line, edits))

    @on(Read)
    def _show_history(self, read: Read) -> None:
        if read.looked == self._looked:
            self.history.show(read.line, read.edits)

    # ── where it came from ────────────────────────────────────────────────────────────────────────

    def action_go(self) -> None:
        if self._current is not None:
            fact = self._current.fact
            self._go_to(fact.entry or (entry_id(fact.session_id, 0) if fact.session_id else None))

    @on(FactHistory.Followed)
    def _follow(self, followed: FactHistory.Followed) -> None:
        self._go_to(followed.entry)

    def _go_to(self, entry: str | None) -> None:
        if entry is not None:
            self.dismiss(entry)
        else:
            self.notify("No conversation taught this.", timeout=3)

    # ── around ────────────────────────────────────────────────────────────────────────────────────

    @on(FactsTable.Pressed)
    def _edit_pressed(self) -> None:
        if self.check_action("edit", ()):
            self.action_edit()

    def done(self) -> None:
        self.table.unmark()

    @on(FilterLine.Asked)
    def _filter(self) -> None:
        self._show()

    @on(FilterWords.Left)
    def _to_list(self) -> None:
        self.set_focus(self.table)

    def action_filter(self) -> None:
        self.set_focus(self.bar.words)

    def action_scope(self) -> None:
        scopes = [EVERY_SCOPE, *self._listed.scopes]
        at = scopes.index(self.scope) if self.scope in scopes else 0
        self.scope = scopes[(at + 1) % len(scopes)]
        self.load()

    def action_retired(self) -> None:
        self._with_retired = not self._with_retired
        self.load()

    def action_side(self) -> None:
        self.set_focus(self.history if self.table.has_focus else self.table)

    def action_leave(self) -> None:
        """The words first."""
        if self.bar.words.value:
            self.bar.words.value = ""
        else:
            self.dismiss(None)


_NO_FACTS = "No facts here yet.\n\na adds one; in a conversation, + makes one of what was said."
