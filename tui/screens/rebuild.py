"""A conversation to take along: as the input that an API takes, in a private file or on the clipboard."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from store.errors import AlreadyThere, Refused, StoreError
from store.model.session import Session
from store.text.sanitize import clean, one_line
from store.text.validate import spell
from tui.dialogs.text import DIALOG, AskScreen
from tui.messages import Copy, Told
from tui.render.resume_card import Carrying, input_card
from tui.render.styles import ERROR, title_of
from tui.widgets.key_hints import KeysLine
from tui.workers import threaded

if TYPE_CHECKING:
    from store.rebuild import Rebuilt, Shape
    from store.store import Store


class RebuiltScreen(ModalScreen[None]):
    DEFAULT_CSS = "RebuiltScreen {" + DIALOG + "}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "shape('responses')", "Responses", id="rebuilt.responses", tooltip="OpenAI's Responses API"),
        Binding("t", "shape('chat')", "Chat", id="rebuilt.chat", tooltip="OpenAI's Chat Completions API, and its kin"),
        Binding("a", "shape('anthropic')", "Anthropic", id="rebuilt.anthropic", tooltip="Anthropic's Messages API"),
        Binding("f,enter", "save", "To a file", id="rebuilt.save", tooltip="Into a new file that only you can read"),
        Binding("c", "copy", "Copy", id="rebuilt.copy", tooltip="Copy it to the clipboard"),
        Binding("escape,q", "dismiss(None)", "Back", id="rebuilt.leave", tooltip="Back to the card"),
    ]

    class Made(Told):
        shape: Shape
        made: Rebuilt | StoreError

    def __init__(self, store: Store, session: Session) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._shape: Shape = fitting(session)
        self._made: Rebuilt | None = None

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(id="told")
        yield KeysLine()

    def on_mount(self) -> None:
        self.action_shape(self._shape)

    def action_shape(self, shape: Shape) -> None:
        self._shape = shape
        self._made = None
        self._paint()
        self._make(shape)

    @threaded(group="rebuild", exclusive=True)
    def _make(self, shape: Shape) -> None:
        from store.rebuild import rebuilt

        try:
            self.post_message(self.Made(shape, rebuilt(self._store, self._session, shape)))
        except StoreError as reason:
            self.post_message(self.Made(shape, reason))

    @on(Made)
    def _show(self, told: Made) -> None:
        if told.shape != self._shape:
            return
        if isinstance(told.made, StoreError):
            self.query_one("#told", Static).update(Content.styled(clean(str(told.made)), ERROR))
            return
        self._made = told.made
        self._paint()

    def _paint(self) -> None:
        carried = None
        if self._made is not None:
            parts = tuple((one.field, one.how, one.count, one.why) for one in self._made.carried)
            carried = Carrying(parts, self._made.mended)
        width = min(80, self.app.size.width * 96 // 100) - 4
        self.query_one("#told", Static).update(input_card(title_of(self._session), self._shape, carried, width))
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("save", "copy"):
            return self._made is not None
        return super().check_action(action, parameters)

    @property
    def _text(self) -> str:
        return spell(self._made.body).decode() if self._made else ""

    def action_copy(self) -> None:
        self.post_message(Copy(self._text, "the input"))

    def action_save(self) -> None:
        name = f"{one_line(self._session.id, 40).replace('/', '-').replace(':', '-')}.{self._shape}.json"
        ask = AskScreen("Save the input as", f"~/{name}", partial(_save, self._text), note="A new file, for you alone.")
        self.app.push_screen(ask, self._tell)

    def _tell(self, path: str | None) -> None:
        if path is not None:
            self.notify(f"Saved as {clean(path)}.", timeout=3, markup=False)


def fitting(session: Session) -> Shape:
    """The shape that the session's own model was given, as far as one can tell."""
    if "anthropic" in session.provider or session.model.startswith("claude"):
        return "anthropic"
    return "responses" if "openai" in session.provider else "chat"


def _save(text: str, typed: str) -> None:
    """Never over a file that is there."""
    try:
        path = Path(typed.strip()).expanduser().absolute()
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(text + "\n")
    except FileExistsError:
        raise AlreadyThere(f"There is a {one_line(typed, 200)} already; name another.") from None
    except (OSError, RuntimeError, ValueError) as reason:
        told = reason.strerror if isinstance(reason, OSError) else str(reason)
        raise Refused(f"{one_line(typed, 200)} cannot be written: {told}.") from None
