"""This module shows the record of the selected item as a JSON tree that can be folded."""

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
from tui.json_document.large_containers import format_json
from tui.json_document.parser import PAGE_BYTES, parse_embedded_json, parse_record
from tui.json_document.tree import (
    ARROW_CELLS,
    INITIAL_ROWS,
    MAX_SYNC_CHARACTERS,
    UNLIMITED,
    JsonPath,
    JsonRow,
    JsonTree,
    find_paths,
    format_path,
    indent_width,
    parse_path,
    row_path,
)
from tui.json_document.values import TextLines
from tui.messages import Copy, DataMessage
from tui.render.json_row import can_open, render_json_row
from tui.render.styles import MUTED, format_size
from tui.render.word_wrap import wrap_text
from tui.widgets.cursor_view import CursorView
from tui.widgets.find_bar import FindBar
from tui.widgets.find_pane import FindPane, FindSearch
from tui.workers import threaded


class JsonView(CursorView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "fold", "Fold", show=False, id="json.fold", tooltip="Fold or unfold this row"),
        Binding(
            "right,l", "open", "Unfold", show=False, id="json.open", tooltip="Unfold this row, or go to its first child"
        ),
        Binding("left,h", "close", "Fold", show=False, id="json.close", tooltip="Fold this row, or go to its parent"),
        Binding("o", "inside", "JSON inside", id="json.inside", tooltip="Open the JSON inside this string"),
        Binding("H", "fold_all", "Fold all", show=False, id="json.fold_all", tooltip="Fold or unfold everything"),
    ]

    class PathChanged(DataMessage):
        """Says that the cursor moved to another path. Is empty when there is no tree."""

        path: str

    class TreeBuilt(DataMessage):
        """Carries a tree of the same value with other rows open."""

        replaces: JsonTree
        tree: JsonTree

    class StringWrapped(DataMessage):
        """Carries the lines of a long string that a thread has wrapped."""

        row: JsonRow
        width: int
        lines: list[JsonRow]

    class InsideParsed(DataMessage):
        """Carries the JSON inside a string."""

        row: JsonRow
        embedded: Json

    def __init__(self) -> None:
        super().__init__()
        self.json_tree: JsonTree | None = None
        self._note = ""
        self._note_lines: list[str] = [""]
        self._words = ""

    # ── content ───────────────────────────────────────────────────────────────────────────────────

    def show(self, tree: JsonTree | None, note: str = "", focus: JsonPath = ()) -> None:
        """Show a tree with the cursor on the focused path, or a note if there is no tree."""
        self.json_tree = tree
        self._note = note
        if tree is not None:
            tree.rewrap(self.text_width)
        else:
            self._wrap_note()
        index = (tree.reveal(focus) if tree is not None and focus else 0) or 0
        self._redraw(index)
        self.scroll_to(y=max(index - self.page.height // 2, 0), animate=False, force=True)

    def unfold_strings(self) -> None:
        """Unfold the strings that are cut off, from the top, while everything fits on the page."""
        tree = self.json_tree
        for row in list(tree.rows) if tree is not None else ():
            if tree is None or type(row.content) is not str or len(row.content) > MAX_SYNC_CHARACTERS or row.is_open:
                continue
            if can_open(row, self.text_width):
                lines = list(tree.children(row))
                if len(tree.rows) + len(lines) <= self.page.height:
                    tree.open(tree.rows.index(row), lines)
        self._redraw()

    def highlight_words(self, words: str) -> None:
        self._words = words
        self.invalidate_strips()

    def reveal(self, path: JsonPath) -> None:
        if self.json_tree is not None:
            self._redraw(self.json_tree.reveal(path))

    @property
    def current_row(self) -> JsonRow | None:
        """The row under the cursor."""
        return self.json_tree.rows[self.cursor] if self.json_tree is not None else None

    @property
    def path(self) -> str:
        """The path of the row under the cursor, or the line number of a text."""
        row = self.current_row
        if row is None:
            return ""
        path = row_path(row)
        is_text = self.json_tree is not None and isinstance(self.json_tree.root.stored, TextLines)
        return f"line {path[0] + 1}" if is_text and isinstance(path[0], int) else format_path(path)

    def _redraw(self, cursor: int | None = None) -> None:
        self.line_count = len(self.json_tree.rows if self.json_tree is not None else self._note_lines)
        self.invalidate_strips()
        if cursor is not None and cursor != self.cursor:
            self.cursor = cursor
        else:
            self.cursor = self.validate_cursor(self.cursor)
            self.handle_cursor_moved()

    def make_search(self, words: str) -> FindSearch:
        if self.json_tree is None:
            return lambda stopped: ()
        value, embedded = self.json_tree.root.value, self.json_tree.embedded_values()
        return lambda stopped: find_paths(value, words, embedded, stopped)

    def copy_value(self) -> None:
        row = self.current_row
        if row is None:
            return
        value = row.value_row.value
        if type(value) is str:
            self.post_message(Copy(value, "the value"))
        else:
            self._copy_formatted(value)

    @threaded(group="copy")
    def _copy_formatted(self, value: Json) -> None:
        self.post_message(Copy(format_json(value), "the value"))

    # ── painting ──────────────────────────────────────────────────────────────────────────────────

    def render_row(self, index: int, width: int) -> Content:
        if self.json_tree is None:
            return Content.styled(self._note_lines[index], MUTED)
        return render_json_row(self.json_tree.rows[index], width, self._words)

    def handle_cursor_moved(self) -> None:
        self.post_message(self.PathChanged(self.path))

    def on_resize(self) -> None:
        if self.json_tree is not None and self.json_tree.width != self.text_width:
            value_row = self.json_tree.rows[self.cursor].value_row
            for row in self.json_tree.rewrap(self.text_width):
                self._wrap_string(self.json_tree, row)
            self._redraw(self.json_tree.rows.index(value_row))
        elif self.json_tree is None:
            self._wrap_note()
            self._redraw()

    def _wrap_note(self) -> None:
        self._note_lines = [*wrap_text(self._note, self.text_width)]

    # ── folding ───────────────────────────────────────────────────────────────────────────────────

    def handle_click(self, x: int) -> None:
        row = self.current_row
        if row is not None and 0 <= x - indent_width(row.depth, self.text_width) < ARROW_CELLS:
            self.action_fold()

    def handle_double_click(self) -> None:
        self.action_fold()

    def action_fold(self) -> None:
        row = self.current_row
        if row is not None and row.value_row.is_open:
            self._close()
        else:
            self._open()

    def action_open(self) -> None:
        row = self.current_row
        if row is not None and row.is_open:
            self.cursor += 1
        else:
            self._open()

    def action_close(self) -> None:
        row = self.current_row
        if row is None or self.json_tree is None:
            return
        if row.is_open:
            self._close()
        else:
            self.cursor = self.json_tree.parent_index(self.cursor)

    def _open(self) -> None:
        row, tree = self.current_row, self.json_tree
        if row is None or tree is None or not can_open(row, self.text_width):
            return
        if type(row.content) is str and len(row.content) > MAX_SYNC_CHARACTERS:
            self._wrap_string(tree, row)
        else:
            tree.open(self.cursor)
            self._redraw()

    def _close(self) -> None:
        """Close the row under the cursor. A line of a long string closes that string."""
        if self.json_tree is not None:
            index = self.cursor
            if self.json_tree.rows[index].value_row is not self.json_tree.rows[index]:
                index = self.json_tree.parent_index(index)
            self.json_tree.close(index)
            self._redraw(index)

    @threaded(group="lay out")
    def _wrap_string(self, tree: JsonTree, row: JsonRow) -> None:
        width = tree.width
        self.post_message(self.StringWrapped(row, width, list(tree.children(row))))

    @on(StringWrapped)
    def _show_wrapped(self, message: StringWrapped) -> None:
        row, tree = message.row, self.json_tree
        if tree is not None and row in tree.rows and tree.width == message.width:
            tree.open(tree.rows.index(row), message.lines)
            self._redraw()

    def action_inside(self) -> None:
        row, tree = self.current_row, self.json_tree
        if row is None or tree is None:
            return
        value_row = row.value_row
        if value_row.embedded is not None:
            index = tree.rows.index(value_row)
            tree.close_embedded(index)
            self._redraw(index)
        elif type(value_row.value) is str and len(value_row.value) > MAX_SYNC_CHARACTERS:
            self._parse_inside(value_row)
        else:
            self._show_inside(self.InsideParsed(value_row, parse_embedded_json(value_row.value)))

    @threaded(group="lay out")
    def _parse_inside(self, row: JsonRow) -> None:
        self.post_message(self.InsideParsed(row, parse_embedded_json(row.value)))

    @on(InsideParsed)
    def _show_inside(self, message: InsideParsed) -> None:
        tree = self.json_tree
        if tree is None or message.row not in tree.rows:
            return
        index = tree.rows.index(message.row)
        if not tree.show_embedded(index, message.embedded):
            self.notify("No JSON in this value.", severity="warning", timeout=3)
        self._redraw(index)

    def action_fold_all(self) -> None:
        tree = self.json_tree
        if tree is not None:
            is_open = any(row.is_open for row in tree.rows)
            self._build(tree, 0 if is_open else UNLIMITED, INITIAL_ROWS if is_open else UNLIMITED)

    @threaded(exclusive=True, group="build")
    def _build(self, tree: JsonTree, levels: int, rows: int) -> None:
        self.post_message(self.TreeBuilt(tree, JsonTree(tree.root.value, tree.width, levels, rows)))

    @on(TreeBuilt)
    def _show_built(self, message: TreeBuilt) -> None:
        row = self.current_row
        if self.json_tree is message.replaces and row is not None:
            path = row_path(row)
            self.json_tree = message.tree
            self.json_tree.rewrap(self.text_width)
            self._redraw(self.json_tree.find_nearest(path))


class JsonPane(FindPane):
    """Shows the path of the cursor, the record as a tree, and a bar to find words in it."""

    DEFAULT_CSS = """
    JsonPane {
        #path {
            height: 1;
            padding: 0 1;
            color: $foreground 75%;
        }

        &:focus-within #path {
            color: $text-accent;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy_value", "Copy value", id="json.copy_value", tooltip="Copy the value under the cursor"),
        Binding("Y", "copy_path", "Copy path", id="json.copy_path", tooltip="Copy the path of the cursor"),
        Binding("c", "copy_all", "Copy all", show=False, id="json.copy_all", tooltip="Copy the whole record"),
    ]

    json_view = query_one(JsonView)
    path_line = query_one("#path", Static)

    class RecordParsed(DataMessage):
        generation: int
        tree: JsonTree
        focus: JsonPath

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self._record: bytes | None = None
        self._generation = 0

    def compose(self) -> ComposeResult:
        yield Static(id="path")
        yield JsonView()
        yield FindBar()

    # ── content ───────────────────────────────────────────────────────────────────────────────────

    def show(self, record: bytes | None, note: str = "", focus: str = "") -> None:
        """Show a record with the cursor on the focused path, or a note if there is no record."""
        path = parse_path(focus) or ()
        if record is not None and record == self._record and self.json_view.json_tree is not None:
            if path:
                self.json_view.reveal(path)
            return
        self._record = record
        self._generation += 1
        if record is None:
            self.json_view.show(None, note)
        elif len(record) <= PAGE_BYTES:
            self._show_tree(JsonTree(parse_record(record), self.json_view.text_width), path)
        else:
            self.json_view.show(None, f"Reading {format_size(len(record))}…")
            self._parse(record, path, self._generation, self.json_view.text_width)

    @threaded(exclusive=True, group="parse")
    def _parse(self, record: bytes, focus: JsonPath, generation: int, width: int) -> None:
        if generation == self._generation:
            self.post_message(self.RecordParsed(generation, JsonTree(parse_record(record), width), focus))

    @on(RecordParsed)
    def _show_parsed(self, message: RecordParsed) -> None:
        message.stop()
        if message.generation == self._generation:
            self._show_tree(message.tree, message.focus)

    def _show_tree(self, tree: JsonTree, focus: JsonPath) -> None:
        self.json_view.show(tree, focus=focus)
        if isinstance(tree.root.stored, TextLines) and tree.root.stored.note:
            self.notify(tree.root.stored.note, severity="warning", timeout=5)
        self.search_again()
        self.refresh_bindings()

    @on(JsonView.PathChanged)
    def _show_path(self, message: JsonView.PathChanged) -> None:
        message.stop()
        self.path_line.update(Content(one_line(message.path)), layout=False)

    @property
    def view(self) -> JsonView:
        return self.json_view

    # ── copying ───────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("copy_value", "copy_path", "copy_all"):
            return self._record is not None and (action == "copy_all" or self.json_view.json_tree is not None)
        return super().check_action(action, parameters)

    def action_copy_value(self) -> None:
        self.json_view.copy_value()

    def action_copy_path(self) -> None:
        self.post_message(Copy(self.json_view.path, "the path"))

    def action_copy_all(self) -> None:
        if self._record is not None:
            self.post_message(Copy(self._record.decode("utf-8", "replace"), "the record"))
