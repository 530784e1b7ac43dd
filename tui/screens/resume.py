"""A card before the terminal is handed over: which program, which command, which folder, and what stands in the way."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Static

from store.resume.command import Resumption, resumption
from tui.messages import Copy, Told
from tui.render.resume_card import Going, card
from tui.render.styles import title_of
from tui.screens.browser.session_list import current_folder
from tui.widgets.key_hints import KeysLine
from tui.workers import threaded

if TYPE_CHECKING:
    from store.model.session import Session
    from store.resume.check import Preflight
    from store.store import Store
    from tui.settings import Settings

WIDTH = 84
PADDING = 3


def _key(keys: str, action: str, told: str, tooltip: str) -> Binding:
    return Binding(keys, action, told, id=f"resume.{action}", tooltip=tooltip)


class ResumeScreen(ModalScreen[Resumption | None]):
    """Answers with what to hand the terminal over to, if the person goes."""

    DEFAULT_CSS = f"""
    ResumeScreen {{
        align: center middle;

        #card {{
            width: {WIDTH};
            max-width: 96%;
            height: auto;
            max-height: 90%;
            padding: 1 {PADDING};
            background: $surface;
            scrollbar-size-vertical: 1;
        }}

        #told {{
            height: auto;
        }}
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        _key("enter", "go", "Go", "Hand the terminal over to the agent"),
        _key("d", "folder", "Folder", "Choose another folder to go on in"),
        _key("h", "here", "Here", "In the folder of this terminal, or back in its own"),
        _key("f", "fork", "Fork", "Go on in a copy that the agent makes, or in the session itself"),
        _key("p", "permissions", "Permissions", "Let this agent act without asking, from now on; or have it ask again"),
        _key("c", "copy", "Copy", "Copy the command, or how it goes on"),
        _key("i", "input", "As input", "The conversation as an API takes it, as a file or on the clipboard"),
        _key("w", "write_back", "Write back", "First carry what was corrected here into the agent's own store"),
        Binding("escape,q", "dismiss(None)", "Stay", id="resume.stay", tooltip="Stay in Backscroll"),
    ]

    told = query_one("#told", Static)

    class Looked(Told):
        generation: int
        found: Preflight

    def __init__(self, store: Store, session: Session, settings: Settings) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._settings = settings
        self._folder: Path | None = None
        "In place of the session's own."
        self._fork = False
        self._said = ""
        self._preflight: Preflight | None = None
        self._generation = 0
        self.found = self._resumption()

    def _resumption(self) -> Resumption:
        found = resumption(self._session, self._folder, fork=self._fork)
        if found.skipping and self._session.source in self._settings.freely:
            return resumption(self._session, self._folder, fork=self._fork, flags=found.skipping)
        return found

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="card", can_focus=False):
            yield Static(id="told")
        yield KeysLine()

    def on_mount(self) -> None:
        self._look()

    def on_resize(self) -> None:
        self._paint()

    # ── looking around ────────────────────────────────────────────────────────────────────────────

    def _look(self) -> None:
        self._preflight = None
        self._generation += 1
        self._look_around(self.found, self._generation)
        self._paint()

    @threaded(group="look around", exclusive=True)
    def _look_around(self, found: Resumption, generation: int) -> None:
        from store.resume.checks import preflight

        self.post_message(self.Looked(generation, preflight(self._store, found)))

    @on(Looked)
    def _tell(self, looked: Looked) -> None:
        if looked.generation == self._generation:
            self._preflight = looked.found
            self._paint()

    def _paint(self) -> None:
        self.told.update(self._page())
        self.refresh_bindings()

    def _page(self) -> Content:
        found = self.found
        going = Going(
            program=found.program,
            title=title_of(found.session),
            words=shlex.join(found.argv or ()),
            name=found.argv[0] if found.argv else "",
            installed=found.installed,
            install=found.install,
            folder=str(found.folder) if found.folder else None,
            folder_is_there=found.folder_is_there,
            hint=found.hint,
            is_fork=found.is_fork,
            skipping=" ".join(found.skipping),
            skips=found.skips,
            checks=self._preflight.checks() if self._preflight else None,
            said=self._said,
        )
        return card(going, min(WIDTH, self.app.size.width * 96 // 100) - 2 * PADDING)

    # ── what can be done ──────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        found = self.found
        match action:
            case "go":
                return found.is_clear
            case "here" | "folder":
                return found.argv is not None or found.folder is not None
            case "fork":
                return found.argv is not None
            case "permissions":
                return bool(found.argv and found.skipping)
            case "write_back":
                seen = self._preflight
                return seen is not None and bool(seen.unwritten) and seen.takes_edits
        return super().check_action(action, parameters)

    def _change(self, said: str = "") -> None:
        self.found, before = self._resumption(), self.found
        self._said = said
        if self.found.folder == before.folder:
            self._paint()
        else:
            self._look()

    def action_go(self) -> None:
        self.dismiss(self.found)

    def action_here(self) -> None:
        here = current_folder()
        self._folder = here if self._folder != here else None
        self._change()

    def action_folder(self) -> None:
        from tui.dialogs.folder import FolderScreen

        self.app.push_screen(FolderScreen(self.found.folder), self._go_on_in)

    def _go_on_in(self, typed: str | None) -> None:
        from tui.dialogs.folder import meant

        if typed is not None:
            self._folder = meant(typed)
            self._change()

    def action_fork(self) -> None:
        self._fork = not self._fork
        forked = self._resumption()
        if forked.argv is None:
            self._fork = False
        self._change("" if forked.argv else forked.hint)

    def action_permissions(self) -> None:
        self._settings.let_act(self._session.source, not self.found.skips)
        self._change()

    def action_copy(self) -> None:
        found = self.found
        self.post_message(Copy(found.command or found.hint, "the command" if found.command else "how it goes on"))

    def action_input(self) -> None:
        from tui.screens.rebuild import RebuiltScreen

        self.app.push_screen(RebuiltScreen(self._store, self._session))

    def action_write_back(self) -> None:
        from tui.screens.write_back import WriteBackScreen

        self.app.push_screen(WriteBackScreen(self._store, self._session), lambda _: self._look())
