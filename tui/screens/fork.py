"""Before a conversation goes another way from some turn on: what will be made, with which last prompt, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static, TextArea

from store.model.session import Session
from store.text.sanitize import one_line
from tui.dialogs.text import DIALOG, WriteScreen
from tui.render.styles import MUTED, title_of

if TYPE_CHECKING:
    from store.store import Store

TITLE = 60
"""Characters of the session's title."""


@dataclass(frozen=True)
class Forked:
    session: Session
    is_native: bool
    "It is a transcript of its agent's, which can go on with it."


@dataclass(frozen=True)
class Place:
    """The turn after which a session is forked."""

    session: Session
    turn: int
    prompt: str
    "What was said in it."
    program: str
    "The agent that would go on with a transcript of its own; empty where there is none."


def place_of(store: Store, session: Session, turn: int) -> Place:
    """In a thread."""
    from store import sources
    from store.write_back.fork_transcript import can_fork_natively

    prompt = store.chains.turns(session.key, turn)[0].prompt
    source = sources.by_name(session.source) if turn and can_fork_natively(session) else None
    return Place(session, turn, prompt, source.LABEL if source else "")


class ForkScreen(WriteScreen):
    """Answers with the last prompt, once `made` is there."""

    DEFAULT_CSS = (
        "ForkScreen {"
        + DIALOG
        + """
        TextArea {
            height: auto;
            min-height: 3;
            max-height: 12;
        }

        #ending {
            height: auto;
            margin-top: 1;
        }
    }
    """
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+s", "save", "In Backscroll", id="fork.here", tooltip="A fork that is kept here; undo takes it back"
        ),
        Binding(
            "f5", "native", "In its agent", id="fork.native", tooltip="A new session that the agent itself resumes"
        ),
    ]

    def __init__(self, store: Store, place: Place) -> None:
        super().__init__(f"Fork at turn {place.turn}", place.prompt, self._fork)
        self._store = store
        self._place = place
        self.made: Forked | None = None
        self._is_native = False
        self._untouched = ""
        "What was said, as a text area spells it."

    @property
    def is_unsaved(self) -> bool:
        """A fork is made by one of two keys; leaving is to make none."""
        return False

    def field(self) -> ComposeResult:
        yield Static(Content.styled("Its last prompt:", MUTED), id="asked")
        yield from super().field()
        yield Static(id="ending")

    def on_mount(self) -> None:
        self._untouched = self.area.text
        self.area.display = self.query_one("#asked").display = bool(self._place.turn)
        self.query_one("#note", Static).update(self._told())
        self._tell_ending()

    def _told(self) -> Content:
        title = one_line(title_of(self._place.session), TITLE)
        return Content.assemble(("A new session under ", MUTED), (title, ""), (", which stays as it is.", MUTED))

    @on(TextArea.Changed)
    def _tell_ending(self) -> None:
        place = self._place
        if not place.turn:
            told = "It begins anew, with the same instructions."
        elif self._prompt(self.typed()) is None:
            told = f"It shares {_turns(place.turn)}. Change the prompt, and it ends with that, not yet answered."
        else:
            told = f"It shares {_turns(place.turn - 1)} and ends with this prompt, not yet answered."
        if place.program:
            told += f"\nF5 makes it a new {place.program} session, which {place.program} lists and resumes."
        self.query_one("#ending", Static).update(Content.styled(told, MUTED))

    def _prompt(self, typed: str) -> str | None:
        """None while it is as it was."""
        return typed if self._place.turn and typed != self._untouched else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "native":
                return bool(self._place.program)
            case "editor":
                return bool(self._place.turn)
        return super().check_action(action, parameters)

    def action_save(self) -> None:
        self._is_native = False
        self.take()

    def action_native(self) -> None:
        self._is_native = True
        self.take()

    def take(self) -> None:
        """What was said once may hold whatever it held; only what is said now must be tidy."""
        if self._prompt(self.typed()) is not None:
            super().take()
        elif not self._is_busy:
            self.refuse("")
            self._is_busy = True
            self._take(self.typed())

    def _fork(self, typed: str) -> None:
        from store.conversations.fork import fork
        from store.write_back.fork_transcript import fork_natively

        place, prompt = self._place, self._prompt(typed)
        if self._is_native:
            made = fork_natively(self._store, place.session, place.turn, prompt=prompt).session
        else:
            made = fork(self._store, place.session, place.turn, prompt=prompt)
        self.made = Forked(made, self._is_native)


def _turns(last: int) -> str:
    if last < 1:
        return "no turn"
    return f"turns 1 to {last}" if last > 1 else "turn 1"
