"""This screen exports a session as the input of an API, to a private file or the clipboard."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from store.errors import AlreadyExists, LeaksFound, Refused, StoreError
from store.model.session import Session
from store.text.sanitize import one_line
from store.text.validate import serialize
from tui.dialogs.layout import DIALOG_CSS, HELP_BINDING
from tui.dialogs.text import SingleLineDialog
from tui.messages import Copy, DataMessage
from tui.render.resume_card import RebuildReport, render_input_card
from tui.render.styles import ERROR, render_message, session_title
from tui.widgets.key_hints import KeyHintBar
from tui.workers import threaded

if TYPE_CHECKING:
    from store.rebuild import ApiFormat, RebuildResult
    from store.store import Store


class RebuildScreen(ModalScreen[None]):
    DEFAULT_CSS = "RebuildScreen {" + DIALOG_CSS + "}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "shape('responses')", "Responses", id="rebuilt.responses", tooltip="OpenAI's Responses API"),
        Binding("t", "shape('chat')", "Chat", id="rebuilt.chat", tooltip="OpenAI's Chat Completions API"),
        Binding("a", "shape('anthropic')", "Anthropic", id="rebuilt.anthropic", tooltip="Anthropic's Messages API"),
        Binding("f,enter", "save", "Save", id="rebuilt.save", tooltip="Save to a new file that only you can read"),
        Binding("c", "copy", "Copy", id="rebuilt.copy", tooltip="Copy to the clipboard"),
        Binding("escape,q", "dismiss(None)", "Back", id="rebuilt.leave", tooltip="Back to the resume card"),
        HELP_BINDING,
    ]

    class RebuildFinished(DataMessage):
        shape: ApiFormat
        outcome: RebuildResult | StoreError

    def __init__(self, store: Store, session: Session) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._shape: ApiFormat = guess_shape(session)
        self._rebuilt: RebuildResult | None = None

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(id="status")
        yield KeyHintBar()

    def on_mount(self) -> None:
        self.action_shape(self._shape)

    def action_shape(self, shape: ApiFormat) -> None:
        self._shape = shape
        self._rebuilt = None
        self._update_card()
        self._rebuild_in_thread(shape)

    @threaded(group="rebuild", exclusive=True)
    def _rebuild_in_thread(self, shape: ApiFormat) -> None:
        from store.rebuild import rebuild_session

        try:
            self.post_message(self.RebuildFinished(shape, rebuild_session(self._store, self._session, shape)))
        except StoreError as reason:
            self.post_message(self.RebuildFinished(shape, reason))

    @on(RebuildFinished)
    def _show_outcome(self, finished: RebuildFinished) -> None:
        if finished.shape != self._shape:
            return
        if isinstance(finished.outcome, StoreError):
            self.query_one("#status", Static).update(render_message(str(finished.outcome), ERROR))
            return
        self._rebuilt = finished.outcome
        self._update_card()

    def _update_card(self) -> None:
        carried = None
        if self._rebuilt is not None:
            parts = tuple((one.field, one.how, one.count, one.why) for one in self._rebuilt.carried)
            carried = RebuildReport(parts, self._rebuilt.mended)
        width = min(80, self.app.size.width * 96 // 100) - 4
        self.query_one("#status", Static).update(
            render_input_card(session_title(self._session), self._shape, carried, width)
        )
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("save", "copy"):
            return self._rebuilt is not None
        return super().check_action(action, parameters)

    def action_copy(self) -> None:
        if self._rebuilt is not None:
            self._copy_input(self._rebuilt)

    @threaded(group="copy")
    def _copy_input(self, rebuilt: RebuildResult) -> None:
        self.post_message(Copy(serialize(rebuilt.body).decode(), "the API input"))

    def action_save(self) -> None:
        name = f"{one_line(self._session.id, 40).replace('/', '-').replace(':', '-')}.{self._shape}.json"
        save, note = partial(_save_checked, self._store, self._rebuilt), "Creates a new file that only you can read."
        ask = SingleLineDialog("Save the API input as", f"~/{name}", save, note=note)
        self.app.push_screen(ask, self._notify_saved)

    def _notify_saved(self, path: str | None) -> None:
        if path is not None:
            self.notify(f"Saved as {path}.", timeout=3, markup=False)


def guess_shape(session: Session) -> ApiFormat:
    """Guess the API of the session's own model."""
    if "anthropic" in session.provider or session.model.startswith("claude"):
        return "anthropic"
    return "responses" if "openai" in session.provider else "chat"


def _save_checked(store: Store, rebuilt: RebuildResult | None, typed: str) -> None:
    """Write a new file, unless it would have certain leaks."""
    from store.export.checked import check_body

    try:
        body = check_body(store, rebuilt.body) if rebuilt else {}
    except LeaksFound as error:
        raise error.with_list("Run `backscroll rebuild` with --redact or --allow-leaks.") from None
    _save_to_file(serialize(body).decode(), typed)


def _save_to_file(text: str, typed: str) -> None:
    """Write a new file. An existing one is never overwritten."""
    try:
        path = Path(typed.strip()).expanduser().absolute()
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(text + "\n")
    except FileExistsError:
        raise AlreadyExists(f"{one_line(typed, 200)} already exists. Choose another name.") from None
    except (OSError, RuntimeError, ValueError) as reason:
        detail = reason.strerror if isinstance(reason, OSError) else str(reason)
        raise Refused(f"{one_line(typed, 200)} cannot be written: {detail}. Choose another name.") from None
