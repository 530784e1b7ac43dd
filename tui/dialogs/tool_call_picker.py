"""This dialog lists all tool calls of a session, filtered by what is typed. Enter chooses one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tui.dialogs.layout import PICKER_CSS
from tui.render.inspection.tool_call_details import ToolCallRow, render_table_head, widest_name
from tui.render.styles import MUTED, build_content
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.line_input import LineInput
from tui.widgets.tables.tool_call_table import ToolCallTable


class ToolCallPickerDialog(ModalScreen[int | None]):
    """Returns the key of the chosen call."""

    AUTO_FOCUS = "Input"
    DEFAULT_CSS = (
        "ToolCallPickerDialog {"
        + PICKER_CSS
        + """
        #picker {
            max-width: 140;
            height: 86%;
        }
    }
    """
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        # Priority, because the field has a binding for Enter that the footer does not show.
        Binding("enter", "open", "Open", priority=True, id="calls.open", tooltip="Inspect this call"),
        Binding("down", "move(1)", "Down", show=False, id="calls.down", tooltip="Next call"),
        Binding("up", "move(-1)", "Up", show=False, id="calls.up", tooltip="Previous call"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="calls.page_down", tooltip="Page down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="calls.page_up", tooltip="Page up"),
        Binding("escape", "dismiss(None)", "Close", id="calls.close", tooltip="Back to the call"),
    ]

    table = query_one(ToolCallTable)

    def __init__(self, calls: Sequence[ToolCallRow], current_key: int) -> None:
        super().__init__()
        self._calls = calls
        self._current_key = current_key

    def compose(self) -> ComposeResult:
        with Vertical(id="picker"):
            yield Static(id="title")
            yield LineInput(
                compact=True, placeholder="filter by tool, argument, turn or failed…", select_on_focus=False
            )
            yield Static(id="head")
            yield ToolCallTable()
        yield KeyHintBar()

    def on_mount(self) -> None:
        self.table.show(self._calls, self._current_key)
        self._update_title(len(self._calls))

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_head)

    def _show_head(self) -> None:
        head = render_table_head(widest_name(self._calls), self.table.text_width)
        self.query_one("#head", Static).update(Content.assemble(" ", head))

    @on(Input.Changed)
    def _filter(self, changed: Input.Changed) -> None:
        words = changed.value.casefold().split()
        found = [call for call in self._calls if call.matches(words)]
        self.table.show(found, self.table.selected or self._current_key)
        self._update_title(len(found))

    def _update_title(self, found: int) -> None:
        of = "" if found == len(self._calls) else f" of {len(self._calls):,}"
        title = build_content([("All calls of this session ", "bold"), (f" {found:,}{of}", MUTED)])
        self.query_one("#title", Static).update(title)

    @on(ToolCallTable.Opened)
    def action_open(self) -> None:
        if self.table.selected is not None:
            self.dismiss(self.table.selected)

    def action_move(self, by: int) -> None:
        self.table.action_move(by)

    def action_page(self, by: int) -> None:
        self.table.action_page(by)
