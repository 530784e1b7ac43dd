"""This dialog asks which agents get a fact in their memory files, everywhere or in one folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Click
from textual.getters import query_one
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from store.model.memory import Audience
from tui.dialogs.layout import DIALOG_CSS, HELP_BINDING
from tui.messages import DataMessage
from tui.render.memory_lines import list_agents, render_audience, render_folder, render_sharing
from tui.render.styles import STRONG, build_content
from tui.widgets.cursor_view import CursorView
from tui.widgets.key_hints import KeyHintBar

MAX_FOLDERS = 20
"""Limits the folders that are offered. The newest are taken."""


class AudienceTable(CursorView):
    """Lists the agents that can get a fact in one folder, or everywhere, and which of them do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "space", "choose", "Choose", id="audience.toggle", tooltip="Share the fact with this agent, or stop it"
        ),
    ]

    class Toggled(DataMessage):
        audience: Audience

    def __init__(self) -> None:
        super().__init__()
        self._agents: Sequence[str] = ()
        self._folder = ""
        self._chosen: Sequence[Audience] = ()

    def show(self, folder: str, chosen: Sequence[Audience]) -> None:
        self._agents, self._folder, self._chosen = list_agents(folder), folder, chosen
        self.styles.height = len(self._agents)
        self.replace_lines(len(self._agents), self.cursor)

    def render_row(self, index: int, width: int) -> Content:
        audience = Audience(self._agents[index], self._folder)
        return render_audience(audience, width, is_chosen=audience in self._chosen)

    def handle_click(self, x: int) -> None:
        self.action_choose()

    def action_choose(self) -> None:
        self.post_message(self.Toggled(Audience(self._agents[self.cursor], self._folder)))


class FolderLine(Static):
    """Shows the folder that is chosen. A click on it chooses the next one."""

    class Clicked(Message):
        """Asks for the next folder."""

    def on_click(self, event: Click) -> None:
        event.stop()
        self.post_message(self.Clicked())


class AudienceDialog(ModalScreen[list[Audience] | None]):
    """Returns the audiences of a fact, or None if nothing was changed."""

    AUTO_FOCUS = "AudienceTable"
    DEFAULT_CSS = (
        "AudienceDialog {"
        + DIALOG_CSS
        + """
        AudienceTable {
            margin: 1 0;
            background: $surface;
        }

        #sharing {
            height: auto;
        }
    }
    """
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "left,h",
            "next_folder(-1)",
            "Previous folder",
            key_display="←",
            show=False,
            id="audience.previous_folder",
            tooltip="Share in the folder before, or everywhere",
        ),
        Binding(
            "right,l",
            "next_folder(1)",
            "Other folder",
            key_display="→",
            id="audience.next_folder",
            tooltip="Next folder",
        ),
        Binding("enter", "save", "Save", id="audience.save", tooltip="Share the fact with the chosen agents"),
        Binding("escape,q", "dismiss(None)", "Cancel", id="audience.cancel", tooltip="Close without changes"),
        HELP_BINDING,
    ]

    table = query_one(AudienceTable)

    def __init__(self, text: str, audiences: Sequence[Audience], folders: Sequence[str], folder: str = "") -> None:
        """`folders` are offered besides "everywhere", and `folder` is shown first if the fact has no audience."""
        super().__init__()
        self._text = text
        self._before = list(audiences)
        self._chosen = list(audiences)
        self._folders = list(dict.fromkeys(["", folder, *folders, *(one.folder for one in audiences)]))
        self._index = self._folders.index(audiences[0].folder if audiences else folder)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(build_content([("Which agents get this fact?", STRONG)]), id="title")
            yield Static(Content(self._text), id="text")
            yield FolderLine(id="folder")
            yield AudienceTable()
            yield Static(id="sharing")
        yield KeyHintBar()

    def on_mount(self) -> None:
        self._show()

    def _show(self) -> None:
        folder = self._folders[self._index]
        self.query_one(FolderLine).update(render_folder(folder, self._index + 1, len(self._folders)))
        self.table.show(folder, self._chosen)
        self.query_one("#sharing", Static).update(render_sharing(self._chosen))

    @on(AudienceTable.Toggled)
    def _toggle(self, toggled: AudienceTable.Toggled) -> None:
        if toggled.audience in self._chosen:
            self._chosen.remove(toggled.audience)
        else:
            self._chosen.append(toggled.audience)
        self._show()

    @on(FolderLine.Clicked)
    def _choose_next_folder(self) -> None:
        self.action_next_folder(1)

    def action_next_folder(self, by: int) -> None:
        self._index = (self._index + by) % len(self._folders)
        self._show()

    def action_save(self) -> None:
        self.dismiss(None if set(self._chosen) == set(self._before) else self._chosen)
