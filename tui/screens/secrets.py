"""This screen lists the secrets of a session by name, age and use. A value is shown only on request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Static

from store.conversations.sessions import UNSEEN
from store.database.cancel import cancel_when
from store.errors import ChangedMeanwhile, StoreError
from store.model.knowledge import ExposedSecret, SecretInfo, SecretUse
from store.model.session import Session
from store.secrets.usage import find_uses
from tui.messages import DataMessage
from tui.privacy.secret_value import SecretValue
from tui.render.secret_lines import SecretRow, render_secret_detail, render_secrets_heading
from tui.screens.store_screen import Clock
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.secret_view import SecretView
from tui.widgets.tables.secret_table import SecretTable
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store
    from tui.app import Backscroll
    from tui.dialogs.secret import SealSecret

REVEAL_SECONDS = 10
TICK_SECONDS = 1.0

STILL_EXPOSED = (
    "The value is sealed here, but the agent's store still has it in plain text. "
    "Rotate the secret, then write the new value back."
)

NO_SECRETS = "No secrets in this session.\n\nPress a to add one. Its value is sealed."

T = TypeVar("T")

_CSS = """
SecretsScreen {
    #heading, #detail {
        height: 1;
        padding: 0 1;
    }

    #heading {
        margin-bottom: 1;
    }

    SecretTable {
        height: 1fr;
    }

    #none {
        display: none;
        height: 1fr;
        content-align: center middle;
        text-align: center;
        color: $foreground 75%;
    }

    &.-nothing {
        #none {
            display: block;
        }

        SecretTable, #value {
            display: none;
        }
    }

    #value {
        height: 9;
        border-top: solid $foreground 15%;
    }

    SecretView {
        height: 1fr;
    }
}
"""


class SecretsScreen(Screen[str | None]):
    """Returns the public id of an entry that uses a secret, or None."""

    AUTO_FOCUS = "SecretTable"
    DEFAULT_CSS = _CSS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r,enter", "reveal", "Reveal", id="secrets.reveal", tooltip="Show the value for ten seconds"),
        Binding("enter", "seal", "Seal", id="secrets.seal", tooltip="Seal a value that its agent keeps unprotected"),
        Binding(
            "y", "copy", "Copy", id="secrets.copy", tooltip="Copy the value. The clipboard is cleared after 30 seconds."
        ),
        Binding("a", "add", "Add", id="secrets.add", tooltip="Add a secret"),
        Binding("e", "replace", "Replace", id="secrets.replace", tooltip="Replace the value of this secret"),
        Binding("x", "remove", "Delete", id="secrets.remove", tooltip="Delete the secret"),
        Binding(
            "X",
            "erase",
            "Delete permanently",
            show=False,
            id="secrets.erase",
            tooltip="Delete all versions. This cannot be undone.",
        ),
        Binding("u", "undo", "Undo", show=False, id="secrets.undo", tooltip="Undo the newest edit"),
        Binding("L", "lock", "Lock", id="secrets.lock", tooltip="Lock or unlock the secrets"),
        Binding("g", "go", "Go to use", show=False, id="secrets.go", tooltip="Go to the newest tool call that uses it"),
        Binding(
            "ctrl+down", "scroll(1)", "Scroll down", show=False, id="secrets.down", tooltip="Scroll the value down"
        ),
        Binding("ctrl+up", "scroll(-1)", "Scroll up", show=False, id="secrets.up", tooltip="Scroll the value up"),
        Binding("escape,q", "dismiss(None)", "Back", id="secrets.back", tooltip="Back to the session"),
    ]

    app: Backscroll
    table = query_one(SecretTable)
    value_view = query_one(SecretView)

    class SecretsLoaded(DataMessage):
        """Holds the secrets. Their uses may follow later, because they take longer to find."""

        generation: int
        rows: Sequence[SecretRow]
        protection: str
        is_locked: bool

    def __init__(self, store: Store, session: Session, clock: Clock) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._clock = clock
        self._generation = 0
        self._loaded: SecretsScreen.SecretsLoaded | None = None
        self._seconds_left = 0
        self._countdown_timer: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="heading")
        yield SecretTable()
        yield Static(Content(NO_SECRETS), id="none")
        with Vertical(id="value"):
            yield Static(id="detail")
            yield SecretView()
        yield KeyHintBar()

    def on_mount(self) -> None:
        self.app.suppress_logging(True)
        self.app.hide_secrets_signal.subscribe(self, lambda _: self._reload_secrets(), immediate=True)
        self.table.now = self._clock()
        self.value_view.show(None)
        self._reload_secrets()

    def on_unmount(self) -> None:
        self.app.suppress_logging(False)

    # ── reading the store ─────────────────────────────────────────────────────────────────────────

    def _reload_secrets(self) -> None:
        self._hide_value()
        self._generation += 1
        self._load_secrets(self._generation)

    @threaded(exclusive=True, group="read")
    def _load_secrets(self, generation: int) -> None:
        def is_stale() -> bool:
            return generation != self._generation

        secrets = self._store.secrets
        with cancel_when(self._store, is_stale):
            session = self._store.sessions.by_key(self._session.key)
            names: list[SecretInfo | ExposedSecret] = [*secrets.names(session), *secrets.exposed(session)]
            state = secrets.protection, secrets.is_locked
            known = self._known_uses()
            self.post_message(
                self.SecretsLoaded(generation, [SecretRow(name, known.get(name.key)) for name in names], *state)
            )
            found = find_uses(self._store, session.key, {name.key for name in names}, is_stale)
            self.post_message(
                self.SecretsLoaded(generation, [SecretRow(name, found[name.key]) for name in names], *state)
            )

    def _known_uses(self) -> Mapping[str, Sequence[SecretUse] | None]:
        return {row.key: row.uses for row in self._loaded.rows} if self._loaded else {}

    @on(SecretsLoaded)
    def _show_secrets(self, read: SecretsLoaded) -> None:
        if read.generation == self._generation:
            self._loaded = read
            self.set_class(not read.rows, "-nothing")
            self.table.show(read.rows)
            self._update_heading()
            if read.rows and self.focused is None:
                self.call_after_refresh(self.table.focus)

    def on_resize(self) -> None:
        self._update_heading()

    def _update_heading(self) -> None:
        if self._loaded is not None:
            heading = render_secrets_heading(
                self._session, self._loaded.protection, self._loaded.is_locked, self.size.width - 2
            )
            self.query_one("#heading", Static).update(heading)
            self.query_one("#detail", Static).update(render_secret_detail(self.table.selected, self._seconds_left))
        self.refresh_bindings()

    async def _run_in_thread(self, ask: Callable[[], T]) -> T | None:
        """Run an edit in a thread, and show why it was refused."""
        try:
            return await asyncio.to_thread(ask)
        except StoreError as error:
            self.app.show_error(error)
            self._reload_secrets()
            return None

    # ── revealing ─────────────────────────────────────────────────────────────────────────────────

    @work(exclusive=True, group="reveal")
    async def action_reveal(self) -> None:
        row = self.table.selected
        if row is None or not await self._ensure_unlocked():
            return
        value = await self._run_in_thread(partial(self._read_value, row))
        # A person who has left the row by now does not expect the value there. Its uses may have been found meanwhile.
        selected = self.table.selected
        is_same_row = selected is not None and selected.secret == row.secret
        if value is not None and self.is_current and self.table.has_focus and is_same_row:
            self.value_view.show(value)
            self._seconds_left = REVEAL_SECONDS
            self._countdown_timer = self.set_interval(TICK_SECONDS, self._count_down)
            self._update_heading()

    def _read_value(self, row: SecretRow) -> SecretValue:
        return SecretValue(self._store.secrets.get(self._session, row.key, row.version))

    def _count_down(self) -> None:
        self._seconds_left -= 1
        if self._seconds_left > 0:
            self._update_heading()
        else:
            self._hide_value()

    @on(SecretTable.Highlighted)
    @on(SecretTable.FocusLost)
    def _hide_value(self) -> None:
        if self._countdown_timer is not None:
            self._countdown_timer.stop()
            self._countdown_timer = None
        self._seconds_left = 0
        if self.value_view.is_revealed:
            self.value_view.show(None)
        self._update_heading()

    def on_screen_suspend(self) -> None:
        self._hide_value()

    def on_app_blur(self) -> None:
        self._hide_value()

    def action_scroll(self, by: int) -> None:
        self.value_view.scroll_relative(y=by, animate=False)

    @work(exclusive=True, group="reveal")
    async def action_copy(self) -> None:
        row = self.table.selected
        if row is None or not await self._ensure_unlocked():
            return
        value = await self._run_in_thread(partial(self._read_value, row))
        if value is not None:
            self.app.copy_secret(value, row.key)

    # ── unlocking ─────────────────────────────────────────────────────────────────────────────────

    async def _ensure_unlocked(self) -> bool:
        """Unlock the secrets, and ask for the passphrase if there is one."""
        from tui.dialogs.secret import unlock_secrets

        was_locked = self._loaded is not None and self._loaded.is_locked
        is_open = bool(await self._run_in_thread(lambda: not self._store.secrets.is_locked)) or await unlock_secrets(
            self.app, self._store
        )
        if was_locked and is_open:
            self._reload_secrets()
        return is_open

    @work(exclusive=True, group="reveal")
    async def action_lock(self) -> None:
        if self._loaded is None or self._loaded.protection != "passphrase":
            # Without a passphrase everybody at this terminal could unlock them again.
            self._hide_value()
            notice = "Only a passphrase locks the secrets. Run `backscroll secrets passphrase` to set one."
            self.app.notify(notice, timeout=6, markup=False)
        elif self._loaded.is_locked:
            await self._ensure_unlocked()
        else:
            self._store.secrets.lock()
            self._reload_secrets()

    # ── changing ──────────────────────────────────────────────────────────────────────────────────

    @work(exclusive=True, group="edit")
    async def action_add(self) -> None:
        from tui.dialogs.secret import SecretDialog

        if self.app.can_edit(self._store) and await self._ensure_unlocked():
            dialog = SecretDialog("New secret", self._make_seal(None), note=_NAME_NOTE)
            if (name := await self.app.push_screen_wait(dialog)) is not None:
                self.table.pending_key = name
                self._reload_secrets()

    @work(exclusive=True, group="edit")
    async def action_replace(self) -> None:
        from tui.dialogs.secret import SecretDialog

        row = self.table.selected
        if row is not None and self.app.can_edit(self._store) and await self._ensure_unlocked():
            note = "The previous version is kept for undo until you delete the secret permanently."
            title = f"Replace the value of {row.key}"
            dialog = SecretDialog(title, self._make_seal(row.version), name=row.key, note=note)
            if await self.app.push_screen_wait(dialog) is not None:
                self._reload_secrets()

    def _make_seal(self, seen: int | None) -> SealSecret:
        """Save a value. After a conflict was shown, saving again overwrites it."""

        def seal(name: str, value: SecretValue) -> None:
            nonlocal seen
            try:
                self._store.secrets.set(self._session, name, value.text, seen=seen)
            except ChangedMeanwhile:
                seen = UNSEEN
                raise

        return seal

    @work(exclusive=True, group="edit")
    async def action_remove(self) -> None:
        if (row := self.table.selected) is not None:
            remove = partial(self._store.secrets.remove, self._session, row.key, seen=row.version)
            if await self._run_in_thread(lambda: remove() or True):
                self.app.notify(f"Deleted {row.key}. Press u to undo.", timeout=4, markup=False)
                self._reload_secrets()

    @threaded(group="edit")
    def action_undo(self) -> None:
        from tui.screens.journal import undo_newest

        notice = undo_newest(self._store)
        self.app.call_from_thread(self._reload_secrets)
        self.app.notify(notice, timeout=4, markup=False)

    @work(exclusive=True, group="edit")
    async def action_erase(self) -> None:
        from tui.dialogs.confirm import ConfirmDialog

        row = self.table.selected
        if row is None or not self.app.can_edit(self._store):
            return
        notice = "All versions are deleted from the store and the journal. This cannot be undone."
        if await self.app.push_screen_wait(ConfirmDialog(f"Delete {row.key} permanently?", notice)):
            await self._run_in_thread(partial(self._store.secrets.remove, self._session, row.key, forever=True))
            self._reload_secrets()

    @work(exclusive=True, group="edit")
    async def action_seal(self) -> None:
        row = self.table.selected
        if row is not None and await self._ensure_unlocked():
            seal = partial(self._store.write_back.seal, self._session, row.key)
            if await self._run_in_thread(lambda: seal() or True):
                self.app.notify(STILL_EXPOSED, timeout=8, markup=False)
                self._reload_secrets()

    # ── leaving ───────────────────────────────────────────────────────────────────────────────────

    def action_go(self) -> None:
        row = self.table.selected
        if row is not None and row.uses and row.uses[-1].entry:
            self.dismiss(row.uses[-1].entry)

    @on(SecretTable.DoubleClicked)
    def _open_selected(self) -> None:
        row = self.table.selected
        if row is not None and row.version is None:
            self.action_seal()
        else:
            self.action_reveal()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        row = self.table.selected if self._loaded is not None else None
        match action:
            case "reveal" | "copy" | "replace" | "remove" | "erase":
                return row is not None and row.version is not None
            case "seal":
                return row is not None and row.version is None
            case "go":
                return row is not None and bool(row.uses and row.uses[-1].entry)
            case "lock":
                return self._loaded is not None and self._loaded.protection != "none"
            case "scroll":
                return self.value_view.is_revealed
        return super().check_action(action, parameters)


_NAME_NOTE = "The value is sealed, but the name is not. Press Ctrl+T to show the value."
