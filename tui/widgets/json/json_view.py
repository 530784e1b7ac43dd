"""The verbatim record of whatever is selected, folded so that one sees what it is, and opened as far as one looks."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from store.model.entry import Json
from store.text.sanitize import one_line
from tui.json_document.large_containers import spelled
from tui.json_document.parser import PAGE, parse
from tui.json_document.tree import (
    ARROW_CELLS,
    EVERYTHING,
    ROWS_AT_FIRST,
    SHORT,
    Path,
    Row,
    Tree,
    find,
    indent,
    path_from,
    path_of,
    spell,
)
from tui.json_document.values import Lines
from tui.messages import Copy, Told
from tui.render.json_row import can_open, row_line, size_of
from tui.render.styles import MUTED
from tui.widgets.cursor_view import CursorView
from tui.widgets.find_bar import FindBar
from tui.widgets.find_pane import FindPane, Search
from tui.workers import threaded


class JsonView(CursorView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "fold", "Fold", show=False, id="json.fold", tooltip="Open or fold this row"),
        Binding("right,l", "open", "Open", show=False, id="json.open", tooltip="Open this row, or go into it"),
        Binding("left,h", "close", "Fold", show=False, id="json.close", tooltip="Fold this row, or go to its parent"),
        Binding("o", "inside", "JSON inside", id="json.inside", tooltip="Open the JSON inside this string"),
        Binding("H", "fold_all", "Fold all", show=False, id="json.fold_all", tooltip="Fold everything, or open it"),
    ]

    class Moved(Told):
        """The cursor stands on another path, or on none."""

        path: str

    class Built(Told):
        """Another tree of the same value."""

        of: Tree
        tree: Tree

    class LaidOut(Told):
        """A string so long that a thread had to lay it out."""

        row: Row
        width: int
        lines: list[Row]

    def __init__(self) -> None:
        super().__init__()
        self.outline: Tree | None = None
        self._note = ""
        self._words = ""

    # ── what is handed down ───────────────────────────────────────────────────────────────────────

    def show(self, tree: Tree | None, note: str = "", focus: Path = ()) -> None:
        """The note stands where there is no tree."""
        self.outline = tree
        self._note = note
        if tree is not None:
            tree.wrap(self.text_width)
        at = (tree.reveal(focus) if tree is not None and focus else 0) or 0
        self._redraw(at)
        self.scroll_to(y=max(at - self.page.height // 2, 0), animate=False, force=True)

    def set_off(self, words: str) -> None:
        self._words = words
        self.forget_strips()

    def reveal(self, path: Path) -> None:
        if self.outline is not None:
            self._redraw(self.outline.reveal(path))

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        return self.outline.rows[self.cursor] if self.outline is not None else None

    @property
    def path(self) -> str:
        """Where the cursor stands."""
        row = self.row
        if row is None:
            return ""
        path = path_of(row)
        is_text = self.outline is not None and isinstance(self.outline.root.held, Lines)
        return f"line {path[0] + 1}" if is_text and isinstance(path[0], int) else spell(path)

    def _redraw(self, cursor: int | None = None) -> None:
        self.line_count = len(self.outline.rows) if self.outline is not None else 1
        self.forget_strips()
        if cursor is not None and cursor != self.cursor:
            self.cursor = cursor
        else:
            self.cursor = self.validate_cursor(self.cursor)
            self.chosen()

    def search_for(self, words: str) -> Search:
        if self.outline is None:
            return lambda stopped: ()
        value, insides = self.outline.root.value, self.outline.insides()
        return lambda stopped: find(value, words, insides, stopped)

    def copy_value(self) -> None:
        row = self.row
        if row is None:
            return
        value = row.whole.value
        if type(value) is str:
            self.post_message(Copy(value, "value"))
        else:
            self._copy_spelled(value)

    @threaded(group="copy")
    def _copy_spelled(self, value: Json) -> None:
        self.post_message(Copy(spelled(value), "value"))

    # ── painting ──────────────────────────────────────────────────────────────────────────────────

    def line(self, index: int, width: int) -> Content:
        if self.outline is None:
            return Content.styled(one_line(self._note, width), MUTED)
        return row_line(self.outline.rows[index], width, self._words)

    def chosen(self) -> None:
        self.post_message(self.Moved(self.path))

    def on_resize(self) -> None:
        if self.outline is not None and self.outline.width != self.text_width:
            whole = self.outline.rows[self.cursor].whole
            for row in self.outline.wrap(self.text_width):
                self._lay_out(self.outline, row)
            self._redraw(self.outline.rows.index(whole))

    # ── folding ───────────────────────────────────────────────────────────────────────────────────

    def pressed(self, x: int) -> None:
        row = self.row
        if row is not None and 0 <= x - indent(row.depth, self.text_width) < ARROW_CELLS:
            self.action_fold()

    def pressed_twice(self) -> None:
        self.action_fold()

    def action_fold(self) -> None:
        row = self.row
        if row is not None and row.whole.open:
            self._close()
        else:
            self._open()

    def action_open(self) -> None:
        row = self.row
        if row is not None and row.open:
            self.cursor += 1
        else:
            self._open()

    def action_close(self) -> None:
        row = self.row
        if row is None or self.outline is None:
            return
        if row.open:
            self._close()
        else:
            self.cursor = self.outline.parent(self.cursor)

    def _open(self) -> None:
        row, tree = self.row, self.outline
        if row is None or tree is None or not can_open(row, self.text_width):
            return
        if type(row.content) is str and len(row.content) > SHORT:
            self._lay_out(tree, row)
        else:
            tree.open(self.cursor)
            self._redraw()

    def _close(self) -> None:
        """What is open, from wherever in it one stands."""
        if self.outline is not None:
            at = self.cursor
            if self.outline.rows[at].whole is not self.outline.rows[at]:
                at = self.outline.parent(at)
            self.outline.close(at)
            self._redraw(at)

    @threaded(group="lay out")
    def _lay_out(self, tree: Tree, row: Row) -> None:
        width = tree.width
        self.post_message(self.LaidOut(row, width, list(tree.children(row))))

    @on(LaidOut)
    def _show_laid_out(self, laid_out: LaidOut) -> None:
        row, tree = laid_out.row, self.outline
        if tree is not None and row in tree.rows and tree.width == laid_out.width:
            tree.open(tree.rows.index(row), laid_out.lines)
            self._redraw()

    def action_inside(self) -> None:
        row, tree = self.row, self.outline
        if row is None or tree is None:
            return
        at = self.cursor if row.whole is row else tree.parent(self.cursor)
        if tree.rows[at].inside is not None:
            tree.close_inside(at)
        elif not tree.open_inside(at):
            self.notify("There is no JSON inside this value.", severity="warning", timeout=3)
        self._redraw(at)

    def action_fold_all(self) -> None:
        tree = self.outline
        if tree is not None:
            is_open = any(row.open for row in tree.rows)
            self._build(tree, 0 if is_open else EVERYTHING, ROWS_AT_FIRST if is_open else EVERYTHING)

    @threaded(exclusive=True, group="build")
    def _build(self, tree: Tree, levels: int, rows: int) -> None:
        self.post_message(self.Built(tree, Tree(tree.root.value, tree.width, levels, rows)))

    @on(Built)
    def _show_built(self, built: Built) -> None:
        row = self.row
        if self.outline is built.of and row is not None:
            path = path_of(row)
            self.outline = built.tree
            self.outline.wrap(self.text_width)
            self._redraw(self.outline.nearest(path))


class JsonPane(FindPane):
    """The path of the cursor, the record, and what one looks for in it."""

    DEFAULT_CSS = """
    JsonPane {
        #path {
            height: 1;
            padding: 0 1;
            color: $foreground 65%;
        }

        &:focus-within #path {
            color: $text-accent;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy_value", "Copy value", id="json.copy_value", tooltip="Copy the value under the cursor"),
        Binding("Y", "copy_path", "Copy path", id="json.copy_path", tooltip="Copy the path of the cursor"),
        Binding("c", "copy_all", "Copy all", show=False, id="json.copy_all", tooltip="Copy the record as it was read"),
    ]

    json = query_one(JsonView)
    path_line = query_one("#path", Static)

    class Parsed(Told):
        generation: int
        tree: Tree
        focus: Path

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 (Textual calls it so)
        super().__init__(id=id)
        self._record: bytes | None = None
        self._generation = 0

    def compose(self) -> ComposeResult:
        yield Static(id="path")
        yield JsonView()
        yield FindBar()

    # ── what is handed down ───────────────────────────────────────────────────────────────────────

    def show(self, record: bytes | None, note: str = "", focus: str = "") -> None:
        """The record as it was read; a quiet line in its place where there is none. The focus is a path in it."""
        path = path_from(focus) or ()
        if record is not None and record == self._record and self.json.outline is not None:
            if path:
                self.json.reveal(path)
            return
        self._record = record
        self._generation += 1
        if record is None:
            self.json.show(None, note)
        elif len(record) <= PAGE:
            self._show_tree(Tree(parse(record), self.json.text_width), path)
        else:
            self.json.show(None, f"Reading {size_of(len(record))}…")
            self._parse(record, path, self._generation, self.json.text_width)

    @threaded(exclusive=True, group="parse")
    def _parse(self, record: bytes, focus: Path, generation: int, width: int) -> None:
        if generation == self._generation:
            self.post_message(self.Parsed(generation, Tree(parse(record), width), focus))

    @on(Parsed)
    def _show_parsed(self, parsed: Parsed) -> None:
        parsed.stop()
        if parsed.generation == self._generation:
            self._show_tree(parsed.tree, parsed.focus)

    def _show_tree(self, tree: Tree, focus: Path) -> None:
        self.json.show(tree, focus=focus)
        if isinstance(tree.root.held, Lines) and tree.root.held.note:
            self.notify(tree.root.held.note, severity="warning", timeout=5)
        self.look_again()
        self.refresh_bindings()

    @on(JsonView.Moved)
    def _show_path(self, moved: JsonView.Moved) -> None:
        moved.stop()
        self.path_line.update(Content(one_line(moved.path)), layout=False)

    @property
    def view(self) -> JsonView:
        return self.json

    # ── copying ───────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("copy_value", "copy_path", "copy_all"):
            return self._record is not None and (action == "copy_all" or self.json.outline is not None)
        return super().check_action(action, parameters)

    def action_copy_value(self) -> None:
        self.json.copy_value()

    def action_copy_path(self) -> None:
        self.post_message(Copy(self.json.path, "path"))

    def action_copy_all(self) -> None:
        if self._record is not None:
            self.post_message(Copy(self._record.decode("utf-8", "replace"), "record"))
