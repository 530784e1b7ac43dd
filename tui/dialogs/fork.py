"""This dialog forks a session at a turn. It asks for the last prompt, and where the fork is made."""

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
from tui.dialogs.layout import DIALOG_CSS
from tui.dialogs.text import MultilineDialog
from tui.render.styles import MUTED, session_title

if TYPE_CHECKING:
    from store.store import Store

MAX_TITLE_CHARACTERS = 60
"""Limits the session's title."""


@dataclass(frozen=True)
class ForkResult:
    session: Session
    is_native: bool
    "Is True for a transcript of its agent, which can resume it."


@dataclass(frozen=True)
class ForkPoint:
    """Describes the turn at which a session is forked."""

    session: Session
    turn: int
    prompt: str
    "The prompt of the turn."
    program: str
    "Names the agent that can get a transcript of its own; empty if there is none."


def read_fork_point(store: Store, session: Session, turn: int) -> ForkPoint:
    """Read the turn at which a session is forked. Call this in a thread."""
    from store import sources
    from store.write_back.fork_transcript import can_fork_transcript

    prompt = store.chains.turns(session.key, turn)[0].prompt
    source = sources.load_source(session.source) if turn and can_fork_transcript(session) else None
    return ForkPoint(session, turn, prompt, source.label if source else "")


class ForkDialog(MultilineDialog):
    """Returns the last prompt. `fork_result` holds the new session then."""

    DEFAULT_CSS = (
        "ForkDialog {"
        + DIALOG_CSS
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
        Binding("ctrl+s", "save", "In Backscroll", id="fork.here", tooltip="Create the fork in Backscroll"),
        Binding("f5", "native", "In its agent", id="fork.native", tooltip="Create the fork as a session of the agent"),
    ]

    def __init__(self, store: Store, fork_point: ForkPoint) -> None:
        title = f"Fork at turn {fork_point.turn}" if fork_point.turn else "Fork before the first prompt"
        super().__init__(title, fork_point.prompt, self._save_fork)
        self._store = store
        self._fork_point = fork_point
        self.fork_result: ForkResult | None = None
        self._is_native = False
        self._original_text = ""
        "Holds the prompt with the line breaks of the text area."

    @property
    def is_unsaved(self) -> bool:
        """Leaving makes no fork and needs no question, so nothing counts as unsaved."""
        return False

    def compose_field(self) -> ComposeResult:
        yield Static(Content.styled("Last prompt:", MUTED), id="asked")
        yield from super().compose_field()
        yield Static(id="ending")

    def on_mount(self) -> None:
        self._original_text = self.area.text
        self.area.display = self.query_one("#asked").display = bool(self._fork_point.turn)
        self.query_one("#note", Static).update(self._build_note())
        self._update_ending()

    def _build_note(self) -> Content:
        title = one_line(session_title(self._fork_point.session), MAX_TITLE_CHARACTERS)
        ending = "”. The original does not change."
        return Content.assemble(("Creates a new session under “", MUTED), (title, ""), (ending, MUTED))

    @on(TextArea.Changed)
    def _update_ending(self) -> None:
        point = self._fork_point
        if not point.turn:
            text = "The fork starts over with the same instructions."
        elif self._changed_prompt(self.read_text()) is None:
            text = (
                f"The fork contains {_format_turns(point.turn)}. "
                "If you change the prompt, the fork ends with the new prompt, unanswered."
            )
        else:
            text = f"The fork contains {_format_turns(point.turn - 1)} and ends with this prompt, unanswered."
        if point.program:
            text += f"\nPress F5 to create it in {point.program}, which can then list and resume it."
        self.query_one("#ending", Static).update(Content.styled(text, MUTED))

    def _changed_prompt(self, typed: str) -> str | None:
        """Return the prompt, or None if it is unchanged."""
        return typed if self._fork_point.turn and typed != self._original_text else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "native":
                return bool(self._fork_point.program)
            case "editor":
                return bool(self._fork_point.turn)
        return super().check_action(action, parameters)

    def action_save(self) -> None:
        self._is_native = False
        self.submit()

    def action_native(self) -> None:
        self._is_native = True
        self.submit()

    def submit(self) -> None:
        """Submit the prompt. Control characters are refused only in a changed prompt; the original may contain them."""
        if self._changed_prompt(self.read_text()) is not None:
            super().submit()
        elif not self._is_busy:
            self.show_error("")
            self._is_busy = True
            self._save_in_thread(self.read_text())

    def _save_fork(self, typed: str) -> None:
        from store.conversations.fork import fork_session
        from store.write_back.fork_transcript import fork_transcript

        point, prompt = self._fork_point, self._changed_prompt(typed)
        if self._is_native:
            session = fork_transcript(self._store, point.session, point.turn, prompt=prompt).session
        else:
            session = fork_session(self._store, point.session, point.turn, prompt=prompt)
        self.fork_result = ForkResult(session, self._is_native)


def _format_turns(last: int) -> str:
    if last < 1:
        return "no earlier turns"
    return f"turns 1 to {last}" if last > 1 else "turn 1"
