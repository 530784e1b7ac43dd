"""The two sides of a tool call: what was asked, as a tree or as the edit it is; and what came of it, to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from tui.painting.json_tree import Tree
from tui.widgets.find_bar import FindBar
from tui.widgets.find_pane import FindPane
from tui.widgets.json_view import JsonView
from tui.widgets.text_view import TextView

DIFF = "-diff"


class CallPane(FindPane):
    DEFAULT_CSS = """
    CallPane {
        .title {
            height: 1;
            padding: 0 1;
            color: $foreground 45%;
        }

        &:focus-within .title {
            color: $text-accent;
        }
    }
    """

    title = query_one(".title", Static)
    text = query_one(TextView)


class ArgumentsPane(CallPane):
    DEFAULT_CSS = """
    ArgumentsPane {
        TextView {
            display: none;
        }

        &.-diff {
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
        Binding(
            "c", "copy_value", "Copy value", show=False, id="call.copy_value", tooltip="Copy what the cursor is on"
        ),
        Binding("d", "diff", "Diff or tree", id="call.diff", tooltip="The arguments as an edit, or as they are"),
    ]

    json = query_one(JsonView)

    def __init__(self) -> None:
        super().__init__()
        self._has_diff = False
        self._diff_title = Content("")

    def compose(self) -> ComposeResult:
        yield Static(classes="title")
        yield JsonView()
        yield TextView()
        yield FindBar()

    def show(self, tree: Tree, diff: Sequence[Content] | None, diff_title: Content) -> None:
        """As an edit first, where it is one."""
        self._diff_title = diff_title
        self._has_diff = diff is not None
        self.text.show(diff or ())
        self.json.show(tree)
        self._switch(to_diff=self._has_diff)

    def _switch(self, *, to_diff: bool) -> None:
        had_focus = self.has_focus_within
        self.set_class(to_diff, DIFF)
        self.title.update(self._diff_title if to_diff else Content("arguments"))
        if had_focus and not self.find_bar.words.has_focus:
            self.view.focus()
        self.look_again()
        self.refresh_bindings()

    @property
    def view(self) -> JsonView | TextView:
        return self.text if self.has_class(DIFF) else self.json

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "diff":
            return self._has_diff
        if action == "copy_value":
            return not self.has_class(DIFF)
        return super().check_action(action, parameters)

    def action_diff(self) -> None:
        self._switch(to_diff=not self.has_class(DIFF))

    def action_copy_value(self) -> None:
        self.json.copy_value()


class OutputPane(CallPane):
    def compose(self) -> ComposeResult:
        yield Static(classes="title")
        yield TextView()
        yield FindBar()

    def show(self, text: str, title: str) -> None:
        self.title.update(Content(title))
        self.text.show(text)
        self.look_again()

    @property
    def view(self) -> TextView:
        return self.text

    @on(TextView.LaidOut)
    def _find_in_the_rest(self) -> None:
        self.look_again()
