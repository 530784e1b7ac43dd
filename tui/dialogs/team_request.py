"""These dialogs ask members for sessions, answer what they ask, and show the figures that they share."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from store.errors import BadValue, StoreError
from store.leaks.gate import LeakPolicy
from store.model.team import TeamRequest
from store.text.sanitize import sanitize
from tui.dialogs.explanation import ExplanationDialog
from tui.dialogs.layout import DIALOG_CSS, HELP_BINDING
from tui.dialogs.sequence import ask_each
from tui.dialogs.text import SingleLineDialog
from tui.render.statistics.member_metrics import render_metrics
from tui.render.styles import MUTED, STRONG, format_count, session_title
from tui.widgets.key_hints import KeyHintBar

if TYPE_CHECKING:
    from textual.screen import Screen

    from store.store import Store

MAX_SHOWN_CHARACTERS = 2_000
ASK_NOTE = "The member's name, the id of the session there, and the number of the turn if you want only one."


class RequestDialog(ModalScreen[str | None]):
    """Returns `approve`, `mask` or `decline`, or None to answer later."""

    DEFAULT_CSS = "RequestDialog {" + DIALOG_CSS + "}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss('approve')", "Share", id="request.approve", tooltip="Share it with the member"),
        Binding("m", "dismiss('mask')", "Share with masks", id="request.mask", tooltip="Share it, with leaks masked"),
        Binding("d", "dismiss('decline')", "Decline", id="request.decline", tooltip="Share nothing, and say so"),
        Binding("escape,q", "dismiss(None)", "Later", id="request.later", tooltip="Answer later"),
        HELP_BINDING,
    ]

    def __init__(self, request: TeamRequest, preview: str, left: int) -> None:
        super().__init__()
        self._request = request
        self._preview = preview
        self._left = left

    def compose(self) -> ComposeResult:
        request = self._request
        what = request.session if request.turn is None else f"turn {request.turn} of {request.session}"
        more = f"{self._left:,} more after this one." if self._left else ""
        with Vertical():
            yield Static(Content.styled(sanitize(f"{request.asker} asks for {what}"), STRONG), id="title")
            yield Static(Content.styled(sanitize("\n".join(filter(None, [request.reason, more]))), MUTED), id="note")
            yield Static(Content(sanitize(self._preview[:MAX_SHOWN_CHARACTERS])))
        yield KeyHintBar()


def open_requests(screen: Screen[Any], store: Store) -> None:
    """Show what members ask for, one request after the other, and answer."""

    def load() -> list[tuple[TeamRequest, str]]:
        return [(request, _describe(store, request)) for request in store.team.requests.list_open()]

    def settle(item: tuple[TeamRequest, str], choice: str) -> str:
        request, _ = item
        if choice == "decline":
            store.team.requests.decline(request.number)
            return "Declined."
        policy: LeakPolicy = "redact" if choice == "mask" else "refuse"
        store.team.requests.approve(request.number, policy)
        return f"Shared with {request.asker}."

    nothing = "No member asks for anything."
    ask_each(screen, load, lambda item, left: RequestDialog(*item, left), settle, nothing=nothing)


def _describe(store: Store, request: TeamRequest) -> str:
    """Return what would be shared, or why nothing can be."""
    try:
        session = store.sessions.find(request.session)
        if request.turn is None:
            return f"{session_title(session)}, {format_count(session.turns, 'turn')}"
        return store.chains.turns(session.key, request.turn)[0].prompt
    except StoreError as error:
        return str(error)


def open_ask_dialog(screen: Screen[Any], store: Store) -> None:
    """Ask a member for a session or a turn."""

    def send(text: str) -> None:
        name, session, turn = _parse_request(text)
        store.team.requests.ask(name, session, turn)

    def report(text: str | None) -> None:
        if text is not None:
            screen.notify("It is sent while the browser is open.", timeout=4, markup=False)

    screen.app.push_screen(SingleLineDialog("Ask a member for a session", "", send, note=ASK_NOTE), report)


def _parse_request(text: str) -> tuple[str, str, int | None]:
    words: list[str] = []
    with suppress(ValueError):  # an open quote
        words = shlex.split(text)
    match words:
        case [name, session]:
            return name, session, None
        case [name, session, turn] if turn.isdecimal():
            return name, session, int(turn)
    raise BadValue("Type a name and an id, and the number of a turn if you want only one.")


def open_metrics(screen: Screen[Any], store: Store) -> None:
    """Show the figures that members share."""
    dialog = ExplanationDialog(
        "The last 30 days of the team", lambda width: render_metrics(store.team.metrics(), width)
    )
    screen.app.push_screen(dialog)
