"""This module shows the arguments or the result of a tool call, as text or as a JSON tree."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from tui.json_document.tree import JsonTree
from tui.widgets.find_bar import FindBar
from tui.widgets.find_pane import FindPane
from tui.widgets.json.json_view import JsonView
from tui.widgets.text_view import TextSource, TextView

AS_TEXT = "-as-text"


class ToolCallPane(FindPane):
    DEFAULT_CSS = """
    ToolCallPane {
        .title {
            height: 1;
            padding: 0 1;
            color: $foreground 75%;
        }

        &:focus-within .title {
            color: $text-accent;
            text-style: bold;
        }

        &:focus-within:nocolor .title {
            text-style: reverse;
        }

        TextView {
            display: none;
        }

        &.-as-text {
            TextView {
                display: block;
            }

            JsonView {
                display: none;
            }
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "switch", "Text or tree", id="call.switch", tooltip="Switch between text and JSON tree"),
        Binding(
            "c", "copy_value", "Copy value", show=False, id="call.copy_value", tooltip="Copy the value under the cursor"
        ),
    ]

    title = query_one(".title", Static)
    text = query_one(TextView)
    tree_view = query_one(JsonView)

    def __init__(self, *, id: str) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self.add_class(AS_TEXT, "pane")
        self._has_both = False

    def compose(self) -> ComposeResult:
        yield Static(classes="title")
        yield JsonView()
        yield TextView()
        yield FindBar()

    def show(self, title: Content, text: TextSource | None, tree: JsonTree | None, note: str = "") -> None:
        """Show the text if there is one, else the tree, else the note."""
        self.title.update(title)
        self.border_title = title
        self.text.show(text or "")
        self.tree_view.show(tree, note)
        self._has_both = text is not None and tree is not None
        self._switch(to_text=text is not None)
        self.call_after_refresh(self.tree_view.unfold_strings)  # its size is known then

    @property
    def shows_text(self) -> bool:
        return self.has_class(AS_TEXT)

    @property
    def view(self) -> JsonView | TextView:
        return self.text if self.has_class(AS_TEXT) else self.tree_view

    def _switch(self, *, to_text: bool) -> None:
        had_focus = self.view.has_focus
        self.set_class(to_text, AS_TEXT)
        if had_focus:
            self.view.focus()
        self.search_again()
        self.refresh_bindings()

    @on(TextView.TextWrapped)
    def _search_wrapped_text(self) -> None:
        self.search_again()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "switch":
                return self._has_both
            case "copy_value":
                return not self.has_class(AS_TEXT)
        return super().check_action(action, parameters)

    def action_switch(self) -> None:
        self._switch(to_text=not self.has_class(AS_TEXT))

    def action_copy_value(self) -> None:
        self.tree_view.copy_value()
