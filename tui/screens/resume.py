"""A card before the terminal is handed over: which program, which command, which folder, and what stands in the way."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from store.clean import clean, one_line
from store.resuming import Resumption, resumption
from tui.messages import Copy
from tui.painting.pieces import ERROR, MUTED, STRONG, Piece, content, title_of
from tui.painting.sessions import with_tilde
from tui.screens.listing import current_folder
from tui.widgets.keys_line import KeysLine

if TYPE_CHECKING:
    from store.model import Session


GOOD = "$text-success"


class ResumeScreen(ModalScreen[Resumption | None]):
    """Answers with what to hand the terminal over to, if the person goes."""

    DEFAULT_CSS = """
    ResumeScreen {
        align: center middle;

        #card {
            width: 80;
            max-width: 96%;
            height: auto;
            padding: 1 3;
            background: $surface;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go", "Go", id="resume.go", tooltip="Hand the terminal over to the agent"),
        Binding("h", "here", "Here", id="resume.here", tooltip="In the folder of this terminal, or back in its own"),
        Binding("c", "copy", "Copy command", id="resume.copy", tooltip="Copy the command"),
        Binding("escape,q", "dismiss(None)", "Stay", id="resume.stay", tooltip="Stay in Backscroll"),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._here: Path | None = None
        self.found = resumption(session)

    @property
    def is_clear(self) -> bool:
        """There is a command, and nothing stands in its way."""
        return self.found.argv is not None and not self.found.obstacles

    def compose(self) -> ComposeResult:
        yield Static(self._page(), id="card")
        yield KeysLine()

    def _page(self) -> Content:
        return card(self.found)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "go":
                return self.is_clear
            case "here":
                return self.found.argv is not None
        return super().check_action(action, parameters)

    def action_go(self) -> None:
        self.dismiss(self.found)

    def action_here(self) -> None:
        self._here = current_folder() if self._here is None else None
        self.found = resumption(self._session, self._here)
        self.query_one("#card", Static).update(self._page())
        self.refresh_bindings()

    def action_copy(self) -> None:
        found = self.found
        self.post_message(Copy(found.command or found.hint, "the command" if found.command else "how it goes on"))


def card(found: Resumption) -> Content:
    title: list[Piece] = [
        (f"Continue in {found.program}\n", "bold $text-primary"),
        (one_line(title_of(found.session), 70) + "\n\n", MUTED),
    ]
    if found.argv is None:
        return content([*title, (clean(found.hint), "")])
    folder = with_tilde(str(found.folder)) if found.folder else "this terminal's"
    missing = bool(found.folder and not found.folder.is_dir())
    told: list[Piece] = [
        (clean(shlex.join(found.argv)) + "\n\n", STRONG),
        ("folder   ", MUTED),
        (one_line(folder, 50), ""),
        ("   not there\n", ERROR) if missing else ("   ✓\n", GOOD),
    ]
    told += [(f"\n✗ {clean(obstacle)}", ERROR) for obstacle in found.obstacles]
    return content([*title, *told])
