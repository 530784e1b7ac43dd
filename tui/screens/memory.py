"""This screen shows what agents remember: their memory files by scope, the shared facts, and what agents propose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from store.errors import BadValue, StoreError
from store.memory.memory_files import stamp_paths
from store.memory.merging import list_options
from store.memory.targets import list_installed_agents
from store.model.memory import Audience, FileBlame, KeyConflict, MemoryListing, MergePlan, PushPlan
from store.model.session import entry_id
from store.text.sanitize import one_line
from tui.dialogs.audience import MAX_FOLDERS, AudienceDialog
from tui.dialogs.merge import MergeDialog
from tui.dialogs.preview import PreviewDialog
from tui.dialogs.pull import PullDialog
from tui.dialogs.text import MultilineDialog
from tui.messages import DataMessage
from tui.render.memory_lines import (
    ALL_GROUPS,
    MemoryGroup,
    MemoryRow,
    describe_audience,
    find_audience,
    list_groups,
    list_rows,
    render_budget,
    render_memory_page,
    render_push_plan,
)
from tui.render.session_lines import abbreviate_home
from tui.render.styles import FAINT, MUTED, STRONG, build_content
from tui.render.viewport import RenderedLine
from tui.screens.fact_edits import FACT_EXISTS, ONE_LINE_NOTE, AutoPushScreen
from tui.screens.store_screen import Clock
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

SHARED_NOTICE = "Changed who gets it. Press P to write the files, u to undo."
_EMPTY_SCOPE = "Nothing is only here. Drag a fact or a line onto this scope to share it."
_NOTHING = "No memory files such as CLAUDE.md, facts or proposals here yet."


def _binding(keys: str, action: str, label: str, tooltip: str, *, show: bool = True) -> Binding:
    return Binding(keys, action, label, id=f"memory.{action}", tooltip=tooltip, show=show)


class MemoryScreen(AutoPushScreen):
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
        _binding("S", "share", "Share", "Choose the agents that get this line. It becomes a fact, if it is none."),
        _binding("P", "push", "Push", "Write shared facts into the memory files, after a preview"),
        _binding("m", "merge", "Merge", "Give all lines with this key the same value"),
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
        groups: Sequence[MemoryGroup]
        folders: Sequence[str]
        listing: MemoryListing

    class BlameLoaded(DataMessage):
        row: MemoryRow
        blame: FileBlame
        conflict: KeyConflict | None

    class FilesChanged(DataMessage):
        """Says that a memory file was changed by somebody else."""

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store, clock)
        self._rows: Sequence[MemoryRow] = ()
        self._listing = MemoryListing((), (), ())
        self._folders: Sequence[str] = ()
        self._group = ALL_GROUPS
        self._blame: FileBlame | None = None
        self._conflict: KeyConflict | None = None
        self._is_checking = False

    def compose(self) -> ComposeResult:
        yield FilterLine("filter by words, file or agent…")
        with PaneRow(id="memory", sizes=self.app.settings.pane_sizes):
            yield make_pane("Scopes", MemoryGroupList(), id="memory-groups")
            yield make_pane("Lines that agents load, and facts for them", MemoryTable(), TextView(), id="memory-lines")
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
        folders = list(map(str, self._store.memory_files.list_folders()[:MAX_FOLDERS]))
        groups = list_groups(rows, list_installed_agents(), folders)
        self.post_message(self.MemoryLoaded(generation, rows, groups, folders, listing))

    @on(MemoryLoaded)
    def _accept_memory(self, loaded: MemoryLoaded) -> None:
        if loaded.generation == self._generation:
            self._rows, self._folders, self._listing = loaded.rows, loaded.folders, loaded.listing
            self.groups.show(loaded.groups)
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
        self.bar.show_heading(build_content([("Memory files", STRONG), (" · ", FAINT), (count, MUTED)]))
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
        self._blame = self._conflict = None
        self.refresh_bindings()
        row = self.table.selected
        can_drop = find_audience(self._group) and not self.bar.filter_words
        hint = [Content.styled(_EMPTY_SCOPE, MUTED)] if can_drop else []
        self.page.show(render_memory_page(row, None, self._clock()) if row else hint)
        if row is not None and row.number:
            self._load_blame(row)

    @threaded(exclusive=True, group="read")
    def _load_blame(self, row: MemoryRow) -> None:
        try:
            blame = self._store.memory_files.blame(Path(row.path), row.number)
            conflicts = self._store.memory_files.list_conflicts(_find_row_folder(row))
        except StoreError:
            return  # the file has just changed, and will be listed again
        at_row = (found for found in conflicts if (row.path, row.number) in [place[:2] for place in found.places])
        self.post_message(self.BlameLoaded(row, blame, next(at_row, None)))

    @on(BlameLoaded)
    def _show_blame(self, loaded: BlameLoaded) -> None:
        if self.table.selected == loaded.row:
            self._blame, self._conflict = loaded.blame, loaded.conflict
            self.refresh_bindings()
            self.page.show(render_memory_page(loaded.row, loaded.blame, self._clock(), loaded.conflict))

    def action_budget(self) -> None:
        """Show the budget of the folder of the line under the cursor, or else of the home folder."""
        row = self.table.selected
        folder = _find_row_folder(row) if row else Path.home()

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
                return row is not None and (row.fact is not None or bool(row.number))
            case "merge":
                return self._conflict is not None
            case "save_fact":
                return row is not None and bool(row.number)
            case "accept" | "accept_edited" | "reject":
                return row is not None and row.proposal is not None
        return super().check_action(action, parameters)

    def _edit(self, edit: Callable[[], object], notice: str) -> None:
        try:
            edit()
        except StoreError as error:
            self.app.show_error(error)
        else:
            self.notify(notice, timeout=3, markup=False)
            self.push_automatically()
        self.load()

    def _done(self, notice: str) -> Callable[[object], None]:
        def finish(answer: object) -> None:
            if answer is not None and answer is not False:
                self.notify(notice, timeout=3, markup=False)
                self.push_automatically()
                self.load()

        return finish

    def action_share(self) -> None:
        row = self.table.selected
        if row is None or not self.app.can_edit(self._store):
            return

        def finish(audiences: list[Audience] | None) -> None:
            if audiences is None:
                self.notify("Nothing changed.", timeout=3, markup=False)
            else:
                self._edit(lambda: self._set_audiences(row, audiences), SHARED_NOTICE)

        folder = str(_find_row_folder(row)) if row.group.startswith("folder:") else ""
        dialog = AudienceDialog(one_line(row.text, 500), row.audiences, self._folders, folder)
        self.app.push_screen(dialog, finish)

    def _set_audiences(self, row: MemoryRow, audiences: Sequence[Audience]) -> None:
        if row.fact is not None:
            self._store.shared_facts.set_audiences([row.fact.id], audiences)
        else:
            for audience in audiences:
                self._store.shared_facts.share_line(row.text, audience)

    @on(MemoryTable.Dragged)
    def _mark_drop_target(self, dragged: MemoryTable.Dragged) -> None:
        group = self.groups.find_group(dragged.at)
        self.groups.mark_drop_target(group if group and find_audience(group.key) else None)

    @on(MemoryTable.Dropped)
    def _drop(self, dropped: MemoryTable.Dropped) -> None:
        """Share the fact or line with the scope on which it was dropped."""
        self.groups.mark_drop_target(None)
        group = self.groups.find_group(dropped.at)
        audience = find_audience(group.key) if group else None
        row = dropped.row
        if group is None or not self.app.can_edit(self._store):
            return
        if audience is None or not (row.fact or row.number):
            self.notify("Drop a fact or a line on an agent or a folder to share it.", timeout=4, markup=False)
        elif audience in row.audiences:
            self.notify(f"It is shared with {describe_audience(audience)} already.", timeout=3, markup=False)
        else:
            notice = f"Shared with {describe_audience(audience)}. Press P to write the files, u to undo."
            self._edit(lambda: self._add_audience(row, audience), notice)

    def _add_audience(self, row: MemoryRow, audience: Audience) -> None:
        if row.fact is not None:
            self._store.shared_facts.share([row.fact.id], audience)
        else:
            self._store.shared_facts.share_line(row.text, audience)

    def action_merge(self) -> None:
        """Choose one value for the key of this line, and write it after a preview."""
        row, conflict = self.table.selected, self._conflict
        if row is None or conflict is None or not self.app.can_edit(self._store):
            return

        def preview_merge(text: str | None) -> None:
            if text is not None:
                self._preview_merge(conflict, text)

        where = abbreviate_home(str(_find_row_folder(row)))
        self.app.push_screen(MergeDialog(conflict.key, where, list_options(conflict)), preview_merge)

    def _preview_merge(self, conflict: KeyConflict, text: str) -> None:
        files = self._store.memory_files
        plan: MergePlan | None = None

        def preview() -> tuple[Sequence[RenderedLine], bool]:
            nonlocal plan
            plan = files.plan_merge(conflict, text)
            return render_push_plan(plan), bool(plan.changed) and not plan.problems

        dialog = PreviewDialog(
            f"Give all lines with {conflict.key} one value", preview, lambda: plan and files.merge(plan)
        )
        self.app.push_screen(dialog, self._done("Merged after a backup. Press u to undo, also in the files."))

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
        shared = self._store.shared_facts
        dialog = PullDialog("Edits by hand in memory files", shared.plan_pull, shared.pull)
        self.app.push_screen(dialog, self._done("Pulled. Press u to undo."))

    def action_accept(self) -> None:
        self._decide(lambda number: self._store.proposals.accept(number), "Made it a fact. Press u to undo.")

    def action_reject(self) -> None:
        self._decide(lambda number: self._store.proposals.reject(number), "Rejected the proposal. Press u to undo.")

    def _decide(self, decide: Callable[[int], object], notice: str) -> None:
        row = self.table.selected
        if row is None or row.proposal is None or not self.app.can_edit(self._store):
            return
        number = row.proposal.id
        self._edit(lambda: decide(number), notice)

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


def _find_row_folder(row: MemoryRow) -> Path:
    """Return the folder in which a line counts, or the home folder if it counts everywhere."""
    kind, _, name = row.group.partition(":")
    return Path(name) if kind == "folder" and name else Path.home()
