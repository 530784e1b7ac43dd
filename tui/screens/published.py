"""This screen lists the published files of a session, or of all sessions. A file is opened only on request."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from store.database.cancel import cancel_when
from store.edits.labels import find_titles
from store.errors import LeaksFound, StoreError
from store.model.knowledge import PublishedFile
from store.model.session import Session, entry_id
from tui.links.system_opener import find_opener, open_with_system
from tui.messages import Copy, DataMessage
from tui.render.published_lines import (
    PublishedRow,
    PublishedState,
    render_published_heading,
    render_published_page,
)
from tui.render.styles import MUTED, session_title
from tui.screens.store_screen import Clock
from tui.screens.table_screen import FilteredTableScreen
from tui.widgets.filter_line import FilterLine
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.tables.published_table import PublishedTable
from tui.widgets.text_view import TextView
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store

_EXECUTABLE_WARNING = "It is executable, so your system may run it."
_TRUST_NOTE = "An agent may have written it. Open it only if you trust its content."


def _file_binding(keys: str, action: str, label: str, tooltip: str, *, show: bool = True) -> Binding:
    return Binding(keys, action, label, id=f"published.{action}", tooltip=tooltip, show=show)


class PublishedScreen(FilteredTableScreen):
    """Returns the public id of the first entry of a file's session, or None."""

    AUTO_FOCUS = "PublishedTable"
    DEFAULT_CSS = """
    PublishedScreen {
        #files {
            height: 1fr;
        }

        PublishedTable {
            height: 1fr;
        }

        TextView {
            height: 9;
            border-top: solid $foreground 15%;
        }

        &.-nothing #files {
            display: none;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        _file_binding("a", "publish", "Publish", "Publish a file of the session"),
        _file_binding("o,enter", "open", "Open", "Open the file with its default program, after a confirmation"),
        _file_binding("y", "copy", "Copy id", "Copy the public id of the file"),
        _file_binding("Y", "copy_path", "Copy path", "Copy the path of the file", show=False),
        _file_binding("x", "unpublish", "Unpublish", "Withdraw the public id. The file itself stays."),
        _file_binding("u", "undo", "Undo", "Undo the newest edit", show=False),
        _file_binding("s", "scope", "Scope", "Show the files of this session, or of all sessions"),
        _file_binding("g", "go", "Go to session", "Go to the session of the file", show=False),
        Binding("slash", "filter", "Filter", key_display="/", id="published.filter", tooltip="Filter the files"),
        _file_binding("escape,q,P", "leave", "Back", "Back to the browser"),
    ]

    table = query_one(PublishedTable)
    page = query_one(TextView)
    empty_message = query_one("#none", Static)

    class FilesLoaded(DataMessage):
        generation: int
        rows: Sequence[PublishedRow]

    class FileLoaded(DataMessage):
        """Holds everything about the file under the cursor, ready to be shown."""

        generation: int
        page: list[Content]

    class OpenPlanned(DataMessage):
        """Names the file that is opened if the person agrees, and the program that opens it."""

        file: PublishedFile
        path: Path
        program: str
        is_executable: bool

    class FolderFound(DataMessage):
        """Names the folder whose files can be published."""

        folder: Path

    def __init__(self, store: Store, session: Session | None, clock: Clock) -> None:
        super().__init__(store, clock)
        self._session = session
        self._lists_all = session is None
        self._rows: Sequence[PublishedRow] = ()
        self._page_generation = 0
        self._shown_page: list[Content] = []

    def compose(self) -> ComposeResult:
        yield FilterLine("filter by name, path, id or session…")
        with Vertical(id="files"):
            yield PublishedTable(self._clock())
            yield TextView()
        yield Static(id="none")
        yield KeyHintBar()

    def refresh_ages(self) -> None:
        self.table.now = self._clock()
        self.table.invalidate_strips()

    # ── reading the store ─────────────────────────────────────────────────────────────────────────

    def load(self) -> None:
        self._generation += 1
        self._load_files(self._generation, None if self._lists_all else self._session)

    @threaded(exclusive=True, group="list")
    def _load_files(self, generation: int, session: Session | None) -> None:
        with cancel_when(self._store, lambda: generation != self._generation):
            files = self._store.published.list_published(session)
            titles = find_titles(self._store, {file.session_id for file in files})
            rows = [PublishedRow(file, titles.get(file.session_id, file.session_id)) for file in files]
            self.post_message(self.FilesLoaded(generation, rows))

    @on(FilesLoaded)
    def _accept_files(self, loaded: FilesLoaded) -> None:
        if loaded.generation == self._generation:
            self._rows = loaded.rows
            self._show_files()

    @on(FilterLine.WordsChanged)
    def _show_files(self) -> None:
        words = self.bar.filter_words
        found = [row for row in self._rows if row.matches(words)] if words else self._rows
        title = session_title(self._session) if self._session and not self._lists_all else ""
        self.bar.show_heading(render_published_heading(len(found), len(self._rows), title))
        self.show_empty_state(not found, self.table, self.bar.input)
        self.empty_message.update(Content.styled("No files match." if words else self._empty_text, MUTED))
        self.table.show(found, with_session=self._lists_all)

    @property
    def _empty_text(self) -> str:
        hint = "\n\nPress a to publish one." if self._session else ""
        return f"No published files.{hint}" + ("" if self._lists_all else " Press s to see those of all sessions.")

    @on(PublishedTable.Highlighted)
    def _select_file(self) -> None:
        self._page_generation += 1
        self.refresh_bindings()
        if (row := self.table.selected) is not None:
            self._load_page(row, self._page_generation)

    @threaded(exclusive=True, group="read")
    def _load_page(self, row: PublishedRow, generation: int) -> None:
        state = self._read_state(row.file)
        self.post_message(self.FileLoaded(generation, render_published_page(row, state, self._clock())))

    def _read_state(self, file: PublishedFile) -> PublishedState:
        try:
            with self._store.published.open_file(file.id) as opened:
                return PublishedState(os.fstat(opened.fileno()).st_size)
        except StoreError as reason:
            return PublishedState(problem=str(reason))

    @on(FileLoaded)
    def _show_page(self, loaded: FileLoaded) -> None:
        """Show a file. The scroll position stays if the same text is shown again."""
        if loaded.generation == self._page_generation and loaded.page != self._shown_page:
            self._shown_page = loaded.page
            self.page.show(loaded.page)

    # ── publishing ────────────────────────────────────────────────────────────────────────────────

    @threaded(exclusive=True, group="folder")
    def action_publish(self) -> None:
        if self._session is not None:
            session = self._store.sessions.by_key(self._session.key)
            self.post_message(self.FolderFound(self._store.published.folder(session)))

    @on(FolderFound)
    def _ask_for_file(self, found: FolderFound) -> None:
        from tui.dialogs.publish import PublishDialog

        if (session := self._session) is None or not self.app.can_edit(self._store):
            return
        published: list[PublishedFile] = []

        def publish(path: str) -> None:
            try:
                published.append(self._store.published.publish(session, path))
            except LeaksFound as error:
                raise error.with_list("Remove them, or run `backscroll publish --allow-leaks`.") from None

        def finish(typed: str | None) -> None:
            if typed is not None:
                self.table.pending_id = published[-1].id
                self.notify(f"Published {published[-1].filename}. Press u to undo.", timeout=4, markup=False)
                self.load()

        self.app.push_screen(PublishDialog(found.folder, session_title(session), publish), finish)

    @threaded(group="edit")
    def action_unpublish(self) -> None:
        if (row := self.table.selected) is not None:
            self._store.published.unpublish(row.file.id)
            self._finish_edit(f"Unpublished {row.file.filename}. Press u to undo.")

    @threaded(group="edit")
    def action_undo(self) -> None:
        from tui.screens.journal import undo_newest

        self._finish_edit(undo_newest(self._store))

    def _finish_edit(self, notice: str) -> None:
        self.app.call_from_thread(self.load)
        self.notify(notice, timeout=4, markup=False)

    # ── opening ───────────────────────────────────────────────────────────────────────────────────

    @on(PublishedTable.DoubleClicked)
    def action_open(self) -> None:
        if (row := self.table.selected) is not None:
            self._plan_open(row.file)

    @threaded(exclusive=True, group="open")
    def _plan_open(self, file: PublishedFile) -> None:
        program = find_opener()
        with self._store.published.open_file(file.id) as opened:
            is_executable = bool(os.fstat(opened.fileno()).st_mode & 0o111)
            self.post_message(self.OpenPlanned(file, Path(opened.name), program, is_executable))

    @on(OpenPlanned)
    def _confirm_open(self, plan: OpenPlanned) -> None:
        from tui.dialogs.confirm import ConfirmDialog

        warning = f"{_EXECUTABLE_WARNING} " if plan.is_executable else ""
        text = f"{plan.path}\n\n{plan.program} opens it. {warning}{_TRUST_NOTE}"

        def go_on(sure: bool | None) -> None:
            if sure:
                self._open_file(plan.file, plan.program)

        self.app.push_screen(ConfirmDialog(f"Open {plan.file.filename}?", text), go_on)

    @threaded(group="open")
    def _open_file(self, file: PublishedFile, program: str) -> None:
        """Open the file. It is checked again, because it may have been replaced while the question was shown."""
        open_with_system(program, self._store.published.resolve(file.id))
        self.notify(f"Opened {file.filename}.", timeout=3, markup=False)

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "publish" | "scope":
                return self._session is not None
            case "open" | "copy" | "copy_path" | "unpublish" | "go":
                return self.is_mounted and self.table.selected is not None
        return super().check_action(action, parameters)

    def action_copy(self) -> None:
        if (row := self.table.selected) is not None:
            self.post_message(Copy(row.file.id, "the public id"))

    def action_copy_path(self) -> None:
        if (row := self.table.selected) is not None:
            self.post_message(Copy(row.file.path, "the path"))

    def action_scope(self) -> None:
        self._lists_all = not self._lists_all
        self.load()

    def action_go(self) -> None:
        if (row := self.table.selected) is not None:
            self.dismiss(entry_id(row.file.session_id, 0))
