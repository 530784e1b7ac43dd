"""This screen shows the files that a session changed, and the changes of one of them with the turns they came from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Static

from store.database.cancel import cancel_when
from store.formats.changed_files import ChangedFile, SessionChanges, format_file_patch, format_session_patch
from store.model.session import Session
from tui.messages import Copy, DataMessage
from tui.render.diffs.changed_files import render_changes_heading, render_file_changes, render_limits
from tui.render.styles import MUTED, session_title
from tui.widgets.diff_pane import DiffPane
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.pane_row import PaneRow, make_pane
from tui.widgets.tables.changed_file_table import ChangedFileTable
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store
    from tui.app import Backscroll

WIDE_WIDTH = 120
"""The width from which the changes stand beside the files, not below them."""

LOADING = "Reading the tool calls…"
NO_CHANGES = "No tool call of this session changed a file."


class ChangesScreen(Screen[str | None]):
    """Returns the public id of the entry to go to, or None."""

    AUTO_FOCUS = "ChangedFileTable"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE_WIDTH, "-wide")]  # noqa: RUF012 (declared so by Textual)
    DEFAULT_CSS = """
    ChangesScreen {
        #changes-heading, #limits {
            height: 1;
            padding: 0 1;
        }

        #limits {
            height: auto;
            margin-bottom: 1;
        }

        #nothing {
            display: none;
            height: 1fr;
            content-align: center middle;
        }

        &.-nothing {
            #nothing {
                display: block;
            }

            PaneRow {
                display: none;
            }
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,V", "dismiss(None)", "Back", id="changes.back", tooltip="Back to the conversation"),
        Binding("enter,g", "go", "Go to turn", id="changes.go", tooltip="Go to the turn of this change"),
        Binding("J", "step(1)", "Next change", id="changes.next", tooltip="Next change, also of the next file"),
        Binding(
            "K",
            "step(-1)",
            "Previous change",
            show=False,
            id="changes.previous",
            tooltip="Previous change, also of the previous file",
        ),
        Binding(
            "tab", "side", "Switch pane", show=False, id="changes.side", tooltip="Go to the changes, or to the files"
        ),
        Binding("y", "copy", "Copy patch", id="changes.copy", tooltip="Copy the patch of this file"),
        Binding(
            "Y", "copy_all", "Copy all", show=False, id="changes.copy_all", tooltip="Copy all changes as one patch"
        ),
        Binding("e", "export", "Export", id="changes.export", tooltip="Write all changes to a patch file"),
        Binding("slash", "find", "Find", key_display="/", id="changes.find", tooltip="Find words in these changes"),
    ]

    app: Backscroll
    heading = query_one("#changes-heading", Static)
    limits = query_one("#limits", Static)
    nothing = query_one("#nothing", Static)
    table = query_one(ChangedFileTable)
    pane = query_one(DiffPane)

    class ChangesLoaded(DataMessage):
        changes: SessionChanges
        session: Session
        "Is the session as it is shown."

    def __init__(self, store: Store, session: Session, *, is_masked: bool = False) -> None:
        """Show the changes of a session. With `is_masked`, leaks are hidden."""
        super().__init__()
        self._store = store
        self._session = session
        self._is_masked = is_masked
        self._changes = SessionChanges()
        self._shown_file: ChangedFile | None = None
        self._is_loading = True

    def compose(self) -> ComposeResult:
        yield Static(id="changes-heading")
        yield Static(id="limits")
        with PaneRow(id="changes", sizes=self.app.settings.pane_sizes):
            yield make_pane("Files", ChangedFileTable(), id="files")
            yield make_pane("Diff", DiffPane(), id="diff", classes="-below")
        yield Static(Content.styled(LOADING, MUTED), id="nothing")
        yield KeyHintBar()

    def on_mount(self) -> None:
        self.add_class("-nothing")
        self._load()

    def on_resize(self) -> None:
        is_wide = self.app.size.width >= WIDE_WIDTH
        self.query_one(PaneRow).split("#files", 1 / 4, is_vertical=not is_wide)
        self._show_heading()

    @threaded(group="changes")
    def _load(self) -> None:
        from store.conversations.session_changes import read_session_changes

        with cancel_when(self._store, lambda: not self.is_attached):
            changes, session = read_session_changes(self._store, self._session), self._session
            if self._is_masked:
                mask = self._store.leaks.read_mask(session.key, *self._list_sub_agents(changes))
                changes, session = mask.mask(changes), mask.mask(session)
            self.post_message(self.ChangesLoaded(changes, session))

    def _list_sub_agents(self, changes: SessionChanges) -> set[int]:
        ids = {change.session_id for file in changes.files for change in file.changes}
        return {self._store.sessions.get(session_id).key for session_id in ids - {self._session.id}}

    @on(ChangesLoaded)
    def _show_changes(self, loaded: ChangesLoaded) -> None:
        self._changes, self._session = loaded.changes, loaded.session
        self._is_loading = False
        self.nothing.update(Content.styled(NO_CHANGES, MUTED))
        self.set_class(not loaded.changes.files, "-nothing")
        self._show_heading()
        self.table.show(loaded.changes.files)
        self.call_after_refresh(self.table.focus)
        self.refresh_bindings()

    def _show_heading(self) -> None:
        width = max(self.size.width - 2, 1)
        self.heading.update(render_changes_heading(self._changes, session_title(self._session), width))
        self.limits.update(render_limits(self._changes))

    @on(ChangedFileTable.Highlighted)
    def _show_highlighted(self, chosen: ChangedFileTable.Highlighted) -> None:
        self._show_file(chosen.file)

    def _show_file(self, file: ChangedFile, *, at_end: bool = False) -> None:
        if file is not self._shown_file:
            self._shown_file = file
            sections = render_file_changes(file)
            self.pane.diff_view.show_sections(sections, len(sections) - 1 if at_end else 0)
            self.pane.search_again()

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "find":
            return self._shown_file is not None and not self.pane.find_bar.input.has_focus
        if action in ("go", "step", "side", "copy", "copy_all", "export"):
            return self._shown_file is not None
        return super().check_action(action, parameters)

    def action_step(self, by: int) -> None:
        view = self.pane.diff_view
        if 0 <= view.section + by < view.section_count:
            view.go_to_section(view.section + by)
        elif 0 <= self.table.cursor + by < self.table.line_count:
            self.table.cursor += by
            if (file := self.table.selected) is not None:
                self._show_file(file, at_end=by < 0)  # at once, because the next key may come before the message

    def action_side(self) -> None:
        self.set_focus(self.pane.diff_view if self.table.has_focus else self.table)

    @on(ChangedFileTable.DoubleClicked)
    def action_go(self) -> None:
        if self._shown_file is not None:
            change = self._shown_file.changes[self.pane.diff_view.section]
            self.dismiss(change.entry or f"{change.session_id}#0")

    def action_find(self) -> None:
        self.pane.action_find()

    def action_copy(self) -> None:
        if self._shown_file is not None:
            self._copy_patch(self._shown_file)

    @threaded(group="copy")
    def _copy_patch(self, file: ChangedFile) -> None:
        if patch := format_file_patch(file):
            self.post_message(Copy(patch.lstrip("\n"), "the patch of the file"))
        else:
            self.notify(f"There is no patch. {file.changes[0].reason_left_out}", timeout=4, markup=False)

    def action_copy_all(self) -> None:
        self._copy_all()

    @threaded(group="copy")
    def _copy_all(self) -> None:
        self.post_message(Copy(self._format_patch(), "all changes as a patch"))

    def _format_patch(self) -> str:
        return format_session_patch(self._changes, session_title(self._session))

    def action_export(self) -> None:
        from tui.dialogs.export import ExportDialog

        def report(typed: str | None) -> None:
            if typed is not None:
                self.notify(f"Wrote the patch to {typed.strip()}.", timeout=4, markup=False)

        name = re.sub(r"[^\w.-]+", "-", self._session.native_id)[:60].strip("-.") or "session"
        self.app.push_screen(ExportDialog("Export the changes as a patch", f"{name}.patch", self._format_patch), report)
