"""These dialogs list the links of an item, and show one in full before it is opened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Static

from store.text.web_address import WebAddress
from tui.dialogs.layout import DIALOG_CSS, HELP_BINDING
from tui.links.lines import LinkTarget, render_address, render_outside_path
from tui.messages import Copy
from tui.render.styles import MUTED, STRONG, build_content
from tui.render.viewport import RenderedLine
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.tables.link_table import LinkTable
from tui.widgets.text_view import AutoHeightText


class LinkPickerDialog(ModalScreen[LinkTarget | None]):
    """Returns the link to open."""

    AUTO_FOCUS = "LinkTable"
    DEFAULT_CSS = (
        "LinkPickerDialog {"
        + DIALOG_CSS
        + """
        Vertical {
            width: 110;
        }

        LinkTable {
            margin-top: 1;
            background: $surface;
        }
    }
    """
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "Copy", id="links.copy", tooltip="Copy the path or the address"),
        Binding("escape,q", "dismiss(None)", "Cancel", id="links.close", tooltip="Close without opening anything"),
        HELP_BINDING,
    ]

    table = query_one(LinkTable)

    def __init__(self, targets: Sequence[LinkTarget], cwd: str) -> None:
        super().__init__()
        self._targets = targets
        self._cwd = cwd

    def compose(self) -> ComposeResult:
        with Vertical():
            title = build_content([("Open a link of this item", STRONG), (f"  {len(self._targets):,}", MUTED)])
            yield Static(title, id="title")
            yield LinkTable(self._targets, self._cwd)
        yield KeyHintBar()

    @on(LinkTable.Opened)
    def _choose(self) -> None:
        self.dismiss(self.table.selected)

    def action_copy(self) -> None:
        target = self.table.selected
        self.post_message(Copy(target.text, "the address" if target.link.is_address else "the path"))


class LinkDialog(ModalScreen[bool]):
    """Shows a link in full. Returns whether it should be opened."""

    AUTO_FOCUS = "TextView"
    DEFAULT_CSS = (
        "LinkDialog {"
        + DIALOG_CSS
        + """
        Vertical {
            width: 110;
        }

        TextView {
            margin-top: 1;
            background: $surface;
        }
    }
    """
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Open", id="address.open", tooltip="Open the address, or the file"),
        Binding("c", "copy", "Copy", id="address.copy", tooltip="Copy the address, or the path"),
        Binding("n,escape,q", "dismiss(False)", "Cancel", id="address.close", tooltip="Close without opening it"),
        HELP_BINDING,
    ]

    def __init__(
        self, question: str, lines: Iterable[RenderedLine], copied: tuple[str, str], *, can_open: bool = True
    ) -> None:
        super().__init__()
        self._question = question
        self._lines = list(lines)
        self._copied_text = copied
        self._can_open = can_open

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content.styled(self._question, STRONG), id="title")
            yield AutoHeightText()
        yield KeyHintBar()

    def on_mount(self) -> None:
        self.query_one(AutoHeightText).show(self._lines)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "dismiss" and parameters == (True,):
            return self._can_open
        return super().check_action(action, parameters)

    def action_copy(self) -> None:
        self.post_message(Copy(*self._copied_text))


class AddressDialog(LinkDialog):
    """Returns whether the address should be opened."""

    def __init__(self, text: str, examined: WebAddress) -> None:
        can_open = bool(examined.address)
        question = "Open this address in your web browser?" if can_open else "Address"
        super().__init__(question, render_address(text, examined), (text, "the address"), can_open=can_open)


class OutsidePathDialog(LinkDialog):
    """Returns whether a file should be opened, for example one that is outside the folder of its session."""

    def __init__(self, target: LinkTarget, real_path: str, question: str) -> None:
        super().__init__(question, render_outside_path(target, real_path), (target.path, "the path"))
