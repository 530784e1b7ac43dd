"""This screen shows what agents remember: their memory files by scope, the shared facts, and what agents propose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from store.errors import BadValue, StoreError
from store.memory.memory_files import stamp_paths
from store.model.memory import FileBlame, MemoryListing, PushPlan
from store.model.session import entry_id
from tui.dialogs.preview import PreviewDialog
from tui.dialogs.text import MultilineDialog, SingleLineDialog
from tui.messages import DataMessage
from tui.render.memory_lines import (
    ALL_GROUPS,
    MemoryRow,
    format_audiences,
    list_groups,
    list_rows,
    parse_audiences,
    render_budget,
    render_memory_page,
    render_pull_plan,
    render_push_plan,
)
from tui.render.session_lines import abbreviate_home
from tui.render.styles import FAINT, MUTED, STRONG, build_content
from tui.render.viewport import RenderedLine
from tui.screens.fact_edits import FACT_EXISTS, ONE_LINE_NOTE
from tui.screens.store_screen import Clock
from tui.screens.table_screen import FilteredTableScreen
from tui.widgets.filter_line import FilterLine
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.pane_row import PaneRow, make_pane
from tui.widgets.tables.memory_table import MemoryGroupList, MemoryTable
from tui.widgets.text_view import TextView
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store

FILE_CHECK_SECONDS = 0.25
"""Is how often the memory files are looked at. They belong to others, who change them at any time."""

AUDIENCE_NOTE = "Agents with commas between them, e.g. `codex, all in ~/app`. Leave empty to share it with none."
_NOTHING = "No memory files, facts or proposals here yet."


def _binding(keys: str, action: str, label: str, tooltip: str, *, show: bool = True) -> Binding:
    return Binding(keys, action, label, id=f"memory.{action}", tooltip=tooltip, show=show)


class MemoryScreen(FilteredTableScreen):
    AUTO_FOCUS = "MemoryTable"
    DEFAULT_CSS = """
    MemoryScreen {
        #memory-lines {
            MemoryTable {
                height: 1fr;
            }

            TextView {
                height: 11;
                border-top: solid $foreground 15%;
            }
        }

        &.-nothing PaneRow {
            display: none;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        _binding("g", "go", "Go to turn", "Go to the turn that wrote the line, or that proves the proposal"),
        Binding("slash", "filter", "Filter", key_display="/", id="memory.filter", tooltip="Filter the lines"),
        Binding(
            "plus", "save_fact", "Fact", key_display="+", id="memory.save_fact", tooltip="Save this line as a fact"
        ),
        _binding("S", "share", "Share", "Choose the agents that get this fact"),
        _binding("P", "push", "Push", "Write shared facts into the memory files, after a preview"),
        _binding("L", "pull", "Pull", "Read edits by hand in pushed blocks back", show=False),
        _binding("B", "budget", "Budget", "Show what each agent loads in this folder, in order, with tokens"),
        _binding("y,enter", "accept", "Accept", "Make the proposal a fact"),
        _binding("e", "accept_edited", "Edit", "Change the proposal, then make it a fact"),
        _binding("x", "reject", "Reject", "Drop the proposal"),
        _binding("u", "undo", "Undo", "Undo the newest edit", show=False),
        _binding("tab", "side", "Switch pane", "Go to the scopes, or back to the lines", show=False),
        _binding("escape,q,M", "leave", "Back", "Back to the facts"),
    ]

    table = query_one(MemoryTable)
    groups = query_one(MemoryGroupList)
    page = query_one(TextView)
    empty_message = query_one("#none", Static)

    class MemoryLoaded(DataMessage):
        generation: int
        rows: Sequence[MemoryRow]
        listing: MemoryListing

    class BlameLoaded(DataMessage):
        row: MemoryRow
        blame: FileBlame

    class FilesChanged(DataMessage):
        """Says that a memory file was changed by somebody else."""

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store, clock)
        self._rows: Sequence[MemoryRow] = ()
        self._listing = MemoryListing((), (), ())
        self._group = ALL_GROUPS
        self._blame: FileBlame | None = None
        self._is_checking = False

    def compose(self) -> ComposeResult:
        yield FilterLine("filter by words, file or agent…")
        with PaneRow(id="memory", sizes=self.app.settings.pane_sizes):
            yield make_pane("Scopes", MemoryGroupList(), id="memory-groups")
            with Vertical(id="memory-lines", classes="pane"):
                yield MemoryTable()
                yield TextView()
        yield Static(id="none")
        yield KeyHintBar()

    def on_mount(self) -> None:
        self.set_interval(FILE_CHECK_SECONDS, self._check_files)

    def on_resize(self) -> None:
        self.query_one(PaneRow).split("#memory-groups", 1 / 4, is_vertical=False)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def load(self) -> None:
        self._generation += 1
        self._load_memory(self._generation)

    @threaded(exclusive=True, group="list")
    def _load_memory(self, generation: int) -> None:
        listing = self._store.memory_files.read_listing()
        facts, audiences = self._store.facts.current(None), self._store.shared_facts.audiences()
        rows = list_rows(listing.files, facts, audiences, self._store.proposals.waiting())
        self.post_message(self.MemoryLoaded(generation, rows, listing))

    @on(MemoryLoaded)
    def _accept_memory(self, loaded: MemoryLoaded) -> None:
        if loaded.generation == self._generation:
            self._rows, self._listing = loaded.rows, loaded.listing
            self.groups.show(list_groups(self._rows))
            self._show_rows()

    def _check_files(self) -> None:
        if not self._is_checking and self._listing.watched:
            self._is_checking = True
            self._compare_stamps(self._listing)

    @threaded(exclusive=True, group="stamps")
    def _compare_stamps(self, listing: MemoryListing) -> None:
        if stamp_paths(listing.watched) != listing.stamp:
            self.post_message(self.FilesChanged())
        self._is_checking = False

    @on(FilesChanged)
    def _reload(self) -> None:
        self.load()

    def _show_rows(self) -> None:
        words = self.bar.filter_words
        chosen = [row for row in self._rows if self._group in (ALL_GROUPS, row.group)]
        found = [row for row in chosen if row.matches(words)] if words else chosen
        count = f"{len(found):,} of {len(chosen):,}" if len(found) != len(chosen) else f"{len(chosen):,}"
        self.bar.show_heading(build_content([("Memory", STRONG), (" · ", FAINT), (count, MUTED)]))
        self.show_empty_state(not self._rows, self.table, self.bar.input)
        self.empty_message.update(Content.styled(_NOTHING, MUTED))
        self.table.show(found)

    @on(MemoryGroupList.Chosen)
    def _choose_group(self, chosen: MemoryGroupList.Chosen) -> None:
        if chosen.key != self._group:
            self._group = chosen.key
            self._show_rows()

    @on(FilterLine.WordsChanged)
    def _filter(self) -> None:
        self._show_rows()

    @on(MemoryTable.Highlighted)
    def _show_page(self) -> None:
        self._blame = None
        self.refresh_bindings()
        row = self.table.selected
        self.page.show(render_memory_page(row, None, self._clock()) if row else [])
        if row is not None and row.number:
            self._load_blame(row)

    @threaded(exclusive=True, group="read")
    def _load_blame(self, row: MemoryRow) -> None:
        try:
            blame = self._store.memory_files.blame(Path(row.path), row.number)
        except StoreError:
            return  # the file has just changed, and will be listed again
        self.post_message(self.BlameLoaded(row, blame))

    @on(BlameLoaded)
    def _show_blame(self, loaded: BlameLoaded) -> None:
        if self.table.selected == loaded.row:
            self._blame = loaded.blame
            self.page.show(render_memory_page(loaded.row, loaded.blame, self._clock()))

    def action_budget(self) -> None:
        """Show the budget of the folder of the line under the cursor, or else of the home folder."""
        row = self.table.selected
        kind, _, name = row.group.partition(":") if row else ("", "", "")
        folder = Path(name) if kind == "folder" and name else Path.home()

        def read() -> tuple[Sequence[RenderedLine], bool]:
            return render_budget(self._store.memory_files.budget(folder)), False

        title = f"What agents load in {abbreviate_home(str(folder))}"
        self.app.push_screen(PreviewDialog(title, read, lambda: None, waiting="Reading the files…"))

    # ── going to the turn ─────────────────────────────────────────────────────────────────────────

    def action_go(self) -> None:
        row = self.table.selected
        if row is None:
            return
        entry = self._find_entry(row)
        if entry:
            self.dismiss(entry)
        else:
            self.notify("No turn is known that this comes from.", timeout=3)

    def _find_entry(self, row: MemoryRow) -> str | None:
        if row.fact is not None:
            return row.fact.entry or (entry_id(row.fact.session_id, 0) if row.fact.session_id else None)
        if row.proposal is not None and row.proposal.session_id:
            return self._find_entry_of_turn(row.proposal.session_id, row.proposal.turn or 0)
        return (
            next((line.origin.entry for line in self._blame.lines if line.origin.entry), None) if self._blame else None
        )

    def _find_entry_of_turn(self, session_id: str, turn: int) -> str:
        try:
            session = self._store.sessions.get(session_id)
            first = self._store.chains.turns(session.key, turn)[0].entries[0]
        except (StoreError, IndexError):
            return entry_id(session_id, 0)
        return entry_id(session_id, first.seq)

    # ── editing ───────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        row = self.table.selected if self.is_mounted else None
        match action:
            case "share":
                return row is not None and row.fact is not None
            case "save_fact":
                return row is not None and bool(row.number)
            case "accept" | "accept_edited" | "reject":
                return row is not None and row.proposal is not None
        return super().check_action(action, parameters)

    def _done(self, notice: str) -> Callable[[object], None]:
        def finish(answer: object) -> None:
            if answer is not None and answer is not False:
                self.notify(notice, timeout=3, markup=False)
                self.load()

        return finish

    def action_share(self) -> None:
        row = self.table.selected
        if row is None or row.fact is None or not self.app.can_edit(self._store):
            return
        number = row.fact.id

        def share(text: str) -> None:
            self._store.shared_facts.set_audiences([number], parse_audiences(text))

        dialog = SingleLineDialog(
            f"Share fact {number} with", format_audiences(row.audiences), share, note=AUDIENCE_NOTE
        )

        def finish(text: str | None) -> None:
            if text is not None and tuple(parse_audiences(text)) == row.audiences:
                self.notify("Nothing changed.", timeout=3, markup=False)
            elif text is not None:
                self.notify("Changed who gets the fact. Press P to write the files.", timeout=3, markup=False)
                self.load()

        self.app.push_screen(dialog, finish)

    def action_save_fact(self) -> None:
        """Save a line of a file as a fact, perhaps merged with another line, to share it with other agents."""
        row = self.table.selected
        if row is None or not row.number or not self.app.can_edit(self._store):
            return

        def learn(text: str) -> None:
            if not self._store.facts.learn(" ".join(text.split())).facts:
                raise BadValue(FACT_EXISTS)

        dialog = MultilineDialog("Save as a fact", row.text, learn, note=ONE_LINE_NOTE)
        self.app.push_screen(dialog, self._done("Added the fact. Press S on it to share it, u to undo."))

    def action_push(self) -> None:
        if not self.app.can_edit(self._store):
            return
        plan = PushPlan(())

        def preview() -> tuple[Sequence[RenderedLine], bool]:
            nonlocal plan
            plan = self._store.shared_facts.plan_push()
            return render_push_plan(plan), bool(plan.changed)

        dialog = PreviewDialog("Push facts into memory files", preview, lambda: self._store.shared_facts.push(plan))
        self.app.push_screen(dialog, self._done("Pushed after a backup. Press u to undo, also in the files."))

    def action_pull(self) -> None:
        if not self.app.can_edit(self._store):
            return
        plan = self._store.shared_facts.plan_pull()

        def preview() -> tuple[Sequence[RenderedLine], bool]:
            nonlocal plan
            plan = self._store.shared_facts.plan_pull()
            return render_pull_plan(plan), bool(plan.edits) and not plan.conflicts

        dialog = PreviewDialog("Edits by hand in memory files", preview, lambda: self._store.shared_facts.pull(plan))
        self.app.push_screen(dialog, self._done("Pulled. Press u to undo."))

    def action_accept(self) -> None:
        self._decide(lambda number: self._store.proposals.accept(number), "Made it a fact. Press u to undo.")

    def action_reject(self) -> None:
        self._decide(lambda number: self._store.proposals.reject(number), "Rejected the proposal. Press u to undo.")

    def _decide(self, decide: Callable[[int], object], notice: str) -> None:
        row = self.table.selected
        if row is None or row.proposal is None or not self.app.can_edit(self._store):
            return
        try:
            decide(row.proposal.id)
        except StoreError as error:
            self.app.show_error(error)
        else:
            self.notify(notice, timeout=3, markup=False)
        self.load()

    def action_accept_edited(self) -> None:
        row = self.table.selected
        if row is None or row.proposal is None or not self.app.can_edit(self._store):
            return
        number = row.proposal.id
        dialog = MultilineDialog(
            "Accept as a fact", row.text, lambda text: self._accept(number, text), note=ONE_LINE_NOTE
        )
        self.app.push_screen(dialog, self._done("Made it a fact. Press u to undo."))

    def _accept(self, number: int, text: str) -> None:
        self._store.proposals.accept(number, text=text)

    @threaded(group="edit")
    def action_undo(self) -> None:
        from tui.screens.journal import undo_newest

        notice = undo_newest(self._store)
        self.app.call_from_thread(self.notify, notice, timeout=3, markup=False)
        self.app.call_from_thread(self.load)

    def action_side(self) -> None:
        self.set_focus(self.groups if self.table.has_focus else self.table)
