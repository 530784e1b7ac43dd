"""This screen lists the facts that agents share. A person can filter and correct them, and see their origin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from store.config import DEFAULT_MAX_LINES
from store.database.cancel import cancel_when
from store.edits.facts import read_max_lines
from store.edits.labels import find_fact_origins
from store.errors import StoreError
from store.model.knowledge import Edit
from store.model.memory import Audience
from store.model.session import GLOBAL_SCOPE, entry_id
from store.text.sanitize import one_line
from tui.dialogs.audience import MAX_FOLDERS, AudienceDialog
from tui.messages import DataMessage
from tui.render.fact_lines import ALL_SCOPES, FactRow, render_facts_heading
from tui.render.styles import MUTED
from tui.screens.fact_edits import FactEditScreen, open_fact_dialog
from tui.screens.store_screen import Clock
from tui.widgets.filter_line import FilterLine
from tui.widgets.key_hints import HintChange, KeyHintBar
from tui.widgets.pane_row import PaneRow, make_pane
from tui.widgets.tables.fact_table import FactHistory, FactTable
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store

__all__ = ["FactsScreen", "open_fact_dialog"]
COMPARE_TOOLTIP = "Compare two selected facts, or the last two versions of this one"
CONFLICTS_TOOLTIP = "Choose between values that two people wrote at once"
SELECT_TWO_FACTS = "This fact has one version. Select two facts with Space, then press D to compare them."


class FactsScreen(FactEditScreen):
    AUTO_FOCUS = "FactTable"
    DEFAULT_CSS = """
    FactsScreen {
        &.-nothing PaneRow {
            display: none;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "M",
            "memory",
            "Memory files",
            id="facts.memory",
            tooltip="Show the files that agents load, what of these facts they get, and what they propose",
        ),
        Binding("S", "share", "Share", id="facts.share", tooltip="Choose the agents that get the facts in their files"),
        Binding("g", "go", "Go to turn", id="facts.go", tooltip="Go to the turn that the fact comes from"),
        Binding("slash", "filter", "Filter", key_display="/", id="facts.filter", tooltip="Filter the facts"),
        Binding("D", "compare", "Compare", show=False, id="facts.compare", tooltip=COMPARE_TOOLTIP),
        Binding("tilde", "conflicts", "Two values", show=False, id="facts.conflicts", tooltip=CONFLICTS_TOOLTIP),
        Binding("s", "scope", "Scope", id="facts.scope", tooltip="Show the facts of the next scope"),
        Binding("R", "retired", "Retired", show=False, id="facts.retired", tooltip="Show or hide retired facts"),
        Binding(
            "tab", "side", "Switch pane", show=False, id="facts.side", tooltip="Go to the history of the fact, or back"
        ),
        Binding("escape,q,f", "leave", "Back", id="facts.back", tooltip="Back to the browser"),
    ]

    table = query_one(FactTable)
    history = query_one(FactHistory)
    empty_message = query_one("#none", Static)

    class FactsLoaded(DataMessage):
        generation: int
        lines: Sequence[FactRow]
        scopes: Sequence[str]
        line_count: int
        line_limit: int

    class HistoryLoaded(DataMessage):
        generation: int
        line: FactRow
        edits: Sequence[Edit]

    def __init__(self, store: Store, clock: Clock, *, fact_id: int | None = None, with_retired: bool = False) -> None:
        super().__init__(store, clock)
        self.scope = ALL_SCOPES
        self.focused_fact_id = fact_id
        self._shows_retired = with_retired
        self._loaded = self.FactsLoaded(0, (), (GLOBAL_SCOPE,), 0, DEFAULT_MAX_LINES)
        self._line_limit: int | None = None
        self._history_generation = 0
        self._current_fact: FactRow | None = None
        self._selected_facts: Sequence[FactRow] = ()

    def compose(self) -> ComposeResult:
        now = self._clock()
        yield FilterLine("filter by words, category or origin…")
        with PaneRow(id="facts", sizes=self.app.settings.pane_sizes):
            yield make_pane("Facts kept here", FactTable(now), id="fact-table")
            yield make_pane("History", FactHistory(now), id="history", classes="-below")
        yield Static(id="none")
        yield KeyHintBar()

    def on_resize(self) -> None:
        self.query_one(PaneRow).split("#fact-table", 11 / 20, is_vertical=True)

    def refresh_ages(self) -> None:
        self.table.now = self.history.now = self._clock()
        self.table.invalidate_strips()

    @property
    def selected_facts(self) -> Sequence[FactRow]:
        return self._selected_facts

    @property
    def current_fact(self) -> FactRow | None:
        return self._current_fact

    # ── reading the store ─────────────────────────────────────────────────────────────────────────

    def load(self) -> None:
        self._generation += 1
        self._load_facts(self._generation, self.scope, self._shows_retired)

    @threaded(exclusive=True, group="list")
    def _load_facts(self, generation: int, scope: str, retired: bool) -> None:
        facts = self._store.facts
        with cancel_when(self._store, lambda: generation != self._generation):
            found = facts.current([scope] if scope else None, retired=retired)
            origins = find_fact_origins(self._store, found)
            # Global facts first; within a scope, in the order in which they were learned.
            found.sort(key=lambda fact: (fact.scope != GLOBAL_SCOPE, fact.scope, fact.id))
            lines = [FactRow(fact, origins[fact.id]) for fact in found]
            scopes = [name for name, _ in facts.scopes()]
            own = len(facts.blob(scope or GLOBAL_SCOPE).splitlines())
            self.post_message(self.FactsLoaded(generation, lines, scopes, own, self._read_line_limit()))

    def _read_line_limit(self) -> int:
        """Report a mistake in the config file, but only once."""
        if self._line_limit is None:
            try:
                self._line_limit = read_max_lines()
            except StoreError as reason:
                self._line_limit = DEFAULT_MAX_LINES
                self.app.call_from_thread(self.app.show_error, reason)
        return self._line_limit

    @on(FactsLoaded)
    def _accept_facts(self, listed: FactsLoaded) -> None:
        if listed.generation == self._generation:
            self._loaded = listed
            self._show_facts()

    def _show_facts(self) -> None:
        words, lines = self.bar.filter_words, self._loaded.lines
        found = [line for line in lines if line.matches(words)] if words else lines
        heading = render_facts_heading(
            self._loaded.line_count, self._loaded.line_limit, self.scope, len(found), len(lines), self._shows_retired
        )
        self.bar.show_heading(heading)
        self.show_empty_state(not found, self.table, self.bar.input)
        self.empty_message.update(Content.styled("No facts match." if words else _NO_FACTS, MUTED))
        self.table.show(found, with_scope=self.scope == ALL_SCOPES, focus=self.focused_fact_id)
        self.focused_fact_id = None

    @on(FactTable.Highlighted)
    def _select_fact(self) -> None:
        self._history_generation += 1
        self._current_fact, self._selected_facts = self.table.selected, self.table.selected_facts
        self.refresh_bindings()
        if self._current_fact is not None:
            self._load_history(self._current_fact, self._history_generation)
        else:
            self.history.show(None)

    @threaded(exclusive=True, group="read")
    def _load_history(self, line: FactRow, looked: int) -> None:
        with cancel_when(self._store, lambda: looked != self._history_generation):
            edits = self._store.journal.list_edits_of_row("facts", line.fact.id)
            self.post_message(self.HistoryLoaded(looked, line, edits))

    @on(HistoryLoaded)
    def _show_history(self, read: HistoryLoaded) -> None:
        if read.generation == self._history_generation:
            self.history.show(read.line, read.edits)

    # ── comparing ─────────────────────────────────────────────────────────────────────────────────

    @threaded(exclusive=True, group="compare")
    def action_compare(self) -> None:
        """Compare two selected facts, or the last two versions of the current one."""
        from store.conversations.comparison import list_fact_versions

        numbers = [line.fact.id for line in self._selected_facts]
        references = [f"fact:{number}" for number in numbers]
        if len(numbers) == 1:
            references = [f"fact:{numbers[0]}@{edit}" for edit in list_fact_versions(self._store, numbers[0])[-2:]]
        if len(references) == 2:
            self.app.call_from_thread(self._open_comparison, *references)
        else:
            self.app.call_from_thread(self.notify, SELECT_TWO_FACTS, timeout=4, markup=False)

    def _open_comparison(self, left: str, right: str) -> None:
        from tui.screens.comparison import ComparisonScreen

        self.app.push_screen(ComparisonScreen(self._store, left, right))

    def change_hint(self, binding: Binding) -> HintChange | None:
        """Show the way to the memory files in a narrow terminal, too: there, facts become useful."""
        return HintChange(binding.description, "first") if binding.action == "memory" else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("go", "share"):
            return self._current_fact is not None
        return super().check_action(action, parameters)

    # ── the origin ────────────────────────────────────────────────────────────────────────────────

    def action_go(self) -> None:
        if self._current_fact is not None:
            fact = self._current_fact.fact
            self._open_entry(fact.entry or (entry_id(fact.session_id, 0) if fact.session_id else None))

    @on(FactHistory.LinkFollowed)
    def _open_history_entry(self, followed: FactHistory.LinkFollowed) -> None:
        self._open_entry(followed.entry)

    def _open_entry(self, entry: str | None) -> None:
        if entry is not None:
            self.dismiss(entry)
        else:
            self.notify("This fact has no session.", timeout=3)

    # ── sharing ───────────────────────────────────────────────────────────────────────────────────

    @threaded(exclusive=True, group="audiences")
    def action_share(self) -> None:
        rows = list(self._selected_facts) or ([self._current_fact] if self._current_fact else [])
        if rows:
            known = self._store.shared_facts.audiences().get(rows[0].fact.id, [])
            folders = self._store.memory_files.list_folders()
            self.app.call_from_thread(self._ask_audiences, rows, known, folders)

    def _ask_audiences(self, rows: Sequence[FactRow], known: Sequence[Audience], folders: Sequence[Path]) -> None:
        if not self.app.can_edit(self._store):
            return

        def finish(audiences: list[Audience] | None) -> None:
            if audiences is not None:
                self._run_edit(
                    lambda: self._store.shared_facts.set_audiences([row.fact.id for row in rows], audiences),
                    "Changed who gets it. Press M, then P to write the files, u to undo.",
                )

        text = one_line(rows[0].fact.text, 500) if len(rows) == 1 else f"{len(rows):,} facts"
        self.app.push_screen(AudienceDialog(text, known, list(map(str, folders))[:MAX_FOLDERS]), finish)

    # ── memory files ──────────────────────────────────────────────────────────────────────────────

    def action_memory(self) -> None:
        from tui.screens.memory import MemoryScreen

        self.app.push_screen(MemoryScreen(self._store, self._clock), self._leave_for_entry)

    def _leave_for_entry(self, entry: str | None) -> None:
        if entry is not None:
            self.dismiss(entry)

    # ── the team ──────────────────────────────────────────────────────────────────────────────────

    def action_conflicts(self) -> None:
        from tui.dialogs.value_conflict import open_conflicts

        fact_id = self._current_fact.fact.id if self._current_fact else None
        open_conflicts(self, self._store, lambda conflict: conflict.fact_id == fact_id)

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    @on(FactTable.DoubleClicked)
    def _edit_clicked(self) -> None:
        if self.check_action("edit", ()):
            self.action_edit()

    def clear_marks(self) -> None:
        self.table.clear_marked()

    @on(FilterLine.WordsChanged)
    def _filter(self) -> None:
        self._show_facts()

    def action_scope(self) -> None:
        scopes = [ALL_SCOPES, *self._loaded.scopes]
        at = scopes.index(self.scope) if self.scope in scopes else 0
        self.scope = scopes[(at + 1) % len(scopes)]
        self.load()

    def action_retired(self) -> None:
        self._shows_retired = not self._shows_retired
        self.load()

    def action_side(self) -> None:
        self.set_focus(self.history if self.table.has_focus else self.table)


_NO_FACTS = "No facts here yet.\n\nPress a to add one, or + in a conversation."
