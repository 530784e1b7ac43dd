"""This module lists the files that a session changed, one per line."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.message import Message

from store.formats.changed_files import ChangedFile
from tui.messages import DataMessage
from tui.render.diffs.changed_files import render_file_row
from tui.widgets.cursor_view import CursorView


class ChangedFileTable(CursorView):
    class Highlighted(DataMessage):
        """Says that the cursor moved to another file."""

        file: ChangedFile

    class DoubleClicked(Message):
        """Says that a file was double-clicked."""

    def __init__(self) -> None:
        super().__init__()
        self._files: Sequence[ChangedFile] = ()

    def show(self, files: Sequence[ChangedFile]) -> None:
        self._files = files
        self.line_count = len(files)
        self.invalidate_strips()
        self.handle_cursor_moved()

    @property
    def selected(self) -> ChangedFile | None:
        return self._files[self.cursor] if self.cursor < len(self._files) else None

    def render_row(self, index: int, width: int) -> Content:
        return render_file_row(self._files[index], width)

    def handle_cursor_moved(self) -> None:
        if (file := self.selected) is not None:
            self.post_message(self.Highlighted(file))

    def handle_double_click(self) -> None:
        self.post_message(self.DoubleClicked())
